// One thread draws the next tile and passes its index on through shared memory. Without the barrier at the end of the
// loop it may store the next index while other warps still read this one.
// rule: race.shared
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 64], fill = "index"},
  {name = "next", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [4, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void persistent(const uint32_t* in, uint32_t* next, uint32_t* out) {
  __shared__ uint32_t tile;
  for (;;) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1u);  // FAULT
    __syncthreads();
    const uint32_t mine = tile;  // OTHER
#ifndef FAULTY
    __syncthreads();
#endif
    if (mine >= 4) return;
    out[mine * 64 + threadIdx.x] = in[mine * 64 + threadIdx.x];
  }
}
