// Two tiles are announced, but the second is loaded only by CTAs that have a next tile, and this one has none.
// rule: sync.deadlock or mbarrier.tx-mismatch
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "tiles", type = "u32", value = 1},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t* in, uint32_t tiles, uint32_t* out) {
  __shared__ alignas(16) uint32_t stages[2][64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
#ifdef FAULTY
    mbar_arrive_expect(&full, 2 * sizeof stages[0]);
#else
    mbar_arrive_expect(&full, (tiles > 1 ? 2 : 1) * sizeof stages[0]);
#endif
    bulk_load(stages[0], in, sizeof stages[0], &full);
    if (tiles > 1) bulk_load(stages[1], in + 64, sizeof stages[1], &full);
  }
  __syncthreads();
  mbar_wait(&full, 0);  // FAULT
  out[threadIdx.x] = stages[0][threadIdx.x];
}
