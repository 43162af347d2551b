// The grid is rounded up to whole blocks, and the threads beyond the last element have no guard.
// rule: memory.out-of-bounds
/* launch
block = 128
argument = [
  {name = "in", type = "f32", shape = [100], fill = "index"},
  {name = "out", type = "f32", shape = [100], output = true, expect = "argument:in"},
  {name = "n", type = "u32", value = 100},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void copy(const float* in, float* out, uint32_t n) {
#ifndef FAULTY
  if (threadIdx.x >= n) return;
#endif
  out[threadIdx.x] = in[threadIdx.x];  // FAULT
}
