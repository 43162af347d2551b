// A comes from registers that ordinary instructions have just written; wgmma.fence must stand between them and wgmma.
// rule: wgmma.fence
/* launch
block = 128
argument = [
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "one", type = "u32", value = 16256},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

// Elements (row, k) and (row, k+1) of the identity; 16256 is 1 in bf16.
DEVICE uint32_t identity_pair(uint32_t row, uint32_t k, uint32_t one) {
  return row == k ? one : row == k + 1 ? one << 16 : 0;
}

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const __grid_constant__ TensorMap b_map, uint32_t one, float* out) {
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, kTileB);
    tma_load(b, &b_map, 0, 0, &full);
  }
  __syncthreads();
  mbar_wait(&full, 0);
  const uint32_t row = warp_id() * 16 + lane_id() / 4;
  uint32_t a[4][4];
#pragma unroll
  for (uint32_t step = 0; step < 4; ++step) {
    const uint32_t k = step * 16 + lane_id() % 4 * 2;
    a[step][0] = identity_pair(row, k, one);
    a[step][1] = identity_pair(row + 8, k, one);
    a[step][2] = identity_pair(row, k + 8, one);
    a[step][3] = identity_pair(row + 8, k + 8, one);
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a[step][i])::"memory");
  }
  float d[4];
#ifndef FAULTY
  wgmma_fence();
#endif
#pragma unroll
  for (int step = 0; step < 4; ++step) {
    wgmma_ra(d, a[step], matrix_descriptor(smem(b) + 32 * step), step > 0);  // FAULT
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
