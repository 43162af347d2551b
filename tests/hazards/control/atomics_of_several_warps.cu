// Shared counters that all warps change by atomics between two block barriers; ballots keep the number of atomics
// small.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [2], output = true, expect = "value:64"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void count(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t counts[2];
  if (threadIdx.x < 2) counts[threadIdx.x] = 0;
  __syncthreads();
  const bool odd = in[threadIdx.x] % 2 != 0;
  const uint32_t odds = __popc(__ballot_sync(0xffffffffu, odd));
  if (lane_id() == 0) {
    atomicAdd(&counts[1], odds);
    atomicAdd(&counts[0], 32 - odds);
  }
  __syncthreads();
  if (threadIdx.x < 2) out[threadIdx.x] = counts[threadIdx.x];
}
