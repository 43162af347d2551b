#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "problem/attention_truth.h"
#include "problem/fp8_attention.h"
#include "problem/random.h"

// FP8 kernels as they are written for Hopper's tensor cores, sound ones and wrong ones, computed on the CPU with the
// sums that those tensor cores form (docs/hardware-notes.md). Nothing here is shared with the truth or the emulator.

namespace ptxbench::problem {

/// Rows of an operand of wgmma: values that e4m3 has, and for each the power of two of its exponent, subnormal numbers
/// counting as the smallest normal one and zeros as nothing.
struct TensorCoreRows {
  TensorCoreRows(std::vector<float> values, std::int64_t columns);
  const float* row(std::int64_t index) const { return values.data() + index * columns; }
  const float* powers_of(std::int64_t index) const { return powers.data() + index * columns; }

  std::vector<float> values, powers;
  std::int64_t columns;
};

/// How sums over the reduction are formed.
enum class Accumulator {
  fp32,    ///< exactly but for one rounding per step
  hopper,  ///< as wgmma does: terms of a step of 32 cut at 13 bits below the largest
};

/// c + sum over `count` elements of a * b, in steps of 32.
float accumulate(Accumulator how, const TensorCoreRows& a, std::int64_t row_a, const TensorCoreRows& b,
                 std::int64_t row_b, std::int64_t first, std::int64_t count, float c);

float through_e4m3(float value);
float through_bf16(float value);

/// Random e4m3 values.
std::vector<float> e4m3_values(Distribution distribution, std::uint64_t seed, std::uint32_t tensor, std::int64_t count);

// --- GEMM with scale factors

/// D = A B^T with one factor for each row of A, and row or 128 rows of B, and 128 of K.
struct Fp8GemmData {
  Fp8GemmData(std::int64_t m, std::int64_t n, std::int64_t k, bool blocks_of_b, Distribution distribution);

  std::int64_t m, n, k;
  bool blocks_of_b;
  Distribution distribution;
  std::vector<float> a, b;
  BlockScales scales_a, scales_b;
  std::vector<float> truth;

  MatrixRows rows_a() const { return {a.data(), Dtype::float32, m, k}; }
  MatrixRows rows_b() const { return {b.data(), Dtype::float32, n, k}; }
};

struct Fp8GemmModel {
  using Round = float (*)(float);
  Accumulator accumulator = Accumulator::hopper;
  bool promotes = true;       ///< sums of 128 are added up in fp32; otherwise in the tensor core's accumulators
  Round round_sum = nullptr;  ///< of the promoted sum, after every 128; null: fp32
};
std::vector<float> run_gemm(const Fp8GemmData& data, const Fp8GemmModel& model);

/// The product with these factors, formed without error.
std::vector<float> product(const Fp8GemmData& data, const BlockScales& scales_a, const BlockScales& scales_b);

// --- attention

struct Fp8AttentionData {
  Fp8AttentionData(std::int64_t heads, std::int64_t sequence, std::int64_t depth, bool causal,
                   Distribution distribution);

  AttentionShape shape;  ///< with the factors
  Distribution distribution;
  std::vector<float> q, k, v;
  AttentionDescales descales;
  std::vector<float> o_truth, lse;
};

/// How a kernel goes about it; the defaults are sound.
struct Fp8KernelModel {
  using Round = float (*)(float);
  Accumulator accumulator = Accumulator::hopper;
  std::int64_t tile = 128;    ///< keys of one step
  bool promotes = true;       ///< the second product of a tile is added up in fp32
  float weight_scale = 256;   ///< what the weights, at most 1, are multiplied by before they are rounded
  bool sums_rounded = false;  ///< the row sum is that of the rounded weights
  Round round_weight = through_e4m3;
  Round round_sum = nullptr;  ///< accumulators of the second product after every tile
  double score_factor = 1;    ///< on scores, beside the right scale
  double output_factor = 1;   ///< on O, beside the right one
  bool ignores_mask = false;
  std::int64_t mask_shift = 0;                       ///< query i sees keys up to i + shift
  std::int64_t skip_begin = 0, skip_end = 0;         ///< keys left out
  bool rescales_output = true, rescales_sum = true;  ///< when the running maximum changes
};
struct Fp8AttentionOutput {
  std::vector<float> o, lse;
};
Fp8AttentionOutput run_attention(const Fp8AttentionData& data, const Fp8KernelModel& model);

/// `values` rounded to a type as a tensor of rows of `columns`.
Tensor in_type(Dtype dtype, const char* name, const std::vector<float>& values, std::int64_t columns);

}  // namespace ptxbench::problem
