// Two buffers leave through bulk stores; before one is filled again, all but the youngest store have read their sources
// (wait_group.read 1). At the exit wait_group.read is enough as well: the writes go to memory without the CTA.
// rule: none
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
    if (threadIdx.x == 0) bulk_wait_read<1>();
    __syncthreads();
    buffers[i % 2][threadIdx.x] = in[i * 64 + threadIdx.x];
    fence_async_shared();
    __syncthreads();
    if (threadIdx.x == 0) {
      bulk_store(out + i * 64, buffers[i % 2], sizeof buffers[0]);
      bulk_commit();
    }
  }
  if (threadIdx.x == 0) bulk_wait_read<0>();
}
