// Partial sums are written to shared memory and added to global memory by a bulk reduction without a proxy fence.
// rule: proxy.async
/* launch
grid = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [2, 64], fill = "value:3"},
  {name = "out", type = "u32", shape = [64], fill = "zero", output = true, expect = "value:6"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void split_sum(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t partial[64];
  partial[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];  // OTHER
#ifndef FAULTY
  fence_async_shared();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_reduce_add(out, partial, sizeof partial);  // FAULT
    bulk_commit();
    bulk_wait<0>();
  }
}
