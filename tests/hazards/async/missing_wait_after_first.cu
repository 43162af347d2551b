// The loop waits for the copy in its first round only, as if one wait were good for all tiles (the missing wait of
// CUTracer #106).
// rule: async.unwaited-read
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [3, 64], fill = "index"},
  {name = "out", type = "u32", shape = [3, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void tiles(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[3][64];
  __shared__ uint64_t full[3];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) mbar_init(&full[i], 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x == 0) {
      mbar_arrive_expect(&full[i], sizeof tile[i]);
      bulk_load(tile[i], in + i * 64, sizeof tile[i], &full[i]);  // OTHER
    }
#ifdef FAULTY
    if (i == 0) mbar_wait(&full[i], 0);
#else
    mbar_wait(&full[i], 0);
#endif
    out[i * 64 + threadIdx.x] = tile[i][threadIdx.x];  // FAULT
  }
#ifdef FAULTY
  for (int i = 0; i < 3; ++i) mbar_wait(&full[i], 0);
#endif
}
