// Every wgmma helper: n from 8 to 256, all types, A from shared memory and from registers, K-major and, for 16-bit
// types, MN-major. Small integers, so that every sum is exact.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <type_traits>

#include "swizzle.cuh"
#include "testing.cuh"
#include "wgmma_all.cuh"

namespace {

struct Bf16 {
  using Element = __nv_bfloat16;
  using Sum = float;
  static constexpr const char* kName = "bf16";
};
struct F16 {
  using Element = __half;
  using Sum = float;
  static constexpr const char* kName = "f16";
};
struct Tf32 {
  using Element = float;
  using Sum = float;
  static constexpr const char* kName = "tf32";
};
struct E4m3 {
  using Element = __nv_fp8_e4m3;
  using Sum = float;
  static constexpr const char* kName = "e4m3";
};
struct E5m2 {
  using Element = __nv_fp8_e5m2;
  using Sum = float;
  static constexpr const char* kName = "e5m2";
};
struct Mixed43 : E4m3 {
  using ElementB = __nv_fp8_e5m2;
  static constexpr const char* kName = "e4m3_e5m2";
};
struct Mixed52 : E5m2 {
  using ElementB = __nv_fp8_e4m3;
  static constexpr const char* kName = "e5m2_e4m3";
};
struct S8 {
  using Element = int8_t;
  using Sum = int32_t;
  static constexpr const char* kName = "s8";
};
struct U8 {
  using Element = uint8_t;
  using Sum = int32_t;
  static constexpr const char* kName = "u8";
};
template <class T, class = void>
struct OperandB {
  using Type = typename T::Element;
};
template <class T>
struct OperandB<T, std::void_t<typename T::ElementB>> {
  using Type = typename T::ElementB;
};

template <class T>
__host__ __device__ constexpr bool has_shape(int n) {
  return std::is_same_v<typename T::Sum, float> || n == 8 || n == 24 || n % 16 == 0;
}

template <class T, int kTransA, int kTransB, class Sum, int kCount>
DEVICE void multiply(Sum (&d)[kCount], uint64_t a, uint64_t b, bool accumulate) {
  if constexpr (std::is_same_v<T, Bf16>) wgmma_bf16<kTransA, kTransB>(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, F16>) wgmma_f16<kTransA, kTransB>(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, Tf32>) wgmma_tf32(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, E4m3>) wgmma_e4m3(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, E5m2>) wgmma_e5m2(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, Mixed43>) wgmma_e4m3_e5m2(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, Mixed52>) wgmma_e5m2_e4m3(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, S8>) wgmma_s8(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, U8>) wgmma_u8(d, a, b, accumulate);
}
template <class T, int kTransB, class Sum, int kCount>
DEVICE void multiply_rs(Sum (&d)[kCount], const uint32_t* a, uint64_t b, bool accumulate) {
  if constexpr (std::is_same_v<T, Bf16>) wgmma_bf16_rs<kTransB>(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, F16>) wgmma_f16_rs<kTransB>(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, Tf32>) wgmma_tf32_rs(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, E4m3>) wgmma_e4m3_rs(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, E5m2>) wgmma_e5m2_rs(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, Mixed43>) wgmma_e4m3_e5m2_rs(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, Mixed52>) wgmma_e5m2_e4m3_rs(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, S8>) wgmma_s8_rs(d, a, b, accumulate);
  if constexpr (std::is_same_v<T, U8>) wgmma_u8_rs(d, a, b, accumulate);
}

// d = A B and then d += A B, both operands K-major rows of 32 bytes under the 32-byte swizzle: one step of any type.
template <class T, int kCols>
DEVICE void product(typename T::Sum* out, uint32_t a, uint32_t b, const uint32_t* fragment) {
  typename T::Sum d[kCols / 2] = {};
  pin(d);
  wgmma_fence();
  multiply<T, 0, 0>(d, descriptor_k<32>(a), descriptor_k<32>(b), false);
  multiply_rs<T, 0>(d, fragment, descriptor_k<32>(b), true);
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
#pragma unroll
  for (int i = 0; i < kCols / 2; ++i) out[accumulator_row(i) * kCols + accumulator_col(i)] = d[i];
}

// `a` is 64 rows of 32 bytes, `b` is `cols` such rows. Shared memory gets them under the swizzle.
template <class T>
__global__ void __launch_bounds__(128) shapes(const uint32_t* a, const uint32_t* b, typename T::Sum* out, int cols) {
  __shared__ alignas(256) uint8_t a_tile[64 * 32];
  __shared__ alignas(256) uint8_t b_tile[256 * 32];
  for (uint32_t i = threadIdx.x; i < 64 * 8; i += 128) *reinterpret_cast<uint32_t*>(a_tile + swizzle<32>(4 * i)) = a[i];
  for (uint32_t i = threadIdx.x; i < 256 * 8; i += 128) {
    if (i < 8u * cols) *reinterpret_cast<uint32_t*>(b_tile + swizzle<32>(4 * i)) = b[i];
  }
  // The operand fragment of every type: 4 bytes each of rows r and r + 8, in the first and the second 16 bytes.
  const uint32_t* own = a + (threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4) * 8 + threadIdx.x % 4;
  const uint32_t fragment[4] = {own[0], own[8 * 8], own[4], own[8 * 8 + 4]};
  fence_async_shared();
  __syncthreads();
#define CASE(n)                                                                                 \
  case n:                                                                                       \
    if constexpr (has_shape<T>(n)) product<T, n>(out, smem(a_tile), smem(b_tile), fragment); \
    break;
  switch (cols) {
    CASE(8) CASE(16) CASE(24) CASE(32) CASE(40) CASE(48) CASE(56) CASE(64)
    CASE(72) CASE(80) CASE(88) CASE(96) CASE(104) CASE(112) CASE(120) CASE(128)
    CASE(136) CASE(144) CASE(152) CASE(160) CASE(168) CASE(176) CASE(184) CASE(192)
    CASE(200) CASE(208) CASE(216) CASE(224) CASE(232) CASE(240) CASE(248) CASE(256)
    default:
      break;
  }
}

int small(uint32_t i) { return static_cast<int>(i * 2654435761u >> 29); }  // 0 .. 7

template <class T>
void test_type() {
  using A = typename T::Element;
  using B = typename OperandB<T>::Type;
  constexpr int kK = 32 / static_cast<int>(sizeof(A));
  std::vector<A> a(64 * kK);
  std::vector<B> b(256 * kK);
  std::vector<int> a_values(a.size()), b_values(b.size());
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<A>(static_cast<float>(a_values[i] = small(i) % 5));
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<B>(static_cast<float>(b_values[i] = small(i + 7777) % 5));
  const testing::Buffer<A> a_device(a);
  const testing::Buffer<B> b_device(b);
  for (int cols = 8; cols <= 256; cols += 8) {
    if (!has_shape<T>(cols)) continue;
    const testing::Buffer<typename T::Sum> out(std::vector<typename T::Sum>(64 * cols));
    shapes<T><<<1, 128>>>(reinterpret_cast<const uint32_t*>(a_device.get()),
                          reinterpret_cast<const uint32_t*>(b_device.get()), out.get(), cols);
    check(cudaGetLastError(), "launch");
    const auto got = out.read();
    for (int row = 0; row < 64; ++row) {
      for (int col = 0; col < cols; ++col) {
        int sum = 0;
        for (int k = 0; k < kK; ++k) sum += a_values[row * kK + k] * b_values[col * kK + k];
        testing::expect(static_cast<int>(got[row * cols + col]) == 2 * sum,
                        std::string(T::kName) + " n=" + std::to_string(cols) + " at " + std::to_string(row) + "," +
                            std::to_string(col));
      }
    }
  }
}

// Layouts of 16-bit operands: K = 64, A [64,64] and B [128,64], each K-major or MN-major, under each swizzle.
template <uint32_t kSpan, int kTransA, int kTransB>
__global__ void __launch_bounds__(128) layouts(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) {
  constexpr uint32_t kCols = kSpan / 2;  // elements in a row of a tile
  __shared__ alignas(1024) uint8_t a_tile[64 * 128];
  __shared__ alignas(1024) uint8_t b_tile[128 * 128];
  const auto place = [](uint32_t mn, uint32_t k, uint32_t rows_mn, bool transposed) {
    const uint32_t row = transposed ? k : mn, col = transposed ? mn : k;
    const uint32_t rows = transposed ? 64 : rows_mn;
    return col / kCols * rows * kSpan + swizzled_offset<kSpan>(row, col % kCols, 2);
  };
  for (uint32_t i = threadIdx.x; i < 64 * 64; i += 128) {
    *reinterpret_cast<__nv_bfloat16*>(a_tile + place(i / 64, i % 64, 64, kTransA)) = a[i];
  }
  for (uint32_t i = threadIdx.x; i < 128 * 64; i += 128) {
    *reinterpret_cast<__nv_bfloat16*>(b_tile + place(i / 64, i % 64, 128, kTransB)) = b[i];
  }
  fence_async_shared();
  __syncthreads();
  float d[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) d[i] = 0.0f;
  pin(d);
  wgmma_fence();
#pragma unroll
  for (uint32_t k = 0; k < 64; k += 16) {
    const uint64_t a_matrix = kTransA ? descriptor_mn<kSpan>(smem(a_tile), 64 * kSpan) + k / 16 * kSpan
                                      : descriptor_k<kSpan>(smem(a_tile) + k / kCols * 64 * kSpan) + k % kCols / 16 * 2;
    const uint64_t b_matrix = kTransB
                                  ? descriptor_mn<kSpan>(smem(b_tile), 64 * kSpan) + k / 16 * kSpan
                                  : descriptor_k<kSpan>(smem(b_tile) + k / kCols * 128 * kSpan) + k % kCols / 16 * 2;
    wgmma_bf16<kTransA, kTransB>(d, a_matrix, b_matrix, k != 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
#pragma unroll
  for (int i = 0; i < 64; ++i) out[accumulator_row(i) * 128 + accumulator_col(i)] = d[i];
}

// No swizzle, K-major: core matrices of 8 rows and 16 bytes, one after the other along K, then along M or N.
__global__ void __launch_bounds__(128) plain_layout(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) {
  __shared__ alignas(128) uint8_t a_tile[64 * 128];
  __shared__ alignas(128) uint8_t b_tile[128 * 128];
  const auto place = [](uint32_t mn, uint32_t k) { return mn / 8 * 1024 + k / 8 * 128 + mn % 8 * 16 + k % 8 * 2; };
  for (uint32_t i = threadIdx.x; i < 64 * 64; i += 128) {
    *reinterpret_cast<__nv_bfloat16*>(a_tile + place(i / 64, i % 64)) = a[i];
  }
  for (uint32_t i = threadIdx.x; i < 128 * 64; i += 128) {
    *reinterpret_cast<__nv_bfloat16*>(b_tile + place(i / 64, i % 64)) = b[i];
  }
  fence_async_shared();
  __syncthreads();
  float d[64];
#pragma unroll
  for (int i = 0; i < 64; ++i) d[i] = 0.0f;
  pin(d);
  wgmma_fence();
#pragma unroll
  for (uint32_t k = 0; k < 64; k += 16) {
    wgmma_bf16(d, wgmma_descriptor<0>(smem(a_tile) + k / 8 * 128, 128, 1024),
               wgmma_descriptor<0>(smem(b_tile) + k / 8 * 128, 128, 1024), k != 0);
  }
  wgmma_commit();
  wgmma_wait<0>();
  pin(d);
#pragma unroll
  for (int i = 0; i < 64; ++i) out[accumulator_row(i) * 128 + accumulator_col(i)] = d[i];
}

void test_layout(const char* name, void (*kernel)(const __nv_bfloat16*, const __nv_bfloat16*, float*)) {
  testing::run(name, [&] {
    std::vector<__nv_bfloat16> a(64 * 64), b(128 * 64);
    std::vector<int> a_values(a.size()), b_values(b.size());
    for (size_t i = 0; i < a.size(); ++i) a[i] = __float2bfloat16(static_cast<float>(a_values[i] = small(i)));
    for (size_t i = 0; i < b.size(); ++i) b[i] = __float2bfloat16(static_cast<float>(b_values[i] = small(i + 999)));
    const testing::Buffer<__nv_bfloat16> a_device(a), b_device(b);
    const testing::Buffer<float> out(std::vector<float>(64 * 128));
    kernel<<<1, 128>>>(a_device.get(), b_device.get(), out.get());
    check(cudaGetLastError(), "launch");
    const auto got = out.read();
    for (int row = 0; row < 64; ++row) {
      for (int col = 0; col < 128; ++col) {
        int sum = 0;
        for (int k = 0; k < 64; ++k) sum += a_values[row * 64 + k] * b_values[col * 64 + k];
        testing::expect(static_cast<int>(got[row * 128 + col]) == sum,
                        std::string(name) + " at " + std::to_string(row) + "," + std::to_string(col));
      }
    }
  });
}

}  // namespace

int main(int count, char** words) {
  testing::read_arguments(count, words);
  testing::run("bf16", test_type<Bf16>);
  testing::run("f16", test_type<F16>);
  testing::run("tf32", test_type<Tf32>);
  testing::run("e4m3", test_type<E4m3>);
  testing::run("e5m2", test_type<E5m2>);
  testing::run("e4m3_e5m2", test_type<Mixed43>);
  testing::run("e5m2_e4m3", test_type<Mixed52>);
  testing::run("s8", test_type<S8>);
  testing::run("u8", test_type<U8>);
  test_layout("layout_128_kk", layouts<128, 0, 0>);
  test_layout("layout_128_km", layouts<128, 0, 1>);
  test_layout("layout_128_mk", layouts<128, 1, 0>);
  test_layout("layout_128_mm", layouts<128, 1, 1>);
  test_layout("layout_64_kk", layouts<64, 0, 0>);
  test_layout("layout_64_mm", layouts<64, 1, 1>);
  test_layout("layout_32_kk", layouts<32, 0, 0>);
  test_layout("layout_32_mm", layouts<32, 1, 1>);
  test_layout("layout_plain", plain_layout);
  return testing::result();
}
