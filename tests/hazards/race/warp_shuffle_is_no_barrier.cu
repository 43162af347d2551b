// A shuffle makes the lanes meet but orders no memory accesses. The exchange through shared memory needs __syncwarp as
// well.
// rule: race.warp
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void exchange(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[32];
  const uint32_t value = in[lane_id()];
  tile[lane_id()] = value;  // OTHER
  const uint32_t base = __shfl_sync(0xffffffffu, value, 0);
#ifndef FAULTY
  __syncwarp();
#endif
  out[lane_id() ^ 3] = tile[lane_id() ^ 3] + base;  // FAULT
}
