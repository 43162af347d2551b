#include "problem/inputs.h"

#include <cstring>

#include "problem/comparison.h"
#include "problem/reference.h"
#include "problem/safetensors.h"

namespace ptxbench::problem {
namespace {

tl::unexpected<Error> forward(const Error& error) { return tl::unexpected<Error>(error); }

Result<Tensor> make_scalar(const TensorSpec& spec, const ScalarInput& scalar) {
  auto tensor = Tensor::create(spec.name, spec.dtype, {});
  if (!tensor) return tensor;
  const auto* integer = std::get_if<std::int64_t>(&scalar.value);
  if (integer != nullptr && spec.dtype == Dtype::int64) {
    std::memcpy(tensor->data(), integer, sizeof(*integer));  // a float would lose digits
    return tensor;
  }
  const float value = std::visit([](auto v) { return static_cast<float>(v); }, scalar.value);
  from_float(spec.dtype, &value, 0, 1, tensor->data());
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
  if (const auto* scalar = std::get_if<ScalarInput>(&source)) return make_scalar(spec, *scalar);
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
