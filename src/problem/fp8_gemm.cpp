#include "problem/fp8_gemm.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "problem/scale_factors.h"
#include "problem/structure.h"

namespace ptxbench::problem {
namespace {

/// Derived factors: four octaves around 1.
constexpr FactorRange kFactors{-2, 4};

const TensorSpec* find_input(const Definition& definition, std::string_view name, std::size_t rank, Dtype dtype,
                             std::size_t& index) {
  const auto found = find_tensor(definition.inputs, name);
  if (!found) return nullptr;
  const TensorSpec& spec = definition.inputs[*found];
  if (!spec.shape || spec.shape->size() != rank || spec.dtype != dtype) return nullptr;
  index = *found;
  return &spec;
}

/// A constant axis's value, else nothing.
std::optional<std::int64_t> constant(const Definition& definition, const std::string& axis) {
  const Axis* found = definition.find_axis(axis);
  return found == nullptr ? std::nullopt : found->constant;
}

std::int64_t blocks_of(std::int64_t extent) { return (extent + kScaleBlock - 1) / kScaleBlock; }

MatrixRows operand(const TruthRequest& request, std::size_t values, std::size_t factors, std::int64_t rows) {
  const MatrixRows from = rows_of(request, factors);
  auto scales = std::make_shared<BlockScales>();
  scales->rows = rows;
  scales->columns = kScaleBlock;
  scales->across = from.columns();
  scales->factors.resize(static_cast<std::size_t>(from.rows() * from.columns()));
  for (std::int64_t row = 0; row < from.rows(); ++row) {
    from.read(row, 0, from.columns(), scales->factors.data() + row * from.columns());
  }
  return rows_of(request, values).scaled(std::move(scales));
}

std::optional<Limits> limits_of(const Definition& definition, std::size_t output) {
  return fp8_gemm_limits(definition.outputs[output].dtype);
}

bool derived_input(const Definition& definition, std::size_t input) {
  const auto roles = fp8_gemm_roles(definition);
  return input == roles->scales_a || input == roles->scales_b;
}

Result<void> derive(const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options) {
  const auto roles = fp8_gemm_roles(problem.definition);
  for (const std::size_t index : {roles->scales_a, roles->scales_b}) {
    if (!std::holds_alternative<DerivedInput>(source_of(problem, index))) continue;
    auto made = Tensor::create(problem.definition.inputs[index].name, Dtype::float32, problem.input_shapes[index]);
    if (!made) return tl::unexpected(made.error());
    fill_scale_factors(options.seed, static_cast<std::uint32_t>(index), kFactors, *made);
    inputs[index] = std::move(*made);
  }
  return {};
}

}  // namespace

std::optional<Fp8GemmRoles> fp8_gemm_roles(const Definition& definition) {
  if (definition.op_type != "gemm" || definition.inputs.size() != 4 || definition.outputs.size() != 1)
    return std::nullopt;
  Fp8GemmRoles roles;
  const TensorSpec* a = find_input(definition, "A", 2, Dtype::float8_e4m3fn, roles.a);
  const TensorSpec* b = find_input(definition, "B", 2, Dtype::float8_e4m3fn, roles.b);
  const TensorSpec* scales_a = find_input(definition, "SF_A", 2, Dtype::float32, roles.scales_a);
  const TensorSpec* scales_b = find_input(definition, "SF_B", 2, Dtype::float32, roles.scales_b);
  const TensorSpec& d = definition.outputs[0];
  if (a == nullptr || b == nullptr || scales_a == nullptr || scales_b == nullptr || !d.shape || d.shape->size() != 2 ||
      !fp8_gemm_limits(d.dtype)) {
    return std::nullopt;
  }
  roles.m = (*a->shape)[0];
  roles.n = (*b->shape)[0];
  roles.k = (*a->shape)[1];
  if ((*b->shape)[1] != roles.k || *d.shape != std::vector<std::string>{roles.m, roles.n}) return std::nullopt;
  const std::string& rows_b = (*scales_b->shape)[0];
  const std::string& across = (*scales_a->shape)[1];
  if ((*scales_a->shape)[0] != roles.m || (*scales_b->shape)[1] != across) return std::nullopt;
  const auto n = constant(definition, roles.n), k = constant(definition, roles.k);
  if (!n || !k || *k % kScaleBlock != 0 || constant(definition, across) != *k / kScaleBlock) return std::nullopt;
  roles.blocks_of_b = rows_b != roles.n;
  if (roles.blocks_of_b && constant(definition, rows_b) != blocks_of(*n)) return std::nullopt;
  return roles;
}

std::optional<std::pair<MatrixRows, MatrixRows>> fp8_gemm_operands(const TruthRequest& request) {
  const auto roles = fp8_gemm_roles(request.problem.definition);
  if (!roles) return std::nullopt;
  return std::pair{operand(request, roles->a, roles->scales_a, 1),
                   operand(request, roles->b, roles->scales_b, roles->blocks_of_b ? kScaleBlock : 1)};
}

std::optional<Limits> fp8_gemm_limits(Dtype output) {
  // A row whose sums are each one large product rounds by up to 0.0035 in bf16.
  if (output == Dtype::bfloat16) return Limits{0.003, 0.003, 0.006, 0.01, 0.0005};
  if (output == Dtype::float32) return Limits{0.0006, 0.0006, 0.002, 0.03, 0.0002};
  return std::nullopt;
}

const Operation kFp8Gemm{[](const Definition& definition) { return fp8_gemm_roles(definition).has_value(); },
                         gemm_reference,
                         limits_of,
                         [](const Problem& problem) {
                           return std::optional(gemm_multiply_adds(problem, *fp8_gemm_roles(problem.definition)));
                         },
                         derived_input,
                         derive};

}  // namespace ptxbench::problem
