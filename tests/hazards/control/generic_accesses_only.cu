// cp.async, ordinary stores, ldmatrix and mma.sync all work through the generic proxy: barriers are enough (the proxy
// fences that flash-attention #2718 and #2719 removed were not needed).
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [2, 32, 4], fill = "index"},
  {name = "out", type = "u32", shape = [2, 4, 32], output = true, expect = "argument:expected"},
  {name = "expected", type = "u32", shape = [2, 4, 32], fill = "index"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void fragments(const uint32_t* in, uint32_t* out, const uint32_t*) {
  __shared__ alignas(16) uint32_t tile[2][32][4];
  cp_async16(tile[warp_id()][lane_id()], in + threadIdx.x * 4);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();
  uint32_t r[4];
  const uint32_t other = warp_id() ^ 1;
  ldmatrix_x4(r, tile[other][lane_id()]);
  // Lane l gets word l % 4 of row l / 4 of each of the four matrices, which is in order.
  for (uint32_t i = 0; i < 4; ++i) out[other * 128 + i * 32 + lane_id()] = r[i];
}
