// The next B tile is stored while the wgmma that reads the previous one is still in flight: the wait stands at the end
// of the loop instead of before the store.
// rule: async.overwritten
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [2, 8, 64], fill = "random"},
  {name = "out", type = "f32", shape = [2, 8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128) multiply(const uint16_t* a, const uint16_t* b, float* out) {
  __shared__ alignas(1024) uint8_t a_tile[kTileA];
  __shared__ alignas(1024) uint8_t b_tile[kTileB];
  for (uint32_t i = threadIdx.x; i < 64 * 64; i += 128)
    *reinterpret_cast<uint16_t*>(a_tile + swizzled(i / 64, i % 64)) = a[i];
  float d[2][4];
#pragma unroll
  for (int tile = 0; tile < 2; ++tile) {
    for (uint32_t i = threadIdx.x; i < 8 * 64; i += 128)
      *reinterpret_cast<uint16_t*>(b_tile + swizzled(i / 64, i % 64)) = b[tile * 512 + i];  // FAULT
    fence_async_shared();
    __syncthreads();
    wgmma_fence();
    wgmma_tile(d[tile], a_tile, b_tile, false);  // OTHER
    wgmma_commit();
#ifndef FAULTY
    wgmma_wait<0>();
    pin(d[tile]);
#endif
    __syncthreads();
  }
  wgmma_wait<0>();
  pin(d[0]);
  pin(d[1]);
  store_transposed(out, d[0]);
  store_transposed(out + 512, d[1]);
}
