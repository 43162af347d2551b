// A register is put together from four byte inserts, the first of them into bits that nobody wrote; all are replaced.
// rule: none
/* launch
block = 32
argument = [
  {name = "out", type = "u32", shape = [32], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

DEVICE uint32_t from_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  uint32_t word;
  asm volatile(
      "{.reg .b32 t; bfi.b32 t, %1, t, 0, 8; bfi.b32 t, %2, t, 8, 8; bfi.b32 t, %3, t, 16, 8; bfi.b32 %0, %4, t, 24, "
      "8;}"
      : "=r"(word)
      : "r"(a), "r"(b), "r"(c), "r"(d));
  return word;
}

extern "C" __global__ void pieces(uint32_t* out) { out[lane_id()] = from_bytes(lane_id(), 0, 0, 0); }
