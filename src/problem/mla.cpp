#include "problem/mla.h"

#include <algorithm>

namespace ptxbench::problem {
namespace {

/// Whether the shapes differ in nothing but their last extent.
bool alike_but_for_depth(const TensorSpec& a, const TensorSpec& b) {
  return a.shape->size() == b.shape->size() && std::equal(a.shape->begin(), a.shape->end() - 1, b.shape->begin());
}

std::optional<RequestRoles> absorbed_roles(const Definition& definition) {
  const auto& inputs = definition.inputs;
  const auto q = find_tensor(inputs, "q_nope"), q_pe = find_tensor(inputs, "q_pe");
  const auto ckv = find_tensor(inputs, "ckv_cache"), kpe = find_tensor(inputs, "kpe_cache");
  if (!q || !q_pe || !ckv || !kpe) return std::nullopt;
  RequestRoles roles;
  roles.q = *q, roles.k = *ckv, roles.v = *ckv, roles.q_tail = *q_pe, roles.k_tail = *kpe;
  const auto whole = with_request_tensors(definition, roles, 4);
  if (!whole || !whole->paged() || !has_rank(inputs[*q_pe], 3) || !has_rank(inputs[*ckv], 3) ||
      !has_rank(inputs[*kpe], 3)) {
    return std::nullopt;
  }
  const bool shapes = alike_but_for_depth(inputs[*q_pe], inputs[*q]) &&
                      alike_but_for_depth(inputs[*kpe], inputs[*ckv]) &&
                      inputs[*ckv].shape->back() == inputs[*q].shape->back() &&
                      inputs[*kpe].shape->back() == inputs[*q_pe].shape->back() &&
                      definition.outputs[whole->output].shape == inputs[*q].shape;
  return shapes ? whole : std::nullopt;
}

std::optional<RequestRoles> ragged_roles(const Definition& definition) {
  const auto& inputs = definition.inputs;
  const auto q = find_tensor(inputs, "q"), k = find_tensor(inputs, "k"), v = find_tensor(inputs, "v");
  if (!q || !k || !v) return std::nullopt;
  RequestRoles roles;
  roles.q = *q, roles.k = *k, roles.v = *v;
  const auto whole = with_request_tensors(definition, roles, 3);
  if (!whole || whole->paged() || !has_rank(inputs[*k], 3) || !has_rank(inputs[*v], 3)) return std::nullopt;
  const bool shapes = alike_but_for_depth(inputs[*v], inputs[*k]) &&
                      inputs[*k].shape->back() == inputs[*q].shape->back() &&
                      definition.outputs[whole->output].shape->back() == inputs[*v].shape->back();
  return shapes ? whole : std::nullopt;
}

}  // namespace

std::optional<RequestRoles> mla_roles(const Definition& definition) {
  std::optional<RequestRoles> roles;
  if (definition.op_type == "mla_paged") roles = absorbed_roles(definition);
  if (definition.op_type == "mla_ragged") roles = ragged_roles(definition);
  if (!roles) return std::nullopt;
  for (std::size_t i = 0; i < definition.inputs.size(); ++i) {
    if (!roles->derives(i) && !is_wide_float(definition.inputs[i].dtype)) return std::nullopt;
  }
  return roles;
}

const Operation kMla{
    [](const Definition& definition) { return mla_roles(definition).has_value(); },
    [](const TruthRequest& request) { return request_truth(request, *mla_roles(request.problem.definition)); },
    [](const Definition& definition, std::size_t output) {
      auto limits = request_limits(definition, *mla_roles(definition), output);
      // Large terms that cancel leave a careful kernel's element off by up to 0.036 of its row.
      if (limits && !limits->absolute_max) limits->element = 0.05;
      return limits;
    },
    [](const Problem& problem) { return request_multiply_adds(problem, *mla_roles(problem.definition)); },
    [](const Definition& definition, std::size_t input) { return mla_roles(definition)->derives(input); },
    [](const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options) {
      return derive_requests(problem, *mla_roles(problem.definition), inputs, options);
    },
    [](const Problem& problem, const std::vector<Tensor>& inputs) {
      return request_multiply_adds(problem, *mla_roles(problem.definition), inputs);
    }};

}  // namespace ptxbench::problem
