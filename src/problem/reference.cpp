#include "problem/reference.h"

#include "problem/attention.h"
#include "problem/fp8_gemm.h"
#include "problem/gdn.h"
#include "problem/gemm.h"
#include "problem/gqa.h"
#include "problem/mla.h"

namespace ptxbench::problem {

const Operation* find_operation(const Definition& definition) {
  for (const Operation* operation : {&kGemm, &kFp8Gemm, &kAttention, &kGqa, &kMla, &kGdn}) {
    if (operation->recognises(definition)) return operation;
  }
  return nullptr;
}

std::optional<double> required_multiply_adds(const Problem& problem) {
  const Operation* operation = find_operation(problem.definition);
  return operation == nullptr ? std::nullopt : operation->multiply_adds(problem);
}

std::optional<double> required_multiply_adds(const Problem& problem, const std::vector<Tensor>& inputs) {
  const Operation* operation = find_operation(problem.definition);
  if (operation == nullptr) return std::nullopt;
  return operation->multiply_adds_with == nullptr ? operation->multiply_adds(problem)
                                                  : operation->multiply_adds_with(problem, inputs);
}

std::optional<ReferenceFunction> find_reference(const Definition& definition) {
  const Operation* operation = find_operation(definition);
  return operation == nullptr ? std::nullopt : std::optional<ReferenceFunction>(operation->truth);
}

double reference_matched_ratio(const Definition& definition) {
  const bool fp8_attention =
      definition.op_type == "attention" && !definition.outputs.empty() && bits_of(definition.outputs[0].dtype) == 8;
  return fp8_attention ? 0.995 : 1.0;
}

std::string no_reference_message(const Definition& definition) {
  return fmt::format("there is no native reference for {} (op_type {})", definition.name, definition.op_type);
}

std::optional<Limits> limits_for(const Definition& definition, std::size_t output) {
  const Operation* operation = find_operation(definition);
  return operation == nullptr ? std::nullopt : operation->limits(definition, output);
}

bool is_derived(const Definition& definition, std::size_t input) {
  const Operation* operation = find_operation(definition);
  return operation != nullptr && operation->is_derived != nullptr && operation->is_derived(definition, input);
}

bool derives_from_contents(const Definition& definition) {
  const Operation* operation = find_operation(definition);
  return operation != nullptr && operation->derives_from_contents;
}

InputSource source_of(const Problem& problem, std::size_t input) {
  const TensorSpec& spec = problem.definition.inputs[input];
  if (const InputSource* source = problem.workload.find_input(spec.name)) return *source;
  if (is_derived(problem.definition, input)) return DerivedInput{};
  return RandomInput{};
}

Result<void> derive_inputs(const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options) {
  const Operation* operation = find_operation(problem.definition);
  if (operation == nullptr || operation->derive == nullptr) return {};
  return operation->derive(problem, inputs, options);
}

TruthRequest request_for(const Problem& problem, const std::vector<Tensor>& inputs) {
  TruthRequest request{problem, {}, {}, 0};
  for (const Tensor& tensor : inputs) request.inputs.push_back({&tensor, std::nullopt});
  return request;
}

MatrixRows rows_of(const TruthRequest& request, std::size_t index) {
  const Shape& shape = request.problem.input_shapes[index];
  const std::int64_t columns = shape.back();
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  const ReferenceInput& input = request.inputs[index];
  if (input.tensor != nullptr) return {input.tensor->data(), input.tensor->dtype, rows, columns};
  return {*input.random, rows, columns};
}

Result<std::vector<Tensor>> make_truth_tensors(const Problem& problem) {
  std::vector<Tensor> outputs;
  for (std::size_t i = 0; i < problem.definition.outputs.size(); ++i) {
    auto tensor = Tensor::create(problem.definition.outputs[i].name, Dtype::float32, problem.output_shapes[i]);
    if (!tensor) return tl::unexpected(tensor.error());
    outputs.push_back(std::move(*tensor));
  }
  return outputs;
}

}  // namespace ptxbench::problem
