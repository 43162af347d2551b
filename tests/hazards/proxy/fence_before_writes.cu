// The fence stands before the stores that it should cover.
// rule: proxy.fence-early
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void store_tile(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[128];
#ifdef FAULTY
  fence_async_shared();
#endif
  tile[threadIdx.x] = in[threadIdx.x];  // OTHER
#ifndef FAULTY
  fence_async_shared();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(out, tile, sizeof tile);  // FAULT
    bulk_commit();
    bulk_wait<0>();
  }
}
