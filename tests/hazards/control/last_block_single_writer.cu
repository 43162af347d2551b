// The same with one writer per block, whose own fence stands between its partial sum and its ticket.
// rule: none
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
  uint32_t ticket = 0;
  if (lane_id() == 0) {
    partial[blockIdx.x] = mine;
    __threadfence();
    ticket = atomicAdd(tickets, 1u);
    __threadfence();
  }
  __syncwarp();
  ticket = __shfl_sync(0xffffffffu, ticket, 0);
  if (ticket != 3) return;
  const uint32_t total = __reduce_add_sync(0xffffffffu, lane_id() < 4 ? partial[lane_id()] : 0);
  if (lane_id() == 0) out[0] = total;
}
