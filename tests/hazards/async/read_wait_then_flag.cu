// The producer waits with .read before it raises the flag for another CTA, so the tile may not have arrived in global
// memory when the flag has.
// rule: async.read-wait
/* launch
grid = 2
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "data", type = "u32", shape = [4, 32]},
  {name = "data_map", tensor_map = "data", box = [32, 4]},
  {name = "flag", type = "u32", shape = [1]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void hand_off(const uint32_t* in, uint32_t* data, const __grid_constant__ TensorMap data_map,
                                    uint32_t* flag, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  if (blockIdx.x == 0) {
    for (uint32_t i = lane_id(); i < 128; i += 32) tile[i] = in[i];
    fence_async_shared();
    __syncwarp();
    if (lane_id() == 0) {
      tma_store(&data_map, 0, 0, tile);  // OTHER
      bulk_commit();
#ifdef FAULTY
      bulk_wait_read<0>();
#else
      bulk_wait<0>();
#endif
      st_release(flag, 1);
      bulk_wait<0>();
    }
    return;
  }
  if (lane_id() == 0) {
    while (ld_acquire(flag) == 0) {
    }
  }
  __syncwarp();
  for (uint32_t i = lane_id(); i < 128; i += 32) out[i] = data[i];  // FAULT
}
