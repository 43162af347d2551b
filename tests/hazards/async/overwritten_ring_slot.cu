// The consumers of a warp-specialised ring release a slot right after issuing the wgmma that reads it, so the
// producer's next TMA load may overwrite the operand. The release must come after the wgmma wait.
// rule: async.overwritten
/* launch
block = 160
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [48, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [48, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(160)
    ring(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
         float* out) {
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
      for (int i = 0; i < 6; ++i) {
        const int s = i % 2;
        mbar_wait(&empty[s], (i / 2 & 1) ^ 1);
        mbar_arrive_expect(&full[s], kTileB);
        tma_load(b[s], &b_map, 0, 8 * i, &full[s]);  // FAULT
      }
    }
    return;
  }
  mbar_wait(&a_full, 0);
  for (int i = 0; i < 6; ++i) {
    const int s = i % 2;
    mbar_wait(&full[s], i / 2 & 1);
    float d[4];
    wgmma_fence();
    wgmma_tile(d, a, b[s], false);  // OTHER
    wgmma_commit();
#ifdef FAULTY
    if (lane_id() == 0) mbar_arrive(&empty[s]);
#endif
    wgmma_wait<0>();
    pin(d);
#ifndef FAULTY
    if (lane_id() == 0) mbar_arrive(&empty[s]);
#endif
    store_transposed(out + i * 512, d);
  }
}
