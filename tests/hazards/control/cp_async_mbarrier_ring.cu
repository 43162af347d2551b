// A producer warp fills slots with cp.async and lets the copies arrive at the mbarrier themselves; the consumer reads
// the slots with ordinary loads after the wait.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [6, 32], fill = "index"},
  {name = "out", type = "u32", shape = [6, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void ring(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t slots[2][32];
  __shared__ uint64_t full[2], empty[2];
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      mbar_init(&full[s], 32);
      mbar_init(&empty[s], 32);
    }
  }
  __syncthreads();
  if (warp_id() == 0) {
    for (int i = 0; i < 6; ++i) {
      mbar_wait(&empty[i % 2], (i / 2 & 1) ^ 1);
      cp_async4(&slots[i % 2][lane_id()], in + i * 32 + lane_id());
      cp_async_arrive(&full[i % 2]);
    }
    cp_async_commit();
    cp_async_wait<0>();
  } else {
    for (int i = 0; i < 6; ++i) {
      mbar_wait(&full[i % 2], i / 2 & 1);
      out[i * 32 + (lane_id() ^ 9)] = slots[i % 2][lane_id() ^ 9];
      mbar_arrive(&empty[i % 2]);
    }
  }
}
