// CTA 0 hands data to CTA 1 through a flag, which it sets with a relaxed store: the data may become visible after the
// flag. st.release orders them.
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
    if (lane_id() == 0) {
#ifdef FAULTY
      st_relaxed(flag, 1);
#else
      st_release(flag, 1);
#endif
    }
  } else {
    if (lane_id() == 0) {
      while (ld_acquire(flag) == 0) {
      }
    }
    __syncwarp();
    out[lane_id()] = data[lane_id()];  // FAULT
  }
}
