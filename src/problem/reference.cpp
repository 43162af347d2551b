#include "problem/reference.h"

#include <algorithm>

namespace ptxbench::problem {
namespace {

MatrixRows rows_of(const ReferenceInput& input, const Shape& shape) {
  if (input.tensor != nullptr) return {input.tensor->data(), input.tensor->dtype, shape[0], shape[1]};
  return {*input.random, shape[0], shape[1]};
}

Result<std::vector<Tensor>> gemm_reference(const TruthRequest& request) {
  const auto roles = gemm_roles(request.problem.definition);
  const auto operands = gemm_operands(request);
  const TensorSpec& spec = request.problem.definition.outputs[roles->c];
  auto truth = Tensor::create(spec.name, Dtype::float32, request.problem.output_shapes[roles->c]);
  if (!truth) return tl::unexpected(truth.error());
  std::vector<Tile> tiles = request.tiles;
  if (tiles.empty()) tiles.push_back({0, operands->first.rows(), 0, operands->second.rows()});
  gemm_nt_truth(operands->first, operands->second, tiles, truth->as<float>().data(), request.threads);
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(*truth));
  return outputs;
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
  const auto roles = gemm_roles(problem.definition);
  if (!roles) return std::nullopt;
  return static_cast<double>(problem.axes.at(roles->m)) * static_cast<double>(problem.axes.at(roles->n)) *
         static_cast<double>(problem.axes.at(roles->k));
}

std::optional<ReferenceFunction> find_reference(const Definition& definition) {
  if (gemm_roles(definition)) return gemm_reference;
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

TruthRequest request_for(const Problem& problem, const std::vector<Tensor>& inputs) {
  TruthRequest request{problem, {}, {}, 0};
  for (const Tensor& tensor : inputs) request.inputs.push_back({&tensor, std::nullopt});
  return request;
}

}  // namespace ptxbench::problem
