// In the second round a CTA stores to its tile while the peer may still read it for the first one: the cluster barrier
// after the reads is missing.
// rule: race.cluster
/* launch
grid = 2
cluster = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [2, 2, 64], fill = "index"},
  {name = "out", type = "u32", shape = [2, 2, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void rounds(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  const uint32_t rank = cluster_rank();
  for (uint32_t round = 0; round < 2; ++round) {
    tile[threadIdx.x] = in[(round * 2 + rank) * 64 + threadIdx.x];  // FAULT
    cluster_sync();
    out[(round * 2 + (rank ^ 1)) * 64 + threadIdx.x] = ld_cluster(mapa(&tile[threadIdx.x], rank ^ 1));  // OTHER
#ifndef FAULTY
    cluster_sync();
#endif
  }
  cluster_sync();
}
