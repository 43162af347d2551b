// A wait of CTA scope receives what a bulk copy brought, wherever the copy was issued, and what threads of its own CTA
// released.
// rule: none
/* launch
grid = 2
cluster = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [2, 32], output = true, expect = "value:31"},
]
*/
#include "../ptx.cuh"

DEVICE void wait_cta(uint64_t* bar, uint32_t parity) {
  uint32_t done;
  do {
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
        : "=r"(done)
        : "r"(smem(bar)), "r"(parity)
        : "memory");
  } while (done == 0);
}

extern "C" __global__ void share(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(128) uint32_t row[32];
  __shared__ uint32_t mirrored[32];
  __shared__ uint64_t full, ready;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    mbar_init(&ready, 32);
    fence_mbarrier_init();
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof(row));
  }
  cluster_sync();
  if (cluster_rank() == 0 && threadIdx.x == 0) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
        ::"r"(smem(row)),
        "l"(in), "r"(static_cast<uint32_t>(sizeof(row))), "r"(smem(&full)), "h"(static_cast<uint16_t>(3))
        : "memory");
  }
  wait_cta(&full, 0);
  mirrored[31 - lane_id()] = row[lane_id()];
  asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(smem(&ready)) : "memory");
  wait_cta(&ready, 0);
  out[32 * cluster_rank() + lane_id()] = mirrored[lane_id()] + lane_id();
  cluster_sync();
}
