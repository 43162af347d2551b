// Each lane of a warp brings one row, but one row too few is announced.
// rule: mbarrier.tx-mismatch
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32, 4], fill = "index"},
  {name = "out", type = "u32", shape = [32, 4], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load_rows(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t rows[32][4];
  __shared__ uint64_t full;
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
#ifdef FAULTY
    mbar_arrive_expect(&full, 31 * 16);  // FAULT
#else
    mbar_arrive_expect(&full, 32 * 16);
#endif
  }
  __syncwarp();
  bulk_load(rows[lane_id()], in + lane_id() * 4, 16, &full);  // OTHER
  mbar_wait(&full, 0);
  for (uint32_t i = 0; i < 4; ++i) out[i * 32 + lane_id()] = rows[i * 8 + lane_id() / 4][lane_id() % 4];
}
