// Shuffles carry values in registers: no memory is shared and nothing needs to be ordered.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "f32", shape = [4, 32], fill = "value:0.5"},
  {name = "out", type = "f32", shape = [4], output = true, expect = "value:16"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void sums(const float* in, float* out) {
  float sum = in[threadIdx.x];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (lane_id() == 0) out[warp_id()] = sum;
}
