// The start address goes into the matrix descriptor in bytes; the field counts units of 16 bytes, so the tensor cores
// read far behind the tile.
// rule: memory.out-of-bounds
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

extern "C" __global__ void __launch_bounds__(128)
    tile(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
  float d[4];
  wgmma_fence();
#pragma unroll
  for (int k = 0; k < 4; ++k) {
#ifdef FAULTY
    const uint64_t a_tile = matrix_descriptor(smem(a) * 16 + 32 * k);
#else
    const uint64_t a_tile = matrix_descriptor(smem(a) + 32 * k);
#endif
    wgmma(d, a_tile, matrix_descriptor(smem(b) + 32 * k), k > 0);  // FAULT
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
