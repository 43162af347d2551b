// Each of two CTAs loads one half of every tile for both. A consumer must release the slot to both producers: releasing
// it only to its own CTA lets the other one overwrite it too early.
// rule: race.cluster or async.overwritten
/* launch
grid = 2
cluster = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [32, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [2, 32, 32], output = true, expect = "argument:both"},
  {name = "both", type = "u32", shape = [2, 32, 32], fill = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void ring(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out,
                                const uint32_t*) {
  __shared__ alignas(128) uint32_t slots[2][256];
  __shared__ uint64_t full[2], empty[2];
  const uint32_t rank = cluster_rank();
#ifdef FAULTY
  constexpr uint32_t releases = 1;
#else
  constexpr uint32_t releases = 2;
#endif
  if (threadIdx.x == 0) {
    for (int s = 0; s < 2; ++s) {
      mbar_init(&full[s], 1);
      mbar_init(&empty[s], releases);
    }
    fence_mbarrier_init();
  }
  cluster_sync();
  if (warp_id() == 0) {
    if (lane_id() == 0) {
      for (int i = 0; i < 4; ++i) {
        mbar_wait_cluster(&empty[i % 2], (i / 2 & 1) ^ 1);
        mbar_arrive_expect(&full[i % 2], sizeof slots[0]);
        const int half = static_cast<int>(rank);
        tma_load_multicast(slots[i % 2] + half * 128, &in_map, 0, 8 * i + 4 * half, &full[i % 2], 3);  // FAULT
      }
    }
  } else {
    for (uint32_t i = 0; i < 4; ++i) {
      mbar_wait_cluster(&full[i % 2], i / 2 & 1);
      for (uint32_t k = lane_id(); k < 256; k += 32)
        out[rank * 1024 + i * 256 + k] = slots[i % 2][k] + rank * 1024;  // OTHER
      __syncwarp();
#ifdef FAULTY
      if (lane_id() == 0) mbar_arrive(&empty[i % 2]);
#else
      if (lane_id() < 2) mbar_arrive_remote(mapa(&empty[i % 2], lane_id()));
#endif
    }
  }
  __syncwarp();
  cluster_sync();
}
