// Shared memory starts with whatever was there: counters must be set to zero before the first atomicAdd.
// rule: memory.uninitialised
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [16], output = true, expect = "value:4"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void histogram(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t counts[16];
#ifndef FAULTY
  if (threadIdx.x < 16) counts[threadIdx.x] = 0;
#endif
  __syncthreads();
  atomicAdd(&counts[in[threadIdx.x] % 16], 1u);
  __syncthreads();
  if (threadIdx.x < 16) out[threadIdx.x] = counts[threadIdx.x];  // FAULT
}
