#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "problem/comparison.h"
#include "problem/dataset.h"
#include "problem/gemm_truth.h"
#include "problem/inputs.h"

namespace ptxbench::problem {

/// C[M, N] = A[M, K] B[N, K]^T: which tensors and axes play the parts.
struct GemmRoles {
  std::size_t a = 0, b = 0;  ///< inputs
  std::size_t c = 0;         ///< output
  std::string m, n, k;       ///< axis names
};

/// Recognised by structure, not by name: op_type "gemm", two matrix inputs and one matrix output of floating type.
std::optional<GemmRoles> gemm_roles(const Definition& definition);

/// Multiply-adds that the problem needs, where that is known: what the share of work done by tensor cores refers to.
std::optional<double> required_multiply_adds(const Problem& problem);

/// One input for a reference: a tensor in memory, or its generator.
struct ReferenceInput {
  const Tensor* tensor = nullptr;
  std::optional<RandomTensor> random;
};

struct TruthRequest {
  const Problem& problem;
  std::vector<ReferenceInput> inputs;  ///< in call order
  /// Parts to compute of each output in call order, as rows and columns of its last dimension, disjoint. Empty: all of
  /// all outputs.
  std::vector<std::vector<Tile>> tiles;
  int threads = 0;
};

struct Truth {
  /// In call order, each a float32 tensor of the output's shape; elements outside the requested tiles are right or
  /// zero.
  std::vector<Tensor> outputs;
  /// Per output and row of its last dimension, where rounding intermediate results costs more than the row's size
  /// tells: the root of the summed squares of what the row adds up (CompareOptions::term_norms). Empty elsewhere.
  std::vector<std::vector<float>> term_norms;
};

/// Computes the outputs in fp32 or better.
using ReferenceFunction = std::function<Result<Truth>(const TruthRequest&)>;

/// The native reference of a definition. Nothing when there is none: then correctness is unknown, never passed.
std::optional<ReferenceFunction> find_reference(const Definition& definition);

/// Why `find_reference` gave nothing.
std::string no_reference_message(const Definition& definition);

/// The operands of a GEMM for diagnosis; nothing for other problems.
std::optional<std::pair<MatrixRows, MatrixRows>> gemm_operands(const TruthRequest& request);

/// Limits of the rule for an output of the definition; nothing where the rule is not calibrated.
std::optional<Limits> limits_for(const Definition& definition, std::size_t output);

/// Whether an input follows from the others: O and L of an attention's backward pass, which are the forward pass's
/// results. Such an input is computed unless the workload gives another source.
bool is_derived(const Definition& definition, std::size_t input);

/// The input's source, given or by default.
InputSource source_of(const Problem& problem, std::size_t input);

/// Puts all inputs whose source is DerivedInput in place; the others must be there already. They come from the native
/// reference, rounded to their type.
Result<void> derive_inputs(const Problem& problem, std::vector<Tensor>& inputs, int threads);

/// What the diagnosis of output `output` of an attention needs; nothing for other problems.
std::optional<AttentionOperands> attention_operands(const TruthRequest& request, std::size_t output);

/// Requests with all inputs in memory.
TruthRequest request_for(const Problem& problem, const std::vector<Tensor>& inputs);

}  // namespace ptxbench::problem
