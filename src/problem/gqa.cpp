#include "problem/gqa.h"

#include "problem/mla.h"

namespace ptxbench::problem {

std::optional<RequestRoles> gqa_roles(const Definition& definition) {
  const bool paged = definition.op_type == "gqa_paged";
  if (!paged && definition.op_type != "gqa_ragged") return std::nullopt;
  const auto& inputs = definition.inputs;
  const auto q = find_tensor(inputs, "q"), k = find_tensor(inputs, paged ? "k_cache" : "k");
  const auto v = find_tensor(inputs, paged ? "v_cache" : "v");
  if (!q || !k || !v) return std::nullopt;
  RequestRoles roles;
  roles.q = *q, roles.k = *k, roles.v = *v;
  const auto whole = with_request_tensors(definition, roles, 3);
  if (!whole || whole->paged() != paged || !has_rank(inputs[*k], paged ? 4 : 3)) return std::nullopt;
  const bool shapes = inputs[*v].shape == inputs[*k].shape && inputs[*k].shape->back() == inputs[*q].shape->back() &&
                      definition.outputs[whole->output].shape == inputs[*q].shape;
  const bool types =
      is_wide_float(inputs[*q].dtype) && is_wide_float(inputs[*k].dtype) && is_wide_float(inputs[*v].dtype);
  return shapes && types ? whole : std::nullopt;
}

std::optional<GqaOperands> gqa_operands(const TruthRequest& request, std::size_t output) {
  auto roles = gqa_roles(request.problem.definition);
  if (!roles) roles = mla_roles(request.problem.definition);
  if (!roles) return std::nullopt;
  auto shape = request_shape(request, *roles);
  if (!shape) return std::nullopt;
  const std::int64_t page_size = roles->paged() ? request.problem.input_shapes[roles->k][1] : 1;
  return GqaOperands{std::move(*shape), request_operands(request, *roles), page_size, output == roles->lse};
}

const Operation kGqa{
    [](const Definition& definition) { return gqa_roles(definition).has_value(); },
    [](const TruthRequest& request) { return request_truth(request, *gqa_roles(request.problem.definition)); },
    [](const Definition& definition, std::size_t output) {
      return request_limits(definition, *gqa_roles(definition), output);
    },
    [](const Problem& problem) { return request_multiply_adds(problem, *gqa_roles(problem.definition)); },
    [](const Definition& definition, std::size_t input) { return gqa_roles(definition)->derives(input); },
    [](const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options) {
      return derive_requests(problem, *gqa_roles(problem.definition), inputs, options);
    },
    [](const Problem& problem, const std::vector<Tensor>& inputs) {
      return request_multiply_adds(problem, *gqa_roles(problem.definition), inputs);
    }};

}  // namespace ptxbench::problem
