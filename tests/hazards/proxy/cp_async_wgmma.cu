// cp.async (not bulk) writes through the generic proxy. Waiting for it and a block barrier are not enough before wgmma
// reads the tile: fence.proxy.async is needed after the wait.
// rule: proxy.async
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128) multiply(const uint16_t* a, const uint16_t* b, float* out) {
  __shared__ alignas(1024) uint8_t a_tile[kTileA];
  __shared__ alignas(1024) uint8_t b_tile[kTileB];
  for (uint32_t i = threadIdx.x; i < 64 * 8; i += 128)
    cp_async16(a_tile + swizzled(i / 8, i % 8 * 8), a + i * 8);  // OTHER
  if (threadIdx.x < 64) cp_async16(b_tile + swizzled(threadIdx.x / 8, threadIdx.x % 8 * 8), b + threadIdx.x * 8);
  cp_async_commit();
  cp_async_wait<0>();
#ifndef FAULTY
  fence_async_shared();
#endif
  __syncthreads();
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a_tile, b_tile, false);  // FAULT
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
