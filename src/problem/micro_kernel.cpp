#include "problem/micro_kernel.h"

#include <immintrin.h>

namespace ptxbench::problem {
namespace {

/// The chains' results, [row][column].
struct Sums {
  alignas(32) float value[kMicroRows][kMicroColumns];
};

void multiply_generic(const MicroOperands& operands, Sums& sums) {
  sums = {};
  for (std::int64_t k = 0; k < operands.depth; ++k) {
    const float* b = operands.b + k * operands.pitch_b;
    for (std::int64_t row = 0; row < kMicroRows; ++row) {
      const float a = operands.a[row * operands.pitch_a + k];
      for (std::int64_t column = 0; column < kMicroColumns; ++column) {
        sums.value[row][column] = __builtin_fmaf(a, b[column], sums.value[row][column]);
      }
    }
  }
}

void add_fp64_generic(const MicroOperands& operands, double* c, std::int64_t pitch_c) {
  Sums sums;
  multiply_generic(operands, sums);
  for (std::int64_t row = 0; row < kMicroRows; ++row) {
    for (std::int64_t column = 0; column < kMicroColumns; ++column) {
      c[row * pitch_c + column] += static_cast<double>(sums.value[row][column]);
    }
  }
}

void store_fp32_generic(const MicroOperands& operands, float* c, std::int64_t pitch_c) {
  Sums sums;
  multiply_generic(operands, sums);
  for (std::int64_t row = 0; row < kMicroRows; ++row) {
    for (std::int64_t column = 0; column < kMicroColumns; ++column) {
      c[row * pitch_c + column] = sums.value[row][column];
    }
  }
}

/// Twelve registers of sums, which must be inlined to stay registers.
__attribute__((target("avx2,fma"), always_inline)) inline void multiply_avx2(const MicroOperands& operands,
                                                                             __m256 (&sums)[kMicroRows][2]) {
#pragma GCC unroll 6
  for (int row = 0; row < kMicroRows; ++row) sums[row][0] = sums[row][1] = _mm256_setzero_ps();
  // Two pointers and one pitch reach six rows, and so leave registers to the rest.
  const float* upper = operands.a;
  const float* lower = operands.a + 3 * operands.pitch_a;
  const float* b = operands.b;
  const std::int64_t pitch_a = operands.pitch_a, pitch_b = operands.pitch_b;
  for (std::int64_t k = operands.depth; k > 0; --k, ++upper, ++lower, b += pitch_b) {
    const __m256 low = _mm256_loadu_ps(b);
    const __m256 high = _mm256_loadu_ps(b + 8);
#pragma GCC unroll 6
    for (int row = 0; row < kMicroRows; ++row) {
      const __m256 value = _mm256_broadcast_ss((row < 3 ? upper : lower) + row % 3 * pitch_a);
      sums[row][0] = _mm256_fmadd_ps(value, low, sums[row][0]);
      sums[row][1] = _mm256_fmadd_ps(value, high, sums[row][1]);
    }
  }
}

__attribute__((target("avx2,fma"))) void add_fp64_avx2(const MicroOperands& operands, double* c, std::int64_t pitch_c) {
  __m256 sums[kMicroRows][2];
  multiply_avx2(operands, sums);
#pragma GCC unroll 6
  for (int row = 0; row < kMicroRows; ++row) {
    for (int half = 0; half < 2; ++half) {
      double* place = c + row * pitch_c + half * 8;
      const __m256d first = _mm256_cvtps_pd(_mm256_castps256_ps128(sums[row][half]));
      const __m256d second = _mm256_cvtps_pd(_mm256_extractf128_ps(sums[row][half], 1));
      _mm256_storeu_pd(place, _mm256_add_pd(_mm256_loadu_pd(place), first));
      _mm256_storeu_pd(place + 4, _mm256_add_pd(_mm256_loadu_pd(place + 4), second));
    }
  }
}

__attribute__((target("avx2,fma"))) void store_fp32_avx2(const MicroOperands& operands, float* c,
                                                         std::int64_t pitch_c) {
  __m256 sums[kMicroRows][2];
  multiply_avx2(operands, sums);
#pragma GCC unroll 6
  for (int row = 0; row < kMicroRows; ++row) {
    _mm256_storeu_ps(c + row * pitch_c, sums[row][0]);
    _mm256_storeu_ps(c + row * pitch_c + 8, sums[row][1]);
  }
}

}  // namespace

const MicroKernels& micro_kernels() {
  static const MicroKernels kChosen = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                          ? MicroKernels{add_fp64_avx2, store_fp32_avx2}
                                          : MicroKernels{add_fp64_generic, store_fp32_generic};
  return kChosen;
}

}  // namespace ptxbench::problem
