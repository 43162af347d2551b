// A slot is cleared with ordinary stores before a bulk copy fills it. The copy must not only come later: without a
// proxy fence the zeros may land on top of the data.
// rule: proxy.async
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void clear_then_load(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t slot[128];
  __shared__ uint64_t full;
  slot[threadIdx.x] = 0;  // OTHER
#ifndef FAULTY
  fence_async_shared();
#endif
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbar_arrive_expect(&full, sizeof slot);
    bulk_load(slot, in, sizeof slot, &full);  // FAULT
  }
  mbar_wait(&full, 0);
  out[threadIdx.x] = slot[threadIdx.x];
}
