// The thread exits with its bulk store in flight: the CTA's shared memory may be given away before the copy has read
// it.
// rule: async.unfinished
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void store_tile(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  fence_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(out, tile, sizeof tile);  // FAULT
    bulk_commit();
#ifndef FAULTY
    bulk_wait<0>();
#endif
  }
}
