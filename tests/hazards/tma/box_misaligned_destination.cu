// The destination of a tensor copy must be a multiple of 128 bytes; behind a 64-byte header it is not.
// rule: tma.box
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

struct Storage {
  uint64_t full[8];
#ifndef FAULTY
  alignas(128)
#endif
      uint32_t tile[128];
};

extern "C" __global__ void load(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out) {
  __shared__ alignas(128) Storage storage;
  if (lane_id() == 0) {
    mbar_init(&storage.full[0], 1);
    fence_async_shared();
    mbar_arrive_expect(&storage.full[0], sizeof storage.tile);
    tma_load(storage.tile, &in_map, 0, 0, &storage.full[0]);  // FAULT
  }
  __syncwarp();
  mbar_wait(&storage.full[0], 0);
  for (uint32_t i = lane_id(); i < 128; i += 32) out[i] = storage.tile[i];
}
