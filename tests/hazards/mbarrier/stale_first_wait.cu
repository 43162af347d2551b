// The reader waits with the parity that is right for the first wait of a producer: on a fresh barrier a wait for parity
// 1 returns at once.
// rule: mbarrier.stale-phase or sync.deadlock
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [2, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 2]},
  {name = "out", type = "u32", shape = [2, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &in_map, 0, 0, &full);  // OTHER
  }
#ifdef FAULTY
  mbar_wait(&full, 1);  // FAULT
#else
  mbar_wait(&full, 0);
#endif
  out[threadIdx.x] = tile[threadIdx.x];
}
