// Operands are written to shared memory by ordinary stores (as a kernel that converts or gathers them does) and read by
// wgmma, which works through the async proxy (the class of tile-ai/tilelang #2634 and sgl-project/sglang #39124). The
// writers need fence.proxy.async before the barrier.
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
  for (uint32_t i = threadIdx.x; i < 64 * 64; i += 128)
    *reinterpret_cast<uint16_t*>(a_tile + swizzled(i / 64, i % 64)) = a[i];  // OTHER
  for (uint32_t i = threadIdx.x; i < 8 * 64; i += 128)
    *reinterpret_cast<uint16_t*>(b_tile + swizzled(i / 64, i % 64)) = b[i];
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
