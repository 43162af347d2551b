// __ldg (ld.global.nc) may only read what nobody writes during the kernel, however well ordered: its cache is not kept
// coherent. A plain load is right here.
// rule: race.readonly
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "scratch", type = "u32", shape = [64]},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void two_passes(const uint32_t* in, uint32_t* scratch, uint32_t* out) {
  scratch[threadIdx.x] = in[threadIdx.x];  // OTHER
  __syncthreads();
#ifdef FAULTY
  out[threadIdx.x ^ 32] = __ldg(&scratch[threadIdx.x ^ 32]);  // FAULT
#else
  out[threadIdx.x ^ 32] = scratch[threadIdx.x ^ 32];
#endif
}
