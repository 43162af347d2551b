#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "problem/gqa.h"
#include "problem/mla.h"
#include "test_support.h"

// Kernels for grouped-query and latent attention as they are written for tensor cores, sound ones and wrong ones,
// computed on the CPU in plain loops that share nothing with the truth but the shape.

namespace ptxbench::problem {

enum class GqaKind { decode, prefill, ragged };

/// A small problem of the family; with pages of one token it has no kv_last_page_len.
struct GqaCase {
  GqaKind kind = GqaKind::decode;
  std::int64_t requests = 1, queries = 1;
  std::int64_t listed = 1;  ///< page indices, or keys of a ragged problem
  std::int64_t pages = 1;   ///< in the cache
  std::int64_t page_size = 1;
  std::int64_t qo_heads = 6, kv_heads = 2, depth = 64;
  Distribution distribution = Distribution::normal;
  std::int64_t rope = 0;         ///< latent attention, absorbed: depth of q_pe and kpe; kv_heads is not used
  std::int64_t value_depth = 0;  ///< latent attention, not absorbed: that of v and the output

  bool latent() const { return rope > 0 || value_depth > 0; }
  /// Of the output.
  std::int64_t columns() const { return value_depth > 0 ? value_depth : depth; }
  std::string name() const;
};

Definition gqa_definition(const GqaCase& what);
Problem gqa_problem(const GqaCase& what);

struct GqaData : ProblemData {
  explicit GqaData(const GqaCase& what, std::uint64_t seed = 3);

  GqaOperands operands(bool is_lse) const { return {shape, inputs(), what.page_size, is_lse}; }
  GqaInputs inputs() const { return request_operands(request_for(problem, tensors), roles); }
  using ProblemData::widened;
  /// Rows of `input` with those of `tail`, if there is one, behind them.
  std::vector<float> widened(std::size_t input, std::optional<std::size_t> tail) const;

  GqaCase what;
  RequestRoles roles;
  GqaShape shape;
  const std::vector<float>&o_truth, &lse_truth;
};

/// How a kernel goes about it; the defaults are sound.
struct GqaModel {
  using Round = float (*)(float);
  enum class Heads { grouped, modulo, first };
  enum class Keys { listed, straight, from_start, of_next_request, of_previous_request };
  enum class Mask { right, none, top_left };

  std::int64_t tile = 64;                  ///< keys of one step
  double score_factor = 1;                 ///< on scores, beside the right scale
  double first_part = 1, second_part = 1;  ///< on what q_nope and q_pe add to the scores of latent attention
  bool values_from_end = false;            ///< V is the last of K's columns instead of the first
  Heads heads = Heads::grouped;
  Keys keys = Keys::listed;
  Mask mask = Mask::right;
  std::int64_t mask_shift = 0;       ///< keys that each query sees too many
  std::int64_t front = 0, back = 0;  ///< keys left out at both ends of a request
  double left_out = 0;               ///< share of a request's last keys, at least one of more than one
  bool whole_tiles_only = false;     ///< a tail behind the last tile is left out
  bool whole_last_page = false;      ///< also what is behind the last token enters
  bool zeros_behind = false;         ///< a tile's missing keys enter with score 0 and value 0
  Round round_p = nullptr;           ///< weights before the second product; null: bf16
  Round round_sum = nullptr;         ///< accumulators after every 16 keys
  bool rescales_output = true, rescales_sum = true;
  bool sums_rounded = false;  ///< the row sum is that of the rounded weights
  std::int64_t splits = 1;    ///< of the keys, merged at the end
  bool merges_by_weight = true;
  bool natural_lse = false;
  bool empty_is_zero = false;  ///< lse of a query that sees nothing
};

struct GqaOutput {
  std::vector<float> o, lse;
};
GqaOutput run_gqa(const GqaData& data, const GqaModel& model);

}  // namespace ptxbench::problem
