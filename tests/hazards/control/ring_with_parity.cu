// A warp-specialised ring that wraps: the producer waits for empty slots with the opposite parity, so that its first
// round passes at once; the consumers read the slot with ordinary loads, synchronise their warp, and one lane releases
// it. The next TMA load overwrites what was read; that needs order and no proxy fence.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [20, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [20, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void ring(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out) {
  __shared__ alignas(128) uint32_t slots[2][128];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      mbar_init(&full[s], 1);
      mbar_init(&empty[s], 1);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp_id() == 0) {
    if (lane_id() == 0) {
      for (int i = 0; i < 5; ++i) {
        mbar_wait(&empty[i % 2], (i / 2 & 1) ^ 1);
        mbar_arrive_expect(&full[i % 2], sizeof slots[0]);
        tma_load(slots[i % 2], &in_map, 0, 4 * i, &full[i % 2]);
      }
    }
  } else {
    for (int i = 0; i < 5; ++i) {
      mbar_wait(&full[i % 2], i / 2 & 1);
      for (uint32_t k = lane_id(); k < 128; k += 32) out[i * 128 + k] = slots[i % 2][k];
      __syncwarp();
      if (lane_id() == 0) mbar_arrive(&empty[i % 2]);
    }
  }
}
