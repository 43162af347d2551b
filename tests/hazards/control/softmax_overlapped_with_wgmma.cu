// While the second product is in flight, the threads work on the accumulators of the first, which are complete:
// wait_group 1 leaves only the younger group.
// rule: none
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "first", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
  {name = "second", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float* first, float* second) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
  float d0[4], d1[4];
  wgmma_fence();
  wgmma_tile(d0, a, b, false);
  wgmma_commit();
  wgmma_fence();
  wgmma_tile(d1, a, b, false);
  wgmma_commit();
  wgmma_wait<1>();
  pin(d0);
  for (int i = 0; i < 4; ++i) d0[i] = d0[i] * 2.0f - d0[i];
  store_transposed(first, d0);
  wgmma_wait<0>();
  pin(d1);
  store_transposed(second, d1);
}
