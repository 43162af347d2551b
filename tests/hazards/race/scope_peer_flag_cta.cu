// A flag in the peer's shared memory is released at CTA scope, but the reader is in another CTA of the cluster.
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

DEVICE void raise(uint32_t flag) {
#ifdef FAULTY
  asm volatile("st.release.cta.shared::cluster.u32 [%0], %1;" ::"r"(flag), "r"(1) : "memory");
#else
  asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(flag), "r"(1) : "memory");
#endif
}

extern "C" __global__ void push(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t inbox[32];
  __shared__ uint32_t flag;
  if (lane_id() == 0) flag = 0;
  cluster_sync();
  if (cluster_rank() == 1) {
    st_cluster(mapa(&inbox[lane_id()], 0), in[lane_id()]);  // OTHER
    __syncwarp();
    if (lane_id() == 0) raise(mapa(&flag, 0));
  } else {
    uint32_t seen;
    do {
      asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(seen) : "r"(smem(&flag)) : "memory");
    } while (seen == 0);
    out[lane_id()] = inbox[lane_id()];  // FAULT
  }
  cluster_sync();
}
