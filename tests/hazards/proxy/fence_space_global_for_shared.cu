// The tile lies in shared memory, the fence names global memory.
// rule: proxy.fence-space
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
  tile[threadIdx.x] = in[threadIdx.x];  // OTHER
#ifdef FAULTY
  fence_async_global();
#else
  fence_async_shared();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(out, tile, sizeof tile);  // FAULT
    bulk_commit();
    bulk_wait<0>();
  }
}
