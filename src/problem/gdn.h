#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "problem/reference.h"

// Gated delta rule ("gated delta net") of the FlashInfer-Trace data set: a state S [V, K] per sequence and head that
// each token first lets decay and then corrects,
//
//   S <- g S,  S <- S + beta (v - S k) k^T,  o = scale S q,
//   g = exp(-exp(A_log) softplus(a + dt_bias)),  beta = sigmoid(b).

namespace ptxbench::problem {

/// Which tensors play the parts.
struct GdnRoles {
  /// Decode: one state per sequence, and so many tokens for each. Verification of several predicted tokens ("mtp"): the
  /// same with states out of a pool, which stays as it is. Prefill: sequences of unequal length one behind the other.
  enum class Kind { decode, mtp, prefill } kind = Kind::decode;
  std::size_t q = 0, k = 0, v = 0, state = 0, a_log = 0, a = 0, dt_bias = 0, b = 0, scale = 0;  ///< inputs
  std::size_t indices = 0;  ///< input: cu_seqlens of prefill, initial_state_indices of mtp, else without meaning
  std::size_t output = 0, final_state = 0;  ///< outputs
};

/// Recognised by op_type "gdn", by the layout of the state, [.., V, K] with K last: the tag "layout:k-last" or "k_last"
/// in the name, and by the tensors' names, types and shapes. `tokens` being [batch, tokens] for decode and mtp,
/// [tokens] for prefill: q and k [tokens, QK heads, K], v and output [tokens, V heads, V], a and b [tokens, V heads],
/// A_log and dt_bias [V heads], scale a scalar, states [sequences or pool, V heads, V, K], all of them floating;
/// cu_seqlens int64 or int32, initial_state_indices int32. Mtp has intermediate_states_buffer besides, which no output
/// depends on.
std::optional<GdnRoles> gdn_roles(const Definition& definition);

/// Tokens of one sequence, and where its state comes from and goes to.
struct GdnSequence {
  std::int64_t token_begin = 0, token_end = 0;
  std::int64_t state = 0;  ///< of the states given
};

struct GdnShape {
  std::int64_t tokens = 0;
  std::int64_t qk_heads = 0, v_heads = 0;  ///< V head h has Q and K of head h / (v_heads / qk_heads)
  std::int64_t k_depth = 0, v_depth = 0;
  double scale = 1;  ///< of the output
  std::vector<GdnSequence> sequences;
};

/// What the index tensors and the scale say; a scale of 0 stands for 1/sqrt(K). Errors name the tensor and the element:
/// offsets that do not begin at 0, decrease, do not end at the number of tokens or are not one more than there are
/// states; states that the pool does not have; heads that do not divide.
Result<GdnShape> gdn_shape(const TruthRequest& request, const GdnRoles& roles);

extern const Operation kGdn;

}  // namespace ptxbench::problem
