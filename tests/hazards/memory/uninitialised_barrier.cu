// Which named barrier a pair of warps meets at is read from a table of which one entry was never written.
// rule: memory.uninitialised
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [128], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void pairs(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t values[128];
  __shared__ uint32_t barriers[2];
#ifdef FAULTY
  if (threadIdx.x == 0) barriers[1] = 2;
#else
  if (threadIdx.x < 2) barriers[threadIdx.x] = 1 + threadIdx.x;
#endif
  __syncthreads();
  const uint32_t id = barriers[warp_id() / 2];
  values[threadIdx.x ^ 32] = in[threadIdx.x ^ 32];
  asm volatile("barrier.sync %0, 64;" ::"r"(id) : "memory");  // FAULT
  out[threadIdx.x] = values[threadIdx.x];
}
