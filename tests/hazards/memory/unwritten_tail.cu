// Each thread copies four elements at once, and nobody copies the last two of seventy.
// rule: memory.unwritten
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [70], fill = "index"},
  {name = "n", type = "u32", value = 70},
  {name = "out", type = "u32", shape = [70], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void copy4(const uint32_t* in, uint32_t n, uint32_t* out) {
  const uint32_t i = threadIdx.x * 4;
  if (i + 4 <= n) {
    *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(in + i);
  }
#ifndef FAULTY
  else {
    for (uint32_t k = i; k < n; ++k) out[k] = in[k];
  }
#endif
}
