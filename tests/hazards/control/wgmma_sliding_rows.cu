// A convolution along the rows: one tile of 72 rows serves eight taps, each of which reads 64 rows that start one row
// further down. Start addresses amid the pattern of the swizzle are fine: its XOR takes absolute addresses.
// rule: none
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [72, 64], fill = "value:1"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "value:1"},
  {name = "a_map", tensor_map = "a", box = [64, 72], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "value:512"},
]
*/
#include "../ptx.cuh"

constexpr uint32_t kTaps = 8, kTall = 72 * 128;

extern "C" __global__ void __launch_bounds__(128)
    convolve(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float* out) {
  __shared__ alignas(1024) uint8_t a[kTall];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, kTall + kTileB);
    tma_load(a, &a_map, 0, 0, &full);
    tma_load(b, &b_map, 0, 0, &full);
  }
  __syncthreads();
  mbar_wait(&full, 0);
  float d[4];
  wgmma_fence();
  for (uint32_t tap = 0; tap < kTaps; ++tap) {
    for (int k = 0; k < 4; ++k) {
      const uint64_t a_part = matrix_descriptor(smem(a) + 128 * tap + 32 * k);
      wgmma(d, a_part, matrix_descriptor(smem(b) + 32 * k), tap > 0 || k > 0);
    }
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
