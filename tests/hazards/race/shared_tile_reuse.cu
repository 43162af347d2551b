// A tile is filled again while the other warp may still read its previous contents: the barrier at the end of the loop
// is missing.
// rule: race.shared
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 64], fill = "index"},
  {name = "out", type = "u32", shape = [4, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void tiles(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  for (int i = 0; i < 4; ++i) {
    tile[threadIdx.x] = in[i * 64 + threadIdx.x];  // FAULT
    __syncthreads();
    out[i * 64 + (threadIdx.x ^ 32)] = tile[threadIdx.x ^ 32];  // OTHER
#ifndef FAULTY
    __syncthreads();
#endif
  }
}
