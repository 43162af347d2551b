// cp.async.wait_group makes a thread's own copies visible to itself; the threads of the other warp need a barrier after
// it before they read them.
// rule: race.shared or async.unwaited-read
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void neighbour(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  cp_async4(&tile[threadIdx.x], &in[threadIdx.x]);  // OTHER
  cp_async_commit();
  cp_async_wait<0>();
#ifndef FAULTY
  __syncthreads();
#endif
  out[threadIdx.x ^ 32] = tile[threadIdx.x ^ 32];  // FAULT
}
