// The box reaches beyond the tensor; the copy fills the rest with zeros and counts it, so those elements are written.
// rule: none
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [2, 32], fill = "index"},
  {name = "in_map", tensor_map = "in", box = [32, 4]},
  {name = "out", type = "u32", shape = [2, 32], output = true, expect = "argument:in"},
  {name = "rest", type = "u32", shape = [2, 32], output = true, expect = "zero"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void load(const uint32_t*, const __grid_constant__ TensorMap in_map, uint32_t* out,
                                uint32_t* rest) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, &in_map, 0, 0, &full);
  }
  __syncthreads();
  mbar_wait(&full, 0);
  out[threadIdx.x] = tile[threadIdx.x];
  rest[threadIdx.x] = tile[64 + threadIdx.x];
}
