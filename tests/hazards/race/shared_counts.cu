// The warps of a block count in shared memory with a plain load, addition and store, so counts get lost. atomicAdd
// counts right.
// rule: race.shared
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [128], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "value:4"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void histogram(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t counts[32];
  if (warp_id() == 0) counts[lane_id()] = 0;
  __syncthreads();
  const uint32_t bin = in[threadIdx.x] % 32;
#ifdef FAULTY
  counts[bin] = counts[bin] + 1;  // FAULT
#else
  atomicAdd(&counts[bin], 1u);
#endif
  __syncthreads();
  if (warp_id() == 0) out[lane_id()] = counts[lane_id()];
}
