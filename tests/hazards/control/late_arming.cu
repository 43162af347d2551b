// In a pipeline over a cluster a copy may report its bytes before the receiving CTA has announced them: the pending
// arrival of the announcement keeps the phase open.
// rule: none
/* launch
grid = 2
cluster = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [2, 32], fill = "index"},
  {name = "out", type = "u32", shape = [2, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void send(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t outbox[32];
  __shared__ alignas(16) uint32_t inbox[32];
  __shared__ uint64_t full;
  const uint32_t rank = cluster_rank();
  const uint32_t peer = rank ^ 1;
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  outbox[lane_id()] = in[rank * 32 + lane_id()];
  fence_async_shared();
  cluster_sync();
  if (lane_id() == 0) {
    bulk_to_peer(mapa(inbox, peer), outbox, sizeof outbox, mapa(&full, peer));
    mbar_arrive_expect(&full, sizeof inbox);
  }
  __syncwarp();
  mbar_wait_cluster(&full, 0);
  out[peer * 32 + lane_id()] = inbox[lane_id()];
  cluster_sync();
}
