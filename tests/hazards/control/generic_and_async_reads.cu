// A tile that a copy brought is read by threads and, at the same time, by a TMA store. Two reads never conflict,
// whatever their proxies.
// rule: none
/* launch
block = 128
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "copy", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
  {name = "copy_map", tensor_map = "copy", box = [32, 4]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void copy_twice(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t*,
                                      const __grid_constant__ TensorMap copy_map, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &in_map, 0, 0, &full);
  }
  mbar_wait(&full, 0);
  if (threadIdx.x == 96) {
    tma_store(&copy_map, 0, 0, tile);
    bulk_commit();
  }
  out[threadIdx.x] = tile[threadIdx.x];
  if (threadIdx.x == 96) bulk_wait<0>();
}
