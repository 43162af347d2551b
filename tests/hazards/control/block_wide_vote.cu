// __syncthreads_or is a block barrier as well: what was stored before it may be read after it.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void vote(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  tile[threadIdx.x] = in[threadIdx.x];
  const int any = __syncthreads_or(in[threadIdx.x] == 63);
  if (any != 0) out[threadIdx.x ^ 32] = tile[threadIdx.x ^ 32];
}
