// barrier.cluster.arrive.relaxed does not release the stores before it. The default form does.
// rule: race.cluster
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
  tile[threadIdx.x] = in[cluster_rank() * 64 + threadIdx.x];  // OTHER
#ifdef FAULTY
  cluster_arrive_relaxed();
#else
  cluster_arrive();
#endif
  cluster_wait();
  out[peer * 64 + threadIdx.x] = ld_cluster(mapa(&tile[threadIdx.x], peer));  // FAULT
  cluster_sync();
}
