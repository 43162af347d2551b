// With two buffers, one store may be in flight when the other buffer is filled again; the wait leaves two.
// rule: async.wrong-group or async.overwritten
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [5, 64], fill = "index"},
  {name = "out", type = "u32", shape = [5, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void store_ring(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t buffers[2][64];
  for (int i = 0; i < 5; ++i) {
    if (threadIdx.x == 0) {
#ifdef FAULTY
      bulk_wait_read<2>();
#else
      bulk_wait_read<1>();
#endif
    }
    __syncthreads();
    buffers[i % 2][threadIdx.x] = in[i * 64 + threadIdx.x];  // FAULT
    fence_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(out + i * 64, buffers[i % 2], sizeof buffers[0]);  // OTHER
      bulk_commit();
    }
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}
