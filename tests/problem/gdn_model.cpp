#include "gdn_model.h"

#include <cmath>

#include "attention_model.h"

namespace ptxbench::problem {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

class Kernel {
 public:
  Kernel(const GdnData& data, const GdnModel& model)
      : data_(data),
        model_(model),
        shape_(data.shape),
        q_(data.widened(model.exchanges_q_and_k ? data.roles.k : data.roles.q)),
        k_(data.widened(model.exchanges_q_and_k ? data.roles.q : data.roles.k)),
        v_(data.widened(data.roles.v)),
        states_(data.widened(data.roles.state)),
        a_log_(data.widened(data.roles.a_log)),
        a_(data.widened(data.roles.a)),
        dt_bias_(data.widened(data.roles.dt_bias)),
        b_(data.widened(data.roles.b)) {}

  GdnOutput run() {
    GdnOutput out{std::vector<float>(data_.output_truth.size()), std::vector<float>(data_.state_truth.size())};
    if (data_.roles.kind == GdnRoles::Kind::mtp) out.state = states_;
    for (std::int64_t head = 0; head < shape_.v_heads; ++head) {
      std::vector<float> state;
      for (std::size_t i = 0; i < shape_.sequences.size(); ++i) {
        const GdnSequence& one = shape_.sequences[i];
        if (model_.states != GdnModel::States::carried || i == 0) state = first_state(i, head);
        const std::int64_t end = one.token_end - (model_.leaves_last_token ? 1 : 0);
        if (model_.chunk > 0) {
          for (std::int64_t token = one.token_begin; token < end; token += model_.chunk) {
            block(token, std::min(token + model_.chunk, end), head, state, out.output);
          }
        } else {
          for (std::int64_t token = one.token_begin; token < end; ++token) step(token, head, state, out.output);
        }
        const bool pool = data_.roles.kind == GdnRoles::Kind::mtp;
        if (pool && !model_.updates_pool) continue;
        const std::int64_t slot = pool ? one.state : static_cast<std::int64_t>(i);
        std::copy(state.begin(), state.end(), out.state.begin() + (slot * shape_.v_heads + head) * size());
      }
    }
    return out;
  }

 private:
  std::int64_t depth() const { return shape_.k_depth; }
  std::int64_t size() const { return shape_.v_depth * shape_.k_depth; }
  std::int64_t qk_head(std::int64_t head) const {
    return model_.modulo_heads ? head % shape_.qk_heads : head / (shape_.v_heads / shape_.qk_heads);
  }
  const float* key(std::int64_t token, std::int64_t head) const {
    return k_.data() + (token * shape_.qk_heads + qk_head(head)) * depth();
  }
  const float* query(std::int64_t token, std::int64_t head) const {
    return q_.data() + (token * shape_.qk_heads + qk_head(head)) * depth();
  }
  float value(std::int64_t token, std::int64_t head, std::int64_t row) const {
    return v_[at((token * shape_.v_heads + head) * shape_.v_depth + row)];
  }
  float scale() const { return static_cast<float>(shape_.scale * model_.scale_factor); }

  std::vector<float> first_state(std::size_t sequence, std::int64_t head) const {
    if (model_.states == GdnModel::States::none) return std::vector<float>(at(size()), 0.0f);
    std::int64_t slot = shape_.sequences[sequence].state;
    if (model_.states == GdnModel::States::in_order) slot = static_cast<std::int64_t>(sequence);
    const auto from = states_.begin() + (slot * shape_.v_heads + head) * size();
    std::vector<float> state(from, from + size());
    if (model_.states == GdnModel::States::transposed) {
      for (std::int64_t i = 0; i < size(); ++i) state[at(i)] = from[i % depth() * shape_.v_depth + i / depth()];
    }
    return state;
  }

  float gate(std::int64_t token, std::int64_t head) const {
    const float x = a_[at(token * shape_.v_heads + head)] +
                    (model_.gate == GdnModel::Gate::without_bias ? 0.0f : dt_bias_[at(head)]);
    float step = x > 20 ? x : std::log1p(std::exp(x));
    if (model_.gate == GdnModel::Gate::exp_for_softplus) step = std::exp(x);
    if (model_.gate == GdnModel::Gate::none) return 1;
    return std::exp(-(model_.gate == GdnModel::Gate::without_exp ? a_log_[at(head)] : std::exp(a_log_[at(head)])) *
                    step);
  }
  float beta(std::int64_t token, std::int64_t head) const {
    const float b = b_[at(token * shape_.v_heads + head)];
    return model_.beta == GdnModel::Beta::one ? 1.0f : model_.beta == GdnModel::Beta::raw ? b : 1 / (1 + std::exp(-b));
  }

  void step(std::int64_t token, std::int64_t head, std::vector<float>& state, std::vector<float>& output) const {
    const float g = gate(token, head), weight = beta(token, head);
    const float *k = key(token, head), *q = query(token, head);
    for (std::int64_t row = 0; row < shape_.v_depth; ++row) {
      float* s = state.data() + row * depth();
      float old = 0, before = 0, product = 0;
      for (std::int64_t d = 0; d < depth(); ++d) {
        before += s[d] * k[d];
        product += s[d] * q[d];
        s[d] *= g;
        old += s[d] * k[d];
      }
      float change = weight * (value(token, head, row) - old);
      if (model_.change == GdnModel::Change::before_decay) change = weight * (value(token, head, row) - before);
      if (model_.change == GdnModel::Change::without_removal) change = weight * value(token, head, row);
      if (model_.change == GdnModel::Change::whole_removal) change = weight * value(token, head, row) - old;
      for (std::int64_t d = 0; d < depth(); ++d) s[d] += change * k[d];
      if (!model_.output_from_old) {
        product = 0;
        for (std::int64_t d = 0; d < depth(); ++d) product += s[d] * q[d];
      }
      output[at((token * shape_.v_heads + head) * shape_.v_depth + row)] = scale() * product;
      if (model_.round_state == nullptr) continue;
      for (std::int64_t d = 0; d < depth(); ++d) s[d] = model_.round_state(s[d]);
    }
  }

  /// u_i = beta_i (v_i - G_i S k_i - sum over j < i of G_i/G_j (k_j k_i) u_j), G being the products of the gates;
  /// o_i = G_i S q_i + sum over j <= i of G_i/G_j (k_j q_i) u_j; S <- G S + sum of G/G_j u_j k_j^T.
  void block(std::int64_t begin, std::int64_t end, std::int64_t head, std::vector<float>& state,
             std::vector<float>& output) const {
    const auto count = end - begin;
    const auto round = to_bf16_and_back;
    std::vector<float> logs(at(count)), changes(at(count * shape_.v_depth)), rounded(state.size());
    std::transform(state.begin(), state.end(), rounded.begin(), round);
    const auto dot = [&](const float* x, const float* y) {
      float sum = 0;
      for (std::int64_t d = 0; d < depth(); ++d) sum += x[d] * y[d];
      return sum;
    };
    for (std::int64_t i = 0; i < count; ++i) {
      logs[at(i)] = std::log(std::max(gate(begin + i, head), 1e-37f)) + (i > 0 ? logs[at(i - 1)] : 0.0f);
    }
    const auto decay = [&](std::int64_t from, std::int64_t to) { return std::exp(logs[at(to)] - logs[at(from)]); };
    for (std::int64_t i = 0; i < count; ++i) {
      const float* k = key(begin + i, head);
      const float* q = query(begin + i, head);
      std::vector<float> keys(at(i + 1)), queries(at(i + 1));
      for (std::int64_t j = 0; j <= i; ++j) {
        keys[at(j)] = round(decay(j, i) * dot(key(begin + j, head), k));
        queries[at(j)] = round(decay(j, i) * dot(key(begin + j, head), q));
      }
      const float whole = std::exp(logs[at(i)]);
      for (std::int64_t row = 0; row < shape_.v_depth; ++row) {
        const float* s = rounded.data() + row * depth();
        float old = whole * dot(s, k), product = whole * dot(s, q);
        for (std::int64_t j = 0; j < i; ++j) old += keys[at(j)] * changes[at(j * shape_.v_depth + row)];
        changes[at(i * shape_.v_depth + row)] = round(beta(begin + i, head) * (value(begin + i, head, row) - old));
        for (std::int64_t j = 0; j <= i; ++j) product += queries[at(j)] * changes[at(j * shape_.v_depth + row)];
        output[at(((begin + i) * shape_.v_heads + head) * shape_.v_depth + row)] = scale() * product;
      }
    }
    const float whole = std::exp(logs[at(count - 1)]);
    for (float& value : state) value *= whole;
    for (std::int64_t j = 0; j < count; ++j) {
      const float* k = key(begin + j, head);
      for (std::int64_t row = 0; row < shape_.v_depth; ++row) {
        const float change = round(decay(j, count - 1) * changes[at(j * shape_.v_depth + row)]);
        for (std::int64_t d = 0; d < depth(); ++d) state[at(row * depth() + d)] += change * k[d];
      }
    }
  }

  const GdnData& data_;
  const GdnModel& model_;
  const GdnShape& shape_;
  std::vector<float> q_, k_, v_, states_, a_log_, a_, dt_bias_, b_;
};

}  // namespace

std::string GdnCase::name() const {
  const char* kinds[] = {"decode", "mtp", "prefill"};
  return fmt::format("{}, {} sequences, {} tokens, {} and {} heads of {}, {} inputs", kinds[static_cast<int>(kind)],
                     sequences, tokens, qk_heads, v_heads, depth, to_string(distribution));
}

Definition gdn_definition(const GdnCase& what) {
  const bool prefill = what.kind == GdnRoles::Kind::prefill, mtp = what.kind == GdnRoles::Kind::mtp;
  const std::string tokens = prefill ? R"("tokens")" : R"("sequences","tokens")";
  const auto tensor = [](const char* name, const std::string& shape, const char* dtype) {
    return fmt::format(R"("{}":{{"shape":[{}],"dtype":"{}"}},)", name, shape, dtype);
  };
  const std::string states = std::string(mtp ? R"("pool")" : R"("sequences")") + R"(,"HV","V","K")";
  std::string text = fmt::format(
      R"({{"name":"g_k_last","op_type":"gdn","axes":{{"sequences":{{"type":"var"}},"tokens":{{"type":"var"}},
  "pool":{{"type":"var"}},"offsets":{{"type":"var"}},"HQ":{{"type":"const","value":{}}},
  "HV":{{"type":"const","value":{}}},"K":{{"type":"const","value":{}}},"V":{{"type":"const","value":{}}}}},"inputs":{{)",
      what.qk_heads, what.v_heads, what.depth, what.depth);
  text += tensor("q", tokens + R"(,"HQ","K")", "bfloat16") + tensor("k", tokens + R"(,"HQ","K")", "bfloat16");
  text += tensor("v", tokens + R"(,"HV","V")", "bfloat16");
  text += tensor(mtp ? "initial_state" : "state", states, "float32");
  if (mtp) text += tensor("initial_state_indices", R"("sequences")", "int32");
  text += tensor("A_log", R"("HV")", "float32") + tensor("a", tokens + R"(,"HV")", "bfloat16");
  text += tensor("dt_bias", R"("HV")", "float32") + tensor("b", tokens + R"(,"HV")", "bfloat16");
  if (prefill) text += tensor("cu_seqlens", R"("offsets")", "int64");
  text += R"("scale":{"shape":null,"dtype":"float32"}},"outputs":{)";
  text += tensor("output", tokens + R"(,"HV","V")", "bfloat16");
  text += tensor(mtp ? "final_state" : "new_state", states, "float32");
  text.back() = '}';
  text += R"(,"reference":"r"})";
  return definition_of(text);
}

Problem gdn_problem(const GdnCase& what) {
  return problem_of(
      gdn_definition(what),
      {{"sequences", what.sequences}, {"tokens", what.tokens}, {"pool", what.pool}, {"offsets", what.sequences + 1}});
}

GdnData::GdnData(const GdnCase& which, std::uint64_t seed)
    : ProblemData(gdn_problem(which), which.distribution, seed),
      what(which),
      roles(*gdn_roles(problem.definition)),
      shape(*gdn_shape(request_for(problem, tensors), roles)),
      output_truth(truths[roles.output]),
      state_truth(truths[roles.final_state]) {}

GdnOutput run_gdn(const GdnData& data, const GdnModel& model) { return Kernel(data, model).run(); }

GdnExact gdn_exact(const GdnData& data) {
  const GdnShape& shape = data.shape;
  const auto q = data.widened(data.roles.q), k = data.widened(data.roles.k), v = data.widened(data.roles.v);
  const auto a = data.widened(data.roles.a), b = data.widened(data.roles.b), a_log = data.widened(data.roles.a_log);
  const auto dt_bias = data.widened(data.roles.dt_bias), states = data.widened(data.roles.state);
  GdnExact out{std::vector<double>(data.output_truth.size()), std::vector<double>(data.state_truth.size())};
  const bool pool = data.roles.kind == GdnRoles::Kind::mtp;
  if (pool) out.state.assign(states.begin(), states.end());
  const std::int64_t rows = shape.k_depth, columns = shape.v_depth;
  for (std::size_t i = 0; i < shape.sequences.size(); ++i) {
    for (std::int64_t head = 0; head < shape.v_heads; ++head) {
      const std::int64_t first = (shape.sequences[i].state * shape.v_heads + head) * rows * columns;
      std::vector<double> state(at(rows * columns));
      for (std::int64_t x = 0; x < rows * columns; ++x)
        state[at(x % rows * columns + x / rows)] = static_cast<double>(states[at(first + x)]);
      for (std::int64_t token = shape.sequences[i].token_begin; token < shape.sequences[i].token_end; ++token) {
        const std::int64_t qk = (token * shape.qk_heads + head * shape.qk_heads / shape.v_heads) * rows;
        const double x =
            static_cast<double>(a[at(token * shape.v_heads + head)]) + static_cast<double>(dt_bias[at(head)]);
        const double g = std::pow(1 + std::exp(x), -std::exp(static_cast<double>(a_log[at(head)])));
        const double beta = 0.5 + 0.5 * std::tanh(0.5 * static_cast<double>(b[at(token * shape.v_heads + head)]));
        for (double& value : state) value *= g;
        for (std::int64_t column = 0; column < columns; ++column) {
          const std::int64_t to = (token * shape.v_heads + head) * columns + column;
          double old = 0, product = 0;
          for (std::int64_t d = 0; d < rows; ++d)
            old += static_cast<double>(k[at(qk + d)]) * state[at(d * columns + column)];
          const double fresh = beta * static_cast<double>(v[at(to)]) + (1 - beta) * old;
          for (std::int64_t d = 0; d < rows; ++d) {
            double& value = state[at(d * columns + column)];
            value -= static_cast<double>(k[at(qk + d)]) * old;
            value += static_cast<double>(k[at(qk + d)]) * fresh;
            product += static_cast<double>(q[at(qk + d)]) * value;
          }
          out.output[at(to)] = shape.scale * product;
        }
      }
      if (pool) continue;
      const std::int64_t last = (static_cast<std::int64_t>(i) * shape.v_heads + head) * rows * columns;
      for (std::int64_t x = 0; x < rows * columns; ++x)
        out.state[at(last + x)] = state[at(x % rows * columns + x / rows)];
    }
  }
  return out;
}

}  // namespace ptxbench::problem
