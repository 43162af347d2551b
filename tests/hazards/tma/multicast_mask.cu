// The multicast mask names four CTAs, the cluster has two.
// rule: tma.multicast
/* launch
grid = 2
cluster = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [2, 4, 32], output = true, expect = "argument:both"},
  {name = "both", type = "u32", shape = [2, 4, 32], fill = "index"},
]
*/
#include "../ptx.cuh"

#ifdef FAULTY
constexpr uint16_t kMask = 0xf;
#else
constexpr uint16_t kMask = 0x3;
#endif

extern "C" __global__ void multicast(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out,
                                     const uint32_t*) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
    mbar_arrive_expect(&full, sizeof tile);
  }
  cluster_sync();
  if (cluster_rank() == 0 && lane_id() == 0) {
    tma_load_multicast(tile, &in_map, 0, 0, &full, kMask);  // FAULT
  }
  __syncwarp();
  mbar_wait_cluster(&full, 0);
  for (uint32_t i = lane_id(); i < 128; i += 32) out[cluster_rank() * 128 + i] = tile[i] + cluster_rank() * 128;
  cluster_sync();
}
