// The cluster barrier orders every CTA's stores before its peers' reads, and keeps each CTA alive until all have read.
// rule: none
/* launch
grid = 4
cluster = 4
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "value:5"},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "value:20"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void all_reduce(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t mine[32];
  mine[lane_id()] = in[cluster_rank() * 32 + lane_id()];
  cluster_sync();
  uint32_t sum = 0;
  for (uint32_t rank = 0; rank < 4; ++rank) sum += ld_cluster(mapa(&mine[lane_id()], rank));
  out[cluster_rank() * 32 + lane_id()] = sum;
  cluster_sync();
}
