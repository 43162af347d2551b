// CTA 1 arrives at a barrier of CTA 0 after a barrier of its own block only; nothing says that CTA 0 has initialised
// it.
// rule: mbarrier.init-not-visible or mbarrier.uninitialised
/* launch
grid = 2
cluster = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void push(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t inbox[32];
  __shared__ uint64_t arrived;
  if (lane_id() == 0) {
    mbar_init(&arrived, 32);  // OTHER
    fence_mbarrier_init();
  }
#ifdef FAULTY
  __syncthreads();
#else
  cluster_sync();
#endif
  if (cluster_rank() == 1) {
    st_cluster(mapa(&inbox[lane_id()], 0), in[lane_id()]);
    mbar_arrive_remote(mapa(&arrived, 0));  // FAULT
  } else {
    mbar_wait_cluster(&arrived, 0);
    out[lane_id()] = inbox[lane_id()];
  }
  cluster_sync();
}
