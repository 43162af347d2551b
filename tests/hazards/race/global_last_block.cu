// The block that draws the last ticket adds up all partial sums. Without __threadfence between a block's partial sum
// and its ticket, the sum may not be visible yet.
// rule: race.global
/* launch
grid = 4
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "value:1"},
  {name = "partial", type = "u32", shape = [4]},
  {name = "tickets", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [1], output = true, expect = "value:128"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void sum(const uint32_t* in, uint32_t* partial, uint32_t* tickets, uint32_t* out) {
  const uint32_t mine = __reduce_add_sync(0xffffffffu, in[blockIdx.x * 32 + lane_id()]);
  if (lane_id() != 0) return;
  partial[blockIdx.x] = mine;  // OTHER
#ifndef FAULTY
  __threadfence();
#endif
  if (atomicAdd(tickets, 1u) != 3) return;
  __threadfence();
  uint32_t total = 0;
  for (int i = 0; i < 4; ++i) total += partial[i];  // FAULT
  out[0] = total;
}
