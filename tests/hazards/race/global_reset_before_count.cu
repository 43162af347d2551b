// CTA 0 clears the counter with an ordinary store and counts in it at once; its own atomic comes after the store, that of
// CTA 1 need not. The counter is zero already: nobody has to clear it.
// rule: race.global
/* launch
grid = 2
block = 32
argument = [
  {name = "out", type = "u32", shape = [1], fill = "zero", output = true, expect = "value:2"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void count(uint32_t* out) {
  if (lane_id() != 0) return;
#ifdef FAULTY
  if (blockIdx.x == 0) *out = 0;  // OTHER
#endif
  atomicAdd(out, 1u);  // FAULT
}
