// Each thread reads what a thread of the other warp stored to shared memory, and nothing orders the two warps. A block
// barrier after the stores does.
// rule: race.shared
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void exchange(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  tile[threadIdx.x] = in[threadIdx.x];  // OTHER
#ifndef FAULTY
  __syncthreads();
#endif
  out[threadIdx.x ^ 32] = tile[threadIdx.x ^ 32];  // FAULT
}
