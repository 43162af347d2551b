// The producer arrives at the mbarrier with relaxed semantics, which does not publish the tile it stored. The default
// form releases.
// rule: race.shared
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void hand_over(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[32];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) mbar_init(&full, 32);
  __syncthreads();
  if (warp_id() == 0) {
    tile[lane_id()] = in[lane_id()];  // OTHER
#ifdef FAULTY
    mbar_arrive_relaxed(&full);
#else
    mbar_arrive(&full);
#endif
  } else {
    mbar_wait(&full, 0);
    out[lane_id()] = tile[lane_id()];  // FAULT
  }
}
