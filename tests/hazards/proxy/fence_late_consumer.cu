// One warpgroup writes the operands, the other multiplies. The fence is in the multiplying one, after the barrier,
// where it is contested whether it covers the writers' stores.
// rule: proxy.fence-late
/* launch
block = 256
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(256) multiply(const uint16_t* a, const uint16_t* b, float* out) {
  __shared__ alignas(1024) uint8_t a_tile[kTileA];
  __shared__ alignas(1024) uint8_t b_tile[kTileB];
  if (threadIdx.x >= 128) {
    for (uint32_t i = threadIdx.x - 128; i < 64 * 64; i += 128)
      *reinterpret_cast<uint16_t*>(a_tile + swizzled(i / 64, i % 64)) = a[i];  // OTHER
    for (uint32_t i = threadIdx.x - 128; i < 8 * 64; i += 128)
      *reinterpret_cast<uint16_t*>(b_tile + swizzled(i / 64, i % 64)) = b[i];
#ifndef FAULTY
    fence_async_shared();
#endif
    named_arrive(1, 256);
    return;
  }
  named_sync(1, 256);
#ifdef FAULTY
  fence_async_shared();
#endif
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a_tile, b_tile, false);  // FAULT
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
