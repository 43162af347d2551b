#pragma once

#include <optional>

#include "problem/requests.h"

namespace ptxbench::problem {

/// Grouped-query attention of the FlashInfer-Trace data set. Recognised by op_type "gqa_paged" or "gqa_ragged" and by
/// the tensors' names, types and shapes: q [queries, heads, D], k_cache and v_cache [pages, page size, KV heads, D] or
/// k and v [keys, KV heads, D] in bfloat16, float16 or float32, output as q, and what with_request_tensors finds.
std::optional<RequestRoles> gqa_roles(const Definition& definition);

/// What the diagnosis of output `output` needs, also of latent attention; nothing for other problems and where the
/// index tensors are broken.
std::optional<GqaOperands> gqa_operands(const TruthRequest& request, std::size_t output);

extern const Operation kGqa;

}  // namespace ptxbench::problem
