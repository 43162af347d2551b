// The last tile is moved back to end with the tensor, so two CTAs store the same values to the elements where tiles
// overlap. The later tile may leave those to the earlier one.
// rule: race.equal-writes
/* launch
grid = 2
block = 64
argument = [
  {name = "in", type = "u32", shape = [96], fill = "index"},
  {name = "out", type = "u32", shape = [96], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void copy_tiles(const uint32_t* in, uint32_t* out) {
  const uint32_t begin = min(blockIdx.x * 64, 96u - 64u);
  const uint32_t i = begin + threadIdx.x;
#ifndef FAULTY
  if (i < blockIdx.x * 64) return;
#endif
  out[i] = in[i];  // FAULT
}
