#include "problem/attention.h"

#include <algorithm>
#include <utility>

#include "problem/fp8_attention.h"
#include "problem/structure.h"

namespace ptxbench::problem {
namespace {

/// A tensor of one fp32 element, whatever its rank.
bool is_one_float(const Definition& definition, const TensorSpec& spec) {
  return spec.dtype == Dtype::float32 && spec.shape && !spec.shape->empty() &&
         std::all_of(spec.shape->begin(), spec.shape->end(), [&](const std::string& name) {
           const Axis* axis = definition.find_axis(name);
           return axis != nullptr && axis->constant == 1;
         });
}

/// The rows (of the matrix of B*H*S) that tiles of output `index` need.
void add_rows(const TruthRequest& request, std::size_t index, const AttentionShape& shape, bool is_lse,
              std::vector<RowRange>& rows) {
  if (request.tiles.empty()) {
    rows = {{0, shape.rows()}};
    return;
  }
  for (const Tile& tile : request.tiles[index]) {
    if (!is_lse) {
      rows.push_back({tile.row_begin, tile.row_end});
      continue;
    }
    for (std::int64_t head = tile.row_begin; head < tile.row_end; ++head) {
      rows.push_back({head * shape.sequence + tile.column_begin, head * shape.sequence + tile.column_end});
    }
  }
}

}  // namespace

std::optional<AttentionRoles> attention_roles(const Definition& definition) {
  if (definition.op_type != "attention") return std::nullopt;
  AttentionRoles roles;
  roles.backward = find_tensor(definition.inputs, "dO").has_value();
  roles.causal = definition.is_causal();
  const bool scaled = !roles.backward && definition.inputs.size() == 7;
  if (definition.inputs.size() != (roles.backward ? 6
                                   : scaled       ? 7
                                                  : 3) ||
      definition.outputs.size() != (roles.backward ? 3 : 2)) {
    return std::nullopt;
  }
  // The first tensor's axes are everybody's.
  const std::vector<std::string>* axes = nullptr;
  const auto take = [&](const std::vector<TensorSpec>& specs, std::string_view name, std::size_t& role, bool is_lse) {
    const auto index = find_tensor(specs, name);
    if (!index) return false;
    role = *index;
    const TensorSpec& spec = specs[role];
    if (!spec.shape) return false;
    if (axes == nullptr) axes = &*spec.shape;
    if (is_lse) return spec.dtype == Dtype::float32 && *spec.shape == std::vector(axes->begin(), axes->begin() + 3);
    return (scaled ? spec.dtype == Dtype::float8_e4m3fn : is_wide_float(spec.dtype)) && *spec.shape == *axes;
  };
  const auto& in = definition.inputs;
  const auto& out = definition.outputs;
  if (!take(in, "Q", roles.q, false) || axes->size() != 4) return std::nullopt;
  if (!take(in, "K", roles.k, false) || !take(in, "V", roles.v, false)) return std::nullopt;
  const bool rest = roles.backward ? take(in, "O", roles.o, false) && take(in, "dO", roles.d_o, false) &&
                                         take(in, "L", roles.lse, true) && take(out, "dQ", roles.dq, false) &&
                                         take(out, "dK", roles.dk, false) && take(out, "dV", roles.dv, false)
                                   : take(out, "O", roles.o, false) && take(out, "LSE", roles.lse, true);
  if (!rest) return std::nullopt;
  if (scaled) {
    roles.descales.emplace();
    const auto take_factor = [&](std::string_view name, std::size_t& role) {
      const auto index = find_tensor(in, name);
      if (index) role = *index;
      return index && is_one_float(definition, in[*index]);
    };
    if (!take_factor("descale_q", roles.descales->q) || !take_factor("descale_k", roles.descales->k) ||
        !take_factor("descale_v", roles.descales->v) ||
        (!take_factor("descale_s", roles.descales->o) && !take_factor("scale_o", roles.descales->o))) {
      return std::nullopt;
    }
  }
  roles.batch = (*axes)[0];
  roles.heads = (*axes)[1];
  roles.sequence = (*axes)[2];
  roles.depth = (*axes)[3];
  return roles;
}

AttentionShape attention_shape(const Problem& problem, const AttentionRoles& roles) {
  const auto extent = [&](const std::string& axis) { return problem.axes.at(axis); };
  return {extent(roles.batch) * extent(roles.heads), extent(roles.sequence), extent(roles.depth), roles.causal};
}

std::optional<AttentionDescales> attention_descales(const TruthRequest& request, const AttentionRoles& roles) {
  if (!roles.descales) return std::nullopt;
  const auto value = [&](std::size_t input) {
    float factor = 0;
    rows_of(request, input).read(0, 0, 1, &factor);
    return factor;
  };
  return AttentionDescales{value(roles.descales->q), value(roles.descales->k), value(roles.descales->v),
                           value(roles.descales->o)};
}

AttentionShape attention_shape(const TruthRequest& request, const AttentionRoles& roles) {
  AttentionShape shape = attention_shape(request.problem, roles);
  if (const auto descales = attention_descales(request, roles)) {
    shape.score_factor = descales->of_scores();
    shape.output_factor = descales->of_output();
    shape.largest_output = static_cast<double>(from_e4m3(0x7e));
  }
  return shape;
}

AttentionInputs attention_inputs(const TruthRequest& request, const AttentionRoles& roles) {
  return {rows_of(request, roles.q), rows_of(request, roles.k), rows_of(request, roles.v)};
}

AttentionGradientInputs attention_gradient_inputs(const TruthRequest& request, const AttentionRoles& roles) {
  return {attention_inputs(request, roles), rows_of(request, roles.o), rows_of(request, roles.d_o),
          rows_of(request, roles.lse)};
}

Result<Truth> attention_reference(const TruthRequest& request) {
  const AttentionRoles roles = *attention_roles(request.problem.definition);
  const AttentionShape shape = attention_shape(request, roles);
  auto outputs = make_truth_tensors(request.problem);
  if (!outputs) return tl::unexpected(outputs.error());
  Truth truth;
  truth.outputs = std::move(*outputs);
  truth.term_norms.resize(truth.outputs.size());
  const auto data = [&](std::size_t index) { return truth.outputs[index].as<float>().data(); };
  std::vector<RowRange> rows;
  if (!roles.backward) {
    add_rows(request, roles.o, shape, false, rows);
    add_rows(request, roles.lse, shape, true, rows);
    attention_forward(shape, attention_inputs(request, roles), rows, data(roles.o), data(roles.lse), request.threads);
    return truth;
  }
  const auto norms_of = [&](std::size_t index) {
    truth.term_norms[index].resize(static_cast<std::size_t>(shape.rows()));
    return truth.term_norms[index].data();
  };
  const TermNorms norms{norms_of(roles.dq), norms_of(roles.dk), norms_of(roles.dv)};
  const AttentionGradientInputs inputs = attention_gradient_inputs(request, roles);
  add_rows(request, roles.dq, shape, false, rows);
  attention_backward_q(shape, inputs, rows, data(roles.dq), request.threads, norms);
  rows.clear();
  add_rows(request, roles.dk, shape, false, rows);
  add_rows(request, roles.dv, shape, false, rows);
  attention_backward_kv(shape, inputs, rows, data(roles.dk), data(roles.dv), request.threads, norms);
  return truth;
}

std::optional<AttentionOperands> attention_operands(const TruthRequest& request, std::size_t output) {
  using Output = AttentionOperands::Output;
  const auto roles = attention_roles(request.problem.definition);
  if (!roles) return std::nullopt;
  AttentionOperands operands{attention_shape(request, *roles), attention_inputs(request, *roles), std::nullopt,
                             Output::o, attention_descales(request, *roles)};
  if (roles->backward) {
    operands.gradient = attention_gradient_inputs(request, *roles);
    operands.output = output == roles->dq ? Output::dq : output == roles->dk ? Output::dk : Output::dv;
  } else if (output == roles->lse) {
    operands.output = Output::lse;
  }
  return operands;
}

Result<ForwardResults> attention_forward_results(const TruthRequest& request) {
  const Definition& definition = request.problem.definition;
  const AttentionRoles roles = *attention_roles(definition);
  const AttentionShape shape = attention_shape(request.problem, roles);
  const auto create = [&](std::size_t index, Dtype dtype) {
    return Tensor::create(definition.inputs[index].name, dtype, request.problem.input_shapes[index]);
  };
  auto wide = create(roles.o, Dtype::float32);
  auto o = create(roles.o, definition.inputs[roles.o].dtype);
  auto lse = create(roles.lse, Dtype::float32);
  for (const auto* made : {&wide, &o, &lse}) {
    if (!*made) return tl::unexpected(made->error());
  }
  const RowRange all{0, shape.rows()};
  attention_forward(shape, attention_inputs(request, roles), {&all, 1}, wide->as<float>().data(),
                    lse->as<float>().data(), request.threads);
  from_float(o->dtype, wide->as<float>().data(), 0, o->count, o->data());
  return ForwardResults{std::move(*o), std::move(*lse)};
}

namespace {

std::optional<double> multiply_adds(const Problem& problem) {
  // Matrix products of S x S x D per head; half of each is masked, the diagonal counted as a half.
  const AttentionRoles roles = *attention_roles(problem.definition);
  const AttentionShape shape = attention_shape(problem, roles);
  const double products = roles.backward ? 5 : 2;
  return products * (roles.causal ? 0.5 : 1.0) * static_cast<double>(shape.heads) *
         static_cast<double>(shape.sequence) * static_cast<double>(shape.sequence) * static_cast<double>(shape.depth);
}

std::optional<Limits> limits_of(const Definition& definition, std::size_t output) {
  const AttentionRoles roles = *attention_roles(definition);
  if (roles.descales) return output == roles.lse ? fp8_log_sum_limits() : fp8_attention_limits();
  if (!roles.backward && output == roles.lse) return log_sum_limits();
  auto limits = limits_for("attention", definition.outputs[output].dtype);
  if (roles.backward && limits) *limits = gradient_limits(*limits);
  return limits;
}

bool derived_input(const Definition& definition, std::size_t input) {
  const AttentionRoles roles = *attention_roles(definition);
  if (roles.descales) {
    const auto& [q, k, v, o] = *roles.descales;
    return input == q || input == k || input == v || input == o;
  }
  return roles.backward && (input == roles.o || input == roles.lse);
}

/// O and L are the forward pass's results, O rounded to its type. Descales are made by attention_descales.
Result<void> derive(const Problem& problem, std::vector<Tensor>& inputs, const InputOptions& options) {
  const AttentionRoles roles = *attention_roles(problem.definition);
  const auto derived = [&](std::size_t input) {
    return std::holds_alternative<DerivedInput>(source_of(problem, input));
  };
  if (roles.descales) {
    const AttentionDescales values =
        attention_descales(inputs[roles.q], inputs[roles.k], inputs[roles.v], options.seed);
    for (const auto& [input, value] : {std::pair{roles.descales->q, values.q},
                                       {roles.descales->k, values.k},
                                       {roles.descales->v, values.v},
                                       {roles.descales->o, values.o}}) {
      if (!derived(input)) continue;
      auto made = Tensor::create(problem.definition.inputs[input].name, Dtype::float32, problem.input_shapes[input]);
      if (!made) return tl::unexpected(made.error());
      made->as<float>()[0] = value;
      inputs[input] = std::move(*made);
    }
    return {};
  }
  if (!roles.backward || (!derived(roles.o) && !derived(roles.lse))) return {};
  TruthRequest request = request_for(problem, inputs);
  request.threads = options.threads;
  auto results = attention_forward_results(request);
  if (!results) return tl::unexpected(results.error());
  if (derived(roles.o)) inputs[roles.o] = std::move(results->o);
  if (derived(roles.lse)) inputs[roles.lse] = std::move(results->lse);
  return {};
}

}  // namespace

const Operation kAttention{[](const Definition& definition) { return attention_roles(definition).has_value(); },
                           attention_reference,
                           limits_of,
                           multiply_adds,
                           derived_input,
                           derive,
                           nullptr,
                           true};

}  // namespace ptxbench::problem
