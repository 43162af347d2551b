// The style of older programs: a volatile flag with __threadfence on both sides. Volatile accesses are strong, so with
// the fences they release and acquire.
// rule: none
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

extern "C" __global__ void hand_off(const uint32_t* in, uint32_t* data, volatile uint32_t* flag, uint32_t* out) {
  if (blockIdx.x == 0) {
    data[lane_id()] = in[lane_id()];
    __syncwarp();
    __threadfence();
    if (lane_id() == 0) *flag = 1;
  } else {
    while (*flag == 0) {
    }
    __threadfence();
    out[lane_id()] = data[lane_id()];
  }
}
