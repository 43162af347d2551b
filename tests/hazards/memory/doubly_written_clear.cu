// The output is cleared by one assignment of threads to elements and written by another, although every element gets
// its result anyway.
// rule: memory.doubly-written
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void clear_and_copy(const uint32_t* in, uint32_t* out) {
#ifdef FAULTY
  if (threadIdx.x < 16) reinterpret_cast<uint4*>(out)[threadIdx.x] = make_uint4(0, 0, 0, 0);  // OTHER
  __syncthreads();
#endif
  out[threadIdx.x] = in[threadIdx.x];  // FAULT
}
