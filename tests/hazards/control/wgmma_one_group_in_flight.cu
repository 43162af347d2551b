// The multiplication of tile i overlaps with the release of tile i-1: wait_group 1 says that the older group has read
// its operands. Groups that only add to the same accumulators need no fence in between.
// rule: none
/* launch
block = 160
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [4, 8, 64], fill = "index"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", size = [64, 32], box = [64, 8], swizzle = 128},
  {name = "tile", type = "bf16", shape = [8, 64], fill = "index"},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:tile"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(160)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             const void*, float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[2][kTileB];
  __shared__ uint64_t a_full, full[2], empty[2];
  if (threadIdx.x == 0) {
    mbar_init(&a_full, 1);
    for (int s = 0; s < 2; ++s) {
      mbar_init(&full[s], 1);
      mbar_init(&empty[s], 4);
    }
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp_id() == 4) {
    if (lane_id() == 0) {
      mbar_arrive_expect(&a_full, kTileA);
      tma_load(a, &a_map, 0, 0, &a_full);
      for (int i = 0; i < 4; ++i) {
        mbar_wait(&empty[i % 2], (i / 2 & 1) ^ 1);
        mbar_arrive_expect(&full[i % 2], kTileB);
        tma_load(b[i % 2], &b_map, 0, 8 * i, &full[i % 2]);
      }
    }
    return;
  }
  mbar_wait(&a_full, 0);
  float d[4];
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    mbar_wait(&full[i % 2], i / 2 & 1);
    wgmma_tile(d, a, b[i % 2], i > 0);
    wgmma_commit();
    wgmma_wait<1>();
    if (i > 0 && lane_id() == 0) mbar_arrive(&empty[(i - 1) % 2]);
  }
  wgmma_wait<0>();
  pin(d);
  // The four tiles are equal: 512 elements further on the index is the same modulo 256.
  for (int i = 0; i < 4; ++i) d[i] *= 0.25f;
  store_transposed(out, d);
}
