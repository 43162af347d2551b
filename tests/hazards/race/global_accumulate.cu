// Two CTAs add their contributions to the same elements with plain loads and stores; atomicAdd keeps both.
// rule: race.global
/* launch
grid = 2
block = 64
argument = [
  {name = "in", type = "f32", shape = [2, 64], fill = "value:3"},
  {name = "out", type = "f32", shape = [64], fill = "zero", output = true, expect = "value:6"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void split_sum(const float* in, float* out) {
  const float value = in[blockIdx.x * 64 + threadIdx.x];
#ifdef FAULTY
  out[threadIdx.x] += value;  // FAULT
#else
  atomicAdd(&out[threadIdx.x], value);
#endif
}
