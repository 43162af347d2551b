// The elected thread fences after the barrier, on behalf of the others. Whether that covers their stores is contested;
// a fence in each writer before the barrier certainly does.
// rule: proxy.fence-late
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [32, 32], fill = "index"},
  {name = "out", type = "u32", shape = [32, 32], output = true, expect = "argument:in"},
  {name = "out_map", tensor_map = "out", box = [32, 32]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void store_tile(const uint32_t* in, uint32_t*, const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(128) uint32_t tile[1024];
  for (uint32_t i = threadIdx.x; i < 1024; i += 128) tile[i] = in[i];  // OTHER
#ifndef FAULTY
  fence_async_shared();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
#ifdef FAULTY
    fence_async_shared();
#endif
    tma_store(&out_map, 0, 0, tile);  // FAULT
    bulk_commit();
    bulk_wait<0>();
  }
}
