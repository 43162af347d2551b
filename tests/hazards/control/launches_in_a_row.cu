// Each launch adds to what the one before left: launches of one stream are ordered.
// rule: none
/* launch
block = 64
repeat = 3
argument = [
  {name = "out", type = "u32", shape = [64], fill = "zero", output = true, expect = "value:3"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void add_one(uint32_t* out) {
  __shared__ uint32_t tile[64];
  tile[threadIdx.x ^ 32] = out[threadIdx.x] + 1;
  __syncthreads();
  out[threadIdx.x ^ 32] = tile[threadIdx.x];
}
