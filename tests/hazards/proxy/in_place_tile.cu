// A tile is loaded by TMA, changed in place by the threads and stored by TMA. The wait covers the way from the load to
// the threads; the way from their stores to the TMA store needs a proxy fence.
// rule: proxy.async or proxy.fence-early
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [12, 32], fill = "value:41"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [12, 32], output = true, expect = "value:42"},
  {name = "out_map", tensor_map = "out", box = [32, 4]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void add_one(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t*,
                                   const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(128) uint32_t tiles[3][128];
  __shared__ uint64_t full[3];
  if (threadIdx.x == 0) {
    for (int i = 0; i < 3; ++i) mbar_init(&full[i], 1);
    fence_async_shared();
  }
  for (int i = 0; i < 3; ++i) {
    if (threadIdx.x == 0) {
      mbar_arrive_expect(&full[i], sizeof tiles[i]);
      tma_load(tiles[i], &in_map, 0, 4 * i, &full[i]);
    }
    __syncthreads();
    mbar_wait(&full[i], 0);
    tiles[i][threadIdx.x] += 1;  // OTHER
#ifndef FAULTY
    fence_async_shared();
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
      tma_store(&out_map, 0, 4 * i, tiles[i]);  // FAULT
      bulk_commit();
    }
  }
  if (threadIdx.x == 0) bulk_wait<0>();
}
