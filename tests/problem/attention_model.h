#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "problem/attention_truth.h"
#include "problem/comparison.h"
#include "problem/random.h"

// Attention kernels as they are written for tensor cores, sound ones and wrong ones, computed on the CPU in plain loops
// that share nothing with the truth.

namespace ptxbench::problem {

/// Inputs of an attention problem with what the wrong kernels have in common.
struct AttentionData {
  AttentionData(std::int64_t heads, std::int64_t sequence, std::int64_t depth, bool causal, Distribution distribution);

  AttentionInputs inputs() const { return {rows(q), rows(k), rows(v)}; }
  AttentionGradientInputs gradient_inputs() const;
  MatrixRows rows(const std::vector<float>& values) const {
    return {values.data(), Dtype::float32, shape.rows(), shape.depth};
  }

  AttentionShape shape;
  Distribution distribution;
  std::vector<float> q, k, v, d_o;  ///< bf16 values
  std::vector<float> o, lse;        ///< inputs of the backward pass: the true O rounded to bf16, and LSE
  std::vector<float> o_truth, dq_truth, dk_truth, dv_truth;
  std::vector<float> dq_norms, dk_norms, dv_norms;  ///< of the terms (TermNorms)
  std::vector<float> scores;                        ///< Q K^T without the scale, [head][query][key]
  std::vector<float> gradients;                     ///< dO V^T
};

/// How a kernel goes about it; the defaults are sound.
struct KernelModel {
  using Round = float (*)(float);
  std::int64_t tile = 64;   ///< keys (forward) of one step
  double score_factor = 1;  ///< on scores, beside the right scale
  bool ignores_mask = false;
  std::int64_t mask_shift = 0;                       ///< query i sees keys up to i + shift
  std::int64_t skip_begin = 0, skip_end = 0;         ///< keys left out
  Round round_p = nullptr;                           ///< weights before the second product (and dS); null: bf16
  Round round_sum = nullptr;                         ///< accumulators after every 16 of the reduction
  bool rescales_output = true, rescales_sum = true;  ///< when the running maximum changes
  bool sums_rounded = false;                         ///< the row sum is that of the rounded weights
  bool has_row_sum = true;                           ///< rowsum(dO * O) of the backward pass
  double lse_factor = 1;                             ///< on L where it enters the exponential
};

struct ForwardOutput {
  std::vector<float> o, lse;
};
struct BackwardOutput {
  std::vector<float> dq, dk, dv;
};
ForwardOutput run_forward(const AttentionData& data, const KernelModel& model);
BackwardOutput run_backward(const AttentionData& data, const KernelModel& model);

/// `values` in bf16 as a tensor of rows of `columns`.
Tensor in_bfloat16(const char* name, const std::vector<float>& values, std::int64_t columns);
Tensor in_float32(const char* name, const std::vector<float>& values, std::int64_t columns);

float to_bf16_and_back(float value);

}  // namespace ptxbench::problem
