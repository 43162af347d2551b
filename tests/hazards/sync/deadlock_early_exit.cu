// Warps without rows return before they have released the slot; the barrier still counts their arrival, and the
// producer waits for ever.
// rule: sync.deadlock
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [2, 128], fill = "index"},
  {name = "rows", type = "u32", value = 2},
  {name = "out", type = "u32", shape = [2, 64], output = true, expect = "argument:picked"},
  {name = "picked", type = "u32", shape = [2, 64], fill = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void consume(const uint32_t* in, uint32_t rows, uint32_t* out, const uint32_t*) {
  __shared__ alignas(16) uint32_t slot[128];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    mbar_init(&empty, 4);
    fence_mbarrier_init();
  }
  __syncthreads();
  const bool has_rows = warp_id() < rows;
  for (int i = 0; i < 2; ++i) {
    if (threadIdx.x == 0) {
      mbar_wait(&empty, (i & 1) ^ 1);  // FAULT
      mbar_arrive_expect(&full, sizeof slot);
      bulk_load(slot, in + i * 128, sizeof slot, &full);
    }
    __syncwarp();
#ifdef FAULTY
    if (!has_rows) return;
#endif
    mbar_wait(&full, i & 1);
    if (has_rows) out[i * 64 + threadIdx.x] = slot[threadIdx.x] - i * 64;
    __syncwarp();
    if (lane_id() == 0) mbar_arrive(&empty);
  }
}
