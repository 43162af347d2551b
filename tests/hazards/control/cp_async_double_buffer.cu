// A double-buffered cp.async loop that commits a group in every round, also where nothing is left to copy, so that
// wait_group 1 always means the tile about to be read.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 256], fill = "index"},
  {name = "out", type = "u32", shape = [4, 256], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void double_buffered(const uint32_t* in, uint32_t* out) {
  __shared__ alignas(16) uint32_t tiles[2][256];
  cp_async16(&tiles[0][threadIdx.x * 4], &in[threadIdx.x * 4]);
  cp_async_commit();
  for (int i = 0; i < 4; ++i) {
    if (i < 3) cp_async16(&tiles[(i + 1) % 2][threadIdx.x * 4], &in[(i + 1) * 256 + threadIdx.x * 4]);
    cp_async_commit();
    cp_async_wait<1>();
    __syncthreads();
    for (uint32_t k = threadIdx.x; k < 256; k += 64) out[i * 256 + k] = tiles[i % 2][k];
    __syncthreads();
  }
}
