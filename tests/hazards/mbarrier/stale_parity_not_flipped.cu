// The reader of a ring always waits for parity 0. In the second round that phase is long over and the wait returns at
// once, with the slot's old contents. The parity must flip each time the ring wraps.
// rule: mbarrier.stale-phase or sync.deadlock
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 64], fill = "index"},
  {name = "out", type = "u32", shape = [4, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void ring(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t slots[2][64];
  __shared__ uint64_t full[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) mbar_init(&full[s], 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    if (threadIdx.x == 0) {
      mbar_arrive_expect(&full[i % 2], sizeof slots[0]);
      bulk_load(slots[i % 2], in + i * 64, sizeof slots[0], &full[i % 2]);  // OTHER
    }
#ifdef FAULTY
    mbar_wait(&full[i % 2], 0);  // FAULT
#else
    mbar_wait(&full[i % 2], i / 2 & 1);
#endif
    out[i * 64 + threadIdx.x] = slots[i % 2][threadIdx.x];
    __syncthreads();
  }
}
