// CTA 1 reports to a barrier of CTA 0, which does not wait for the last report and may be gone by then.
// rule: sync.exit
/* launch
grid = 2
cluster = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [2, 32], fill = "index"},
  {name = "out", type = "u32", shape = [2, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void report(const uint32_t* in, uint32_t* out) {
  __shared__ uint64_t reports;
  if (lane_id() == 0) {
    mbar_init(&reports, 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  out[cluster_rank() * 32 + lane_id()] = in[cluster_rank() * 32 + lane_id()];
  __syncwarp();
  if (cluster_rank() == 1) {
    if (lane_id() == 0) mbar_arrive_remote(mapa(&reports, 0));  // FAULT
  } else {
#ifndef FAULTY
    mbar_wait_cluster(&reports, 0);
#endif
  }
}
