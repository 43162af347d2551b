// The accumulators are rescaled while wgmma still adds to them; the wait stands behind the multiplications.
// rule: wgmma.in-flight
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "scale", type = "f32", value = 1.0},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

DEVICE void rescale(float (&d)[4], float scale) {
  // In place, so that the compiler cannot move it or use other registers.
  asm volatile("mul.f32 %0, %0, %4; mul.f32 %1, %1, %4; mul.f32 %2, %2, %4; mul.f32 %3, %3, %4;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "f"(scale)
               : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float scale, float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a, b, false);  // OTHER
  wgmma_commit();
#ifndef FAULTY
  wgmma_wait<0>();
  pin(d);
#endif
  rescale(d, scale);  // FAULT
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
