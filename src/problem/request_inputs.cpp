// The rules by which offsets, pages and the scale of attention over requests follow from the axes and the seed.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "problem/random_element.h"
#include "problem/requests.h"

namespace ptxbench::problem {
namespace {

/// Random words of one derived input: the generator of random inputs with a purpose of its own.
class Words {
 public:
  Words(std::uint64_t seed, std::size_t input) : seed_(seed), tensor_(static_cast<std::uint32_t>(input)) {}

  std::uint32_t next() {
    constexpr std::uint32_t kPurpose = 3;  // 0 and 1 are values and spikes, 2 scale factors
    if (index_ % 4 == 0) {
      block_ = philox(element_counter(index_ / 4, tensor_, kPurpose), static_cast<std::uint32_t>(seed_),
                      static_cast<std::uint32_t>(seed_ >> 32));
    }
    return block_.word[index_++ % 4];
  }
  /// In [0, bound); a bound of 2^31 leaves a bias of 2^-32.
  std::int64_t below(std::int64_t bound) {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(next()) * static_cast<std::uint64_t>(bound)) >> 32);
  }

 private:
  std::uint64_t seed_;
  std::uint32_t tensor_;
  std::uint64_t index_ = 0;
  PhiloxBlock block_{};
};

using Lengths = std::vector<std::int64_t>;

std::int64_t sum_of(const Lengths& lengths) { return std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0}); }

/// `total` over `count` requests, very unevenly: one gets a quarter, another nothing, the rest goes by the squares of
/// random weights.
Lengths shares(std::int64_t total, std::size_t count, Words& words) {
  Lengths out(count, 0);
  if (count == 0) return out;
  const auto requests = static_cast<std::int64_t>(count);
  const auto longest = static_cast<std::size_t>(words.below(requests));
  const auto shortest =
      count == 1 ? count : (longest + 1 + static_cast<std::size_t>(words.below(requests - 1))) % count;
  std::vector<std::int64_t> weights(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t random = 1 + (words.next() >> 22);  // 10 bits
    if (i != longest && i != shortest) weights[i] = random * random;
  }
  const std::int64_t rest = total - total / 4, whole = sum_of(weights);
  for (std::size_t i = 0; i < count && whole > 0; ++i) out[i] = rest * weights[i] / whole;
  out[longest] += total - sum_of(out);
  return out;
}

/// The same, but at least one for each request; where there is less than that, one for some of them.
Lengths lengths_of(std::int64_t total, std::size_t count, Words& words) {
  const auto requests = static_cast<std::int64_t>(count);
  if (total >= requests) {
    Lengths out = shares(total - requests, count, words);
    for (std::int64_t& length : out) ++length;
    return out;
  }
  Lengths out(count, 0);
  // Each request in turn is among the `left` that get one of the `needed` with the same chance.
  std::int64_t needed = total;
  for (std::size_t i = 0; i < count; ++i) {
    if (words.below(requests - static_cast<std::int64_t>(i)) >= needed) continue;
    out[i] = 1;
    --needed;
  }
  return out;
}

Lengths differences(std::span<const std::int32_t> offsets) {
  Lengths out;
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    out.push_back(static_cast<std::int64_t>(offsets[i]) - static_cast<std::int64_t>(offsets[i - 1]));
  }
  return out;
}

void store_offsets(const Lengths& lengths, Tensor& tensor) {
  const auto to = tensor.as<std::int32_t>();
  std::int64_t at = 0;
  for (std::size_t i = 0; i < tensor.count; ++i) {
    to[i] = static_cast<std::int32_t>(at);
    if (i < lengths.size()) at += lengths[i];
  }
}

/// `count` of `pages` pages, each at most once if there are enough, in random order: never the one in which they lie.
std::vector<std::int32_t> choose_pages(std::int64_t count, std::int64_t pages, Words& words) {
  std::vector<std::int32_t> out;
  if (pages == 0) return out;
  if (count > pages) {
    // Requests share pages, as they do where prompts begin alike.
    for (std::int64_t i = 0; i < count; ++i) out.push_back(static_cast<std::int32_t>(words.below(pages)));
    return out;
  }
  std::vector<std::int32_t> all(static_cast<std::size_t>(pages));
  std::iota(all.begin(), all.end(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::swap(all[static_cast<std::size_t>(i)], all[static_cast<std::size_t>(i + words.below(pages - i))]);
  }
  out.assign(all.begin(), all.begin() + count);
  // A few pages may come out sorted by chance.
  if (std::is_sorted(out.begin(), out.end())) std::rotate(out.begin(), out.begin() + (count > 1 ? 1 : 0), out.end());
  if (count == 1 && pages > 1 && out[0] == 0) out[0] = static_cast<std::int32_t>(pages - 1);
  return out;
}

class Deriver {
 public:
  Deriver(const Problem& problem, const RequestRoles& roles, std::vector<Tensor>& inputs, std::uint64_t seed)
      : problem_(problem), roles_(roles), inputs_(inputs), seed_(seed) {}

  Result<void> run() {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (!wanted(i)) continue;
      const TensorSpec& spec = problem_.definition.inputs[i];
      auto tensor = Tensor::create(spec.name, spec.dtype, problem_.input_shapes[i]);
      if (!tensor) return tl::unexpected(tensor.error());
      inputs_[i] = std::move(*tensor);
    }
    const Shape& k = problem_.input_shapes[roles_.k];
    const std::int64_t queries = problem_.input_shapes[roles_.q][0];
    const std::int64_t places = roles_.paged() ? problem_.input_shapes[*roles_.kv_indices][0] : k[0];
    if (std::max({queries, places, k[0]}) > std::numeric_limits<std::int32_t>::max()) {
      return input_error("{}: int32 offsets cannot count that far", problem_.title());
    }
    const std::int64_t page_size = roles_.paged() ? k[1] : 1;
    if (roles_.qo_indptr && wanted(*roles_.qo_indptr)) {
      store_offsets(derived_lengths(queries, requests(*roles_.qo_indptr), seed_, *roles_.qo_indptr),
                    inputs_[*roles_.qo_indptr]);
    }
    const Lengths query_lengths = roles_.qo_indptr ? differences(offsets(*roles_.qo_indptr)) : Lengths();
    if (wanted(roles_.kv_indptr)) place_keys(query_lengths, places, page_size);
    if (roles_.kv_last_page_len && wanted(*roles_.kv_last_page_len)) fill_last_pages(query_lengths, page_size);
    if (roles_.paged() && wanted(*roles_.kv_indices)) {
      const auto pages = derived_pages(places, k[0], seed_, *roles_.kv_indices);
      std::copy(pages.begin(), pages.end(), inputs_[*roles_.kv_indices].as<std::int32_t>().begin());
    }
    if (wanted(roles_.sm_scale)) {
      // Absorbed queries are as deep as the latent keys that they meet. In the models that there are they were a
      // quarter of that before, and the scale is still that of the shorter ones.
      auto depth = static_cast<double>(problem_.input_shapes[roles_.q][2]);
      if (roles_.q_tail) depth = depth / 4 + static_cast<double>(problem_.input_shapes[*roles_.q_tail][2]);
      const auto scale = static_cast<float>(1 / std::sqrt(depth));
      from_float(inputs_[roles_.sm_scale].dtype, &scale, 0, 1, inputs_[roles_.sm_scale].data());
    }
    return {};
  }

 private:
  bool wanted(std::size_t input) const { return std::holds_alternative<DerivedInput>(source_of(problem_, input)); }
  std::span<const std::int32_t> offsets(std::size_t input) const {
    return std::as_const(inputs_[input]).as<std::int32_t>().first(inputs_[input].count);
  }
  std::size_t requests(std::size_t input) const { return inputs_[input].count == 0 ? 0 : inputs_[input].count - 1; }

  /// Prefill: room for each request's own tokens, and a share of the rest for what was there before them. Otherwise,
  /// and where there is no such room, as lengths_of has it.
  void place_keys(const Lengths& query_lengths, std::int64_t places, std::int64_t page_size) {
    Words words(seed_, roles_.kv_indptr);
    const std::size_t count = requests(roles_.kv_indptr);
    Lengths own;
    for (const std::int64_t length : query_lengths) {
      own.push_back(page_size > 0 && length > 0 ? (length + page_size - 1) / page_size : 0);
    }
    const std::int64_t rest = places - sum_of(own);
    Lengths lengths;
    if (own.size() == count && !own.empty() && rest >= 0) {
      lengths = shares(rest, count, words);
      for (std::size_t i = 0; i < count; ++i) lengths[i] += own[i];
    } else {
      lengths = lengths_of(places, count, words);
    }
    store_offsets(lengths, inputs_[roles_.kv_indptr]);
  }

  /// At least one token, and enough of them for a request's own queries; none for a request without pages.
  void fill_last_pages(const Lengths& query_lengths, std::int64_t page_size) {
    Words words(seed_, *roles_.kv_last_page_len);
    Tensor& last = inputs_[*roles_.kv_last_page_len];
    const Lengths pages = differences(offsets(roles_.kv_indptr));
    for (std::size_t i = 0; i < std::min<std::size_t>(pages.size(), last.count); ++i) {
      std::int64_t least = 1;
      if (i < query_lengths.size()) least = std::max(least, query_lengths[i] - (pages[i] - 1) * page_size);
      least = std::min(least, page_size);
      const std::int64_t length = least + words.below(page_size - least + 1);
      last.as<std::int32_t>()[i] = static_cast<std::int32_t>(pages[i] > 0 ? length : 0);
    }
  }

  const Problem& problem_;
  const RequestRoles& roles_;
  std::vector<Tensor>& inputs_;
  std::uint64_t seed_;
};

}  // namespace

std::vector<std::int64_t> derived_lengths(std::int64_t total, std::size_t count, std::uint64_t seed,
                                          std::size_t input) {
  Words words(seed, input);
  return lengths_of(total, count, words);
}

std::vector<std::int32_t> derived_pages(std::int64_t count, std::int64_t pages, std::uint64_t seed, std::size_t input) {
  Words words(seed, input);
  return choose_pages(count, pages, words);
}

std::vector<double> derived_uniform(std::size_t count, std::uint64_t seed, std::size_t input) {
  Words words(seed, input);
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<double>(words.next()) * 0x1p-32);
  return out;
}

Result<void> derive_requests(const Problem& problem, const RequestRoles& roles, std::vector<Tensor>& inputs,
                             const InputOptions& options) {
  if (auto derived = Deriver(problem, roles, inputs, options.seed).run(); !derived) return derived;
  const auto shape = request_shape(request_for(problem, inputs), roles);
  if (!shape) return tl::unexpected(shape.error());
  return {};
}

}  // namespace ptxbench::problem
