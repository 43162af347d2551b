// Between two groups the accumulators are rescaled, as an online softmax does. The second group needs a wgmma.fence of
// its own.
// rule: wgmma.fence
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

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float scale, float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
  float d[4];
  wgmma_fence();
  wgmma(d, matrix_descriptor(smem(a)), matrix_descriptor(smem(b)), 0);
  wgmma(d, matrix_descriptor(smem(a) + 32), matrix_descriptor(smem(b) + 32), 1);
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
#pragma unroll
  for (int i = 0; i < 4; ++i) d[i] *= scale;
  pin(d);
#ifndef FAULTY
  wgmma_fence();
#endif
  wgmma(d, matrix_descriptor(smem(a) + 64), matrix_descriptor(smem(b) + 64), 1);  // FAULT
  wgmma(d, matrix_descriptor(smem(a) + 96), matrix_descriptor(smem(b) + 96), 1);
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
