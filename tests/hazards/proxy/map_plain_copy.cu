// A tensor map is copied into global memory with ordinary stores and used after a block barrier only. The tensor-map
// proxy needs a release by the writer and an acquire by the user.
// rule: proxy.tensor-map
/* launch
block = 64
argument = [
  {name = "in", type = "u32", shape = [4, 32], fill = "index"},
  {name = "map", tensor_map = "in", box = [32, 4]},
  {name = "workspace", type = "u8", shape = [128]},
  {name = "out", type = "u32", shape = [4, 32], output = true, expect = "argument:in"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void copy_map(const uint32_t*, const __grid_constant__ TensorMap map, TensorMap* workspace,
                                    uint32_t* out) {
  __shared__ alignas(128) uint32_t tile[128];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
    for (int i = 0; i < 16; ++i) workspace->words[i] = map.words[i];  // OTHER
#ifndef FAULTY
    fence_map_release();
#endif
  }
  __syncthreads();
  if (threadIdx.x == 32) {
#ifndef FAULTY
    fence_map_acquire(workspace);
#endif
    mbar_arrive_expect(&full, sizeof tile);
    tma_load(tile, workspace, 0, 0, &full);  // FAULT
  }
  mbar_wait(&full, 0);
  for (uint32_t i = threadIdx.x; i < 128; i += 64) out[i] = tile[i];
}
