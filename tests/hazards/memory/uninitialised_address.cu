// The table of start positions is filled for three of the four warps; the fourth forms an address from an entry nobody
// wrote.
// rule: memory.uninitialised
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void scatter(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t starts[4];
#ifdef FAULTY
  if (threadIdx.x < 3) starts[threadIdx.x] = threadIdx.x * 32;
#else
  if (threadIdx.x < 4) starts[threadIdx.x] = threadIdx.x * 32;
#endif
  __syncthreads();
  out[starts[warp_id()] + lane_id()] = in[threadIdx.x];  // FAULT
}
