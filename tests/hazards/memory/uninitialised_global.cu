// Each warp takes its row's length from a table in global memory that is filled for three of the four warps: how often
// the last warp goes round is whatever the memory held.
// rule: memory.uninitialised
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [4], fill = "value:3"},
  {name = "lengths", type = "u32", shape = [4], fill = "poison"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "value:3"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void lengths_of_rows(const uint32_t* in, uint32_t* lengths, uint32_t* out) {
#ifdef FAULTY
  if (threadIdx.x < 3) lengths[threadIdx.x] = in[threadIdx.x];
#else
  if (threadIdx.x < 4) lengths[threadIdx.x] = in[threadIdx.x];
#endif
  __syncthreads();
  const uint32_t length = lengths[warp_id()] % 8;  // OTHER
  uint32_t sum = 0;
#pragma unroll 1
  for (uint32_t i = 0; i < length; ++i) sum += in[i] / 3;  // FAULT
  out[threadIdx.x] = sum;
}
