// The offset of the upper half of the lanes is computed under a predicate that is false for them, in a register that
// nothing else sets.
// rule: memory.uninitialised
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

DEVICE uint32_t offset_of(uint32_t lane, uint32_t limit) {
  uint32_t offset;
  asm volatile("{.reg .b32 t; .reg .pred p; setp.lt.u32 p, %1, %2; @p shl.b32 t, %1, 2; mov.b32 %0, t;}"
               : "=r"(offset)
               : "r"(lane), "r"(limit));
  return offset;
}

extern "C" __global__ void lanes(const uint32_t* in, uint32_t* out) {
#ifdef FAULTY
  const uint32_t offset = offset_of(lane_id(), 16);  // OTHER
#else
  const uint32_t offset = offset_of(lane_id(), 32);
#endif
  const auto* from = reinterpret_cast<const uint32_t*>(reinterpret_cast<const char*>(in) + offset);
  const uint32_t value = *from;  // FAULT
  out[lane_id()] = value;
}
