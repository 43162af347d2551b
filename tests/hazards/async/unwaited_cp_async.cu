// cp.async is committed and the block synchronises, but nobody waits for the group.
// rule: async.unwaited-read
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void stage(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  cp_async4(&tile[threadIdx.x], &in[threadIdx.x]);  // OTHER
  cp_async_commit();
#ifndef FAULTY
  cp_async_wait<0>();
#endif
  __syncthreads();
  out[threadIdx.x ^ 32] = tile[threadIdx.x ^ 32];  // FAULT
  cp_async_wait<0>();
}
