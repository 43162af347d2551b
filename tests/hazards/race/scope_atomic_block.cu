// atomicAdd_block is atomic among the threads of one CTA; two CTAs count in the same word. atomicAdd has gpu scope.
// rule: race.scope
/* launch
grid = 2
block = 32
argument = [
  {name = "out", type = "u32", shape = [1], fill = "zero", output = true, expect = "value:64"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void count(uint32_t* out) {
#ifdef FAULTY
  atomicAdd_block(out, 1u);  // FAULT
#else
  atomicAdd(out, 1u);
#endif
}
