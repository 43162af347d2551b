#include "problem/gemm.h"

#include "problem/fp8_gemm.h"

namespace ptxbench::problem {
namespace {

std::optional<Limits> limits_of(const Definition& definition, std::size_t output) {
  return limits_for("gemm", definition.outputs[output].dtype);
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

std::optional<std::pair<MatrixRows, MatrixRows>> gemm_operands(const TruthRequest& request) {
  const auto roles = gemm_roles(request.problem.definition);
  if (!roles) return fp8_gemm_operands(request);
  return std::pair{rows_of(request, roles->a), rows_of(request, roles->b)};
}

Result<Truth> gemm_reference(const TruthRequest& request) {
  const auto operands = gemm_operands(request);
  auto outputs = make_truth_tensors(request.problem);
  if (!outputs) return tl::unexpected(outputs.error());
  std::vector<Tile> tiles;
  if (request.tiles.empty()) {
    tiles.push_back({0, operands->first.rows(), 0, operands->second.rows()});
  } else {
    tiles = request.tiles.front();
  }
  gemm_nt_truth(operands->first, operands->second, tiles, outputs->front().as<float>().data(), request.threads);
  Truth result;
  result.outputs = std::move(*outputs);
  result.term_norms.resize(1);
  return result;
}

double gemm_multiply_adds(const Problem& problem, const GemmRoles& roles) {
  return static_cast<double>(problem.axes.at(roles.m)) * static_cast<double>(problem.axes.at(roles.n)) *
         static_cast<double>(problem.axes.at(roles.k));
}

const Operation kGemm{
    [](const Definition& definition) { return gemm_roles(definition).has_value(); }, gemm_reference, limits_of,
    [](const Problem& problem) { return std::optional(gemm_multiply_adds(problem, *gemm_roles(problem.definition))); }};

}  // namespace ptxbench::problem
