// The barrier is initialised again for every tile instead of following its phases. Initialising a live barrier is
// undefined.
// rule: mbarrier.reinitialised
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
  __shared__ uint64_t full;
#ifndef FAULTY
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
  }
#endif
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x == 0) {
#ifdef FAULTY
      mbar_init(&full, 1);  // FAULT
      fence_async_shared();
#endif
      mbar_arrive_expect(&full, sizeof tile);
      bulk_load(tile, in + i * 64, sizeof tile, &full);
    }
    __syncthreads();
#ifdef FAULTY
    mbar_wait(&full, 0);
#else
    mbar_wait(&full, i & 1);
#endif
    out[i * 64 + threadIdx.x] = tile[threadIdx.x];
    __syncthreads();
  }
}
