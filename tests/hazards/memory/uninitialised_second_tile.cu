// Two CTAs multiply tiles, each in its own shared memory. Only the first fills them: what its tensor
// cores read says nothing about the second's, whose results are of memory that nobody wrote.
// rule: memory.uninitialised
/* launch
grid = 2
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
#ifdef FAULTY
  if (blockIdx.x == 0)
#endif
  {
    for (uint32_t i = threadIdx.x; i < 64 * 64; i += 128)
      *reinterpret_cast<uint16_t*>(a_tile + swizzled(i / 64, i % 64)) = a[i];
    for (uint32_t i = threadIdx.x; i < 8 * 64; i += 128)
      *reinterpret_cast<uint16_t*>(b_tile + swizzled(i / 64, i % 64)) = b[blockIdx.x * 512 + i];
  }
  fence_async_shared();
  __syncthreads();
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a_tile, b_tile, false);  // OTHER
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out + blockIdx.x * 512, d);  // FAULT
}
