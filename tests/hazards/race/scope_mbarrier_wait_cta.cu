// A mailbox is handed back and forth between two CTAs. The owner waits for the sender's arrival with acquire semantics of
// CTA scope, which does not receive what another CTA released.
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

DEVICE void wait(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  do {
#ifdef FAULTY
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(smem(bar)), "r"(parity)
        : "memory");
#else
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(smem(bar)), "r"(parity)
        : "memory");
#endif
  } while (done == 0);
}

extern "C" __global__ void mailbox(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t box[16];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    mbar_init(&full, 16);
    mbar_init(&empty, 16);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (lane_id() < 16) {
    for (uint32_t turn = 0; turn < 2; ++turn) {
      if (cluster_rank() == 1) {
        if (turn > 0) mbar_wait_cluster(&empty, 0);
        st_cluster(mapa(&box[lane_id()], 0), in[16 * turn + lane_id()]);  // OTHER
        mbar_arrive_remote(mapa(&full, 0));
      } else {
        wait(&full, turn);
        out[16 * turn + lane_id()] = box[lane_id()];  // FAULT
        mbar_arrive_remote(mapa(&empty, 1));
      }
    }
  }
  cluster_sync();
}
