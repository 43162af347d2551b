// The consumer starts with the parity that is right for the first wait of a producer: on a fresh barrier a wait for parity
// 1 returns at once.
// rule: mbarrier.stale-phase
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 2]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load_tiles_in_turn(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
#ifdef FAULTY
  uint32_t parity = 1;
#else
  uint32_t parity = 0;
#endif
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) {
      mbar_arrive_expect(&full, sizeof tile);
      tma_load(tile, &in_map, 0, 2 * i, &full);  // OTHER
    }
    mbar_wait(&full, parity);  // FAULT
    parity ^= 1;
    out[i * 64 + threadIdx.x] = tile[threadIdx.x];
    __syncthreads();
  }
}
