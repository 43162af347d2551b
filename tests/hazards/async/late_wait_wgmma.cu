// The multiplication is issued before the wait for its operands (a late wait, as NVIDIA's CUTracer #106 seeds it in a
// GEMM). The wait must come first.
// rule: async.unwaited-read
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [64, 64], swizzle = 128},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

extern "C" __global__ void __launch_bounds__(128)
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
  if (threadIdx.x == 0) {
    mbar_arrive_expect(&full, kTileA + kTileB);
    tma_load(a, &a_map, 0, 0, &full);
    tma_load(b, &b_map, 0, 0, &full);  // OTHER
  }
#ifndef FAULTY
  mbar_wait(&full, 0);
#endif
  __syncwarp();
  float d[4];
  wgmma_fence();
  wgmma_tile(d, a, b, false);  // FAULT
  wgmma_commit();
#ifdef FAULTY
  mbar_wait(&full, 0);
#endif
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
