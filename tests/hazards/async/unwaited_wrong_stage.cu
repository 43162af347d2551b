// Two stages are in flight; the loop waits for the barrier of the first one both times.
// rule: async.unwaited-read
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [2, 64], fill = "index"},
  {name = "out", type = "u32", shape = [2, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void two_stages(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t stages[2][64];
  __shared__ uint64_t full[2];
  if (threadIdx.x == 0) {
    mbar_init(&full[0], 1);
    mbar_init(&full[1], 1);
    fence_async_shared();
    for (int s = 0; s < 2; ++s) {
      mbar_arrive_expect(&full[s], sizeof stages[s]);
      bulk_load(stages[s], in + s * 64, sizeof stages[s], &full[s]);  // OTHER
    }
  }
  __syncthreads();
  for (int s = 0; s < 2; ++s) {
#ifdef FAULTY
    mbar_wait(&full[0], 0);
#else
    mbar_wait(&full[s], 0);
#endif
    out[s * 64 + threadIdx.x] = stages[s][threadIdx.x];  // FAULT
  }
#ifdef FAULTY
  mbar_wait(&full[1], 0);
#endif
}
