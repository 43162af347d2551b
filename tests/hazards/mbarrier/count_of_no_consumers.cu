// The number of consumer warpgroups is computed as if there were always a producer warpgroup: with one warpgroup it is
// zero.
// rule: mbarrier.count
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void consume(const uint32_t* in, uint32_t* out) {
  __shared__ uint64_t empty;
#ifdef FAULTY
  const uint32_t consumers = blockDim.x / 128 - 1;
#else
  const uint32_t consumers = blockDim.x / 128;
#endif
  if (threadIdx.x == 0) mbar_init(&empty, consumers);  // FAULT
  __syncthreads();
  if (threadIdx.x % 128 == 0) mbar_arrive(&empty);
  mbar_wait(&empty, 0);
  out[threadIdx.x] = in[threadIdx.x];
}
