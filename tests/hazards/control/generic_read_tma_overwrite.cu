// All threads read a tile and arrive at an mbarrier; one waits for it and loads the next tile over the old one. The
// arrivals order the reads before the copy, and a generic read before an asynchronous write needs no proxy fence.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [3, 64], fill = "index"},
  {name = "out", type = "u32", shape = [3, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void tiles(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[64];
  __shared__ uint64_t full, read;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    mbar_init(&read, 64);
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x == 0) {
      if (i > 0) mbar_wait(&read, (i - 1) & 1);
      mbar_arrive_expect(&full, sizeof tile);
      bulk_load(tile, in + i * 64, sizeof tile, &full);
    }
    mbar_wait(&full, i & 1);
    out[i * 64 + threadIdx.x] = tile[threadIdx.x];
    mbar_arrive(&read);
  }
}
