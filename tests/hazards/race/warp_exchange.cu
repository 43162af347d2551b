// Lanes of one warp exchange values through shared memory. Since Volta they do not run in lockstep: __syncwarp between
// the store and the load orders them.
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
  tile[lane_id()] = in[lane_id()];  // OTHER
#ifndef FAULTY
  __syncwarp();
#endif
  out[lane_id() ^ 1] = tile[lane_id() ^ 1];  // FAULT
}
