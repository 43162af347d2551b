// Lanes of one warp exchange values through global memory without __syncwarp.
// rule: race.warp
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "scratch", type = "u32", shape = [32]},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void exchange(const uint32_t* in, uint32_t* scratch, uint32_t* out) {
  scratch[lane_id()] = in[lane_id()];  // OTHER
#ifndef FAULTY
  __syncwarp();
#endif
  out[31 - lane_id()] = scratch[31 - lane_id()];  // FAULT
}
