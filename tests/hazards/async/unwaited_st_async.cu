// CTA 1 sends words with st.async, which complete on an mbarrier of CTA 0. A cluster barrier does not wait for them.
// rule: async.unwaited-read
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
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
    if (cluster_rank() == 0) mbar_arrive_expect(&full, sizeof inbox);
  }
  cluster_sync();
  if (cluster_rank() == 1) st_async(mapa(&inbox[lane_id()], 0), in[lane_id()], mapa(&full, 0));  // OTHER
#ifdef FAULTY
  cluster_sync();
  if (cluster_rank() == 0) {
    out[lane_id()] = inbox[lane_id()];  // FAULT
    mbar_wait_cluster(&full, 0);
  }
#else
  if (cluster_rank() == 0) {
    mbar_wait_cluster(&full, 0);
    out[lane_id()] = inbox[lane_id()];
  }
  cluster_sync();
#endif
}
