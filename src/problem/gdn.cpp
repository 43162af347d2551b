#include "problem/gdn.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "problem/parallel.h"
#include "problem/requests.h"
#include "problem/vector_clones.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kLanes = 8;  // partial sums, whatever the width of the machine's vectors

/// One token's change of a row of the state; returns the row's product with q.
PTXBENCH_CLONES double advance(double* row, const double* k, const double* q, std::int64_t depth, double g, double beta,
                               double v) {
  double lane[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= depth; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      row[i + j] *= g;
      lane[j] += row[i + j] * k[i + j];
    }
  }
  for (; i < depth; ++i) {
    row[i] *= g;
    lane[0] += row[i] * k[i];
  }
  double old = 0;
  for (double& value : lane) {
    old += value;
    value = 0;
  }
  const double change = beta * (v - old);
  for (i = 0; i + kLanes <= depth; i += kLanes) {
    for (std::int64_t j = 0; j < kLanes; ++j) {
      row[i + j] += change * k[i + j];
      lane[j] += row[i + j] * q[i + j];
    }
  }
  for (; i < depth; ++i) {
    row[i] += change * k[i];
    lane[0] += row[i] * q[i];
  }
  double product = 0;
  for (const double value : lane) product += value;
  return product;
}

std::vector<double> read_row(const MatrixRows& matrix, std::int64_t row) {
  std::vector<float> values(static_cast<std::size_t>(matrix.columns()));
  matrix.read(row, 0, matrix.columns(), values.data());
  return {values.begin(), values.end()};
}

/// Every sequence's heads that the tiles touch, as sequence * heads + head.
std::vector<std::int64_t> requested_heads(const TruthRequest& request, const GdnRoles& roles, const GdnShape& shape) {
  const std::int64_t heads = shape.v_heads, sequences = static_cast<std::int64_t>(shape.sequences.size());
  std::set<std::int64_t> wanted;
  if (request.tiles.empty()) {
    for (std::int64_t i = 0; i < sequences * heads; ++i) wanted.insert(i);
    return {wanted.begin(), wanted.end()};
  }
  for (const Tile& tile : request.tiles[roles.output]) {
    for (std::int64_t i = 0; i < sequences; ++i) {
      const GdnSequence& one = shape.sequences[static_cast<std::size_t>(i)];
      const std::int64_t begin = std::max(tile.row_begin, one.token_begin * heads);
      const std::int64_t end = std::min(tile.row_end, one.token_end * heads);
      for (std::int64_t row = begin; row < std::min(end, begin + heads); ++row) wanted.insert(i * heads + row % heads);
    }
  }
  if (roles.kind != GdnRoles::Kind::mtp) {
    for (const Tile& tile : request.tiles[roles.final_state]) {
      for (std::int64_t row = tile.row_begin; row < tile.row_end; ++row) wanted.insert(row / shape.v_depth);
    }
  }
  return {wanted.begin(), wanted.end()};
}

Result<Truth> gdn_truth(const TruthRequest& request) {
  const GdnRoles roles = *gdn_roles(request.problem.definition);
  const auto shape = gdn_shape(request, roles);
  if (!shape) return tl::unexpected(shape.error());
  auto outputs = make_truth_tensors(request.problem);
  if (!outputs) return tl::unexpected(outputs.error());
  Truth truth;
  truth.outputs = std::move(*outputs);
  truth.term_norms.resize(truth.outputs.size());
  float* output = truth.outputs[roles.output].as<float>().data();
  float* final_state = truth.outputs[roles.final_state].as<float>().data();
  const MatrixRows q = rows_of(request, roles.q), k = rows_of(request, roles.k), v = rows_of(request, roles.v);
  const MatrixRows states = rows_of(request, roles.state), a = rows_of(request, roles.a), b = rows_of(request, roles.b);
  const std::vector<double> a_log = read_row(rows_of(request, roles.a_log), 0);
  const std::vector<double> dt_bias = read_row(rows_of(request, roles.dt_bias), 0);
  if (roles.kind == GdnRoles::Kind::mtp) {
    for (std::int64_t row = 0; row < states.rows(); ++row) {
      states.read(row, 0, states.columns(), final_state + row * states.columns());
    }
  }

  const std::int64_t heads = shape->v_heads, depth = shape->k_depth, rows = shape->v_depth;
  const std::int64_t group = heads / shape->qk_heads;
  const auto wanted = requested_heads(request, roles, *shape);
  parallel_for(wanted.size(), request.threads, [&](std::uint64_t index) {
    const std::int64_t sequence = wanted[index] / heads, head = wanted[index] % heads;
    const GdnSequence& one = shape->sequences[static_cast<std::size_t>(sequence)];
    // What the data set's references make of a sequence without tokens.
    if (one.token_begin == one.token_end) return;
    std::vector<double> state;
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::vector<double> values = read_row(states, (one.state * heads + head) * rows + row);
      state.insert(state.end(), values.begin(), values.end());
    }
    for (std::int64_t token = one.token_begin; token < one.token_end; ++token) {
      const auto at = static_cast<std::size_t>(head);
      const double x = read_row(a, token)[at] + dt_bias[at];
      const double softplus = std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
      const double g = std::exp(-std::exp(a_log[at]) * softplus), beta = 1 / (1 + std::exp(-read_row(b, token)[at]));
      const std::vector<double> key = read_row(k, token * shape->qk_heads + head / group);
      const std::vector<double> query = read_row(q, token * shape->qk_heads + head / group);
      const std::vector<double> value = read_row(v, token * heads + head);
      float* to = output + (token * heads + head) * rows;
      for (std::int64_t row = 0; row < rows; ++row) {
        const double product = advance(state.data() + row * depth, key.data(), query.data(), depth, g, beta,
                                       value[static_cast<std::size_t>(row)]);
        to[row] = static_cast<float>(shape->scale * product);
      }
    }
    if (roles.kind == GdnRoles::Kind::mtp) return;
    std::transform(state.begin(), state.end(), final_state + (sequence * heads + head) * rows * depth,
                   [](double value) { return static_cast<float>(value); });
  });
  return truth;
}

/// Where there are few tokens all is fp32 arithmetic, so that the output has the error of its rounding and a state
/// hardly any. A prefill goes by blocks of tokens on tensor cores, whose operands are rounded to bf16.
std::optional<Limits> limits_of(const Definition& definition, std::size_t output) {
  const GdnRoles roles = *gdn_roles(definition);
  const Dtype dtype = definition.outputs[output].dtype;
  std::optional<Limits> limits;
  if (roles.kind == GdnRoles::Kind::prefill) {
    // A row of the output is a sum of few values, each times a product of k and q: where it is small they cancel.
    if (output == roles.output && dtype == Dtype::bfloat16) limits = Limits{0.006, 0.008, 0.035, 0.12, 0.002};
    if (output != roles.output && dtype == Dtype::float32) limits = Limits{0.006, 0.007, 0.016, 0.08, 0.003};
  } else if (output == roles.output) {
    limits = limits_for("attention", dtype);
  } else if (dtype == Dtype::float32) {
    limits = Limits{1e-5, 1e-5, 2e-5, 1e-4, 1e-5};
  }
  return limits;
}

/// Of S k, of its outer product with k, and of S q.
std::optional<double> multiply_adds(const Problem& problem) {
  const GdnRoles roles = *gdn_roles(problem.definition);
  double count = 3;
  for (const std::int64_t extent : problem.input_shapes[roles.v]) count *= static_cast<double>(extent);
  return count * static_cast<double>(problem.input_shapes[roles.k].back());
}

bool is_derived_input(const Definition& definition, std::size_t input) {
  const GdnRoles roles = *gdn_roles(definition);
  return input == roles.q || input == roles.k || input == roles.a_log || input == roles.dt_bias ||
         input == roles.scale || (roles.kind != GdnRoles::Kind::decode && input == roles.indices);
}

/// Random rows of length 1: with longer keys the state would grow without bound.
void fill_unit_rows(const RandomTensor& random, Tensor& tensor, std::int64_t columns, int threads) {
  fill(random, tensor, threads);
  std::vector<float> row(static_cast<std::size_t>(columns));
  for (std::uint64_t first = 0; first < tensor.count; first += row.size()) {
    to_float(tensor.dtype, tensor.data(), first, row.size(), row.data());
    double squares = 0;
    for (const float value : row) squares += static_cast<double>(value) * static_cast<double>(value);
    const double factor = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (float& value : row) value = static_cast<float>(static_cast<double>(value) * factor);
    from_float(tensor.dtype, row.data(), first, row.size(), tensor.data());
  }
}

template <class T>
void store_offsets(const std::vector<std::int64_t>& lengths, Tensor& tensor) {
  std::int64_t at = 0;
  for (std::size_t i = 0; i < tensor.count; ++i) {
    tensor.as<T>()[i] = static_cast<T>(at);
    if (i < lengths.size()) at += lengths[i];
  }
}

Result<void> derive_inputs_of(const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options) {
  const GdnRoles roles = *gdn_roles(problem.definition);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!std::holds_alternative<DerivedInput>(source_of(problem, i))) continue;
    const TensorSpec& spec = problem.definition.inputs[i];
    auto made = Tensor::create(spec.name, spec.dtype, problem.input_shapes[i]);
    if (!made) return tl::unexpected(made.error());
    Tensor& tensor = inputs[i] = std::move(*made);
    if (i == roles.q || i == roles.k) {
      const RandomTensor random{spec.dtype, options.distribution, options.seed, static_cast<std::uint32_t>(i)};
      fill_unit_rows(random, tensor, problem.input_shapes[i].back(), options.threads);
    } else if (i == roles.scale) {
      const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(problem.input_shapes[roles.k].back())));
      from_float(spec.dtype, &scale, 0, 1, tensor.data());
    } else if (i == roles.a_log || i == roles.dt_bias) {
      // As such layers are initialised: exp(A_log) uniform from 1 to 16, softplus(dt_bias) log-uniform from 0.001 to
      // 0.1.
      const std::vector<double> uniform = derived_uniform(tensor.count, options.seed, i);
      for (std::size_t at = 0; at < tensor.count; ++at) {
        const double step = 0.001 * std::pow(100, uniform[at]);
        const auto value =
            static_cast<float>(i == roles.a_log ? std::log(1 + 15 * uniform[at]) : std::log(std::expm1(step)));
        from_float(spec.dtype, &value, at, 1, tensor.data());
      }
    } else if (roles.kind == GdnRoles::Kind::mtp) {
      const auto chosen =
          derived_pages(static_cast<std::int64_t>(tensor.count), problem.input_shapes[roles.state][0], options.seed, i);
      std::copy(chosen.begin(), chosen.end(), tensor.as<std::int32_t>().begin());
    } else {
      const std::size_t sequences = tensor.count == 0 ? 0 : tensor.count - 1;
      const auto lengths = derived_lengths(problem.input_shapes[roles.q][0], sequences, options.seed, i);
      if (spec.dtype == Dtype::int64) {
        store_offsets<std::int64_t>(lengths, tensor);
      } else {
        store_offsets<std::int32_t>(lengths, tensor);
      }
    }
  }
  const auto shape = gdn_shape(request_for(problem, inputs), roles);
  if (!shape) return tl::unexpected(shape.error());
  return {};
}

}  // namespace

std::optional<GdnRoles> gdn_roles(const Definition& definition) {
  if (definition.op_type != "gdn") return std::nullopt;
  if (!definition.has_tag("layout:k-last") && definition.name.find("k_last") == std::string::npos) return std::nullopt;
  const auto& inputs = definition.inputs;
  const auto& outputs = definition.outputs;
  GdnRoles roles;
  const bool mtp = find_tensor(inputs, "initial_state").has_value();
  const bool prefill = find_tensor(inputs, "cu_seqlens").has_value();
  if (mtp && prefill) return std::nullopt;
  roles.kind = mtp ? GdnRoles::Kind::mtp : prefill ? GdnRoles::Kind::prefill : GdnRoles::Kind::decode;
  std::size_t known = 9;
  const auto take = [&](const char* name, std::size_t& role) {
    const auto found = find_tensor(inputs, name);
    role = found.value_or(0);
    return found.has_value();
  };
  bool all = take("q", roles.q) && take("k", roles.k) && take("v", roles.v) &&
             take(mtp ? "initial_state" : "state", roles.state) && take("A_log", roles.a_log) && take("a", roles.a) &&
             take("dt_bias", roles.dt_bias) && take("b", roles.b) && take("scale", roles.scale);
  if (mtp || prefill) {
    all = all && take(prefill ? "cu_seqlens" : "initial_state_indices", roles.indices);
    ++known;
  }
  if (find_tensor(inputs, "intermediate_states_buffer") && mtp) ++known;
  const auto output = find_tensor(outputs, "output"), state = find_tensor(outputs, mtp ? "final_state" : "new_state");
  if (!all || !output || !state || inputs.size() != known || outputs.size() != 2) return std::nullopt;
  roles.output = *output, roles.final_state = *state;

  const std::size_t leading = prefill ? 1 : 2;
  if (!has_rank(inputs[roles.q], leading + 2) || !has_rank(inputs[roles.v], leading + 2) ||
      !has_rank(inputs[roles.state], 4) || !inputs[roles.scale].is_scalar()) {
    return std::nullopt;
  }
  const auto &q = *inputs[roles.q].shape, &v = *inputs[roles.v].shape, &states = *inputs[roles.state].shape;
  const std::vector heads(v.begin(), v.end() - 1);
  const bool tokens = std::equal(q.begin(), q.begin() + static_cast<std::ptrdiff_t>(leading), v.begin());
  const bool shapes =
      tokens && inputs[roles.k].shape->size() == q.size() && inputs[roles.a].shape == heads &&
      inputs[roles.b].shape == heads && inputs[roles.a_log].shape == std::vector{heads.back()} &&
      inputs[roles.dt_bias].shape == std::vector{heads.back()} && states[1] == heads.back() && states[2] == v.back() &&
      states[3] == q.back() && inputs[roles.k].shape->back() == q.back() &&
      std::equal(q.begin(), q.begin() + static_cast<std::ptrdiff_t>(leading), inputs[roles.k].shape->begin()) &&
      outputs[roles.output].shape == inputs[roles.v].shape &&
      outputs[roles.final_state].shape == inputs[roles.state].shape;
  if (!shapes) return std::nullopt;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if ((mtp || prefill) && i == roles.indices) {
      const bool wide = prefill && inputs[i].dtype == Dtype::int64;
      if (!has_rank(inputs[i], 1) || !(wide || inputs[i].dtype == Dtype::int32)) return std::nullopt;
    } else if (!is_wide_float(inputs[i].dtype)) {
      return std::nullopt;
    }
  }
  return is_wide_float(outputs[*output].dtype) && is_wide_float(outputs[*state].dtype) ? std::optional(roles)
                                                                                       : std::nullopt;
}

Result<GdnShape> gdn_shape(const TruthRequest& request, const GdnRoles& roles) {
  const Problem& problem = request.problem;
  const Shape &q = problem.input_shapes[roles.q], &k = problem.input_shapes[roles.k];
  const Shape &v = problem.input_shapes[roles.v], &states = problem.input_shapes[roles.state];
  const bool prefill = roles.kind == GdnRoles::Kind::prefill;
  GdnShape shape;
  shape.tokens = prefill ? q[0] : q[0] * q[1];
  shape.qk_heads = q[q.size() - 2], shape.v_heads = v[v.size() - 2];
  shape.k_depth = q.back(), shape.v_depth = v.back();
  if (k[k.size() - 2] != shape.qk_heads || shape.qk_heads <= 0 || shape.v_heads % shape.qk_heads != 0) {
    return input_error("{}: {} heads of V cannot share {} heads of Q and {} of K evenly", problem.title(),
                       shape.v_heads, shape.qk_heads, k[k.size() - 2]);
  }
  const Tensor* scale = request.inputs[roles.scale].tensor;
  if (scale == nullptr) return input_error("{}: scale must be given", problem.title());
  float value = 0;
  to_float(scale->dtype, scale->data(), 0, 1, &value);
  if (!std::isfinite(value)) return input_error("{}: scale is {}", problem.title(), value);
  shape.scale = value != 0 ? static_cast<double>(value) : 1 / std::sqrt(static_cast<double>(shape.k_depth));

  std::vector<std::int64_t> indices;
  if (roles.kind != GdnRoles::Kind::decode) {
    const Tensor* tensor = request.inputs[roles.indices].tensor;
    const std::string& name = problem.definition.inputs[roles.indices].name;
    if (tensor == nullptr) return input_error("{}: {} must be given as a tensor", problem.title(), name);
    if (tensor->dtype == Dtype::int64) {
      const auto values = tensor->as<std::int64_t>().first(tensor->count);
      indices.assign(values.begin(), values.end());
    } else {
      const auto values = tensor->as<std::int32_t>().first(tensor->count);
      indices.assign(values.begin(), values.end());
    }
  }
  if (prefill) {
    if (auto right =
            check_offsets(problem, problem.definition.inputs[roles.indices].name, indices, shape.tokens, "tokens");
        !right) {
      return tl::unexpected(right.error());
    }
    if (static_cast<std::int64_t>(indices.size()) != states[0] + 1) {
      return input_error("{}: cu_seqlens has {} offsets, but {} states need {}", problem.title(), indices.size(),
                         states[0], states[0] + 1);
    }
    for (std::size_t i = 0; i + 1 < indices.size(); ++i) {
      shape.sequences.push_back({indices[i], indices[i + 1], static_cast<std::int64_t>(i)});
    }
    return shape;
  }
  for (std::int64_t i = 0; i < q[0]; ++i) {
    std::int64_t state = i;
    if (roles.kind == GdnRoles::Kind::mtp) {
      if (static_cast<std::size_t>(i) >= indices.size()) {
        return input_error("{}: initial_state_indices has {} elements for {} sequences", problem.title(),
                           indices.size(), q[0]);
      }
      state = indices[static_cast<std::size_t>(i)];
    }
    if (state < 0 || state >= states[0]) {
      return input_error("{}: sequence {} has state {}, but there are states 0 to {}", problem.title(), i, state,
                         states[0] - 1);
    }
    shape.sequences.push_back({i * q[1], (i + 1) * q[1], state});
  }
  return shape;
}

const Operation kGdn{[](const Definition& definition) { return gdn_roles(definition).has_value(); },
                     gdn_truth,
                     limits_of,
                     multiply_adds,
                     is_derived_input,
                     derive_inputs_of};

}  // namespace ptxbench::problem
