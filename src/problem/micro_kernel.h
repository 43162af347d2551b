#pragma once

#include <cstdint>

// The inner loop of the matrix products that truth is made of.

namespace ptxbench::problem {

constexpr std::int64_t kMicroRows = 6;
constexpr std::int64_t kMicroColumns = 16;

/// a[6][depth] times b[depth][16], both row-major with a pitch in elements.
struct MicroOperands {
  const float* a = nullptr;
  std::int64_t pitch_a = 0;
  const float* b = nullptr;
  std::int64_t pitch_b = 0;
  std::int64_t depth = 0;
};

/// One product of six rows with sixteen columns, each element a single chain of fp32 fused multiply-adds in the order
/// of `depth`, so that the numbers are the same on every machine.
struct MicroKernels {
  /// Adds the product to c[6][16] in fp64.
  void (*add_fp64)(const MicroOperands& operands, double* c, std::int64_t pitch_c);
  /// Stores the product to c[6][16].
  void (*store_fp32)(const MicroOperands& operands, float* c, std::int64_t pitch_c);
};

/// Those for this machine.
const MicroKernels& micro_kernels();

}  // namespace ptxbench::problem
