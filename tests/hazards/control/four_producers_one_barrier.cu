// The leaders of four warps each announce and load a quarter of the tile; the barrier expects four arrivals, and the
// phase ends when all bytes of all quarters are there.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [2, 128], fill = "index"},
  {name = "out", type = "u32", shape = [2, 128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE void announce(uint64_t* bar, uint32_t bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(smem(bar)), "r"(bytes) : "memory");
}

extern "C" __global__ void load(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 4);
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int i = 0; i < 2; ++i) {
    if (lane_id() == 0) {
      announce(&full, 128);
      bulk_load(tile + warp_id() * 32, in + i * 128 + warp_id() * 32, 128, &full);
      mbar_arrive(&full);
    }
    __syncwarp();
    mbar_wait(&full, i & 1);
    out[i * 128 + (threadIdx.x ^ 96)] = tile[threadIdx.x ^ 96];
    __syncthreads();
  }
}
