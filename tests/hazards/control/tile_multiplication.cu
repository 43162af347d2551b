// The usual Hopper tile from end to end: TMA loads in a ring, wgmma, accumulators into shared memory, a fence by each
// writer, a named barrier of the consumers, one TMA store whose buffer is reused after wait_group.read.
// rule: none
/* launch
block = 160
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [40, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [40, 64], output = true, expect = "argument:b"},
  {name = "out_map", tensor_map = "out", box = [64, 8]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(160)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float*, const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[2][kTileB];
  __shared__ alignas(128) float result[8 * 64];
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
      for (int i = 0; i < 5; ++i) {
        mbar_wait(&empty[i % 2], (i / 2 & 1) ^ 1);
        mbar_arrive_expect(&full[i % 2], kTileB);
        tma_load(b[i % 2], &b_map, 0, 8 * i, &full[i % 2]);
      }
    }
    return;
  }
  mbar_wait(&a_full, 0);
  for (int i = 0; i < 5; ++i) {
    mbar_wait(&full[i % 2], i / 2 & 1);
    float d[4];
    wgmma_fence();
    wgmma_tile(d, a, b[i % 2], false);
    wgmma_commit();
    wgmma_wait<0>();
    pin(d);
    if (lane_id() == 0) mbar_arrive(&empty[i % 2]);
    if (threadIdx.x == 0) bulk_wait_read<0>();
    named_sync(1, 128);
    store_transposed(result, d);
    fence_async_shared();
    named_sync(1, 128);
    if (threadIdx.x == 0) {
      tma_store(&out_map, 0, 8 * i, result);
      bulk_commit();
    }
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}
