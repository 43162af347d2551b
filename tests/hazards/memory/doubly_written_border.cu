// The first element of the second tile is stored by both tiles. The result is right, but the work is divided wrongly.
// rule: memory.doubly-written
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void tiles(const uint32_t* in, uint32_t* out) {
  if (warp_id() == 0) {
    out[lane_id()] = in[lane_id()];
#ifdef FAULTY
    if (lane_id() == 0) out[32] = in[32];  // OTHER
#endif
  }
  __syncthreads();
  if (warp_id() == 1) out[threadIdx.x] = in[threadIdx.x];  // FAULT
}
