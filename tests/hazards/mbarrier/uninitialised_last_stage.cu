// The loop that initialises the barriers stops one stage early.
// rule: mbarrier.uninitialised
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [3, 64], fill = "index"},
  {name = "out", type = "u32", shape = [3, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

constexpr int kStages = 3;
#ifdef FAULTY
constexpr int kBarriers = kStages - 1;
#else
constexpr int kBarriers = kStages;
#endif

extern "C" __global__ void stages(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tiles[kStages][64];
  __shared__ uint64_t full[kStages];
  if (threadIdx.x == 0) {
    for (int s = 0; s < kBarriers; ++s) mbar_init(&full[s], 1);
    fence_async_shared();
    for (int s = 0; s < kStages; ++s) {
      mbar_arrive_expect(&full[s], sizeof tiles[s]);  // FAULT
      bulk_load(tiles[s], in + s * 64, sizeof tiles[s], &full[s]);
    }
  }
  __syncthreads();
  for (int s = 0; s < kStages; ++s) {
    mbar_wait(&full[s], 0);
    out[s * 64 + threadIdx.x] = tiles[s][threadIdx.x];
  }
}
