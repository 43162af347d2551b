// One thread waits for the copy, a block barrier follows, and all threads read: what the wait acquired is passed on by
// the barrier.
// rule: none
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
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    bulk_load(tile, in, sizeof tile, &full);
    mbar_wait(&full, 0);
  }
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x];
}
