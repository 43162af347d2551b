// The last box reaches beyond the tensor. A copy counts the whole box, zero fill included; announcing only the bytes
// inside leaves the count below zero and the phase never ends. (Were more announced than come, it would not end
// either.)
// rule: sync.deadlock or mbarrier.tx-mismatch
/* launch
block = 32
argument = [
  {name = "in", type = "u32", shape = [6, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [6, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
  }
  __syncwarp();
  for (int i = 0; i < 2; ++i) {
    const uint32_t rows = i == 0 ? 4 : 2;
#ifdef FAULTY
    const uint32_t bytes = rows * 128;
#else
    const uint32_t bytes = sizeof tile;
#endif
    if (lane_id() == 0) {
      mbar_arrive_expect(&full, bytes);
      tma_load(tile, &in_map, 0, 4 * i, &full);
    }
    mbar_wait(&full, i & 1);  // FAULT
    for (uint32_t k = lane_id(); k < rows * 32; k += 32) out[i * 128 + k] = tile[k];
    __syncwarp();
  }
}
