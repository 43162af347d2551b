// The lower half of the warp synchronises among itself, then reads what the upper half stored. The mask must name all
// lanes that take part.
// rule: race.warp
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void gather(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[32];
  tile[lane_id()] = in[lane_id()];  // OTHER
#ifdef FAULTY
  if (lane_id() < 16) __syncwarp(0x0000ffffu);
#else
  __syncwarp();
#endif
  if (lane_id() < 16) {
    out[lane_id()] = tile[lane_id()];
    out[lane_id() + 16] = tile[lane_id() + 16];  // FAULT
  }
}
