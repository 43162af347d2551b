// Lanes beyond the end load what nobody wrote and select zero instead; the others' sum and branch do not depend on it.
// rule: none
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [20], fill = "value:1"},
  {name = "out", type = "u32", shape = [1], output = true, expect = "value:20"},
]
*/
#include "../ptx.cuh"

DEVICE uint32_t select(uint32_t value, uint32_t flag) {
  uint32_t chosen;
  asm volatile("{.reg .pred p; setp.ne.u32 p, %2, 0; selp.b32 %0, %1, 0, p;}" : "=r"(chosen) : "r"(value), "r"(flag));
  return chosen;
}
DEVICE uint32_t load_shared(const uint32_t* from) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(smem(from)) : "memory");
  return value;
}

extern "C" __global__ void sum(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t values[32];
  if (lane_id() < 20) values[lane_id()] = in[lane_id()];
  __syncwarp();
  const uint32_t neighbour = __shfl_xor_sync(0xffffffffu, load_shared(&values[lane_id()]), 1);
  uint32_t total = select(neighbour, (lane_id() ^ 1) < 20);
  for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(0xffffffffu, total, offset);
  if (total > 10 && lane_id() == 0) out[0] = total;
}
