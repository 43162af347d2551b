// A double-buffered loop waits until one group is left. In the last round no new group was committed, so the one left
// is the tile about to be read. Committing an empty group keeps the count right.
// rule: async.wrong-group
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 64], fill = "index"},
  {name = "out", type = "u32", shape = [4, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void double_buffered(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tiles[2][64];
  cp_async4(&tiles[0][threadIdx.x], &in[threadIdx.x]);
  cp_async_commit();
  for (int i = 0; i < 4; ++i) {
    if (i + 1 < 4) {
      cp_async4(&tiles[(i + 1) % 2][threadIdx.x], &in[(i + 1) * 64 + threadIdx.x]);  // OTHER
#ifdef FAULTY
      cp_async_commit();
#endif
    }
#ifndef FAULTY
    cp_async_commit();
#endif
    cp_async_wait<1>();
    __syncthreads();
    out[i * 64 + (threadIdx.x ^ 32)] = tiles[i % 2][threadIdx.x ^ 32];  // FAULT
    __syncthreads();
  }
  cp_async_wait<0>();
}
