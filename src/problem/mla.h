#pragma once

#include <optional>

#include "problem/requests.h"

namespace ptxbench::problem {

/// Multi-head latent attention of the FlashInfer-Trace data set, in its two forms.
///
/// Absorbed, op_type "mla_paged": q_nope [queries, heads, C], q_pe [queries, heads, R], ckv_cache [pages, page size, C]
/// and kpe_cache [pages, page size, R]. Scores are q_nope ckv^T + q_pe kpe^T, the values are ckv, output is as q_nope:
/// one head of K and V, shared by all heads of queries.
///
/// Not absorbed, op_type "mla_ragged": q [queries, heads, D], k [keys, heads, D], v [keys, heads, E], output [queries,
/// heads, E].
///
/// All in bfloat16, float16 or float32, and beside them what with_request_tensors finds.
std::optional<RequestRoles> mla_roles(const Definition& definition);

extern const Operation kMla;

}  // namespace ptxbench::problem
