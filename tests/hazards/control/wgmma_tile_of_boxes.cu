// The rows of A come from boxes of two tensors and from ordinary stores: what one descriptor reads need not be one copy's.
// rule: none
/* launch
block = 128
argument = [
  {name = "top", type = "bf16", shape = [16, 64], fill = "value:2"},
  {name = "middle", type = "bf16", shape = [32, 64], fill = "value:2"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "value:1"},
  {name = "top_map", tensor_map = "top", box = [64, 16], swizzle = 128},
  {name = "middle_map", tensor_map = "middle", box = [64, 16], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "value:128"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const void*, const __grid_constant__ TensorMap top_map,
             const __grid_constant__ TensorMap middle_map, const __grid_constant__ TensorMap b_map, float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  constexpr uint32_t kBox = 16 * 128;
  // The last sixteen rows hold the same number everywhere, so that the swizzle does not matter.
  for (uint32_t i = threadIdx.x; i < kBox / 4; i += 128)
    reinterpret_cast<uint32_t*>(a + 3 * kBox)[i] = 0x40004000;
  fence_async_shared();
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    mbar_arrive_expect(&full, 3 * kBox + kTileB);
    tma_load(a, &top_map, 0, 0, &full);
    tma_load(a + kBox, &middle_map, 0, 16, &full);
    tma_load(a + 2 * kBox, &middle_map, 0, 0, &full);
    tma_load(b, &b_map, 0, 0, &full);
  }
  __syncthreads();
  mbar_wait(&full, 0);
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a, b, false);
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
