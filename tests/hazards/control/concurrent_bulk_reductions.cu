// Eight warps of two CTAs add their rows to the same elements by bulk reductions. Reductions are atomic element by
// element and need no order among themselves.
// rule: none
/* launch
grid = 2
block = 128
argument = [
  {name = "in", type = "u32", shape = [8, 32], fill = "value:3"},
  {name = "out", type = "u32", shape = [32], fill = "zero", output = true, expect = "value:24"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void sum_rows(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t rows[4][32];
  rows[warp_id()][lane_id()] = in[blockIdx.x * 128 + threadIdx.x];
  fence_async_shared();
  __syncwarp();
  if (lane_id() == 0) {
    bulk_reduce_add(out, rows[warp_id()], 128);
    bulk_commit();
    bulk_wait<0>();
  }
}
