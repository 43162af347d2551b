// The gated delta rule: recognition, derived inputs, the truth against fp64 in another arrangement, mistakes of kernels
// that must fail and sound kernels that must pass with room; the list is part of the rule (docs/problems.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "attention_model.h"
#include "gdn_model.h"

namespace ptxbench::problem {
namespace {

using Kind = GdnRoles::Kind;
constexpr Distribution kAll[] = {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties,
                                 Distribution::flat,   Distribution::tiny,   Distribution::bell};

const std::vector<GdnCase>& cases() {
  static const std::vector<GdnCase> kList = {{Kind::decode, 5}, {Kind::mtp, 3, 4, 5}, {Kind::prefill, 3, 150}};
  return kList;
}

std::vector<GdnCase> varied(GdnCase what) {
  std::vector<GdnCase> out;
  for (const Distribution distribution : kAll) {
    what.distribution = distribution;
    out.push_back(what);
  }
  return out;
}

TensorComparison judge(const GdnData& data, std::size_t output, const std::vector<float>& values) {
  const auto limits = limits_for(data.problem.definition, output);
  CompareOptions options;
  options.diagnose = false;
  return output == data.roles.output
             ? compare(in_bfloat16("output", values, data.what.depth), data.output_truth, limits, options)
             : compare(in_float32("state", values, data.what.depth), data.state_truth, limits, options);
}

bool passes(const GdnData& data, const GdnOutput& made) {
  return judge(data, data.roles.output, made.output).verdict == Verdict::passed &&
         judge(data, data.roles.final_state, made.state).verdict == Verdict::passed;
}

// --- truth

double largest_error(const std::vector<float>& values, const std::vector<double>& exact) {
  double worst = 0, squares = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(values[i]) - exact[i]));
    squares += exact[i] * exact[i];
  }
  return worst / std::sqrt(squares / static_cast<double>(exact.size()));
}

TEST(GdnTruth, AgreesWithFp64) {
  std::vector<GdnCase> shapes = cases();
  shapes.push_back({Kind::decode, 1, 1, 1, 3, 3, 20});
  shapes.push_back({Kind::decode, 2, 3, 1, 1, 2, 13});
  for (const GdnCase& shape : shapes) {
    for (const GdnCase& what : varied(shape)) {
      const GdnData data(what);
      const GdnExact exact = gdn_exact(data);
      // What is left is the rounding to fp32 of the largest elements.
      EXPECT_LT(largest_error(data.output_truth, exact.output), 1e-5) << what.name();
      EXPECT_LT(largest_error(data.state_truth, exact.state), 1e-5) << what.name();
    }
  }
}

TEST(GdnTruth, TilesGiveTheSameNumbers) {
  for (const GdnCase& what : cases()) {
    const GdnData data(what);
    TruthRequest request = request_for(data.problem, data.tensors);
    const auto rows = static_cast<std::int64_t>(data.output_truth.size()) / what.depth;
    const auto state_rows = static_cast<std::int64_t>(data.state_truth.size()) / what.depth;
    const Tile tile{rows / 2, rows / 2 + 3, 0, what.depth}, last{state_rows - 2, state_rows, 4, 9};
    request.tiles = {{tile}, {last}};
    request.threads = 3;
    const auto truth = (*find_reference(data.problem.definition))(request);
    ASSERT_TRUE(truth) << truth.error().message;
    const auto output = truth->outputs[0].as<float>(), state = truth->outputs[1].as<float>();
    for (std::size_t i = 0; i < data.output_truth.size(); ++i) {
      const auto row = static_cast<std::int64_t>(i) / what.depth;
      const bool wanted = row >= tile.row_begin && row < tile.row_end;
      ASSERT_TRUE(output[i] == data.output_truth[i] || (!wanted && output[i] == 0)) << what.name() << i;
    }
    for (std::size_t i = 0; i < data.state_truth.size(); ++i) {
      const bool wanted = static_cast<std::int64_t>(i) / what.depth >= last.row_begin;
      ASSERT_TRUE(state[i] == data.state_truth[i] || (!wanted && state[i] == 0)) << what.name() << i;
    }
    if (what.kind == Kind::prefill) {
      EXPECT_NE(std::count(output.begin(), output.end(), 0.0f), 0) << "only what is asked for";
    }
  }
}

// --- inputs

TEST(GdnInputs, AreAsSuchLayersHaveThem) {
  for (const GdnCase& shape : cases()) {
    for (const GdnCase& what : varied(shape)) {
      const GdnData data(what);
      for (const std::size_t input : {data.roles.q, data.roles.k}) {
        const auto values = data.widened(input);
        for (std::size_t row = 0; row < values.size(); row += 32) {
          double squares = 0;
          for (std::size_t i = row; i < row + 32; ++i) squares += static_cast<double>(values[i] * values[i]);
          EXPECT_NEAR(squares, 1, 0.01) << what.name();
        }
      }
      for (const float value : data.widened(data.roles.a_log)) EXPECT_TRUE(value >= 0 && value <= std::log(16.0f));
      for (const float value : data.widened(data.roles.dt_bias)) {
        EXPECT_TRUE(std::log1p(std::exp(value)) > 0.0009f && std::log1p(std::exp(value)) < 0.11f) << value;
      }
      EXPECT_EQ(data.shape.scale, static_cast<double>(static_cast<float>(1 / std::sqrt(32.0))));
    }
  }
  const GdnData prefill({Kind::prefill, 4, 100}), other({Kind::prefill, 4, 100}, 4);
  EXPECT_EQ(prefill.shape.sequences.back().token_end, 100);
  std::set<std::int64_t> lengths;
  for (const GdnSequence& one : prefill.shape.sequences) lengths.insert(one.token_end - one.token_begin);
  EXPECT_GE(lengths.size(), 3u);
  EXPECT_GE(*lengths.begin(), 1);
  EXPECT_NE(prefill.shape.sequences[0].token_end, other.shape.sequences[0].token_end);
  const GdnData mtp({Kind::mtp, 3, 2, 5});
  std::set<std::int64_t> slots;
  for (const GdnSequence& one : mtp.shape.sequences) slots.insert(one.state);
  EXPECT_EQ(slots.size(), 3u);
}

TEST(GdnInputs, WhatIsBrokenIsRefused) {
  const auto refusal = [](const GdnCase& what, std::size_t element, std::int64_t value) {
    GdnData data(what);
    Tensor& tensor = data.tensors[data.roles.indices];
    if (tensor.dtype == Dtype::int64) {
      tensor.as<std::int64_t>()[element] = value;
    } else {
      tensor.as<std::int32_t>()[element] = static_cast<std::int32_t>(value);
    }
    return data.refusal();
  };
  const GdnCase prefill{Kind::prefill, 3, 60}, mtp{Kind::mtp, 3, 4, 5};
  expect_part(refusal(prefill, 0, 1), "cu_seqlens begins with 1, not 0");
  expect_part(refusal(prefill, 2, -3), "cu_seqlens decreases");
  expect_part(refusal(prefill, 3, 61), "ends with 61, but there are 60 tokens");
  expect_part(refusal(prefill, 3, std::int64_t{1} << 40), "but there are 60 tokens");
  expect_part(refusal(mtp, 1, 5), "sequence 1 has state 5, but there are states 0 to 4");
  expect_part(refusal(mtp, 0, -1), "state -1");
  EXPECT_EQ(refusal(mtp, 0, 4), "");
  // A sequence without tokens leaves a state of zeros.
  GdnData data(prefill);
  auto offsets = data.tensors[data.roles.indices].as<std::int64_t>();
  offsets[1] = 0;
  const auto truth = (*find_reference(data.problem.definition))(request_for(data.problem, data.tensors));
  ASSERT_TRUE(truth);
  EXPECT_EQ(truth->outputs[1].as<float>()[7], 0.0f);
  // A scale of 0 is the usual one.
  data.tensors[data.roles.scale].as<float>()[0] = 0;
  EXPECT_EQ(gdn_shape(request_for(data.problem, data.tensors), data.roles)->scale, 1 / std::sqrt(32.0));
  data.tensors[data.roles.scale].as<float>()[0] = NAN;
  EXPECT_FALSE(gdn_shape(request_for(data.problem, data.tensors), data.roles));
  EXPECT_FALSE(make_inputs(gdn_problem({Kind::decode, 2, 1, 1, 2, 3}), {})) << "heads";
}

TEST(References, GdnIsFoundByStructure) {
  for (const GdnCase& what : cases()) {
    const Definition right = gdn_definition(what);
    EXPECT_EQ(gdn_roles(right)->kind, what.kind);
    EXPECT_EQ(*required_multiply_adds(gdn_problem(what)),
              3.0 * 4 * 32 * 32 * static_cast<double>(what.kind == Kind::prefill ? 150 : what.sequences * what.tokens));
    EXPECT_FALSE(refused(right, [](Definition& d) { d.name = "g", d.tags.push_back("layout:k-last"); }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.name = "g_v_last"; }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.op_type = "gqa_paged"; }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.inputs[0].name = "Q"; }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.inputs[1].shape->pop_back(); }));
    EXPECT_TRUE(refused(right, [](Definition& d) { std::swap(d.inputs[3].shape->at(2), d.inputs[3].shape->at(3)); }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.inputs.back().shape = {{"HV"}}; }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.inputs.pop_back(); }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.outputs.pop_back(); }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.outputs[1].name = "state"; }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.inputs[2].dtype = Dtype::int32; }));
    EXPECT_TRUE(refused(right, [](Definition& d) { d.inputs.push_back({"mask", {{"HV"}}, Dtype::int32, ""}); }));
  }
}

TEST(ShippedProblems, GdnIsWholeAndNamedByTheRule) {
  const auto dataset = Dataset::load(*dataset_roots({}));
  ASSERT_TRUE(dataset) << dataset.error().message;
  int definitions = 0;
  for (const auto& [name, definition] : dataset->definitions()) {
    const auto roles = gdn_roles(definition);
    EXPECT_EQ(roles.has_value(), name.starts_with("gdn_")) << name;
    if (!roles) continue;
    ++definitions;
    const char* kinds[] = {"decode", "mtp", "prefill"};
    EXPECT_EQ(name, fmt::format("gdn_{}_qk{}_v{}_d{}_k_last", kinds[static_cast<int>(roles->kind)],
                                *definition.find_axis("num_q_heads")->constant,
                                *definition.find_axis("num_v_heads")->constant,
                                *definition.find_axis("head_size")->constant));
    expect_shipped(*dataset, definition, {{}, 1e8, 20u << 20}, [](const auto&, const auto&) {});
  }
  EXPECT_EQ(definitions, 6);
}

// --- mistakes

TEST(GdnMutations, OfTheValuesFail) {
  const std::pair<const char*, std::function<void(std::vector<float>&)>> mutations[] = {
      {"zeros", [](auto& y) { std::fill(y.begin(), y.end(), 0.0f); }},
      {"a constant", [](auto& y) { std::fill(y.begin(), y.end(), 0.5f); }},
      {"times 1.02",
       [](auto& y) {
         for (float& value : y) value *= 1.02f;
       }},
      {"times 0.98",
       [](auto& y) {
         for (float& value : y) value *= 0.98f;
       }},
      {"two heads swapped", [](auto& y) { std::swap_ranges(y.begin(), y.begin() + 32, y.begin() + 32); }},
      {"shifted by one", [](auto& y) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
      {"the last rows zero", [](auto& y) { std::fill(y.end() - 64, y.end(), 0.0f); }},
      {"in e4m3",
       [](auto& y) {
         for (float& value : y) value = from_e4m3(to_e4m3(value));
       }},
      {"NaN in one element", [](auto& y) { y[y.size() / 3] = std::nanf(""); }},
      {"infinity in one element", [](auto& y) { y[0] = INFINITY; }}};
  for (const GdnCase& shape : cases()) {
    for (const GdnCase& what : varied(shape)) {
      const GdnData data(what);
      ASSERT_TRUE(passes(data, {data.output_truth, data.state_truth})) << what.name();
      for (const auto& [name, apply] : mutations) {
        for (const std::size_t output : {data.roles.output, data.roles.final_state}) {
          std::vector<float> values = output == data.roles.output ? data.output_truth : data.state_truth;
          apply(values);
          const auto result = judge(data, output, values);
          EXPECT_EQ(result.verdict, Verdict::failed) << name << ": " << what.name() << "\n" << describe(result);
        }
      }
    }
  }
}

struct Mutation {
  const char* name;
  std::function<void(GdnModel&, const GdnData&)> change;
  std::function<bool(const GdnCase&)> applies = nullptr;
};

TEST(GdnMutations, OfKernelsFail) {
  const auto several = [](const GdnCase& what) { return what.kind == Kind::prefill; };
  const auto pooled = [](const GdnCase& what) { return what.kind == Kind::mtp; };
  // A prefill that forgets all with every token has the error of one rounding, as a sound one has.
  const auto kept = [](const GdnCase& what) {
    return what.kind != Kind::mtp && !(what.kind == Kind::prefill && what.distribution == Distribution::scaled);
  };
  const Mutation mutations[] = {
      {"no decay", [](auto& m, const auto&) { m.gate = GdnModel::Gate::none; }},
      {"A_log for its exponential", [](auto& m, const auto&) { m.gate = GdnModel::Gate::without_exp; }},
      {"dt_bias left out", [](auto& m, const auto&) { m.gate = GdnModel::Gate::without_bias; }},
      {"exp for softplus", [](auto& m, const auto&) { m.gate = GdnModel::Gate::exp_for_softplus; }},
      {"beta 1", [](auto& m, const auto&) { m.beta = GdnModel::Beta::one; }},
      {"beta without sigmoid", [](auto& m, const auto&) { m.beta = GdnModel::Beta::raw; }},
      {"old value before the decay", [](auto& m, const auto&) { m.change = GdnModel::Change::before_decay; }},
      {"old value not removed", [](auto& m, const auto&) { m.change = GdnModel::Change::without_removal; }},
      {"old value removed whole", [](auto& m, const auto&) { m.change = GdnModel::Change::whole_removal; }},
      {"output of the old state", [](auto& m, const auto&) { m.output_from_old = true; }},
      {"no scale", [](auto& m, const auto& data) { m.scale_factor = 1 / data.shape.scale; }},
      {"scale twice", [](auto& m, const auto& data) { m.scale_factor = data.shape.scale; }},
      {"head h mod QK heads", [](auto& m, const auto&) { m.modulo_heads = true; }},
      {"q and k exchanged", [](auto& m, const auto&) { m.exchanges_q_and_k = true; }},
      {"state ignored", [](auto& m, const auto&) { m.states = GdnModel::States::none; }},
      {"state transposed", [](auto& m, const auto&) { m.states = GdnModel::States::transposed; }},
      {"states in order", [](auto& m, const auto&) { m.states = GdnModel::States::in_order; }, pooled},
      {"state of the sequence before", [](auto& m, const auto&) { m.states = GdnModel::States::carried; }},
      {"pool overwritten", [](auto& m, const auto&) { m.updates_pool = true; }, pooled},
      {"last token left out", [](auto& m, const auto&) { m.leaves_last_token = true; }},
      {"state in bf16", [](auto& m, const auto&) { m.round_state = to_bf16_and_back; }, kept},
      {"state in e4m3", [](auto& m, const auto&) { m.round_state = [](float x) { return from_e4m3(to_e4m3(x)); }; },
       several},
      {"bf16 blocks", [](auto& m, const auto&) { m.chunk = 1; },
       [](const GdnCase& what) { return what.kind == Kind::decode; }},
  };
  for (const GdnCase& shape : cases()) {
    for (const GdnCase& what : varied(shape)) {
      const GdnData data(what);
      for (const Mutation& mutation : mutations) {
        if (mutation.applies && !mutation.applies(what)) continue;
        GdnModel model;
        mutation.change(model, data);
        const GdnOutput made = run_gdn(data, model);
        EXPECT_FALSE(passes(data, made)) << mutation.name << ": " << what.name() << "\n"
                                         << describe(judge(data, data.roles.output, made.output))
                                         << describe(judge(data, data.roles.final_state, made.state));
      }
    }
  }
}

// --- what must pass

TEST(GdnControls, SoundKernelsPassWithMargin) {
  std::vector<GdnCase> shapes = cases();
  shapes.push_back({Kind::decode, 2, 1, 1, 2, 4, 128});
  shapes.push_back({Kind::mtp, 1, 4, 2, 1, 2, 128});
  shapes.push_back({Kind::prefill, 2, 200, 1, 1, 2, 128});
  shapes.push_back({Kind::prefill, 1, 700, 1, 1, 1, 64});
  Margins margins;
  for (const GdnCase& shape : shapes) {
    for (const GdnCase& what : varied(shape)) {
      const GdnData data(what);
      std::vector<GdnModel> models(1);
      for (const std::int64_t chunk : {16, 64}) {
        if (what.kind != Kind::prefill) break;
        models.emplace_back().chunk = chunk;
      }
      for (const GdnModel& model : models) {
        const GdnOutput made = run_gdn(data, model);
        for (const std::size_t output : {data.roles.output, data.roles.final_state}) {
          const auto result = judge(data, output, output == data.roles.output ? made.output : made.state);
          const char* kinds[] = {"decode", "mtp", "prefill"};
          margins.take(
              fmt::format("{} {} {}", kinds[static_cast<int>(what.kind)], result.name, to_string(what.distribution)),
              result, fmt::format("{}, blocks of {}", what.name(), model.chunk));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem
