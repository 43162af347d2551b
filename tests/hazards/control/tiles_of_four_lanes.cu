// Groups of four lanes reduce through shared memory; each group synchronises with a mask of its own.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "value:2"},
  {name = "out", type = "u32", shape = [16], output = true, expect = "value:8"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void reduce4(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t sums[64];
  const uint32_t mask = 0xfu << (lane_id() & ~3u);
  const uint32_t t = threadIdx.x;
  sums[t] = in[t];
  __syncwarp(mask);
  if (t % 4 < 2) sums[t] += sums[t + 2];
  __syncwarp(mask);
  if (t % 4 == 0) out[t / 4] = sums[t] + sums[t + 1];
}
