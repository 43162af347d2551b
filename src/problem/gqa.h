#pragma once

#include <cstddef>
#include <optional>

#include "problem/gqa_truth.h"
#include "problem/reference.h"

namespace ptxbench::problem {

/// Grouped-query attention of the FlashInfer-Trace data set: which tensors play the parts. Decode has one query per
/// request; prefill has `qo_indptr`. A paged cache has `kv_indices`, and with more than one token a page
/// `kv_last_page_len`; without a cache ("ragged") the keys of all requests lie one behind the other.
struct GqaRoles {
  bool causal = false;
  std::size_t q = 0, k = 0, v = 0, kv_indptr = 0, sm_scale = 0;        ///< inputs
  std::optional<std::size_t> qo_indptr, kv_indices, kv_last_page_len;  ///< inputs, where they exist
  std::size_t output = 0, lse = 0;                                     ///< outputs

  bool paged() const { return kv_indices.has_value(); }
};

/// Recognised by op_type "gqa_paged" or "gqa_ragged" and by the tensors' names, types and shapes: q [queries, heads,
/// D], k_cache and v_cache [pages, page size, KV heads, D] or k and v [keys, KV heads, D] in bfloat16, float16 or
/// float32, the index tensors in int32, sm_scale a floating scalar, output as q, lse [queries, heads] in float32.
/// Prefill is causal by the tag "mask:causal" or by "causal" in the name.
std::optional<GqaRoles> gqa_roles(const Definition& definition);

/// What the index tensors say. Errors name the tensor and the element: offsets that do not begin at 0, decrease or do
/// not end at the number of queries, pages or keys; pages that the cache does not have; last pages longer than a page;
/// as many requests as there are offsets, less one. Nothing is read out of bounds on the way.
Result<GqaShape> gqa_shape(const TruthRequest& request, const GqaRoles& roles);

/// Tensors in the request must outlive them.
GqaInputs gqa_inputs(const TruthRequest& request, const GqaRoles& roles);

/// What the diagnosis of output `output` needs; nothing for other problems and where the index tensors are broken.
std::optional<GqaOperands> gqa_operands(const TruthRequest& request, std::size_t output);

/// Fills in what the workload leaves to the rules of docs/problems.md: offsets, pages and the scale. Then checks all of
/// them, given ones as well.
Result<void> derive_gqa_inputs(const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options);

extern const Operation kGqa;

}  // namespace ptxbench::problem
