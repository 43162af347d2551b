// Two warps store the two halves of the same words, byte by byte. Races are about bytes, not words.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u8", shape = [64], fill = "index"},
  {name = "out", type = "u8", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void interleave(const uint8_t* in, uint8_t* out) {
  __shared__ uint8_t bytes[64];
  const uint32_t i = lane_id() * 2 + warp_id();
  bytes[i] = in[i];
  __syncthreads();
  out[threadIdx.x] = bytes[threadIdx.x];
}
