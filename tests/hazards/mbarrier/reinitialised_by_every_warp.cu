// The first lane of every warp initialises the same barrier.
// rule: mbarrier.reinitialised
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
  if (lane_id() == 0) mbar_init(&done, 128);  // FAULT
#else
  if (threadIdx.x == 0) mbar_init(&done, 128);
#endif
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  mbar_arrive(&done);
  mbar_wait(&done, 0);
  out[threadIdx.x ^ 64] = tile[threadIdx.x ^ 64];
}
