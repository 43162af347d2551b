// Only three warps of the warpgroup have rows to compute, and the fourth skips wgmma. It is one operation of four
// warps: all must execute it.
// rule: wgmma.partial
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "rows", type = "u32", value = 48},
  {name = "out", type = "f32", shape = [8, 64], fill = "zero", output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             uint32_t rows, float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
#ifdef FAULTY
  if (warp_id() * 16 >= rows) return;
#endif
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a, b, false);
  wgmma_commit();
  wgmma_wait<0>();  // FAULT
  pin(d);
  store_transposed(out, d);
}
