// After a reduction by shuffles only lane 0 holds the warp's sum, but every lane stores its own number to the warp's
// slot. Which lane's store stays is not defined.
// rule: race.warp
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "value:5"},
  {name = "out", type = "u32", shape = [2], output = true, expect = "value:160"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void sums(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t partial[2];
  uint32_t sum = in[threadIdx.x];
  for (uint32_t step = 16; step > 0; step /= 2) {
    const uint32_t other = __shfl_down_sync(0xffffffffu, sum, step);
    if (lane_id() + step < 32) sum += other;
  }
#ifndef FAULTY
  if (lane_id() == 0)
#endif
    partial[warp_id()] = sum;  // FAULT
  __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = partial[threadIdx.x];
}
