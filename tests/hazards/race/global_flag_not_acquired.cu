// The reader polls the flag with relaxed loads and has no fence after the loop, so its loads of the data may be older
// than the flag. A fence after the loop acquires.
// rule: race.global
/* launch
grid = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "data", type = "u32", shape = [32]},
  {name = "flag", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void hand_off(const uint32_t* in, uint32_t* data, uint32_t* flag, uint32_t* out) {
  if (blockIdx.x == 0) {
    data[lane_id()] = in[lane_id()];  // OTHER
    __syncwarp();
    if (lane_id() == 0) st_release(flag, 1);
  } else {
    while (ld_relaxed(flag) == 0) {
    }
#ifndef FAULTY
    fence_acq_rel_gpu();
#endif
    out[lane_id()] = data[lane_id()];  // FAULT
  }
}
