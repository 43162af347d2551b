// CTA 0 multicasts tiles to a cluster of two; the consumers of both CTAs release the slot at CTA 0's barrier with a
// remote arrive that names no scope, as CUTLASS writes it, and the producer waits without one. Both count as cluster
// scope.
// rule: none
/* launch
grid = 2
cluster = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [12, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [2, 12, 32], output = true, expect = "argument:both"},
  {name = "both", type = "u32", shape = [2, 12, 32], fill = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void multicast(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out,
                                     const uint32_t*) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 32) {
    mbar_init(&full, 1);
    mbar_init(&empty, 2);
    fence_mbarrier_init();
    mbar_arrive_expect(&full, sizeof tile);
  }
  cluster_sync();
  if (warp_id() == 0) {
    if (cluster_rank() == 0 && lane_id() == 0) {
      for (int i = 0; i < 3; ++i) {
        mbar_wait(&empty, (i & 1) ^ 1);
        tma_load_multicast(tile, &in_map, 0, 4 * i, &full, 3);
      }
    }
  } else {
    for (uint32_t i = 0; i < 3; ++i) {
      mbar_wait(&full, i & 1);
      const uint32_t base = cluster_rank() * 384;
      for (uint32_t k = lane_id(); k < 128; k += 32) out[base + i * 128 + k] = tile[k] + base;
      __syncwarp();
      if (lane_id() == 0) {
        if (i < 2) mbar_arrive_expect(&full, sizeof tile);
        mbar_arrive_remote_plain(mapa(&empty, 0));
      }
    }
  }
  __syncwarp();
  cluster_sync();
}
