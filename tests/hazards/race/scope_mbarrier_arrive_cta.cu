// CTA 1 stores into CTA 0 and arrives on a barrier there, but releases at CTA scope only: the threads of the other CTA are
// not among those that the release reaches.
// rule: race.scope
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

DEVICE void arrive(uint32_t bar) {
#ifdef FAULTY
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
#else
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
#endif
}

extern "C" __global__ void push(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t inbox[32];
  __shared__ uint64_t arrived;
  if (threadIdx.x == 0) {
    mbar_init(&arrived, 32);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (cluster_rank() == 1) {
    st_cluster(mapa(&inbox[lane_id()], 0), in[lane_id()]);  // OTHER
    arrive(mapa(&arrived, 0));
  } else {
    mbar_wait_cluster(&arrived, 0);
    out[lane_id()] = inbox[lane_id()];  // FAULT
  }
  cluster_sync();
}
