#pragma once

#include "emulator/tensor/mma_types.h"

#include <cstddef>
#include <cstdint>

namespace ptxbench::emulator {

// Operands are packed once per batch into 32-bit words that the kernels multiply lane by lane. A word is one f32 (all
// floating types, exactly) or two s16 of consecutive k (8-bit integers). A kernel lane is a thread of the warp in the
// accumulator fragment: lane 4*g+t holds row g of its half and column 2t + parity of its group of eight columns.
//
//   packed A of a warp: a[half][word][lane]        row 8*half + lane/4; the four lanes of a row hold the same word
//   packed B:           b[group][word][parity][t]  column 8*group + 2t + parity
//
// Both are read strictly in order by the inner loop over words.

inline constexpr unsigned kLanes = 32;
inline constexpr unsigned kGroupColumns = 8;

/// Where the 16-byte pieces of eight consecutive rows of A (or columns of B) lie: piece q of row i is at
/// swizzle(start + i * row_stride + q * piece_stride), with swizzle(x) = x ^ ((x - phase) >> 3 & mask), wrapped to 18
/// bits. The fields come from MatrixLayout.
struct PiecePattern {
  const std::byte* shared_base;
  std::uint32_t start;
  std::uint32_t row_stride;
  std::uint32_t piece_stride;
  std::uint32_t phase;
  std::uint32_t mask;
};

/// Hot loops, compiled once per instruction-set level.
struct TensorKernels {
  const char* level;

  /// Eight columns by `words` (a multiple of 8) words, K-major. Writes out[words][8].
  void (*pack_b_k_major)(MmaType type, const PiecePattern& columns, unsigned words, bool negate, std::uint32_t* out);
  /// Eight columns of one k, MN-major 16-bit. Writes out[8].
  void (*pack_b_mn_major)(MmaType type, const std::byte* piece, bool negate, std::uint32_t* out);
  /// Eight rows (one half) by `words` words, K-major. Writes out[words][32].
  void (*pack_a_k_major)(MmaType type, const PiecePattern& rows, unsigned words, bool negate, std::uint32_t* out);
  /// Eight rows of one k, MN-major 16-bit. Writes out[32].
  void (*pack_a_mn_major)(MmaType type, const std::byte* piece, bool negate, std::uint32_t* out);
  /// One A register (half fixed): the words of k = base + t * (4 / element bytes) + c. Writes words_per_register * 4
  /// words at out[word][32].
  void (*pack_a_register)(MmaType type, const std::uint32_t* lanes, bool negate, std::uint32_t* out);

  /// d[4*group + 2*half + parity][lane] (f32) = (accumulate ? itself : 0) + sum over words, fused multiply-adds in
  /// order. `a` has 2 * words * 32 floats, `b` has columns/8 * words * 8.
  void (*multiply_f32)(const float* a, const float* b, unsigned words, unsigned columns, std::uint32_t* const* d,
                       bool accumulate);
  /// The same with s16 pairs and s32 accumulators; `saturate` clamps once, after all words.
  void (*multiply_s32)(const std::uint32_t* a, const std::uint32_t* b, unsigned words, unsigned columns,
                       std::uint32_t* const* d, bool accumulate, bool saturate);

  /// Alignment exponents of packed f32 words: max(exponent, smallest), -1000 for zero. True when one is inf or NaN.
  bool (*exponents)(const float* values, std::size_t count, int smallest, std::int16_t* out);
  /// Exact model (exact_dot.h) for the two registers (parities) of one half and column group of one instruction:
  /// `words` products per lane, at most 16, or 32 with fraction_bits <= 13. Inputs are the packed A of the half and the
  /// packed B of the group, each with its exponents; c[parity] holds 32 accumulators that align no lower than
  /// `smallest_c_exponent`. Writes the exact aligned sums to sums[parity][32], or, if that is null, the sums cut to
  /// `result_bits` to cut[parity]. False when a lane is outside the range handled here (extreme exponents, infinity,
  /// NaN): nothing was written and the caller evaluates lane by lane.
  bool (*fused_dots)(const float* a, const std::int16_t* a_exponents, const float* b, const std::int16_t* b_exponents,
                     unsigned words, const float* const* c, int smallest_c_exponent, int fraction_bits, int result_bits,
                     double (*sums)[32], float* const* cut);
};

/// The best level this processor runs; chosen once.
const TensorKernels& tensor_kernels();

namespace v3 {
const TensorKernels& kernels();
}
namespace v4 {
const TensorKernels& kernels();
}

}  // namespace ptxbench::emulator
