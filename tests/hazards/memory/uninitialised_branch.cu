// Whether a row is skipped depends on a flag in shared memory that is set only where the row is skipped.
// rule: memory.uninitialised
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "value:9"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "value:9"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void rows(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t skip[32];
#ifdef FAULTY
  if (in[threadIdx.x] == 0) skip[threadIdx.x] = 1;
#else
  skip[threadIdx.x] = in[threadIdx.x] == 0;
#endif
  __syncthreads();
  if (skip[threadIdx.x ^ 1] != 1) {  // FAULT
    out[threadIdx.x ^ 1] = in[threadIdx.x ^ 1];
  }
}
