#include "problem/inputs.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "problem/comparison.h"
#include "problem/reference.h"
#include "problem/safetensors.h"

namespace ptxbench::problem {
namespace {

tl::unexpected<Error> forward(const Error& error) { return tl::unexpected<Error>(error); }

/// The integer that a scalar is, whatever its JSON type; nothing where it is none or needs more than 64 bits.
std::optional<std::int64_t> integer_of(const ScalarInput& scalar) {
  if (const auto* number = std::get_if<double>(&scalar.value)) {
    if (!(std::fabs(*number) < 0x1p63) || *number != std::trunc(*number)) return std::nullopt;
    return static_cast<std::int64_t>(*number);
  }
  return std::visit([](auto value) { return static_cast<std::int64_t>(value); }, scalar.value);
}

std::string text_of(const ScalarInput& scalar) {
  return std::visit([](auto value) { return fmt::format("{}", value); }, scalar.value);
}

Result<Tensor> make_scalar(const Problem& problem, const TensorSpec& spec, const ScalarInput& scalar) {
  auto tensor = Tensor::create(spec.name, spec.dtype, {});
  if (!tensor) return tensor;
  if (!is_float(spec.dtype)) {
    // Not through a float, which would lose digits; nor rounded or bounded, which would be another problem.
    const auto integer = integer_of(scalar);
    const int bits = bits_of(spec.dtype);
    const std::int64_t largest = spec.dtype == Dtype::boolean ? 1
                                 : bits == 64                 ? std::numeric_limits<std::int64_t>::max()
                                                              : (std::int64_t{1} << (bits - 1)) - 1;
    const std::int64_t least = spec.dtype == Dtype::boolean ? 0 : -largest - 1;
    if (!integer || *integer < least || *integer > largest) {
      return input_error("{}: workload {}: input {} is {}, which {} cannot hold", problem.title(),
                         problem.workload.uuid, spec.name, text_of(scalar), to_string(spec.dtype));
    }
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(tensor->data(), &*integer, tensor->bytes());
    return tensor;
  }
  const double wanted = std::visit([](auto v) { return static_cast<double>(v); }, scalar.value);
  const float value = std::fabs(wanted) <= static_cast<double>(std::numeric_limits<float>::max())
                          ? static_cast<float>(wanted)
                          : std::numeric_limits<float>::infinity();
  from_float(spec.dtype, &value, 0, 1, tensor->data());
  float held = 0;
  to_float(spec.dtype, tensor->data(), 0, 1, &held);
  // Types saturate or become infinite.
  if (std::fabs(wanted) >= 1 && !(std::fabs(static_cast<double>(held) - wanted) <= std::fabs(wanted) / 4)) {
    return input_error("{}: workload {}: input {} is {}, which is too large for {}", problem.title(),
                       problem.workload.uuid, spec.name, text_of(scalar), to_string(spec.dtype));
  }
  return tensor;
}

}  // namespace

std::optional<RandomTensor> random_input(const Problem& problem, std::size_t index, const InputOptions& options) {
  const TensorSpec& spec = problem.definition.inputs[index];
  if (!std::holds_alternative<RandomInput>(source_of(problem, index))) return std::nullopt;
  return RandomTensor{spec.dtype, options.distribution, options.seed, static_cast<std::uint32_t>(index)};
}

Result<Tensor> make_input(const Problem& problem, std::size_t index, const InputOptions& options) {
  const TensorSpec& spec = problem.definition.inputs[index];
  const Shape& shape = problem.input_shapes[index];
  if (const auto random = random_input(problem, index, options)) {
    auto tensor = Tensor::create(spec.name, spec.dtype, shape);
    if (tensor) fill(*random, *tensor, options.threads);
    return tensor;
  }
  const InputSource source = source_of(problem, index);
  if (std::holds_alternative<DerivedInput>(source)) {
    auto all = make_inputs(problem, options);
    if (!all) return forward(all.error());
    return std::move((*all)[index]);
  }
  if (const auto* scalar = std::get_if<ScalarInput>(&source)) return make_scalar(problem, spec, *scalar);
  const auto& blob = std::get<SafetensorsInput>(source);
  const auto path = problem.blob_path(blob);
  if (!path) return forward(path.error());
  const auto file = SafetensorsFile::open(*path);
  if (!file) return forward(file.error());
  if (auto fits = file->check(blob.tensor_key, spec.dtype, shape); !fits) {
    return input_error("input {} of {}: {}", spec.name, problem.title(), fits.error().message);
  }
  return file->read(blob.tensor_key, spec.name);
}

Result<std::vector<Tensor>> make_inputs(const Problem& problem, const InputOptions& options) {
  std::vector<Tensor> inputs;
  for (std::size_t i = 0; i < problem.definition.inputs.size(); ++i) {
    if (std::holds_alternative<DerivedInput>(source_of(problem, i))) {
      inputs.emplace_back();
      continue;
    }
    auto tensor = make_input(problem, i, options);
    if (!tensor) return forward(tensor.error());
    inputs.push_back(std::move(*tensor));
  }
  if (auto derived = derive_inputs(problem, inputs, options); !derived) return forward(derived.error());
  return inputs;
}

Result<std::vector<Tensor>> make_outputs(const Problem& problem) {
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < problem.definition.outputs.size(); ++i) {
    const TensorSpec& spec = problem.definition.outputs[i];
    auto tensor = Tensor::create(spec.name, spec.dtype, problem.output_shapes[i]);
    if (!tensor) return forward(tensor.error());
    fill_poison(*tensor);
    outputs.push_back(std::move(*tensor));
  }
  return outputs;
}

}  // namespace ptxbench::problem
