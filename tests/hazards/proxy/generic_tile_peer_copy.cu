// A CTA writes a tile and sends it to its peer's shared memory with a bulk copy, which reads it through the async
// proxy.
// rule: proxy.async
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

extern "C" __global__ void send(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t outbox[64];
  __shared__ alignas(16) uint32_t inbox[64];
  __shared__ uint64_t full;
  const uint32_t rank = cluster_rank();
  const uint32_t peer = rank ^ 1;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
    mbar_arrive_expect(&full, sizeof inbox);
  }
  outbox[threadIdx.x] = in[rank * 64 + threadIdx.x];  // OTHER
#ifndef FAULTY
  fence_async_shared();
#endif
  cluster_sync();
  if (threadIdx.x == 0) bulk_to_peer(mapa(inbox, peer), outbox, sizeof outbox, mapa(&full, peer));  // FAULT
  mbar_wait_cluster(&full, 0);
  out[peer * 64 + threadIdx.x] = inbox[threadIdx.x];
  cluster_sync();
}
