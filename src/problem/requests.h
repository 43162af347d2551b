#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "problem/gqa_truth.h"
#include "problem/reference.h"
#include "problem/structure.h"

// What the attention problems of the FlashInfer-Trace data set share: requests of unequal length, told by offsets, with
// keys one behind the other or in pages.

namespace ptxbench::problem {

/// Which tensors play the parts. Decode has one query per request; prefill has `qo_indptr`. A paged cache has
/// `kv_indices`, and with more than one token a page `kv_last_page_len`; without a cache ("ragged") the keys of all
/// requests lie one behind the other. Queries are [queries, heads, D], keys [pages, page size, KV heads, D] (latent
/// ones without heads) or [keys, KV heads, D].
struct RequestRoles {
  bool causal = false;
  std::size_t q = 0, k = 0, v = 0, kv_indptr = 0, sm_scale = 0;        ///< inputs; latent attention's v is its k
  std::optional<std::size_t> q_tail, k_tail;                           ///< inputs: more columns of q and k
  std::optional<std::size_t> qo_indptr, kv_indices, kv_last_page_len;  ///< inputs, where they exist
  std::size_t output = 0, lse = 0;                                     ///< outputs

  bool paged() const { return kv_indices.has_value(); }
  /// The inputs that derive_requests can make.
  bool derives(std::size_t input) const;
};

bool has_rank(const TensorSpec& spec, std::size_t rank);
/// Finds what all such problems have by name: the index tensors in int32, sm_scale a floating scalar, the outputs
/// `output` [queries, heads, any] and `lse` [queries, heads] in float32, and whether the mask is causal: with queries'
/// offsets and the tag "mask:causal" or "causal" in the name. Nothing where one is missing or of another kind, or where
/// the definition has other tensors than `operands` and these; those that the roles name already must be right.
std::optional<RequestRoles> with_request_tensors(const Definition& definition, RequestRoles roles,
                                                 std::size_t operands);

/// Offsets of requests begin at 0, never decrease and end at `total`, the number of `what`; the error names the
/// element.
Result<void> check_offsets(const Problem& problem, const std::string& name, std::span<const std::int64_t> offsets,
                           std::int64_t total, const char* what);

// Rules by which derived inputs follow from the seed and their place in the call.
/// Very unequal lengths of `count` requests with the sum `total`: at least one each where that is enough.
std::vector<std::int64_t> derived_lengths(std::int64_t total, std::size_t count, std::uint64_t seed, std::size_t input);
/// `count` of `pages` pages in random order, each at most once if there are enough.
std::vector<std::int32_t> derived_pages(std::int64_t count, std::int64_t pages, std::uint64_t seed, std::size_t input);
/// In [0, 1).
std::vector<double> derived_uniform(std::size_t count, std::uint64_t seed, std::size_t input);

/// What the index tensors say. Errors name the tensor and the element: offsets that do not begin at 0, decrease or do
/// not end at the number of queries, pages or keys; pages that the cache does not have; last pages longer than a page;
/// as many requests as there are offsets, less one. Nothing is read out of bounds on the way.
Result<GqaShape> request_shape(const TruthRequest& request, const RequestRoles& roles);

/// Tensors in the request must outlive them.
GqaInputs request_operands(const TruthRequest& request, const RequestRoles& roles);

Result<Truth> request_truth(const TruthRequest& request, const RequestRoles& roles);

/// Nothing where the index tensors are broken. The lengths of the requests decide, and where they are derived they
/// depend on the seed: those of seed 0 stand for all.
std::optional<double> request_multiply_adds(const Problem& problem, const RequestRoles& roles);
/// With these very inputs.
std::optional<double> request_multiply_adds(const Problem& problem, const RequestRoles& roles,
                                            const std::vector<Tensor>& inputs);

/// Fills in what the workload leaves to the rules of docs/problems.md: offsets, pages and the scale. Then checks all of
/// them, given ones as well.
Result<void> derive_requests(const Problem& problem, const RequestRoles& roles, std::vector<Tensor>& inputs,
                             const InputOptions& options);

/// Limits of bf16 outputs and of lse, or nothing.
std::optional<Limits> request_limits(const Definition& definition, const RequestRoles& roles, std::size_t output);

}  // namespace ptxbench::problem
