// Mistakes that an attention kernel must not get away with, and sound kernels that must pass, with what they leave of
// the limits; the list is part of the rule (docs/problems.md). All of it is computed by attention_model.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "attention_model.h"
#include "test_support.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kHeads = 2, kS = 200, kD = 64;  // S leaves a tail behind tiles of 64 and 128

const AttentionData& data_of(Distribution distribution, bool causal, std::int64_t heads = kHeads, std::int64_t s = kS,
                             std::int64_t d = kD) {
  static std::map<std::tuple<Distribution, bool, std::int64_t, std::int64_t, std::int64_t>,
                  std::unique_ptr<AttentionData>>
      made;
  auto& slot = made[{distribution, causal, heads, s, d}];
  if (!slot) slot = std::make_unique<AttentionData>(heads, s, d, causal, distribution);
  return *slot;
}

using Outputs = std::vector<TensorComparison>;

/// O, dQ, dK or dV of a problem.
struct Output {
  const char* name;
  std::vector<float> AttentionData::*truth;
  std::vector<float> AttentionData::*norms;  ///< null: none
};
constexpr Output kO{"O", &AttentionData::o_truth, nullptr};
constexpr Output kDQ{"dQ", &AttentionData::dq_truth, &AttentionData::dq_norms};
constexpr Output kDK{"dK", &AttentionData::dk_truth, &AttentionData::dk_norms};
constexpr Output kDV{"dV", &AttentionData::dv_truth, &AttentionData::dv_norms};

Limits limits_of(const Output& output) {
  const Limits limits = *limits_for("attention", Dtype::bfloat16);
  return output.norms == nullptr ? limits : gradient_limits(limits);
}

TensorComparison judge_values(const AttentionData& data, const Output& output, const std::vector<float>& values) {
  CompareOptions options;
  options.diagnose = false;
  if (output.norms != nullptr) options.term_norms = data.*output.norms;
  return compare(in_bfloat16(output.name, values, data.shape.depth), data.*output.truth, limits_of(output), options);
}

Outputs judge(const AttentionData& data, const ForwardOutput& output) {
  CompareOptions options;
  options.diagnose = false;
  Outputs results;
  results.push_back(judge_values(data, kO, output.o));
  results.push_back(compare(in_float32("LSE", output.lse, data.shape.sequence), data.lse, log_sum_limits(), options));
  return results;
}

Outputs judge(const AttentionData& data, const BackwardOutput& output) {
  Outputs results;
  results.push_back(judge_values(data, kDQ, output.dq));
  results.push_back(judge_values(data, kDK, output.dk));
  results.push_back(judge_values(data, kDV, output.dv));
  return results;
}

bool all_passed(const Outputs& outputs) {
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const TensorComparison& one) { return one.verdict == Verdict::passed; });
}

std::string text_of(const Outputs& outputs) {
  std::string text;
  for (const TensorComparison& one : outputs) text += describe(one);
  return text;
}

float through_e4m3(float value) { return from_e4m3(to_e4m3(value)); }

// --- what can go wrong in any output

struct ValueMutation {
  const char* name;
  std::function<void(std::vector<float>&, const AttentionData&)> apply;
};

/// Changes of a finished output of B*H*S rows; each must fail whatever the output is.
const std::vector<ValueMutation>& value_mutations() {
  const auto rows = [](std::vector<float>& values, std::int64_t first) { return values.begin() + first * kD; };
  static const std::vector<ValueMutation> kList = {
      {"zeros", [](auto& y, const auto&) { std::fill(y.begin(), y.end(), 0.0f); }},
      {"a constant", [](auto& y, const auto&) { std::fill(y.begin(), y.end(), 0.5f); }},
      {"a copy of V", [](auto& y, const auto& data) { y = data.v; }},
      {"a copy of Q", [](auto& y, const auto& data) { y = data.q; }},
      {"times 1.05",
       [](auto& y, const auto&) {
         for (float& value : y) value *= 1.05f;
       }},
      {"times 1.02",
       [](auto& y, const auto&) {
         for (float& value : y) value *= 1.02f;
       }},
      {"times 0.98",
       [](auto& y, const auto&) {
         for (float& value : y) value *= 0.98f;
       }},
      {"heads swapped", [=](auto& y, const auto&) { std::swap_ranges(rows(y, 0), rows(y, kS), rows(y, kS)); }},
      {"row blocks swapped", [=](auto& y, const auto&) { std::swap_ranges(rows(y, 64), rows(y, 128), rows(y, 128)); }},
      {"last tile of rows not written, zero",
       [=](auto& y, const auto&) { std::fill(rows(y, kS / 64 * 64), rows(y, kS), 0.0f); }},
      {"last tile of rows is the one before",
       [=](auto& y, const auto&) { std::copy(rows(y, kS - 72), rows(y, kS - 64), rows(y, kS - 8)); }},
      {"one row of zeros",
       [](auto& y, const auto&) {
         // Not one of those that are nearly zero anyway, which are judged by the tensor's rms.
         const auto square = [&](std::size_t begin, std::size_t end) {
           double sum = 0;
           for (std::size_t i = begin; i < end; ++i) sum += static_cast<double>(y[i]) * static_cast<double>(y[i]);
           return sum / static_cast<double>(end - begin);
         };
         const double average = square(0, y.size());
         std::size_t row = 7;
         while (square(row * kD, (row + 1) * kD) < average) ++row;
         std::fill_n(y.begin() + static_cast<std::ptrdiff_t>(row * kD), kD, 0.0f);
       }},
      {"columns shifted by one", [](auto& y, const auto&) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
      {"columns in other order",
       [](auto& y, const auto&) {
         for (std::size_t i = 0; i + 16 <= y.size(); i += 16)
           std::swap_ranges(y.begin() + i, y.begin() + i + 8, y.begin() + i + 8);
       }},
      {"a tile transposed",
       [](auto& y, const auto&) {
         for (std::size_t i = 0; i < 64; ++i) {
           for (std::size_t j = 0; j < i; ++j) std::swap(y[(64 + i) * kD + j], y[(64 + j) * kD + i]);
         }
       }},
      {"in e4m3",
       [](auto& y, const auto&) {
         for (float& value : y) value = through_e4m3(value);
       }},
      {"NaN in one element", [](auto& y, const auto&) { y[4321] = std::nanf(""); }},
      {"infinity in one element", [](auto& y, const auto&) { y[0] = INFINITY; }},
      {"one element wrong",
       [](auto& y, const auto&) {
         // A fifth of its row's rms, or of the tensor's where that is more: small rows are judged by the latter.
         double row = 0, all = 0;
         for (std::size_t i = 0; i < kD; ++i)
           row += static_cast<double>(y[50 * kD + i]) * static_cast<double>(y[50 * kD + i]);
         for (const float value : y) all += static_cast<double>(value) * static_cast<double>(value);
         y[50 * kD + 9] += static_cast<float>(0.2 * std::sqrt(std::max(row / kD, all / static_cast<double>(y.size()))));
       }},
  };
  return kList;
}

struct ModelMutation {
  const char* name;
  std::function<KernelModel(const AttentionData&)> model;
  bool causal_only = false;
  /// Keys that only the last queries see: where softmax is nearly a choice, none of those may choose them.
  bool needs_soft_choice = false;
};

KernelModel model_with(const std::function<void(KernelModel&)>& change) {
  KernelModel model;
  change(model);
  return model;
}

/// Mistakes of a kernel, forward and backward alike.
const std::vector<ModelMutation>& model_mutations() {
  static const std::vector<ModelMutation> kList = {
      {"no scale",
       [](const auto& data) { return model_with([&](auto& m) { m.score_factor = 1 / data.shape.scale(); }); }},
      {"scale applied twice",
       [](const auto& data) { return model_with([&](auto& m) { m.score_factor = data.shape.scale(); }); }},
      {"exponentials in base 2",
       [](const auto&) { return model_with([](auto& m) { m.score_factor = std::log(2.0); }); }},
      {"scale 1 % off", [](const auto&) { return model_with([](auto& m) { m.score_factor = 1.01; }); }},
      {"a tile of 64 keys skipped",
       [](const auto&) { return model_with([](auto& m) { m.skip_begin = 64, m.skip_end = 128; }); }},
      {"tail tile of keys skipped",
       [](const auto&) { return model_with([](auto& m) { m.skip_begin = kS / 64 * 64, m.skip_end = kS; }); }, false,
       true},
      {"last 1 % of keys skipped",
       [](const auto&) { return model_with([](auto& m) { m.skip_begin = kS - 3, m.skip_end = kS; }); }, false, true},
      {"last 5 % of keys skipped",
       [](const auto&) { return model_with([](auto& m) { m.skip_begin = kS - 13, m.skip_end = kS; }); }, false, true},
      {"first key skipped", [](const auto&) { return model_with([](auto& m) { m.skip_end = 1; }); }},
      {"mask ignored", [](const auto&) { return model_with([](auto& m) { m.ignores_mask = true; }); }, true},
      {"mask one key too wide", [](const auto&) { return model_with([](auto& m) { m.mask_shift = 1; }); }, true},
      {"mask without the diagonal", [](const auto&) { return model_with([](auto& m) { m.mask_shift = -1; }); }, true},
      {"P in e4m3", [](const auto&) { return model_with([](auto& m) { m.round_p = through_e4m3; }); }},
  };
  return kList;
}

const std::vector<ModelMutation>& forward_mutations() {
  static const std::vector<ModelMutation> kList = {
      {"O not rescaled when the maximum grows",
       [](const auto&) { return model_with([](auto& m) { m.rescales_output = false; }); }},
      {"the row sum not rescaled", [](const auto&) { return model_with([](auto& m) { m.rescales_sum = false; }); }},
      {"nothing rescaled",
       [](const auto&) { return model_with([](auto& m) { m.rescales_output = m.rescales_sum = false; }); }},
  };
  return kList;
}

const std::vector<ModelMutation>& backward_mutations() {
  static const std::vector<ModelMutation> kList = {
      {"rowsum(dO O) left out", [](const auto&) { return model_with([](auto& m) { m.has_row_sum = false; }); }},
      {"L taken for base 2", [](const auto&) { return model_with([](auto& m) { m.lse_factor = std::log(2.0); }); }},
      {"L left out", [](const auto&) { return model_with([](auto& m) { m.lse_factor = 0; }); }},
      {"L taken as natural twice",
       [](const auto&) { return model_with([](auto& m) { m.lse_factor = 1 / std::log(2.0); }); }},
  };
  return kList;
}

constexpr Distribution kFour[] = {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties};

template <class Body>
void for_all_inputs(const Body& body) {
  for (const Distribution distribution : kFour) {
    for (const bool causal : {false, true}) body(data_of(distribution, causal));
  }
}

std::string place(const AttentionData& data, const char* what) {
  return fmt::format("{} with {} inputs{}", what, to_string(data.distribution), data.shape.causal ? ", causal" : "");
}

TEST(AttentionMutations, OfAnyOutputFail) {
  for_all_inputs([](const AttentionData& data) {
    for (const Output& output : {kO, kDQ, kDK, kDV}) {
      const std::vector<float>& truth = data.*output.truth;
      ASSERT_EQ(judge_values(data, output, truth).verdict, Verdict::passed) << place(data, output.name);
      for (const ValueMutation& mutation : value_mutations()) {
        std::vector<float> values = truth;
        mutation.apply(values, data);
        const auto result = judge_values(data, output, values);
        EXPECT_EQ(result.verdict, Verdict::failed) << place(data, mutation.name) << "\n" << describe(result);
      }
    }
  });
}

TEST(AttentionMutations, OfTheLogarithmFail) {
  for_all_inputs([](const AttentionData& data) {
    const std::pair<const char*, std::function<void(std::vector<float>&)>> mutations[] = {
        {"zeros", [](auto& y) { std::fill(y.begin(), y.end(), 0.0f); }},
        {"a constant", [](auto& y) { std::fill(y.begin(), y.end(), 5.0f); }},
        {"base 2",
         [](auto& y) {
           for (float& value : y) value *= 1.44269504f;
         }},
        {"plus 0.01",
         [](auto& y) {
           for (float& value : y) value += 0.01f;
         }},
        {"minus 0.002",
         [](auto& y) {
           for (float& value : y) value -= 0.002f;
         }},
        {"negative",
         [](auto& y) {
           for (float& value : y) value = -value;
         }},
        {"heads swapped", [](auto& y) { std::swap_ranges(y.begin(), y.begin() + kS, y.begin() + kS); }},
        {"shifted by one", [](auto& y) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
        {"last tile not written, zero", [](auto& y) { std::fill(y.end() - 8, y.end(), 0.0f); }},
        {"in bf16",
         [](auto& y) {
           for (float& value : y) value = to_bf16_and_back(value);
         }},
        {"one element wrong", [](auto& y) { y[17] += 0.005f; }},
        {"NaN in one element", [](auto& y) { y[100] = std::nanf(""); }},
    };
    for (const auto& [name, apply] : mutations) {
      std::vector<float> values = data.lse;
      apply(values);
      const auto result = compare(in_float32("LSE", values, kS), data.lse, log_sum_limits());
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, name) << "\n" << describe(result);
    }
  });
}

TEST(AttentionMutations, OfForwardKernelsFail) {
  for_all_inputs([](const AttentionData& data) {
    for (const auto* list : {&model_mutations(), &forward_mutations()}) {
      for (const ModelMutation& mutation : *list) {
        if (mutation.causal_only && !data.shape.causal) continue;
        if (mutation.needs_soft_choice && data.shape.causal && data.distribution == Distribution::scaled) continue;
        const Outputs outputs = judge(data, run_forward(data, mutation.model(data)));
        EXPECT_FALSE(all_passed(outputs)) << place(data, mutation.name) << "\n" << text_of(outputs);
      }
    }
  });
}

TEST(AttentionMutations, OfBackwardKernelsFail) {
  for_all_inputs([](const AttentionData& data) {
    for (const auto* list : {&model_mutations(), &backward_mutations()}) {
      for (const ModelMutation& mutation : *list) {
        if (mutation.causal_only && !data.shape.causal) continue;
        if (mutation.needs_soft_choice && data.shape.causal && data.distribution == Distribution::scaled) continue;
        const Outputs outputs = judge(data, run_backward(data, mutation.model(data)));
        EXPECT_FALSE(all_passed(outputs)) << place(data, mutation.name) << "\n" << text_of(outputs);
      }
    }
  });
}

// Accumulators in bf16 lose more the longer the sum is.
TEST(AttentionMutations, LowPrecisionOfLongSumsFails) {
  const AttentionData& data = data_of(Distribution::normal, false, 1, 1024, 64);
  for (const auto& [name, model] :
       {std::pair{"bf16 accumulation", model_with([](auto& m) { m.round_sum = to_bf16_and_back; })},
        {"e4m3 accumulation", model_with([](auto& m) { m.round_sum = through_e4m3; })},
        {"last 1 % of keys", model_with([](auto& m) { m.skip_begin = 1014, m.skip_end = 1024; })},
        {"one tile of keys", model_with([](auto& m) { m.skip_begin = 512, m.skip_end = 576; })}}) {
    const Outputs forward = judge(data, run_forward(data, model));
    EXPECT_EQ(forward[0].verdict, Verdict::failed) << name << "\n" << text_of(forward);
    const Outputs backward = judge(data, run_backward(data, model));
    EXPECT_FALSE(all_passed(backward)) << name << "\n" << text_of(backward);
  }
}

// --- what the diagnosis says

AttentionOperands operands_of(const AttentionData& data, AttentionOperands::Output output) {
  AttentionOperands operands{data.shape, data.inputs(), std::nullopt, output};
  if (output != AttentionOperands::Output::o && output != AttentionOperands::Output::lse) {
    operands.gradient = data.gradient_inputs();
  }
  return operands;
}

TensorComparison explained(const AttentionData& data, const Output& output, AttentionOperands::Output which,
                           const std::vector<float>& values) {
  const AttentionOperands operands = operands_of(data, which);
  CompareOptions options;
  options.attention = &operands;
  if (output.norms != nullptr) options.term_norms = data.*output.norms;
  return compare(in_bfloat16(output.name, values, data.shape.depth), data.*output.truth, limits_of(output), options);
}

TensorComparison explained_logarithm(const AttentionData& data, const std::vector<float>& values) {
  const AttentionOperands operands = operands_of(data, AttentionOperands::Output::lse);
  CompareOptions options;
  options.attention = &operands;
  return compare(in_float32("LSE", values, data.shape.sequence), data.lse, log_sum_limits(), options);
}

/// Where the output shows the mistake at all; else another one does.
void expect_explained(const TensorComparison& result, std::string_view pattern, const std::string& what) {
  if (result.verdict != Verdict::passed) expect_pattern(result, pattern, what);
}

const std::map<std::string, const char*>& patterns() {
  static const std::map<std::string, const char*> kPatterns = {
      {"no scale", "softmax_scale"},
      {"scale applied twice", "softmax_scale"},
      {"exponentials in base 2", "softmax_scale"},
      {"a tile of 64 keys skipped", "missing_keys"},
      {"tail tile of keys skipped", "missing_keys"},
      {"last 5 % of keys skipped", "missing_keys"},
      {"mask ignored", "causal_mask"},
      {"mask one key too wide", "causal_mask"},
      {"mask without the diagonal", "causal_mask"},
      {"O not rescaled when the maximum grows", "missing_online_rescale"},
      {"the row sum not rescaled", "missing_online_rescale"},
      {"nothing rescaled", "missing_online_rescale"},
      {"rowsum(dO O) left out", "missing_row_sum"},
      {"L taken for base 2", "lse_base"},
      {"L taken as natural twice", "lse_base"},
  };
  return kPatterns;
}

TEST(AttentionDiagnosis, NamesTheMistakesOfKernels) {
  using Which = AttentionOperands::Output;
  for (const bool causal : {false, true}) {
    const AttentionData& data = data_of(Distribution::normal, causal);
    for (const auto* list : {&model_mutations(), &forward_mutations()}) {
      for (const ModelMutation& mutation : *list) {
        const auto pattern = patterns().find(mutation.name);
        if (pattern == patterns().end() || (mutation.causal_only && !causal)) continue;
        const ForwardOutput output = run_forward(data, mutation.model(data));
        expect_explained(explained(data, kO, Which::o, output.o), pattern->second, place(data, mutation.name));
        expect_explained(explained_logarithm(data, output.lse), pattern->second, place(data, mutation.name));
      }
    }
    for (const auto* list : {&model_mutations(), &backward_mutations()}) {
      for (const ModelMutation& mutation : *list) {
        const auto pattern = patterns().find(mutation.name);
        // A key's own gradients are gone when it is skipped, which says more than which key it was.
        const bool gone = pattern != patterns().end() && std::string_view(pattern->second) == "missing_keys";
        if (pattern == patterns().end() || (mutation.causal_only && !causal)) continue;
        const BackwardOutput output = run_backward(data, mutation.model(data));
        expect_explained(explained(data, kDQ, Which::dq, output.dq), pattern->second, place(data, mutation.name));
        if (gone) continue;
        expect_explained(explained(data, kDK, Which::dk, output.dk), pattern->second, place(data, mutation.name));
        expect_explained(explained(data, kDV, Which::dv, output.dv), pattern->second, place(data, mutation.name));
      }
    }
  }
}

TEST(AttentionDiagnosis, NamesTheMistakesOfTheLogarithm) {
  const AttentionData& data = data_of(Distribution::normal, true);
  const auto changed = [&](auto change) {
    std::vector<float> values = data.lse;
    for (float& value : values) value = change(value);
    return explained_logarithm(data, values);
  };
  expect_explained(changed([](float value) { return value * 1.44269504f; }), "lse_base", "base 2");
  expect_explained(changed([](float value) { return value * 0.69314718f; }), "lse_base", "ln 2 twice");
  expect_explained(changed([](float value) { return value + 0.01f; }), "lse_offset", "plus 0.01");
  expect_explained(changed([](float) { return 0.0f; }), "all_zero", "zeros");
  std::vector<float> maxima(data.lse.size()), sums(data.lse.size());
  for (std::size_t row = 0; row < maxima.size(); ++row) {
    const float* scores = data.scores.data() + row * kS;
    maxima[row] = *std::max_element(scores, scores + row % kS + 1) * static_cast<float>(data.shape.scale());
    sums[row] = data.lse[row] - maxima[row];
  }
  expect_explained(explained_logarithm(data, maxima), "lse_without_sum", "maximum only");
  expect_explained(explained_logarithm(data, sums), "lse_without_maximum", "sum only");
}

TEST(AttentionDiagnosis, GeneralPatternsStayKnown) {
  const AttentionData& data = data_of(Distribution::normal, false);
  const std::pair<const char*, const char*> expected[] = {{"zeros", "all_zero"},
                                                          {"a constant", "constant_value"},
                                                          {"times 1.05", "constant_scale"},
                                                          {"times 1.02", "constant_scale"},
                                                          {"row blocks swapped", "permuted_rows"},
                                                          {"NaN in one element", "not_finite"}};
  for (const auto& [name, pattern] : expected) {
    const auto mutation =
        std::find_if(value_mutations().begin(), value_mutations().end(),
                     [&, wanted = std::string_view(name)](const auto& one) { return one.name == wanted; });
    ASSERT_NE(mutation, value_mutations().end()) << name;
    std::vector<float> values = data.o_truth;
    mutation->apply(values, data);
    expect_explained(explained(data, kO, AttentionOperands::Output::o, values), pattern, name);
  }
}

// --- what must pass

TEST(AttentionControls, SoundKernelsPassWithMargin) {
  struct Shape {
    std::int64_t heads, s, d;
  };
  Margins margins;
  for (const auto& [heads, s, d] : {Shape{kHeads, kS, kD}, {1, 512, 128}}) {
    for (const Distribution distribution :
         {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties, Distribution::flat,
          Distribution::tiny, Distribution::bell}) {
      for (const bool causal : {false, true}) {
        const AttentionData& data = data_of(distribution, causal, heads, s, d);
        for (const std::int64_t tile : {64, 128}) {
          for (const bool sums_rounded : {false, true}) {
            if (tile == 128 && sums_rounded) continue;
            const KernelModel model = model_with([&](auto& m) { m.tile = tile, m.sums_rounded = sums_rounded; });
            Outputs outputs = judge(data, run_forward(data, model));
            if (tile == 64 && !sums_rounded) {
              for (TensorComparison& one : judge(data, run_backward(data, model))) outputs.push_back(std::move(one));
            }
            for (const TensorComparison& one : outputs) {
              margins.take(fmt::format("{} {}", one.name, to_string(distribution)), one, place(data, one.name.c_str()));
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem
