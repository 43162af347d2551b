#include "evaluation/permuted_inputs.h"

#include <limits>

#include "problem/attention.h"

namespace ptxbench::evaluation {

std::optional<PermutedInputs> permuted_inputs(const problem::Problem& problem) {
  const auto roles = problem::attention_roles(problem.definition);
  if (!roles || !roles->backward) return std::nullopt;
  const std::int64_t slices = problem.axes.at(roles->batch) * problem.axes.at(roles->heads);
  if (slices <= 0 || slices > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  constexpr unsigned kScores = 1, kValues = 2, kGradient = 4;
  PermutedInputs out;
  out.slices = static_cast<std::uint32_t>(slices);
  out.inputs.resize(problem.definition.inputs.size());
  out.outputs.resize(problem.definition.outputs.size());
  out.inputs[roles->q] = out.inputs[roles->k] = kScores;
  out.inputs[roles->v] = out.inputs[roles->o] = kValues;
  out.inputs[roles->d_o] = kGradient;
  out.free.resize(out.inputs.size());
  out.free[roles->d_o] = true;
  out.outputs[roles->dq] = out.outputs[roles->dk] = kScores | kValues | kGradient;
  out.outputs[roles->dv] = kGradient;
  // The GPU copies whole words of four bytes.
  for (std::size_t i = 0; i < problem.input_shapes.size(); ++i) {
    const auto count = problem::element_count(problem.input_shapes[i]);
    if (!count) return std::nullopt;
    const std::uint64_t bytes = problem::bytes_of(problem.definition.inputs[i].dtype, *count);
    if (bytes == 0 || bytes % (std::uint64_t{4} * out.slices) != 0) return std::nullopt;
  }
  return out;
}

}  // namespace ptxbench::evaluation
