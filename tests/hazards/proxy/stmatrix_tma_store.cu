// The epilogue writes its tile with stmatrix, which is an ordinary store as far as proxies are concerned, and stores it
// by TMA without a proxy fence.
// rule: proxy.async
/* launch
block = 32
argument = [
  {name = "out", type = "u16", shape = [32, 8], output = true, expect = "index"},
  {name = "out_map", tensor_map = "out", box = [8, 32]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void epilogue(uint16_t*, const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(128) uint16_t tile[32][8];
  uint32_t r[4];
  for (uint32_t j = 0; j < 4; ++j) {
    const uint32_t first = (8 * j + lane_id() / 4) * 8 + 2 * (lane_id() % 4);
    r[j] = first | (first + 1) << 16;
  }
  stmatrix_x4(tile[lane_id()], r);  // OTHER
#ifndef FAULTY
  fence_async_shared();
#endif
  __syncwarp();
  if (lane_id() == 0) {
    tma_store(&out_map, 0, 0, tile);  // FAULT
    bulk_commit();
    bulk_wait<0>();
  }
}
