// Each thread publishes its element with one atom.acq_rel on a counter and the last one reads them all: the chain of
// read-modify-writes carries every release.
// rule: none
/* launch
grid = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [64], fill = "index"},
  {name = "data", type = "u32", shape = [64]},
  {name = "tickets", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [64], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE uint32_t draw(uint32_t* tickets) {
  uint32_t ticket;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(tickets) : "memory");
  return ticket;
}

extern "C" __global__ void collect(const uint32_t* in, uint32_t* data, uint32_t* tickets, uint32_t* out) {
  const uint32_t i = blockIdx.x * 32 + lane_id();
  data[i] = in[i];
  if (draw(tickets) == 63) {
    for (uint32_t k = 0; k < 64; ++k) out[k] = data[k];
  }
}
