#include "problem/requests.h"

#include <algorithm>
#include <cmath>

namespace ptxbench::problem {
namespace {

constexpr std::uint64_t kMostKeys = std::uint64_t{1} << 28;  ///< of all requests: 2 GiB of places

/// One of the int32 tensors, which are always in memory.
struct Indices {
  const std::string& name;
  std::span<const std::int32_t> values;
};

Result<Indices> indices_of(const TruthRequest& request, std::size_t input) {
  const TensorSpec& spec = request.problem.definition.inputs[input];
  const Tensor* tensor = request.inputs[input].tensor;
  if (tensor == nullptr) return input_error("{}: {} must be given as a tensor", request.problem.title(), spec.name);
  return Indices{spec.name, tensor->as<std::int32_t>().first(tensor->count)};
}

std::vector<std::int64_t> widened(const Indices& indices) { return {indices.values.begin(), indices.values.end()}; }

/// The rows (of the matrix of queries times heads) that the tiles of both outputs need.
std::vector<RowRange> requested_rows(const TruthRequest& request, const RequestRoles& roles, const GqaShape& shape) {
  if (request.tiles.empty()) return {{0, shape.rows()}};
  std::vector<RowRange> rows;
  for (const Tile& tile : request.tiles[roles.output]) rows.push_back({tile.row_begin, tile.row_end});
  for (const Tile& tile : request.tiles[roles.lse]) {
    for (std::int64_t query = tile.row_begin; query < tile.row_end; ++query) {
      rows.push_back({query * shape.qo_heads + tile.column_begin, query * shape.qo_heads + tile.column_end});
    }
  }
  return rows;
}

}  // namespace

Result<void> check_offsets(const Problem& problem, const std::string& name, std::span<const std::int64_t> offsets,
                           std::int64_t total, const char* what) {
  const auto fail = [&](const std::string& message) {
    return input_error("{}: {} {}", problem.title(), name, message);
  };
  if (offsets.empty()) return fail("is empty; it has one more element than there are requests");
  if (offsets.front() != 0) return fail(fmt::format("begins with {}, not 0", offsets.front()));
  for (std::size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] < offsets[i - 1]) {
      return fail(fmt::format("decreases from {} to {} at element {}", offsets[i - 1], offsets[i], i));
    }
  }
  if (offsets.back() != total) {
    return fail(fmt::format("ends with {}, but there are {} {}", offsets.back(), total, what));
  }
  return {};
}

bool has_rank(const TensorSpec& spec, std::size_t rank) { return spec.shape && spec.shape->size() == rank; }

bool RequestRoles::derives(std::size_t input) const {
  return input == kv_indptr || input == sm_scale || qo_indptr == input || kv_indices == input ||
         kv_last_page_len == input;
}

std::optional<RequestRoles> with_request_tensors(const Definition& definition, RequestRoles roles,
                                                 std::size_t operands) {
  const auto& inputs = definition.inputs;
  const auto& outputs = definition.outputs;
  const auto kv_indptr = find_tensor(inputs, "kv_indptr"), sm_scale = find_tensor(inputs, "sm_scale");
  const auto output = find_tensor(outputs, "output"), lse = find_tensor(outputs, "lse");
  if (!kv_indptr || !sm_scale || !output || !lse || outputs.size() != 2) return std::nullopt;
  roles.kv_indptr = *kv_indptr, roles.sm_scale = *sm_scale, roles.output = *output, roles.lse = *lse;
  roles.qo_indptr = find_tensor(inputs, "qo_indptr");
  roles.kv_indices = find_tensor(inputs, "kv_indices");
  roles.kv_last_page_len = find_tensor(inputs, "kv_last_page_len");
  if (!roles.paged() && (!roles.qo_indptr || roles.kv_last_page_len)) return std::nullopt;
  std::size_t known = operands + 1;
  for (const auto& index :
       {std::optional(roles.kv_indptr), roles.qo_indptr, roles.kv_indices, roles.kv_last_page_len}) {
    if (!index) continue;
    if (!has_rank(inputs[*index], 1) || inputs[*index].dtype != Dtype::int32) return std::nullopt;
    ++known;
  }
  if (inputs.size() != known || !inputs[roles.sm_scale].is_scalar() || !is_wide_float(inputs[roles.sm_scale].dtype)) {
    return std::nullopt;
  }
  if (!has_rank(inputs[roles.q], 3) || !has_rank(outputs[roles.output], 3) || !has_rank(outputs[roles.lse], 2)) {
    return std::nullopt;
  }
  const auto& queries = *inputs[roles.q].shape;
  for (const TensorSpec& spec : outputs) {
    if (!std::equal(queries.begin(), queries.begin() + 2, spec.shape->begin())) return std::nullopt;
  }
  if (!is_wide_float(outputs[roles.output].dtype) || outputs[roles.lse].dtype != Dtype::float32) return std::nullopt;
  roles.causal = roles.qo_indptr && definition.is_causal();
  return roles;
}

Result<GqaShape> request_shape(const TruthRequest& request, const RequestRoles& roles) {
  const Problem& problem = request.problem;
  const Shape& q = problem.input_shapes[roles.q];
  const Shape& k = problem.input_shapes[roles.k];
  const std::int64_t page_size = roles.paged() ? k[1] : 1, places = k[0];  // pages, or keys
  GqaShape shape;
  shape.queries = q[0];
  shape.qo_heads = q[1];
  shape.depth = q[2] + (roles.q_tail ? problem.input_shapes[*roles.q_tail][2] : 0);
  shape.value_depth = problem.input_shapes[roles.v].back();
  shape.kv_heads = roles.k_tail ? 1 : k[k.size() - 2];
  shape.causal = roles.causal;
  if (shape.kv_heads <= 0 || shape.qo_heads % shape.kv_heads != 0) {
    return input_error("{}: {} query heads cannot share {} heads of K and V evenly", problem.title(), shape.qo_heads,
                       shape.kv_heads);
  }
  const Tensor* scale = request.inputs[roles.sm_scale].tensor;
  if (scale == nullptr) return input_error("{}: sm_scale must be given", problem.title());
  float value = 0;
  to_float(scale->dtype, scale->data(), 0, 1, &value);
  if (!std::isfinite(value) || value <= 0) return input_error("{}: sm_scale is {}", problem.title(), value);
  shape.scale = static_cast<double>(value);

  const auto kv = indices_of(request, roles.kv_indptr);
  if (!kv) return tl::unexpected(kv.error());
  Indices pages{kv->name, {}}, last{kv->name, {}}, queries{kv->name, {}};
  if (roles.paged()) {
    const auto given = indices_of(request, *roles.kv_indices);
    if (!given) return tl::unexpected(given.error());
    pages.values = given->values;
    for (std::size_t i = 0; i < pages.values.size(); ++i) {
      if (pages.values[i] >= 0 && pages.values[i] < places) continue;
      return input_error("{}: element {} of {} is page {}, but the cache has pages 0 to {}", problem.title(), i,
                         given->name, pages.values[i], places - 1);
    }
  }
  const std::int64_t listed = roles.paged() ? static_cast<std::int64_t>(pages.values.size()) : places;
  if (auto right = check_offsets(problem, kv->name, widened(*kv), listed, roles.paged() ? "page indices" : "keys");
      !right) {
    return tl::unexpected(right.error());
  }
  const std::size_t requests = kv->values.size() - 1;
  if (roles.qo_indptr) {
    const auto given = indices_of(request, *roles.qo_indptr);
    if (!given) return tl::unexpected(given.error());
    if (auto right = check_offsets(problem, given->name, widened(*given), shape.queries, "queries"); !right) {
      return tl::unexpected(right.error());
    }
    if (given->values.size() != kv->values.size()) {
      return input_error("{}: qo_indptr has {} offsets, kv_indptr {}", problem.title(), given->values.size(),
                         kv->values.size());
    }
    queries.values = given->values;
  } else if (static_cast<std::int64_t>(requests) != shape.queries) {
    return input_error("{}: kv_indptr has {} offsets, but {} requests need {}", problem.title(), kv->values.size(),
                       shape.queries, shape.queries + 1);
  }
  if (roles.kv_last_page_len) {
    const auto given = indices_of(request, *roles.kv_last_page_len);
    if (!given) return tl::unexpected(given.error());
    if (given->values.size() < requests) {
      return input_error("{}: kv_last_page_len has {} elements for {} requests", problem.title(), given->values.size(),
                         requests);
    }
    last.values = given->values;
  }

  // Requests may share pages, so that short lists stand for more keys than any cache has.
  std::uint64_t keys = 0;
  for (std::size_t i = 0; i < requests; ++i) {
    const auto listed_here = static_cast<std::uint64_t>(kv->values[i + 1] - kv->values[i]);
    const auto each = static_cast<std::uint64_t>(page_size);
    if (listed_here > 0 && each > (kMostKeys - keys) / listed_here) {
      return input_error("{}: the requests have more than {} keys in all, which is more than is possible here",
                         problem.title(), kMostKeys);
    }
    keys += listed_here * each;
  }

  for (std::size_t i = 0; i < requests; ++i) {
    GqaRequest one;
    one.query_begin = queries.values.empty() ? static_cast<std::int64_t>(i) : queries.values[i];
    one.query_end = queries.values.empty() ? one.query_begin + 1 : queries.values[i + 1];
    one.key_begin = static_cast<std::int64_t>(shape.slots.size());
    for (std::int64_t place = kv->values[i]; place < kv->values[i + 1]; ++place) {
      std::int64_t tokens = page_size;
      if (!last.values.empty() && place + 1 == kv->values[i + 1]) {
        tokens = last.values[i];
        if (tokens < 0 || tokens > page_size) {
          return input_error("{}: element {} of kv_last_page_len is {}, but a page holds {} tokens", problem.title(), i,
                             tokens, page_size);
        }
      }
      const std::int64_t page = roles.paged() ? pages.values[static_cast<std::size_t>(place)] : place;
      for (std::int64_t token = 0; token < tokens; ++token) shape.slots.push_back(page * page_size + token);
    }
    one.key_end = static_cast<std::int64_t>(shape.slots.size());
    shape.requests.push_back(one);
  }
  return shape;
}

GqaInputs request_operands(const TruthRequest& request, const RequestRoles& roles) {
  GqaInputs inputs{rows_of(request, roles.q), rows_of(request, roles.k), rows_of(request, roles.v)};
  if (roles.q_tail) inputs.q_tail = rows_of(request, *roles.q_tail);
  if (roles.k_tail) inputs.k_tail = rows_of(request, *roles.k_tail);
  return inputs;
}

Result<Truth> request_truth(const TruthRequest& request, const RequestRoles& roles) {
  const auto shape = request_shape(request, roles);
  if (!shape) return tl::unexpected(shape.error());
  auto outputs = make_truth_tensors(request.problem);
  if (!outputs) return tl::unexpected(outputs.error());
  Truth truth;
  truth.outputs = std::move(*outputs);
  truth.term_norms.resize(truth.outputs.size());
  const auto rows = requested_rows(request, roles, *shape);
  gqa_forward(*shape, request_operands(request, roles), rows, truth.outputs[roles.output].as<float>().data(),
              truth.outputs[roles.lse].as<float>().data(), request.threads);
  return truth;
}

std::optional<double> request_multiply_adds(const Problem& problem, const RequestRoles& roles) {
  std::vector<Tensor> inputs(problem.definition.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!roles.derives(i) || std::holds_alternative<DerivedInput>(source_of(problem, i))) continue;
    auto given = make_input(problem, i, {});
    if (!given) return std::nullopt;
    inputs[i] = std::move(*given);
  }
  if (!derive_requests(problem, roles, inputs, {})) return std::nullopt;
  return request_multiply_adds(problem, roles, inputs);
}

std::optional<double> request_multiply_adds(const Problem& problem, const RequestRoles& roles,
                                            const std::vector<Tensor>& inputs) {
  const auto shape = request_shape(request_for(problem, inputs), roles);
  return shape ? std::optional(shape->multiply_adds()) : std::nullopt;
}

/// Those of attention, with more where few rows or few keys decide: rounding a weight to bf16 moves the sum of two or
/// three of them by up to 2^-9, hence its logarithm by 0.0028, and a value far above the others moves an element and
/// the gain of a small output. lse is in base 2.
std::optional<Limits> request_limits(const Definition& definition, const RequestRoles& roles, std::size_t output) {
  if (output == roles.lse) {
    Limits limits = log_sum_limits();
    limits.absolute_max = 0.006;
    limits.absolute_rms = 0.002;
    return limits;
  }
  auto limits = limits_for("attention", definition.outputs[output].dtype);
  if (limits) {
    limits->element = 0.04;
    limits->gain *= 2;
  }
  return limits;
}

}  // namespace ptxbench::problem
