#include "problem/reference.h"

#include <algorithm>

#include "problem/attention.h"

namespace ptxbench::problem {
namespace {

MatrixRows rows_of(const ReferenceInput& input, const Shape& shape) {
  if (input.tensor != nullptr) return {input.tensor->data(), input.tensor->dtype, shape[0], shape[1]};
  return {*input.random, shape[0], shape[1]};
}

Result<Truth> gemm_reference(const TruthRequest& request) {
  const auto roles = gemm_roles(request.problem.definition);
  const auto operands = gemm_operands(request);
  const TensorSpec& spec = request.problem.definition.outputs[roles->c];
  auto truth = Tensor::create(spec.name, Dtype::float32, request.problem.output_shapes[roles->c]);
  if (!truth) return tl::unexpected(truth.error());
  std::vector<Tile> tiles;
  if (request.tiles.empty()) {
    tiles.push_back({0, operands->first.rows(), 0, operands->second.rows()});
  } else {
    tiles = request.tiles[roles->c];
  }
  gemm_nt_truth(operands->first, operands->second, tiles, truth->as<float>().data(), request.threads);
  Truth result;
  result.outputs.push_back(std::move(*truth));
  result.term_norms.resize(1);
  return result;
}

}  // namespace

std::optional<GemmRoles> gemm_roles(const Definition& definition) {
  if (definition.op_type != "gemm" || definition.inputs.size() != 2 || definition.outputs.size() != 1)
    return std::nullopt;
  const auto matrix = [](const TensorSpec& spec) {
    return spec.shape && spec.shape->size() == 2 &&
           (spec.dtype == Dtype::bfloat16 || spec.dtype == Dtype::float16 || spec.dtype == Dtype::float32);
  };
  const TensorSpec& a = definition.inputs[0];
  const TensorSpec& b = definition.inputs[1];
  const TensorSpec& c = definition.outputs[0];
  if (!matrix(a) || !matrix(b) || !matrix(c)) return std::nullopt;
  GemmRoles roles{0, 1, 0, (*a.shape)[0], (*b.shape)[0], (*a.shape)[1]};
  if ((*b.shape)[1] != roles.k || (*c.shape)[0] != roles.m || (*c.shape)[1] != roles.n) return std::nullopt;
  return roles;
}

std::optional<double> required_multiply_adds(const Problem& problem) {
  if (const auto roles = attention_roles(problem.definition)) {
    // Matrix products of S x S x D per head; half of each is masked, the diagonal counted as a half.
    const AttentionShape shape = attention_shape(problem, *roles);
    const double products = roles->backward ? 5 : 2;
    return products * (roles->causal ? 0.5 : 1.0) * static_cast<double>(shape.heads) *
           static_cast<double>(shape.sequence) * static_cast<double>(shape.sequence) * static_cast<double>(shape.depth);
  }
  const auto roles = gemm_roles(problem.definition);
  if (!roles) return std::nullopt;
  return static_cast<double>(problem.axes.at(roles->m)) * static_cast<double>(problem.axes.at(roles->n)) *
         static_cast<double>(problem.axes.at(roles->k));
}

std::optional<ReferenceFunction> find_reference(const Definition& definition) {
  if (gemm_roles(definition)) return gemm_reference;
  if (attention_roles(definition)) return attention_reference;
  return std::nullopt;
}

std::string no_reference_message(const Definition& definition) {
  return fmt::format(
      "there is no native reference for {} (op_type {}): its results cannot be judged here, so its "
      "correctness is unknown",
      definition.name, definition.op_type);
}

std::optional<std::pair<MatrixRows, MatrixRows>> gemm_operands(const TruthRequest& request) {
  const auto roles = gemm_roles(request.problem.definition);
  if (!roles) return std::nullopt;
  return std::pair{rows_of(request.inputs[roles->a], request.problem.input_shapes[roles->a]),
                   rows_of(request.inputs[roles->b], request.problem.input_shapes[roles->b])};
}

std::optional<Limits> limits_for(const Definition& definition, std::size_t output) {
  const auto roles = attention_roles(definition);
  if (roles && !roles->backward && output == roles->lse) return log_sum_limits();
  auto limits = limits_for(definition.op_type, definition.outputs[output].dtype);
  if (roles && roles->backward && limits) *limits = gradient_limits(*limits);
  return limits;
}

bool is_derived(const Definition& definition, std::size_t input) {
  const auto roles = attention_roles(definition);
  return roles && roles->backward && (input == roles->o || input == roles->lse);
}

InputSource source_of(const Problem& problem, std::size_t input) {
  const TensorSpec& spec = problem.definition.inputs[input];
  if (const InputSource* source = problem.workload.find_input(spec.name)) return *source;
  if (is_derived(problem.definition, input)) return DerivedInput{};
  return RandomInput{};
}

Result<void> derive_inputs(const Problem& problem, std::vector<Tensor>& inputs, int threads) {
  const auto roles = attention_roles(problem.definition);
  const auto derived = [&](std::size_t input) {
    return std::holds_alternative<DerivedInput>(source_of(problem, input));
  };
  if (!roles || !roles->backward || (!derived(roles->o) && !derived(roles->lse))) return {};
  TruthRequest request = request_for(problem, inputs);
  request.threads = threads;
  auto results = attention_forward_results(request);
  if (!results) return tl::unexpected(results.error());
  if (derived(roles->o)) inputs[roles->o] = std::move(results->o);
  if (derived(roles->lse)) inputs[roles->lse] = std::move(results->lse);
  return {};
}

TruthRequest request_for(const Problem& problem, const std::vector<Tensor>& inputs) {
  TruthRequest request{problem, {}, {}, 0};
  for (const Tensor& tensor : inputs) request.inputs.push_back({&tensor, std::nullopt});
  return request;
}

}  // namespace ptxbench::problem
