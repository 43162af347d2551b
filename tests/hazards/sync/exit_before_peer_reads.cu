// A CTA may exit while its peer still reads its shared memory, which then no longer exists. A last cluster barrier
// keeps it alive.
// rule: sync.exit
/* launch
grid = 2
cluster = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [2, 64], fill = "index"},
  {name = "out", type = "u32", shape = [2, 64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void swap(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t tile[64];
  const uint32_t peer = cluster_rank() ^ 1;
  tile[threadIdx.x] = in[cluster_rank() * 64 + threadIdx.x];
  cluster_sync();
  out[peer * 64 + threadIdx.x] = ld_cluster(mapa(&tile[threadIdx.x], peer));  // FAULT
#ifndef FAULTY
  cluster_sync();
#endif
}
