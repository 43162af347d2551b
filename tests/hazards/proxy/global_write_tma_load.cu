// One CTA writes global memory with ordinary stores and raises a flag, another loads the data by TMA (the class of
// flashinfer #3361, there between dependent kernels). Release and acquire order the threads; the proxies need
// fence.proxy.async.global after the writes.
// rule: proxy.async
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
  __shared__ uint64_t full;
  if (blockIdx.x == 0) {
    for (uint32_t i = lane_id(); i < 128; i += 32) data[i] = in[i];  // OTHER
#ifndef FAULTY
    fence_async_global();
#endif
    __syncwarp();
    if (lane_id() == 0) st_release(flag, 1);
    return;
  }
  if (lane_id() == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    while (ld_acquire(flag) == 0) {
    }
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &data_map, 0, 0, &full);  // FAULT
  }
  __syncwarp();
  mbar_wait(&full, 0);
  for (uint32_t i = lane_id(); i < 128; i += 32) out[i] = tile[i];
}
