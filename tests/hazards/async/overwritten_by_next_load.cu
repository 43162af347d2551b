// A buffer is stored to global memory and at once filled by the next load. Both are asynchronous, and nothing makes the
// load wait until the store has read the buffer: wait_group.read does.
// rule: async.overwritten
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [12, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [12, 32], output = true, expect = "argument:in"},
  {name = "out_map", tensor_map = "out", box = [32, 4]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void copy(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t*,
                                const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (lane_id() != 0) return;
  mbar_init(&full, 1);
  fence_async_shared();
  for (int i = 0; i < 3; ++i) {
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &in_map, 0, 4 * i, &full);  // FAULT
    mbar_wait(&full, i & 1);
    tma_store(&out_map, 0, 4 * i, tile);  // OTHER
    bulk_commit();
#ifndef FAULTY
    bulk_wait_read<0>();
#endif
  }
  bulk_wait<0>();
}
