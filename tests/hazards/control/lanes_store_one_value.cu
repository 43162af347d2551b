// All lanes of a warp store to one place, but the same value; or other values to one place, but by atomics; or in turn.
// rule: none
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [4], output = true, expect = "value:31"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void one_place(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t all, largest, halves[2], turn;
  const uint32_t value = in[lane_id()];
  all = __reduce_max_sync(0xffffffffu, value);
  halves[lane_id() / 16] = value / 16;
  if (lane_id() == 0) largest = 0;
  __syncwarp();
  atomicMax(&largest, value);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    if (lane_id() == lane) turn = value;
    __syncwarp();
  }
  if (lane_id() == 0) {
    out[0] = all;
    out[1] = largest;
    out[2] = halves[0] + 31 * halves[1];
    out[3] = turn;
  }
}
