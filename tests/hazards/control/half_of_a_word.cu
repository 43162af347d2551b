// One half of each word of shared memory is written; the word is read whole, and only that half decides anything.
// rule: none
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE uint32_t load_word(const void* from) {
  uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(smem(from)) : "memory");
  return value;
}

extern "C" __global__ void halves(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(4) uint16_t values[64];
  values[2 * lane_id() + 1] = static_cast<uint16_t>(in[lane_id()]);
  __syncwarp();
  const uint32_t word = load_word(&values[2 * lane_id()]);
  if ((word >> 16) < 16) {
    out[lane_id()] = word >> 16;
  } else {
    out[word >> 16] = (word & 0xffff0000u) / 65536;
  }
}
