#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "problem/dataset.h"
#include "problem/random.h"
#include "problem/tensor.h"

namespace ptxbench::problem {

struct InputOptions {
  std::uint64_t seed = 0;
  Distribution distribution = Distribution::normal;
  int threads = 0;
};

/// The generator of input `index` of the definition, or nothing when the workload gives that input or it is derived.
std::optional<RandomTensor> random_input(const Problem& problem, std::size_t index, const InputOptions& options);

/// All inputs in call order. A scalar is a tensor with one element and shape []. Files that do not fit the definition
/// (shape, type, key) are input errors.
Result<std::vector<Tensor>> make_inputs(const Problem& problem, const InputOptions& options);

/// One input. A derived one costs what all cost.
Result<Tensor> make_input(const Problem& problem, std::size_t index, const InputOptions& options);

/// All outputs in call order, full of poison.
Result<std::vector<Tensor>> make_outputs(const Problem& problem);

}  // namespace ptxbench::problem
