// A lock built from atomicCAS and atomicExch, which are relaxed: without fences after taking and before releasing it,
// it does not order what it protects.
// rule: race.global
/* launch
grid = 4
block = 32
argument = [
  {name = "lock", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [1], fill = "zero", output = true, expect = "value:4"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void count(uint32_t* lock, uint32_t* out) {
  if (lane_id() != 0) return;
  while (atomicCAS(lock, 0u, 1u) != 0) {
  }
#ifndef FAULTY
  __threadfence();
#endif
  *out = *out + 1;  // FAULT
#ifndef FAULTY
  __threadfence();
#endif
  atomicExch(lock, 0u);
}
