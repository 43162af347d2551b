// Barriers are per CTA: initialising them in rank 0 only leaves those of rank 1 uninitialised.
// rule: mbarrier.uninitialised
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

extern "C" __global__ void load(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tile[32];
  __shared__ uint64_t full;
#ifdef FAULTY
  if (cluster_rank() == 0 && lane_id() == 0) {
#else
  if (lane_id() == 0) {
#endif
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  cluster_sync();
  if (lane_id() == 0) {
    mbar_arrive_expect(&full, sizeof tile);  // FAULT
    bulk_load(tile, in + cluster_rank() * 32, sizeof tile, &full);
  }
  mbar_wait(&full, 0);
  out[cluster_rank() * 32 + lane_id()] = tile[lane_id()];
}
