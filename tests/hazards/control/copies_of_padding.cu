// Rows of 24 elements lie in slots of 32. The padding, which nobody wrote, is copied along and never looked at: a copy
// is no use.
// rule: none
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [24], fill = "index"},
  {name = "out", type = "u32", shape = [24], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void move_rows(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t from[32];
  __shared__ alignas(16) uint32_t to[32];
  if (lane_id() < 24) from[lane_id()] = in[lane_id()];
  __syncwarp();
  if (lane_id() < 8) reinterpret_cast<uint4*>(to)[lane_id()] = reinterpret_cast<const uint4*>(from)[lane_id()];
  __syncwarp();
  if (lane_id() < 24) out[lane_id()] = to[lane_id()];
}
