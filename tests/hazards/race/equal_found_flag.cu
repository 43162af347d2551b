// Several warps store 1 to the same flag without order. All store the same value, so hardware gives the right result,
// but it is a race; an atomic store is none.
// rule: race.equal-writes
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [1], output = true, expect = "value:1"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void any_above(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  if (in[threadIdx.x] % 32 == 7) {
#ifdef FAULTY
    found = 1;  // FAULT
#else
    atomicExch(&found, 1u);
#endif
  }
  __syncthreads();
  if (threadIdx.x == 0) out[0] = found;
}
