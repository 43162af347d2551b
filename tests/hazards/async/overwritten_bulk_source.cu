// The buffer is filled again while the bulk store of its previous contents may still read it. A barrier is not enough:
// before it the storing thread must wait for the reads (wait_group.read).
// rule: async.overwritten
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [3, 64], fill = "index"},
  {name = "out", type = "u32", shape = [3, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void store_tiles(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t buffer[64];
  for (int i = 0; i < 3; ++i) {
    buffer[threadIdx.x] = in[i * 64 + threadIdx.x];  // FAULT
    fence_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(out + i * 64, buffer, sizeof buffer);  // OTHER
      bulk_commit();
#ifndef FAULTY
      bulk_wait_read<0>();
#endif
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}
