// Mistakes that a kernel for grouped-query or latent attention must not get away with, and sound kernels that must
// pass, with what they leave of the limits; the list is part of the rule (docs/problems.md). All of it is computed by
// gqa_model.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string_view>

#include "attention_model.h"
#include "gqa_model.h"

namespace ptxbench::problem {
namespace {

constexpr Distribution kFour[] = {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties};

/// Every kind, with requests of one token, of a few and of more than one tile.
const std::vector<GqaCase>& cases() {
  static const std::vector<GqaCase> kList = {
      {GqaKind::decode, 6, 6, 400, 700},
      {GqaKind::decode, 5, 5, 40, 60, 16},
      {GqaKind::prefill, 3, 70, 260, 300},
      {GqaKind::prefill, 3, 70, 30, 40, 16},
      {GqaKind::prefill, 1, 130, 130, 200},
      {GqaKind::ragged, 4, 170, 170},
      {GqaKind::ragged, 3, 60, 240},
      {GqaKind::decode, 5, 5, 320, 500, 1, 4, 1, 64, Distribution::normal, 16},
      {GqaKind::prefill, 3, 60, 26, 40, 16, 4, 1, 64, Distribution::normal, 16},
      {GqaKind::ragged, 3, 60, 200, 1, 1, 4, 4, 48, Distribution::normal, 0, 32},
  };
  return kList;
}

const GqaData& data_of(GqaCase what, Distribution distribution) {
  static std::map<std::string, std::unique_ptr<GqaData>> made;
  what.distribution = distribution;
  auto& slot = made[fmt::format("{} {} {} {}", what.name(), what.pages, what.depth, what.qo_heads)];
  if (!slot) slot = std::make_unique<GqaData>(what);
  return *slot;
}

template <class Body>
void for_all_inputs(const Body& body) {
  for (const Distribution distribution : kFour) {
    for (const GqaCase& what : cases()) body(data_of(what, distribution));
  }
}

Limits output_limits(const GqaData& data) { return *limits_for(data.problem.definition, data.roles.output); }

TensorComparison judge_output(const GqaData& data, const std::vector<float>& values, bool diagnose = false) {
  const GqaOperands operands = data.operands(false);
  CompareOptions options;
  options.diagnose = diagnose;
  options.gqa = &operands;
  return compare(in_bfloat16("output", values, data.what.columns()), data.o_truth, output_limits(data), options);
}

TensorComparison judge_lse(const GqaData& data, const std::vector<float>& values, bool diagnose = false) {
  const GqaOperands operands = data.operands(true);
  CompareOptions options;
  options.diagnose = diagnose;
  options.gqa = &operands;
  return compare(in_float32("lse", values, data.what.qo_heads), data.lse_truth,
                 limits_for(data.problem.definition, data.roles.lse), options);
}

bool passes(const GqaData& data, const GqaOutput& output) {
  return judge_output(data, output.o).verdict == Verdict::passed &&
         judge_lse(data, output.lse).verdict == Verdict::passed;
}

std::string place(const GqaData& data, const char* what) { return fmt::format("{}: {}", what, data.what.name()); }

float through_e4m3(float value) { return from_e4m3(to_e4m3(value)); }

// --- finished outputs

struct ValueMutation {
  const char* name;
  std::function<void(std::vector<float>&, const GqaData&)> apply;
};

const std::vector<ValueMutation>& output_mutations() {
  const auto times = [](float factor) {
    return [factor](std::vector<float>& y, const GqaData&) {
      for (float& value : y) value *= factor;
    };
  };
  const auto row = [](std::vector<float>& y, const GqaData& data, std::int64_t index) {
    return y.begin() + index * data.what.columns();
  };
  static const std::vector<ValueMutation> kList = {
      {"zeros", times(0)},
      {"a constant", [](auto& y, const auto&) { std::fill(y.begin(), y.end(), 0.5f); }},
      {"a copy of q",
       [](auto& y, const auto& data) {
         const std::vector<float> q = data.widened(data.roles.q);
         for (std::size_t i = 0; i < y.size(); ++i) y[i] = q[i % q.size()];
       }},
      {"a copy of V",
       [](auto& y, const auto& data) {
         const std::vector<float> v = data.widened(data.roles.v);
         for (std::size_t i = 0; i < y.size(); ++i) y[i] = v[i % v.size()];
       }},
      {"times 1.05", times(1.05f)},
      {"times 1.02", times(1.02f)},
      {"times 0.98", times(0.98f)},
      {"two heads swapped",
       [=](auto& y, const auto& data) {
         for (std::int64_t i = 0; i + data.what.qo_heads <= data.shape.rows(); i += data.what.qo_heads) {
           std::swap_ranges(row(y, data, i), row(y, data, i + 1), row(y, data, i + 1));
         }
       }},
      {"two queries swapped",
       [=](auto& y, const auto& data) {
         const std::int64_t heads = data.what.qo_heads;
         std::swap_ranges(row(y, data, 0), row(y, data, heads), row(y, data, heads));
       }},
      {"the last query is not written, zero",
       [=](auto& y, const auto& data) {
         std::fill(row(y, data, data.shape.rows() - data.what.qo_heads), y.end(), 0.0f);
       }},
      {"one row of zeros",
       [=](auto& y, const auto& data) { std::fill_n(row(y, data, data.shape.rows() / 2), data.what.columns(), 0.0f); }},
      {"columns shifted by one", [](auto& y, const auto&) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
      {"columns in other order",
       [](auto& y, const auto&) {
         for (std::size_t i = 0; i + 16 <= y.size(); i += 16) {
           const auto at = y.begin() + static_cast<std::ptrdiff_t>(i);
           std::swap_ranges(at, at + 8, at + 8);
         }
       }},
      {"head and query exchanged",
       [](auto& y, const auto& data) {
         const auto old = y;
         const std::int64_t depth = data.what.columns(), heads = data.what.qo_heads, queries = data.shape.queries;
         for (std::int64_t at = 0; at < data.shape.rows(); ++at) {
           const std::int64_t from = at % queries * heads + at / queries;
           std::copy_n(old.begin() + from * depth, depth, y.begin() + at * depth);
         }
       }},
      {"in e4m3",
       [](auto& y, const auto&) {
         for (float& value : y) value = through_e4m3(value);
       }},
      {"NaN in one element", [](auto& y, const auto&) { y[y.size() / 3] = std::nanf(""); }},
      {"infinity in one element", [](auto& y, const auto&) { y[0] = INFINITY; }},
      {"one element wrong",
       [](auto& y, const auto& data) {
         // A fifth of its row's rms, or of the tensor's where that is more: small rows are judged by the latter.
         const auto rms = [&](auto begin, auto end) {
           double sum = 0;
           for (auto at = begin; at != end; ++at) sum += static_cast<double>(*at) * static_cast<double>(*at);
           return std::sqrt(sum / static_cast<double>(end - begin));
         };
         const auto first = y.begin() + 4 * data.what.columns();
         first[9] += static_cast<float>(
             0.2 * std::max(rms(first, first + data.what.columns()), rms(data.o_truth.begin(), data.o_truth.end())));
       }},
  };
  return kList;
}

TEST(GqaMutations, OfTheOutputFail) {
  for_all_inputs([](const GqaData& data) {
    ASSERT_EQ(judge_output(data, data.o_truth).verdict, Verdict::passed) << place(data, "truth");
    for (const ValueMutation& mutation : output_mutations()) {
      std::vector<float> values = data.o_truth;
      mutation.apply(values, data);
      const auto result = judge_output(data, values);
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, mutation.name) << "\n" << describe(result);
    }
  });
}

TEST(GqaMutations, OfTheLogarithmFail) {
  const std::pair<const char*, std::function<void(std::vector<float>&, std::int64_t)>> mutations[] = {
      {"zeros", [](auto& y, auto) { std::fill(y.begin(), y.end(), 0.0f); }},
      {"a constant", [](auto& y, auto) { std::fill(y.begin(), y.end(), 5.0f); }},
      {"natural",
       [](auto& y, auto) {
         for (float& value : y) value *= 0.69314718f;
       }},
      {"base 2 twice",
       [](auto& y, auto) {
         for (float& value : y) value *= 1.44269504f;
       }},
      {"plus 0.01",
       [](auto& y, auto) {
         for (float& value : y) value += 0.01f;
       }},
      {"minus 0.003",
       [](auto& y, auto) {
         for (float& value : y) value -= 0.003f;
       }},
      {"negative",
       [](auto& y, auto) {
         for (float& value : y) value = -value;
       }},
      {"heads swapped",
       [](auto& y, auto heads) {
         for (auto at = y.begin(); at + heads <= y.end(); at += heads) std::swap(at[0], at[1]);
       }},
      {"shifted by one", [](auto& y, auto) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
      {"the last query is not written, zero", [](auto& y, auto heads) { std::fill(y.end() - heads, y.end(), 0.0f); }},
      {"in bf16",
       [](auto& y, auto) {
         for (float& value : y) value = to_bf16_and_back(value);
       }},
      {"one element wrong", [](auto& y, auto) { y[5] += 0.0075f; }},
      {"NaN in one element", [](auto& y, auto) { y[y.size() / 2] = std::nanf(""); }},
      {"infinity in one element", [](auto& y, auto) { y[1] = -INFINITY; }},
  };
  for_all_inputs([&](const GqaData& data) {
    ASSERT_EQ(judge_lse(data, data.lse_truth).verdict, Verdict::passed) << place(data, "truth");
    for (const auto& [name, apply] : mutations) {
      std::vector<float> values = data.lse_truth;
      apply(values, data.what.qo_heads);
      const auto result = judge_lse(data, values);
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, name) << "\n" << describe(result);
    }
  });
}

// Truth that is infinite must be met exactly: it is no excuse for anything else, and no fault of a kernel that has it.
TEST(GqaMutations, OfEmptyRequestsFail) {
  for (const GqaCase& what : {GqaCase{GqaKind::decode, 5, 5, 3, 7}, GqaCase{GqaKind::decode, 3, 3, 2, 9, 16},
                              GqaCase{GqaKind::ragged, 2, 40, 25}}) {
    const GqaData data(what);
    ASSERT_EQ(judge_output(data, data.o_truth).verdict, Verdict::passed) << place(data, "truth");
    ASSERT_EQ(judge_lse(data, data.lse_truth).verdict, Verdict::passed) << place(data, "truth");
    const auto empty = std::find(data.lse_truth.begin(), data.lse_truth.end(), -INFINITY) - data.lse_truth.begin();
    ASSERT_LT(empty, static_cast<std::ptrdiff_t>(data.lse_truth.size())) << place(data, "one sees nothing");
    EXPECT_TRUE(passes(data, run_gqa(data, {})));
    for (const float wrong : {0.0f, INFINITY, std::nanf(""), -1e30f}) {
      std::vector<float> values = data.lse_truth;
      values[static_cast<std::size_t>(empty)] = wrong;
      const auto result = judge_lse(data, values, true);
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, "lse") << wrong;
      EXPECT_EQ(result.not_infinite, 1u);
      EXPECT_EQ(result.nan + result.infinite + result.unwritten, 0u);
      ASSERT_FALSE(result.hypotheses.empty());
      EXPECT_EQ(result.hypotheses[0].pattern, "empty_request");
    }
    GqaModel model;
    model.empty_is_zero = true;
    EXPECT_FALSE(passes(data, run_gqa(data, model)));
    // A finite value that is missing, or output of a request that has none.
    std::vector<float> values = data.lse_truth;
    std::fill(values.begin(), values.end(), -INFINITY);
    EXPECT_EQ(judge_lse(data, values).verdict, Verdict::failed);
    values = data.o_truth;
    values[static_cast<std::size_t>(empty * what.depth)] = 0.5f;
    EXPECT_EQ(judge_output(data, values).verdict, Verdict::failed);
    values[static_cast<std::size_t>(empty * what.depth)] = std::nanf("");
    EXPECT_EQ(judge_output(data, values, true).verdict, Verdict::failed);
    // Never written.
    Tensor poisoned = in_float32("lse", data.lse_truth, what.qo_heads);
    fill_poison(poisoned);
    const auto result = compare(poisoned, data.lse_truth, log_sum_limits());
    EXPECT_EQ(result.unwritten, data.lse_truth.size());
  }
}

// --- kernels

struct ModelMutation {
  const char* name;
  std::function<void(GqaModel&, const GqaData&)> change;
  const char* pattern = nullptr;  ///< what the diagnosis calls it, where it should know
  std::function<bool(const GqaData&)> applies = nullptr;
  /// Where softmax is nearly a choice, nobody need choose the keys in question.
  bool needs_soft_choice = false;
};

bool is_causal(const GqaData& data) { return data.shape.causal; }
bool is_paged(const GqaData& data) { return data.roles.paged(); }
bool has_longer_keys(const GqaData& data) {
  return data.shape.causal && static_cast<std::int64_t>(data.shape.slots.size()) > data.shape.queries;
}
bool has_neighbours(const GqaData& data) { return data.shape.requests.size() > 1; }
bool has_partial_pages(const GqaData& data) { return data.what.page_size > 1; }
bool has_groups(const GqaData& data) { return data.shape.kv_heads > 1 && data.shape.group() > 1; }
bool has_kv_heads(const GqaData& data) { return data.shape.kv_heads > 1; }
bool is_absorbed(const GqaData& data) { return data.what.rope > 0; }

const std::vector<ModelMutation>& model_mutations() {
  using Heads = GqaModel::Heads;
  using Keys = GqaModel::Keys;
  using Mask = GqaModel::Mask;
  static const std::vector<ModelMutation> kList = {
      {"head h reads head h mod KV heads", [](auto& m, const auto&) { m.heads = Heads::modulo; }, "head_group",
       has_groups},
      {"all heads read the first", [](auto& m, const auto&) { m.heads = Heads::first; }, "head_group", has_kv_heads},
      {"page indices ignored", [](auto& m, const auto&) { m.keys = Keys::straight; }, "page_table", is_paged},
      {"keys from the beginning of the cache", [](auto& m, const auto&) { m.keys = Keys::from_start; }, nullptr,
       [](const GqaData& data) { return is_paged(data) || has_neighbours(data); }},
      {"pages of the next request", [](auto& m, const auto&) { m.keys = Keys::of_next_request; }, nullptr,
       has_neighbours},
      {"pages of the request before", [](auto& m, const auto&) { m.keys = Keys::of_previous_request; }, nullptr,
       has_neighbours},
      {"the whole last page enters", [](auto& m, const auto&) { m.whole_last_page = true; }, "extra_keys",
       has_partial_pages, true},
      {"missing keys of the last tile enter as zeros", [](auto& m, const auto&) { m.zeros_behind = true; }, nullptr,
       nullptr, true},
      {"the first key left out", [](auto& m, const auto&) { m.front = 1; }, "missing_keys"},
      {"the last key left out", [](auto& m, const auto&) { m.back = 1; }, "missing_keys", nullptr, true},
      {"the last 1 % of keys left out", [](auto& m, const auto&) { m.left_out = 0.01; }, nullptr, nullptr, true},
      {"the last 5 % of keys left out", [](auto& m, const auto&) { m.left_out = 0.05; }, nullptr, nullptr, true},
      {"keys behind the last whole tile left out", [](auto& m, const auto&) { m.whole_tiles_only = true; }},
      {"no scale", [](auto& m, const auto& data) { m.score_factor = 1 / data.shape.scale; }, "softmax_scale"},
      {"scale twice", [](auto& m, const auto& data) { m.score_factor = data.shape.scale; }, "softmax_scale"},
      {"exponentials in base 2", [](auto& m, const auto&) { m.score_factor = std::log(2.0); }, "softmax_scale"},
      {"scale 1 % off", [](auto& m, const auto&) { m.score_factor = 1.01; }},
      {"no mask", [](auto& m, const auto&) { m.mask = Mask::none; }, "causal_mask", is_causal},
      {"mask aligned to the first key", [](auto& m, const auto&) { m.mask = Mask::top_left; }, "causal_offset",
       has_longer_keys},
      {"mask one key too wide", [](auto& m, const auto&) { m.mask_shift = 1; }, "causal_mask", is_causal},
      {"mask without the diagonal", [](auto& m, const auto&) { m.mask_shift = -1; }, "causal_mask", is_causal},
      {"P in e4m3", [](auto& m, const auto&) { m.round_p = through_e4m3; }},
      {"natural LSE", [](auto& m, const auto&) { m.natural_lse = true; }, "lse_base"},
      {"O not rescaled", [](auto& m, const auto&) { m.rescales_output = false, m.tile = 16; }},
      {"the row sum not rescaled", [](auto& m, const auto&) { m.rescales_sum = false, m.tile = 16; }},
      {"q_pe left out", [](auto& m, const auto&) { m.second_part = 0; }, "missing_rope", is_absorbed},
      {"q_nope left out", [](auto& m, const auto&) { m.first_part = 0; }, nullptr, is_absorbed},
      {"q_pe twice", [](auto& m, const auto&) { m.second_part = 2; }, nullptr, is_absorbed},
      {"only q_nope scaled", [](auto& m, const auto& data) { m.second_part = 1 / data.shape.scale; }, nullptr,
       is_absorbed},
      {"V from the last columns of K", [](auto& m, const auto&) { m.values_from_end = true; }, nullptr,
       [](const GqaData& data) { return data.what.latent(); }},
      {"scale of the latent depth",
       [](auto& m, const auto& data) {
         m.score_factor = 1 / std::sqrt(static_cast<double>(data.shape.depth)) / data.shape.scale;
       },
       nullptr, is_absorbed},
      {"scale of V's depth",
       [](auto& m, const auto& data) {
         m.score_factor = 1 / std::sqrt(static_cast<double>(data.shape.value_depth)) / data.shape.scale;
       },
       nullptr, [](const GqaData& data) { return data.what.value_depth > 0; }},
      {"splits averaged", [](auto& m, const auto&) { m.splits = 4, m.merges_by_weight = false; }},
  };
  return kList;
}

TEST(GqaMutations, OfKernelsFail) {
  for_all_inputs([](const GqaData& data) {
    for (const ModelMutation& mutation : model_mutations()) {
      if (mutation.applies && !mutation.applies(data)) continue;
      if (mutation.needs_soft_choice && data.what.distribution == Distribution::scaled) continue;
      GqaModel model;
      mutation.change(model, data);
      const GqaOutput output = run_gqa(data, model);
      EXPECT_FALSE(passes(data, output)) << place(data, mutation.name) << "\n"
                                         << describe(judge_output(data, output.o))
                                         << describe(judge_lse(data, output.lse));
    }
  });
}

// Accumulators in bf16 lose more the longer the sum is.
TEST(GqaMutations, LowPrecisionOfLongSumsFails) {
  const GqaData data({GqaKind::decode, 1, 1, 2048, 3000});
  for (const auto& round : {to_bf16_and_back, through_e4m3}) {
    GqaModel model;
    model.round_sum = round;
    EXPECT_EQ(judge_output(data, run_gqa(data, model).o).verdict, Verdict::failed);
  }
  for (const double share : {0.01, 0.05}) {
    GqaModel model;
    model.left_out = share;
    EXPECT_EQ(judge_output(data, run_gqa(data, model).o).verdict, Verdict::failed);
  }
}

// --- what the diagnosis says

TEST(GqaDiagnosis, NamesTheMistakesOfKernels) {
  for (const GqaCase& what : cases()) {
    const GqaData& data = data_of(what, Distribution::normal);
    for (const ModelMutation& mutation : model_mutations()) {
      if (mutation.pattern == nullptr || (mutation.applies && !mutation.applies(data))) continue;
      GqaModel model;
      mutation.change(model, data);
      const GqaOutput output = run_gqa(data, model);
      for (const auto& result : {judge_output(data, output.o, true), judge_lse(data, output.lse, true)}) {
        if (result.verdict == Verdict::passed) continue;  // the other output shows it
        expect_pattern(result, mutation.pattern, place(data, mutation.name));
      }
    }
  }
}

TEST(GqaDiagnosis, GeneralPatternsStayKnown) {
  const GqaData& data = data_of(cases()[0], Distribution::normal);
  const std::pair<const char*, const char*> expected[] = {{"zeros", "all_zero"},
                                                          {"a constant", "constant_value"},
                                                          {"times 1.05", "constant_scale"},
                                                          {"NaN in one element", "not_finite"}};
  for (const auto& [name, pattern] : expected) {
    const auto mutation =
        std::find_if(output_mutations().begin(), output_mutations().end(),
                     [wanted = std::string_view(name)](const auto& one) { return one.name == wanted; });
    ASSERT_NE(mutation, output_mutations().end()) << name;
    std::vector<float> values = data.o_truth;
    mutation->apply(values, data);
    expect_pattern(judge_output(data, values, true), pattern, name);
  }
}

// --- what must pass

TEST(GqaControls, SoundKernelsPassWithMargin) {
  std::vector<GqaCase> shapes = cases();
  shapes.push_back({GqaKind::decode, 12, 12, 20, 30, 1, 8, 1, 128});  // one or two keys each
  shapes.push_back({GqaKind::decode, 1, 1, 3, 5});
  shapes.push_back({GqaKind::decode, 4, 4, 7, 12, 1, 24, 8, 128});
  shapes.push_back({GqaKind::decode, 3, 3, 2000, 2500, 1, 6, 2, 128});
  shapes.push_back({GqaKind::decode, 9, 9, 300, 400, 1, 16, 1, 512, Distribution::normal, 64});
  shapes.push_back({GqaKind::decode, 8, 8, 12, 20, 1, 16, 1, 512, Distribution::normal, 64});
  shapes.push_back({GqaKind::prefill, 2, 20, 90, 99, 1, 16, 1, 512, Distribution::normal, 64});
  shapes.push_back({GqaKind::ragged, 3, 40, 90, 1, 1, 8, 8, 192, Distribution::normal, 0, 128});
  Margins margins;
  for (const Distribution distribution :
       {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties, Distribution::flat,
        Distribution::tiny, Distribution::bell}) {
    for (const GqaCase& what : shapes) {
      const GqaData& data = data_of(what, distribution);
      GqaModel models[4];
      models[1].tile = 128;
      models[2].sums_rounded = true;
      models[3].splits = 4;
      for (const GqaModel& model : models) {
        const GqaOutput output = run_gqa(data, model);
        for (const TensorComparison& result : {judge_output(data, output.o), judge_lse(data, output.lse)}) {
          margins.take(fmt::format("{}{} {}", what.latent() ? "latent " : "", result.name, to_string(distribution)),
                       result, place(data, result.name.c_str()));
        }
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem
