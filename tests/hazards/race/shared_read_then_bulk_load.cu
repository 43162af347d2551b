// The next bulk load overwrites the tile while other warps may still read it (the class of triton-lang/triton #7262 and
// deepseek-ai/DeepEP #621: generic reads, then an asynchronous overwrite). A block barrier before the load orders them;
// no proxy fence is needed in this direction.
// rule: race.shared or async.overwritten
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [4, 128], fill = "index"},
  {name = "out", type = "u32", shape = [4, 128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void stream_tiles(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full[4];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 4; ++i) mbar_init(&full[i], 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  for (int i = 0; i < 4; ++i) {
    if (threadIdx.x == 0) {
      mbar_arrive_expect(&full[i], sizeof tile);
      bulk_load(tile, in + i * 128, sizeof tile, &full[i]);  // FAULT
    }
    mbar_wait(&full[i], 0);
    out[i * 128 + threadIdx.x] = tile[threadIdx.x];  // OTHER
#ifndef FAULTY
    __syncthreads();
#endif
  }
}
