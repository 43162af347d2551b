#include "gqa_model.h"

#include <algorithm>
#include <cmath>

#include "attention_model.h"

namespace ptxbench::problem {
namespace {

constexpr double kLog2E = 1.4426950408889634074;

/// A split's share of a row.
struct Partial {
  float top = -INFINITY, total = 0;
  std::vector<float> sum;
};

class Kernel {
 public:
  Kernel(const GqaData& data, const GqaModel& model)
      : data_(data),
        model_(model),
        shape_(data.shape),
        q_(data.widened(data.roles.q, data.roles.q_tail)),
        k_(data.widened(data.roles.k, data.roles.k_tail)),
        v_(data.widened(data.roles.v)),
        factor_(static_cast<float>(shape_.scale * model.score_factor)) {}

  GqaOutput run() {
    GqaOutput out{std::vector<float>(data_.o_truth.size(), 0.0f), std::vector<float>(data_.lse_truth.size())};
    for (std::size_t r = 0; r < shape_.requests.size(); ++r) {
      const GqaRequest& request = shape_.requests[r];
      for (std::int64_t query = 0; query < request.queries(); ++query) {
        const std::vector<std::int64_t> keys = keys_of(r, query);
        for (std::int64_t head = 0; head < shape_.qo_heads; ++head) {
          const std::int64_t row = (request.query_begin + query) * shape_.qo_heads + head;
          finish(row, parts_of(row, head, keys), out);
        }
      }
    }
    return out;
  }

 private:
  std::int64_t tokens() const { return static_cast<std::int64_t>(k_.size()) / (shape_.kv_heads * shape_.depth); }

  /// The slots whose keys a query sees; -1 stands for a key of zeros.
  std::vector<std::int64_t> keys_of(std::size_t index, std::int64_t query) const {
    const GqaRequest& own = shape_.requests[index];
    const std::int64_t slots_end = static_cast<std::int64_t>(shape_.slots.size());
    std::int64_t seen = shape_.seen_by(own, query);
    if (shape_.causal && model_.mask == GqaModel::Mask::none) seen = own.keys();
    if (shape_.causal && model_.mask == GqaModel::Mask::top_left) seen = std::min(query + 1, own.keys());
    if (shape_.causal) seen = std::clamp(seen + model_.mask_shift, std::int64_t{0}, own.keys());
    std::int64_t end = own.keys() - model_.back;
    if (model_.left_out > 0 && own.keys() > 1) {
      end -= std::max<std::int64_t>(1, static_cast<std::int64_t>(model_.left_out * static_cast<double>(own.keys())));
    }
    if (model_.whole_tiles_only) end = end / model_.tile * model_.tile;
    std::vector<std::int64_t> out;
    for (std::int64_t i = model_.front; i < std::min(seen, end); ++i) {
      std::int64_t at = own.key_begin + i;
      if (model_.keys == GqaModel::Keys::of_next_request && index + 1 < shape_.requests.size()) {
        at = shape_.requests[index + 1].key_begin + i;
      }
      if (model_.keys == GqaModel::Keys::of_previous_request && index > 0) {
        at = shape_.requests[index - 1].key_begin + i;
      }
      std::int64_t slot = shape_.slots[static_cast<std::size_t>(std::min(at, slots_end - 1))];
      if (model_.keys == GqaModel::Keys::straight) slot = std::min(at, tokens() - 1);
      if (model_.keys == GqaModel::Keys::from_start) slot = std::min(i, tokens() - 1);
      out.push_back(slot);
    }
    if (model_.whole_last_page && seen == own.keys() && !out.empty()) {
      for (std::int64_t slot = out.back() + 1; slot % data_.what.page_size != 0; ++slot) out.push_back(slot);
    }
    while (model_.zeros_behind && out.size() % static_cast<std::size_t>(model_.tile) != 0) out.push_back(-1);
    return out;
  }

  std::vector<Partial> parts_of(std::int64_t row, std::int64_t head, const std::vector<std::int64_t>& keys) const {
    std::int64_t kv_head = head / shape_.group();
    if (model_.heads == GqaModel::Heads::modulo) kv_head = head % shape_.kv_heads;
    if (model_.heads == GqaModel::Heads::first) kv_head = 0;
    const auto count = static_cast<std::int64_t>(keys.size());
    const std::int64_t part = (count + model_.splits - 1) / model_.splits;
    std::vector<Partial> parts;
    for (std::int64_t first = 0; first < count; first += std::max<std::int64_t>(part, 1)) {
      parts.push_back(partial(row, kv_head, keys, first, std::min(first + part, count)));
    }
    return parts;
  }

  const float* key_of(std::int64_t slot, std::int64_t kv_head) const {
    return k_.data() + (slot * shape_.kv_heads + kv_head) * shape_.depth;
  }
  const float* value_of(std::int64_t slot, std::int64_t kv_head) const {
    if (model_.values_from_end) return key_of(slot, kv_head) + shape_.depth - shape_.value_depth;
    return v_.data() + (slot * shape_.kv_heads + kv_head) * shape_.value_depth;
  }

  Partial partial(std::int64_t row, std::int64_t kv_head, const std::vector<std::int64_t>& keys, std::int64_t first,
                  std::int64_t end) const {
    const auto depth = static_cast<std::size_t>(shape_.depth), columns = static_cast<std::size_t>(shape_.value_depth);
    const std::size_t rope = data_.roles.q_tail ? static_cast<std::size_t>(data_.what.rope) : 0;
    const auto round_p = model_.round_p != nullptr ? model_.round_p : to_bf16_and_back;
    Partial out;
    out.sum.assign(columns, 0.0f);
    std::vector<float> scores;
    for (std::int64_t key0 = first; key0 < end; key0 += model_.tile) {
      const std::int64_t last = std::min(key0 + model_.tile, end);
      scores.clear();
      float top = out.top;
      for (std::int64_t key = key0; key < last; ++key) {
        float score = 0, more = 0;
        const std::int64_t slot = keys[static_cast<std::size_t>(key)];
        if (slot >= 0) {
          const float* other = key_of(slot, kv_head);
          const float* own = q_.data() + static_cast<std::size_t>(row) * depth;
          for (std::size_t d = 0; d < depth - rope; ++d) score += own[d] * other[d];
          for (std::size_t d = depth - rope; d < depth; ++d) more += own[d] * other[d];
          score = score * static_cast<float>(model_.first_part) + more * static_cast<float>(model_.second_part);
        }
        scores.push_back(score * factor_);
        top = std::max(top, scores.back());
      }
      if (top > out.top && out.top != -INFINITY) {
        const float rescale = std::exp(out.top - top);
        if (model_.rescales_output) {
          for (float& value : out.sum) value *= rescale;
        }
        if (model_.rescales_sum) out.total *= rescale;
      }
      out.top = top;
      for (std::int64_t key = key0; key < last; ++key) {
        const float weight = std::exp(scores[static_cast<std::size_t>(key - key0)] - top);
        const float rounded = round_p(weight);
        out.total += model_.sums_rounded ? rounded : weight;
        const std::int64_t slot = keys[static_cast<std::size_t>(key)];
        if (slot >= 0) {
          const float* value = value_of(slot, kv_head);
          for (std::size_t d = 0; d < columns; ++d) out.sum[d] += rounded * value[d];
        }
        if (model_.round_sum != nullptr && (key % 16 == 15 || key + 1 == last)) {
          for (float& one : out.sum) one = model_.round_sum(one);
        }
      }
    }
    return out;
  }

  void finish(std::int64_t row, const std::vector<Partial>& parts, GqaOutput& out) const {
    float top = -INFINITY, total = 0;
    for (const Partial& part : parts) top = std::max(top, part.top);
    float* to = out.o.data() + row * shape_.value_depth;
    for (const Partial& part : parts) {
      const float weight = std::exp(part.top - top);
      total += weight * part.total;
      for (std::int64_t d = 0; d < shape_.value_depth; ++d) {
        const float value = part.sum[static_cast<std::size_t>(d)];
        to[d] += model_.merges_by_weight ? weight * value : value / part.total / static_cast<float>(parts.size());
      }
    }
    if (model_.merges_by_weight && total > 0) {
      for (std::int64_t d = 0; d < shape_.value_depth; ++d) to[d] /= total;
    }
    float& lse = out.lse[static_cast<std::size_t>(row)];
    lse = total > 0 ? top + std::log(total) : -INFINITY;
    if (!model_.natural_lse) lse *= static_cast<float>(kLog2E);
    if (total == 0 && model_.empty_is_zero) lse = 0;
  }

  const GqaData& data_;
  const GqaModel& model_;
  const GqaShape& shape_;
  std::vector<float> q_, k_, v_;
  float factor_;
};

}  // namespace

std::string GqaCase::name() const {
  const char* kinds[] = {"decode", "paged prefill", "ragged prefill"};
  return fmt::format("{}{}, {} requests, {} queries, {} listed, pages of {}, {} inputs", latent() ? "latent " : "",
                     kinds[static_cast<int>(kind)], requests, queries, listed, page_size, to_string(distribution));
}

Definition gqa_definition(const GqaCase& what) {
  const bool paged = what.kind != GqaKind::ragged, prefill = what.kind != GqaKind::decode;
  const std::string cache = paged ? R"(["pages","page_size","kv_heads","D"])" : R"(["listed","kv_heads","D"])";
  std::string operands = fmt::format(
      R"("q":{{"shape":["queries","qo_heads","D"],"dtype":"bfloat16"}},"k{0}":{{"shape":{1},"dtype":"bfloat16"}},
  "v{0}":{{"shape":{1},"dtype":"bfloat16"}},)",
      paged ? "_cache" : "", cache);
  if (what.value_depth > 0) operands.replace(operands.rfind("\"D\""), 3, "\"E\"");
  if (what.rope > 0) {
    operands = R"("q_nope":{"shape":["queries","qo_heads","D"],"dtype":"bfloat16"},
  "q_pe":{"shape":["queries","qo_heads","R"],"dtype":"bfloat16"},
  "ckv_cache":{"shape":["pages","page_size","D"],"dtype":"bfloat16"},
  "kpe_cache":{"shape":["pages","page_size","R"],"dtype":"bfloat16"},)";
  }
  std::string text = fmt::format(
      R"({{"name":"g{}","op_type":"{}_{}","axes":{{"queries":{{"type":"var"}},"qo_heads":{{"type":"const","value":{}}},
  "kv_heads":{{"type":"const","value":{}}},"D":{{"type":"const","value":{}}},"page_size":{{"type":"const","value":{}}},
  "E":{{"type":"const","value":{}}},"R":{{"type":"const","value":{}}},
  "offsets":{{"type":"var"}},"listed":{{"type":"var"}},"pages":{{"type":"var"}}}},"inputs":{{{})",
      prefill ? "_causal" : "", what.latent() ? "mla" : "gqa", paged ? "paged" : "ragged", what.qo_heads, what.kv_heads,
      what.depth, what.page_size, what.columns(), std::max<std::int64_t>(what.rope, 1), operands);
  const auto index = [&](const char* name, const char* axis) {
    text += fmt::format(R"("{}":{{"shape":["{}"],"dtype":"int32"}},)", name, axis);
  };
  if (prefill) index("qo_indptr", "offsets");
  index("kv_indptr", "offsets");
  if (paged) index("kv_indices", "listed");
  if (paged && what.page_size > 1) index("kv_last_page_len", "offsets");
  text += fmt::format(R"("sm_scale":{{"shape":null,"dtype":"float32"}}}},"outputs":{{
  "output":{{"shape":["queries","qo_heads","{}"],"dtype":"bfloat16"}},
  "lse":{{"shape":["queries","qo_heads"],"dtype":"float32"}}}},"reference":"r"}})",
                      what.value_depth > 0 ? "E" : "D");
  return definition_of(text);
}

Problem gqa_problem(const GqaCase& what) {
  return problem_of(
      gqa_definition(what),
      {{"queries", what.queries}, {"offsets", what.requests + 1}, {"listed", what.listed}, {"pages", what.pages}});
}

GqaData::GqaData(const GqaCase& which, std::uint64_t seed)
    : ProblemData(gqa_problem(which), which.distribution, seed),
      what(which),
      roles(which.latent() ? *mla_roles(problem.definition) : *gqa_roles(problem.definition)),
      shape(*request_shape(request_for(problem, tensors), roles)),
      o_truth(truths[roles.output]),
      lse_truth(truths[roles.lse]) {}

std::vector<float> GqaData::widened(std::size_t input, std::optional<std::size_t> tail) const {
  std::vector<float> first = widened(input);
  if (!tail) return first;
  const std::vector<float> second = widened(*tail);
  const std::size_t columns = static_cast<std::size_t>(what.depth), more = static_cast<std::size_t>(what.rope);
  std::vector<float> out;
  for (std::size_t row = 0; row * columns < first.size(); ++row) {
    out.insert(out.end(), first.begin() + static_cast<std::ptrdiff_t>(row * columns),
               first.begin() + static_cast<std::ptrdiff_t>((row + 1) * columns));
    out.insert(out.end(), second.begin() + static_cast<std::ptrdiff_t>(row * more),
               second.begin() + static_cast<std::ptrdiff_t>((row + 1) * more));
  }
  return out;
}

GqaOutput run_gqa(const GqaData& data, const GqaModel& model) { return Kernel(data, model).run(); }

}  // namespace ptxbench::problem
