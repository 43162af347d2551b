// A 16-byte load from an address that is only a multiple of four bytes. Elements from an unaligned start are loaded one
// by one.
// rule: memory.misaligned
/* launch
block = 16
argument = [
  {name = "in", type = "f32", shape = [68], fill = "value:2"},
  {name = "start", type = "u32", value = 1},
  {name = "out", type = "f32", shape = [64], output = true, expect = "value:2"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void copy4(const float* in, uint32_t start, float* out) {
  const float* from = in + start + threadIdx.x * 4;
  float4* to = reinterpret_cast<float4*>(out) + threadIdx.x;
#ifdef FAULTY
  *to = *reinterpret_cast<const float4*>(from);  // FAULT
#else
  *to = make_float4(from[0], from[1], from[2], from[3]);
#endif
}
