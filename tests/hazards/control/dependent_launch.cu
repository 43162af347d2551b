// A kernel ready for programmatic dependent launch: every thread waits for the preceding grid before it touches its
// data, and lets the next one start after its own stores.
// rule: none
/* launch
grid = 2
block = 64
repeat = 2
argument = [
  {name = "out", type = "u32", shape = [128], fill = "zero", output = true, expect = "value:2"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void add_one(uint32_t* out) {
  const uint32_t i = blockIdx.x * 64 + threadIdx.x;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  out[i] = out[i] + 1;
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
