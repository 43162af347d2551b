// After the wgmma wait one thread of the warpgroup releases the slot for all four warps, as CUTLASS does: on hardware a
// warp's wait does not return before the whole operation is complete. Accepted practice rather than the letter of the
// ISA.
// rule: none
/* launch
block = 160
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [32, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [32, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(160)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t a_full, full, empty;
  if (threadIdx.x == 0) {
    mbar_init(&a_full, 1);
    mbar_init(&full, 1);
    mbar_init(&empty, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp_id() == 4) {
    if (lane_id() == 0) {
      mbar_arrive_expect(&a_full, kTileA);
      tma_load(a, &a_map, 0, 0, &a_full);
      for (int i = 0; i < 4; ++i) {
        mbar_wait(&empty, (i & 1) ^ 1);
        mbar_arrive_expect(&full, kTileB);
        tma_load(b, &b_map, 0, 8 * i, &full);
      }
    }
    return;
  }
  mbar_wait(&a_full, 0);
  for (int i = 0; i < 4; ++i) {
    mbar_wait(&full, i & 1);
    float d[4];
    wgmma_fence();
    wgmma_tile(d, a, b, false);
    wgmma_commit();
    wgmma_wait<0>();
    pin(d);
    if (threadIdx.x == 0) mbar_arrive(&empty);
    store_transposed(out + i * 512, d);
  }
}
