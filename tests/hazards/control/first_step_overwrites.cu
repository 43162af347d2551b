// The accumulators hold what nobody wrote until the first wgmma, which does not use them (scale-d 0, from a register).
// rule: none
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "steps", type = "u32", value = 4},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             uint32_t steps, float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
  float d[4];
  wgmma_fence();
#pragma unroll 1
  for (uint32_t k = 0; k < steps; ++k) {
    wgmma(d, matrix_descriptor(smem(a) + 32 * k), matrix_descriptor(smem(b) + 32 * k), k != 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
