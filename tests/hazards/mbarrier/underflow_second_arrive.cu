// The producer arrives twice in one phase: with expect_tx, and once more as if it had only announced the bytes.
// rule: mbarrier.underflow
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
#ifdef FAULTY
    mbar_arrive(&full);  // FAULT
#endif
    bulk_load(tile, in, sizeof tile, &full);
  }
  __syncthreads();
  mbar_wait(&full, 0);
  out[threadIdx.x] = tile[threadIdx.x];
}
