// The loop prefetches one tile beyond the last, which nobody waits for.
// rule: async.unfinished
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [5, 64], fill = "index"},
  {name = "tiles", type = "u32", value = 4},
  {name = "out", type = "u32", shape = [4, 64], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void prefetching(const uint32_t* in, uint32_t tiles, uint32_t* out) {
  __shared__ uint32_t buffer[2][64];
  cp_async4(&buffer[0][threadIdx.x], &in[threadIdx.x]);
  cp_async_commit();
  for (uint32_t i = 0; i < tiles; ++i) {
#ifndef FAULTY
    if (i + 1 < tiles)
#endif
      cp_async4(&buffer[(i + 1) % 2][threadIdx.x], &in[(i + 1) * 64 + threadIdx.x]);  // FAULT
    cp_async_commit();
    cp_async_wait<1>();
    out[i * 64 + threadIdx.x] = buffer[i % 2][threadIdx.x];
  }
}
