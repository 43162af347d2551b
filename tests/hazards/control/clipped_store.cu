// The last rows of the box lie outside the tensor: nobody wrote them, and the store clips them, so they are not used.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [6, 32], fill = "index"},
  {name = "out", type = "u32", shape = [6, 32], output = true, expect = "argument:in"},
  {name = "out_map", tensor_map = "out", box = [32, 8]},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void store_rows(const uint32_t* in, uint32_t*, const __grid_constant__ TensorMap out_map) {
  __shared__ alignas(128) uint32_t tile[8][32];
  for (uint32_t i = threadIdx.x; i < 6 * 32; i += 64) tile[i / 32][i % 32] = in[i];
  fence_async_shared();
  __syncthreads();
  if (threadIdx.x == 0) {
    tma_store(&out_map, 0, 0, tile);
    bulk_commit();
    bulk_wait<0>();
  }
}
