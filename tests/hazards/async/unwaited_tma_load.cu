// A block barrier after the issue says nothing about the copy: its destination may be read only after the mbarrier
// wait.
// rule: async.unwaited-read
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load_tile(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &in_map, 0, 0, &full);  // OTHER
  }
  __syncthreads();
#ifndef FAULTY
  mbar_wait(&full, 0);
#endif
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT
#ifdef FAULTY
  mbar_wait(&full, 0);
#endif
}
