// A reduction tree in shared memory in the warp-synchronous style of old kernels. Each step needs a __syncwarp before
// the next one reads its sums.
// rule: race.warp
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "value:3"},
  {name = "out", type = "u32", shape = [1], output = true, expect = "value:96"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void reduce(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t sums[32];
  sums[lane_id()] = in[lane_id()];
  __syncwarp();
#pragma unroll
  for (uint32_t half = 16; half > 0; half /= 2) {
    if (lane_id() < half) {
      sums[lane_id()] += sums[lane_id() + half];  // FAULT
    }
#ifndef FAULTY
    __syncwarp();
#endif
  }
  if (lane_id() == 0) out[0] = sums[0];
}
