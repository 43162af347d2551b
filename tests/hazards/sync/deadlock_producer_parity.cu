// The producer's first wait for an empty slot uses the consumer's parity. No slot was ever released, so it waits for
// ever; the opposite parity returns at once on a fresh barrier.
// rule: sync.deadlock
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void ring(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t slots[2][32];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      mbar_init(&full[s], 1);
      mbar_init(&empty[s], 32);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp_id() == 0) {
    if (lane_id() == 0) {
      for (int i = 0; i < 4; ++i) {
#ifdef FAULTY
        const uint32_t parity = i / 2 & 1;
#else
        const uint32_t parity = (i / 2 & 1) ^ 1;
#endif
        mbar_wait(&empty[i % 2], parity);  // FAULT
        mbar_arrive_expect(&full[i % 2], sizeof slots[0]);
        bulk_load(slots[i % 2], in + i * 32, sizeof slots[0], &full[i % 2]);
      }
    }
  } else {
    for (int i = 0; i < 4; ++i) {
      mbar_wait(&full[i % 2], i / 2 & 1);
      out[i * 32 + lane_id()] = slots[i % 2][lane_id()];
      mbar_arrive(&empty[i % 2]);
    }
  }
}
