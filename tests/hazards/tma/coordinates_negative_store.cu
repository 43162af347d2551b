// A load may start before the tensor's first row, a store may not. The store must begin at row 0, where the output is.
// rule: tma.coordinates
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
  {name = "out_map", tensor_map = "out", box = [32, 4]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void shift(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t*,
                                 const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(128) uint32_t tile[2][128];
  __shared__ uint64_t full;
  if (lane_id() != 0) return;
  mbar_init(&full, 1);
  fence_async_shared();
  mbar_arrive_expect(&full, sizeof tile);
  tma_load(tile[0], &in_map, 0, -1, &full);
  tma_load(tile[1], &in_map, 0, 0, &full);
  mbar_wait(&full, 0);
#ifdef FAULTY
  tma_store(&out_map, 0, -1, tile[0]);  // FAULT
#else
  tma_store(&out_map, 0, 0, tile[1]);
#endif
  bulk_commit();
  bulk_wait<0>();
}
