// A table of pointers still holds the address of a buffer that was freed and replaced.
// rule: memory.use-after-free
/* launch
block = 32
argument = [
  {name = "old", type = "u32", shape = [32], fill = "index", freed = true},
  {name = "fresh", type = "u32", shape = [32], fill = "index"},
  {name = "out", type = "u32", shape = [32], output = true, expect = "argument:fresh"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void look_up(const uint32_t* old, const uint32_t* fresh, uint32_t* out) {
#ifdef FAULTY
  const uint32_t* const table[2] = {fresh, old};
#else
  const uint32_t* const table[2] = {old, fresh};
#endif
  out[threadIdx.x] = table[1][threadIdx.x];  // FAULT
}
