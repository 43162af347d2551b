// The result tile is stored over the operands once all warps have waited for their wgmma and met at a barrier. An
// asynchronous read before a generic write needs the completion wait and no proxy fence.
// rule: none
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
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  load_tiles(a, b, &full, &a_map, &b_map);
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a, b, false);
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  __syncthreads();
  float* result = reinterpret_cast<float*>(a);
  store_transposed(result, d);
  fence_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(out, result, 8 * 64 * 4);
    bulk_commit();
    bulk_wait<0>();
  }
}
