// Lanes without a column to store return before wgmma. It needs all lanes; the guard belongs around the stores.
// rule: wgmma.divergent
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "index"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "columns", type = "u32", value = 6},
  {name = "out", type = "f32", shape = [6, 64], output = true, expect = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             uint32_t columns, float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
  const bool has_columns = lane_id() % 4 * 2 < columns;
#ifdef FAULTY
  if (!has_columns) return;
#endif
  float d[4];
  wgmma_fence();  // FAULT
  wgmma_tile(d, a, b, false);
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  // Elements beyond 255 are not exact in bf16 as an index, so the rows wrap around.
  const uint32_t n = lane_id() % 4 * 2;
  const float wrap = n >= 4 ? 256.0f : 0.0f;
  for (int i = 0; i < 4; ++i) d[i] += wrap;
  if (has_columns) store_transposed(out, d);
}
