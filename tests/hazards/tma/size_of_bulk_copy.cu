// A bulk copy moves multiples of 16 bytes; thirty words are 120. The row is padded to 32 words, so all of them can be
// copied.
// rule: tma.size
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "valid", type = "u32", value = 30},
  {name = "out", type = "u32", shape = [30], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t* in, uint32_t valid, uint32_t* out) {
  __shared__ alignas(16) uint32_t row[32];
  __shared__ uint64_t full;
#ifdef FAULTY
  const uint32_t bytes = valid * 4;
#else
  const uint32_t bytes = (valid * 4 + 15) / 16 * 16;
#endif
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, bytes);
    bulk_load(row, in, bytes, &full);  // FAULT
  }
  __syncwarp();
  mbar_wait(&full, 0);
  if (lane_id() < valid) out[lane_id()] = row[lane_id()];
}
