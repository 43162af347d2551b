// Inside one CTA a block barrier is enough after mbarrier.init, for threads and for the copy engine: no fence.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[64];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) mbar_init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 32) {
    mbar_arrive_expect(&full, sizeof tile);
    bulk_load(tile, in, sizeof tile, &full);
  }
  mbar_wait(&full, 0);
  out[threadIdx.x] = tile[threadIdx.x];
}
