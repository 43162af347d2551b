// A lies transposed (M contiguous) in two boxes of 32 columns under the 64-byte swizzle. The leading offset leads from
// one box to the other; here it is the distance of eight rows, so that other steps of k are read instead.
// rule: wgmma.layout
/* launch
block = 128
argument = [
  {name = "a", type = "bf16", shape = [64, 64], fill = "identity"},
  {name = "b", type = "bf16", shape = [8, 64], fill = "random"},
  {name = "a_map", tensor_map = "a", box = [32, 64], swizzle = 64},
  {name = "b_map", tensor_map = "b", box = [64, 8], swizzle = 128},
  {name = "out", type = "f32", shape = [8, 64], output = true, expect = "argument:b"},
]
*/
#include "../ptx.cuh"

constexpr uint32_t kBox = 64 * 64, kEightRows = 8 * 64;
#ifdef FAULTY
constexpr uint32_t kLeadingOffset = kEightRows;
#else
constexpr uint32_t kLeadingOffset = kBox;
#endif

DEVICE uint64_t transposed_descriptor(uint32_t address) {
  return static_cast<uint64_t>((address & 0x3ffff) >> 4) | uint64_t{kLeadingOffset >> 4} << 16 |
         uint64_t{kEightRows >> 4} << 32 | uint64_t{2} << 62;
}
DEVICE void wgmma_transposed(float (&d)[4], uint64_t a, uint64_t b, int accumulate) {
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %6, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 1, 0;}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "l"(a), "l"(b), "r"(accumulate)
      : "memory");
}

extern "C" __global__ void __launch_bounds__(128)
    multiply(const void*, const void*, const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
             float* out) {
  __shared__ alignas(1024) uint8_t a[2 * kBox];
  __shared__ alignas(1024) uint8_t b[kTileB];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    mbar_init(&full, 1);
    fence_async_shared();
    mbar_arrive_expect(&full, 2 * kBox + kTileB);
    tma_load(a, &a_map, 0, 0, &full);
    tma_load(a + kBox, &a_map, 32, 0, &full);
    tma_load(b, &b_map, 0, 0, &full);
  }
  __syncthreads();
  mbar_wait(&full, 0);
  float d[4];
  wgmma_fence();
  for (int k = 0; k < 4; ++k) {
    const uint64_t a_part = transposed_descriptor(smem(a) + 2 * kEightRows * k);
    wgmma_transposed(d, a_part, matrix_descriptor(smem(b) + 32 * k), k > 0);  // FAULT
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
  store_transposed(out, d);
}
