// Warp 0 produces for warps 1 and 2, but the named barrier takes in warp 1 only; warp 2 reads without waiting. The
// barrier must count all three warps.
// rule: race.shared
/* launch
block = 96
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [2, 32], output = true, expect = "argument:twice"},
  {name = "twice", type = "u32", shape = [2, 32], fill = "zero"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void fan_out(const uint32_t* in, uint32_t* out, const uint32_t* twice) {
  __shared__ uint32_t tile[32];
  if (warp_id() == 0) tile[lane_id()] = in[lane_id()] & twice[lane_id()];  // OTHER
#ifdef FAULTY
  if (warp_id() < 2) named_sync(1, 64);
#else
  named_sync(1, 96);
#endif
  if (warp_id() != 0) out[threadIdx.x - 32] = tile[lane_id()];  // FAULT
}
