// A local array is filled for one element too few, and the element nobody wrote goes into the output.
// rule: memory.uninitialised
/* launch
block = 4
argument = [
  {name = "in", type = "u32", shape = [4], fill = "index"},
  {name = "n", type = "u32", value = 4},
  {name = "out", type = "u32", shape = [4], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void local_table(const uint32_t* in, uint32_t n, uint32_t* out) {
  uint32_t table[4];
#ifdef FAULTY
  const uint32_t filled = n - 1;
#else
  const uint32_t filled = n;
#endif
#pragma unroll 1
  for (uint32_t i = 0; i < filled; ++i) table[i] = in[i];
  out[threadIdx.x] = table[in[threadIdx.x] % 4];  // FAULT
}
