// Only the thread that issued the bulk copy waits for it; the others go on without a barrier. Each reader must wait, or
// synchronise with one that has.
// rule: async.unwaited-read
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load_tile(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbar_arrive_expect(&full, sizeof tile);
    bulk_load(tile, in, sizeof tile, &full);  // OTHER
#ifdef FAULTY
    mbar_wait(&full, 0);
#endif
  }
#ifndef FAULTY
  mbar_wait(&full, 0);
#endif
  out[threadIdx.x] = tile[threadIdx.x];  // FAULT
}
