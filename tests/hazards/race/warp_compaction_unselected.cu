// Each selected lane moves its element to the place that the ballot gives it. A lane that is not selected has the place
// of the next selected one, and stores its own element there too.
// rule: race.warp
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "compacted", type = "u32", shape = [32], fill = "zero"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void odd_ones(const uint32_t* in, uint32_t* compacted, uint32_t* out) {
  const uint32_t value = in[lane_id()];
  const bool selected = value % 2 == 1;
  const uint32_t before = __ballot_sync(0xffffffffu, selected) & ((1u << lane_id()) - 1);
#ifndef FAULTY
  if (selected)
#endif
    compacted[__popc(before)] = value;  // FAULT
  __syncwarp();
  out[lane_id()] = lane_id() < 16 ? compacted[lane_id()] / 2 : lane_id();
}
