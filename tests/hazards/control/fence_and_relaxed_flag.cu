// A fence before a relaxed store of the flag, and a fence after the relaxed loads that see it, are as good as release
// and acquire.
// rule: none
/* launch
grid = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "data", type = "u32", shape = [64]},
  {name = "flag", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void hand_off(const uint32_t* in, uint32_t* data, uint32_t* flag, uint32_t* out) {
  if (blockIdx.x == 0) {
    data[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) {
      fence_acq_rel_gpu();
      st_relaxed(flag, 1);
    }
  } else {
    if (threadIdx.x == 0) {
      while (ld_relaxed(flag) == 0) {
      }
      fence_acq_rel_gpu();
    }
    __syncthreads();
    out[threadIdx.x] = data[threadIdx.x];
  }
}
