// The kernel carves three stages out of dynamic shared memory, the launch provides two.
// rule: memory.out-of-bounds
/* launch
block = 128
dynamic_shared = 1024
argument = [
  {name = "in", type = "f32", shape = [6, 128], fill = "index"},
  {name = "out", type = "f32", shape = [6, 128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

#ifdef FAULTY
constexpr int kStages = 3;
#else
constexpr int kStages = 2;
#endif

extern "C" __global__ void staged(const float* in, float* out) {
  extern __shared__ float stages[];
  for (int i = 0; i < 6; ++i) {
    float* stage = stages + i % kStages * 128;
    stage[threadIdx.x] = in[i * 128 + threadIdx.x];  // FAULT
    __syncthreads();
    out[i * 128 + (threadIdx.x ^ 64)] = stage[threadIdx.x ^ 64];
    __syncthreads();
  }
}
