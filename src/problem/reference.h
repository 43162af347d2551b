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

/// Multiply-adds that the problem needs, where that is known: what the share of work done by tensor cores refers to.
/// Where they depend on inputs that follow from the seed, these are those of seed 0: an estimate.
std::optional<double> required_multiply_adds(const Problem& problem);
/// Those with these very inputs.
std::optional<double> required_multiply_adds(const Problem& problem, const std::vector<Tensor>& inputs);

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

/// The share of elements that the public benchmark's rule wants right (Tolerance::reference).
double reference_matched_ratio(const Definition& definition);

/// Why `find_reference` gave nothing.
std::string no_reference_message(const Definition& definition);

/// Limits of the rule for an output of the definition; nothing where the rule is not calibrated.
std::optional<Limits> limits_for(const Definition& definition, std::size_t output);

/// Whether the operation has a rule for an input: O and L of an attention's backward pass, which are the forward pass's
/// results, follow from the others; offsets and pages of grouped-query attention from the axes and the seed. Such an
/// input is made by the rule unless the workload gives another source.
bool is_derived(const Definition& definition, std::size_t input);

/// The input's source, given or by default.
InputSource source_of(const Problem& problem, std::size_t input);

/// Whether the derived inputs of an operation follow from what its other inputs hold, as O and L of an attention's
/// backward pass do. Those of other operations fit any contents: they are functions of the axes and the seed.
bool derives_from_contents(const Definition& definition);

/// Puts all inputs whose source is DerivedInput in place; the others must be there already. Checks what only values can
/// show to be wrong, such as offsets that decrease.
Result<void> derive_inputs(const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options);

/// Requests with all inputs in memory.
TruthRequest request_for(const Problem& problem, const std::vector<Tensor>& inputs);

/// Input `index` of a request as a matrix, leading extents together as rows. A tensor in the request must outlive it.
MatrixRows rows_of(const TruthRequest& request, std::size_t index);

/// Float32 tensors of the outputs' shapes, all zero: where a reference puts its truth.
Result<std::vector<Tensor>> make_truth_tensors(const Problem& problem);

/// What the project knows of an operation. A definition belongs to the first one that recognises it.
struct Operation {
  /// By structure, not by name: op_type, names, types and shapes of the tensors.
  bool (*recognises)(const Definition& definition);
  Result<Truth> (*truth)(const TruthRequest& request);
  /// Of an output; nothing where the rule is not calibrated.
  std::optional<Limits> (*limits)(const Definition& definition, std::size_t output);
  std::optional<double> (*multiply_adds)(const Problem& problem);
  /// Both null where no input follows from others.
  bool (*is_derived)(const Definition& definition, std::size_t input) = nullptr;
  Result<void> (*derive)(const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options) = nullptr;
  /// Null where multiply_adds depend on the axes alone.
  std::optional<double> (*multiply_adds_with)(const Problem& problem, const std::vector<Tensor>& inputs) = nullptr;
  /// As the function of this name says.
  bool derives_from_contents = false;
};

/// Nothing when the definition is no operation that is known here.
const Operation* find_operation(const Definition& definition);

}  // namespace ptxbench::problem
