// The barrier expects one arrival per thread, but only the first lane of each warp arrives.
// rule: sync.deadlock
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void exchange(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  __shared__ uint64_t done;
#ifdef FAULTY
  if (threadIdx.x == 0) mbar_init(&done, 64);
#else
  if (threadIdx.x == 0) mbar_init(&done, 2);
#endif
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  if (lane_id() == 0) mbar_arrive(&done);
  mbar_wait(&done, 0);  // FAULT
  out[threadIdx.x ^ 32] = tile[threadIdx.x ^ 32];
}
