// One thread initialises the barrier and the other warps use it at once (the class of NVIDIA/Fuser #1552, a hang on
// H100). A block barrier after the initialisation is missing.
// rule: mbarrier.init-not-visible
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);  // OTHER
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    bulk_load(tile, in, sizeof tile, &full);
  }
#ifndef FAULTY
  __syncthreads();
#endif
  mbar_wait(&full, 0);  // FAULT
  out[threadIdx.x] = tile[threadIdx.x];
}
