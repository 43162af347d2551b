// A block of two warps writes its part, meets at a barrier, and one thread counts the block. The barrier orders nothing
// outside the block: each thread needs a fence before it (accepted practice: docs/hazards.md, end of section 2).
// rule: race.global
/* launch
grid = 4
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 64], fill = "value:1"},
  {name = "parts", type = "u32", shape = [4, 64]},
  {name = "blocks", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [64], output = true, expect = "value:4"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void sum(const uint32_t* in, uint32_t* parts, uint32_t* blocks, uint32_t* out) {
  __shared__ uint32_t last;
  parts[blockIdx.x * 64 + threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];  // OTHER
#ifndef FAULTY
  __threadfence();
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(blocks, 1u) == 3;
    __threadfence();
  }
  __syncthreads();
  if (last == 0) return;
  uint32_t total = 0;
  for (int i = 0; i < 4; ++i) total += parts[i * 64 + (threadIdx.x ^ 33)];  // FAULT
  out[threadIdx.x ^ 33] = total;
}
