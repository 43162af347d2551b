// Warp 0 produces and warps 1 to 4 multiply, but a warpgroup starts at a multiple of four warps. The producer must be
// the last warp.
// rule: wgmma.partial
/* launch
block = 160
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

#ifdef FAULTY
constexpr uint32_t kProducer = 0;
#else
constexpr uint32_t kProducer = 4;
#endif

extern "C" __global__ void __launch_bounds__(160)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float* out) {
  __shared__ alignas(1024) uint8_t a[kTileA];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (warp_id() == kProducer) {
    if (lane_id() == 0) {
      mbar_arrive_expect(&full, kTileA + kTileB);
      tma_load(a, &a_map, 0, 0, &full);
      tma_load(b, &b_map, 0, 0, &full);
    }
    return;
  }
  mbar_wait(&full, 0);
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a, b, false);
  wgmma_commit();
  wgmma_wait<0>();  // FAULT
  pin(d);
  store_transposed(out, d);
}
