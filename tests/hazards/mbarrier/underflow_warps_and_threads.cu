// The barrier counts warps, but each warp's leader arrives for its 32 threads.
// rule: mbarrier.underflow
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void exchange(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[128];
  __shared__ uint64_t done;
#ifdef FAULTY
  if (threadIdx.x == 0) mbar_init(&done, 4);
#else
  if (threadIdx.x == 0) mbar_init(&done, 128);
#endif
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  if (lane_id() == 0) mbar_arrive_count(&done, 32);  // FAULT
  mbar_wait(&done, 0);
  out[threadIdx.x ^ 64] = tile[threadIdx.x ^ 64];
}
