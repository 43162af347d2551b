// A relaxed arrive at the cluster barrier publishes an initialisation only together with fence.mbarrier_init, which is
// missing.
// rule: mbarrier.init-not-visible
/* launch
grid = 2
cluster = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [8, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [2, 8, 32], output = true, expect = "argument:both"},
  {name = "both", type = "u32", shape = [2, 8, 32], fill = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void multicast(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out,
                                     const uint32_t*) {
  __shared__ alignas(128) uint32_t tile[256];
  __shared__ uint64_t full;
  if (lane_id() == 0) {
    mbar_init(&full, 1);  // OTHER
#ifndef FAULTY
    fence_mbarrier_init();
#endif
  }
  cluster_arrive_relaxed();
  cluster_wait();
  if (lane_id() == 0) {
    mbar_arrive_expect(&full, sizeof tile);
    // Each CTA loads one half for both.
    const int half = static_cast<int>(cluster_rank());
    tma_load_multicast(tile + half * 128, &in_map, 0, 4 * half, &full, 3);  // FAULT
  }
  __syncwarp();
  mbar_wait_cluster(&full, 0);
  for (uint32_t i = lane_id(); i < 256; i += 32) out[cluster_rank() * 256 + i] = tile[i] + cluster_rank() * 256;
  cluster_sync();
}
