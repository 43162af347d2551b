// A k-step of 16 elements of two bytes is 32 bytes further on; the loop advances by 64, beyond the 128-byte row and at
// last beyond the tile.
// rule: wgmma.layout
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

#ifdef FAULTY
constexpr uint32_t kStepBytes = 64;
#else
constexpr uint32_t kStepBytes = 32;
#endif

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float* out) {
  // B first: what lies behind it exists, so nothing but the layout is wrong.
  __shared__ alignas(1024) uint8_t tiles[kTileB + kTileA + 1024];
  __shared__ uint64_t full;
  uint8_t* b = tiles;
  uint8_t* a = tiles + kTileB;
  load_tiles(a, b, &full, &a_map, &b_map);
  float d[4];
  wgmma_fence();
  for (int k = 0; k < 4; ++k) {
    const uint64_t a_part = matrix_descriptor(smem(a) + kStepBytes * k);
    wgmma(d, a_part, matrix_descriptor(smem(b) + kStepBytes * k), k > 0);  // FAULT
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
