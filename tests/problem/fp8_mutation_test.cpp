// Mistakes that an FP8 kernel must not get away with, and sound kernels that must pass, with what they leave of the
// limits; the list is part of the rule (docs/problems.md). All of it is computed by fp8_model.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>

#include "fp8_model.h"
#include "problem/fp8_gemm.h"
#include "problem/triage.h"
#include "test_support.h"

namespace ptxbench::problem {
namespace {

constexpr Distribution kAll[] = {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties,
                                 Distribution::flat,   Distribution::tiny,   Distribution::bell};

/// What a sound kernel passes even: 1.5 times of room to every limit.
Limits tightened(Limits limits) {
  for (double* limit :
       {&limits.tensor_l2, &limits.block_l2, &limits.row_l2, &limits.element, &limits.gain, &limits.absolute_share}) {
    *limit /= 1.5;
  }
  if (limits.absolute_max) *limits.absolute_max /= 1.5;
  if (limits.absolute_rms) *limits.absolute_rms /= 1.5;
  return limits;
}

void expect_sound(const TensorComparison& result, const std::string& what) {
  EXPECT_EQ(result.verdict, Verdict::passed) << what << ", limits over 1.5\n" << describe(result);
}

std::vector<float> through_e5m2_bytes(std::vector<float> values) {
  for (float& value : values) value = from_e5m2(to_e4m3(value));
  return values;
}

// --- GEMM: tails behind tiles of 64 and 128 in both directions, the last block of SF_B partial

constexpr std::int64_t kM = 200, kN = 320, kK = 2048;

const Fp8GemmData& gemm(bool blocks_of_b, Distribution distribution, std::int64_t k = kK) {
  static std::map<std::tuple<bool, Distribution, std::int64_t>, std::unique_ptr<Fp8GemmData>> made;
  auto& slot = made[{blocks_of_b, distribution, k}];
  if (!slot) slot = std::make_unique<Fp8GemmData>(kM, kN, k, blocks_of_b, distribution);
  return *slot;
}

/// 1d2d gives bf16, 1d1d fp32.
Dtype type_of(const Fp8GemmData& data) { return data.blocks_of_b ? Dtype::bfloat16 : Dtype::float32; }

TensorComparison judge(const Fp8GemmData& data, const Tensor& output, bool diagnose = false, bool tight = false) {
  const MatrixRows a = data.rows_a().scaled(std::make_shared<BlockScales>(data.scales_a));
  const MatrixRows b = data.rows_b().scaled(std::make_shared<BlockScales>(data.scales_b));
  CompareOptions options;
  options.a = &a;
  options.b = &b;
  options.diagnose = diagnose;
  const Limits limits = *fp8_gemm_limits(output.dtype);
  return compare(output, data.truth, tight ? tightened(limits) : limits, options);
}
TensorComparison judge(const Fp8GemmData& data, const std::vector<float>& values, bool diagnose = false,
                       bool tight = false) {
  return judge(data, in_type(type_of(data), "D", values, data.n), diagnose, tight);
}

std::string place(const Fp8GemmData& data, const char* what) {
  return fmt::format("{}, {} with {} inputs", what, data.blocks_of_b ? "1d2d" : "1d1d", to_string(data.distribution));
}

using Factor = std::function<float(const BlockScales&, std::int64_t row, std::int64_t column)>;

/// Factors taken by another rule, from block coordinates.
BlockScales changed(const BlockScales& scales, const Factor& factor) {
  BlockScales out = scales;
  for (std::size_t i = 0; i < out.factors.size(); ++i) {
    out.factors[i] =
        factor(scales, static_cast<std::int64_t>(i) / scales.across, static_cast<std::int64_t>(i) % scales.across);
  }
  return out;
}
float factor_at(const BlockScales& scales, std::int64_t row, std::int64_t column) {
  const auto rows = static_cast<std::int64_t>(scales.factors.size()) / scales.across;
  return scales.factors[static_cast<std::size_t>(std::clamp<std::int64_t>(row, 0, rows - 1) * scales.across +
                                                 std::clamp<std::int64_t>(column, 0, scales.across - 1))];
}

struct FactorMutation {
  const char* name;
  Factor factor;
};
const std::vector<FactorMutation>& factor_mutations() {
  static const std::vector<FactorMutation> kList = {
      {"factors ignored", [](const auto&, auto, auto) { return 1.0f; }},
      {"factors applied twice",
       [](const auto& s, auto row, auto column) { return factor_at(s, row, column) * factor_at(s, row, column); }},
      {"index of K one block ahead",
       [](const auto& s, auto row, auto column) { return factor_at(s, row, column + 1); }},
      {"index of K one block behind",
       [](const auto& s, auto row, auto column) { return factor_at(s, row, column - 1); }},
      {"first block of K for all", [](const auto& s, auto row, auto) { return factor_at(s, row, 0); }},
      {"index of rows one ahead", [](const auto& s, auto row, auto column) { return factor_at(s, row + 1, column); }},
      {"index of rows one behind", [](const auto& s, auto row, auto column) { return factor_at(s, row - 1, column); }},
      {"read as the transposed matrix",
       [](const auto& s, auto row, auto column) {
         const auto rows = static_cast<std::int64_t>(s.factors.size()) / s.across;
         return s.factors[static_cast<std::size_t>(column * rows + row)];
       }},
  };
  return kList;
}

struct ValueMutation {
  const char* name;
  const char* pattern;  ///< null: none in particular
  std::function<void(std::vector<float>&, const Fp8GemmData&)> apply;
};
const std::vector<ValueMutation>& gemm_value_mutations() {
  const auto times = [](float factor) {
    return [factor](std::vector<float>& y, const Fp8GemmData&) {
      for (float& value : y) value *= factor;
    };
  };
  static const std::vector<ValueMutation> kList = {
      {"zeros", "all_zero", [](auto& y, const auto&) { std::fill(y.begin(), y.end(), 0.0f); }},
      {"a constant", "constant_value", [](auto& y, const auto&) { std::fill(y.begin(), y.end(), 1.0f); }},
      {"a copy of A", nullptr, [](auto& y, const auto& data) { std::copy_n(data.a.begin(), y.size(), y.begin()); }},
      {"times 1.05", "constant_scale", times(1.05f)},
      {"times 1.02", "constant_scale", times(1.02f)},
      {"times 0.98", "constant_scale", times(0.98f)},
      {"tail rows of the tile before", nullptr,
       [](auto& y, const auto&) {
         std::copy_n(y.begin() + (kM / 64 - 1) * 64 * kN, kM % 64 * kN, y.begin() + kM / 64 * 64 * kN);
       }},
      {"tail rows zero", nullptr, [](auto& y, const auto&) { std::fill(y.end() - kM % 64 * kN, y.end(), 0.0f); }},
      {"row blocks swapped", "permuted_rows",
       [](auto& y, const auto&) { std::swap_ranges(y.begin(), y.begin() + 64 * kN, y.begin() + 64 * kN); }},
      {"columns shifted by one", nullptr, [](auto& y, const auto&) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
      {"NaN in one element", "not_finite", [](auto& y, const auto&) { y[4321] = std::nanf(""); }},
      {"infinity in one element", "not_finite", [](auto& y, const auto&) { y[17] = INFINITY; }},
      {"one row zero", nullptr, [](auto& y, const auto&) { std::fill_n(y.begin() + 77 * kN, kN, 0.0f); }},
  };
  return kList;
}

std::vector<float> without_k(const Fp8GemmData& data, std::int64_t begin, std::int64_t end) {
  Fp8GemmData copy = data;
  for (std::int64_t row = 0; row < kM; ++row) {
    std::fill(copy.a.begin() + row * data.k + begin, copy.a.begin() + row * data.k + end, 0.0f);
  }
  return product(copy, data.scales_a, data.scales_b);
}

TEST(Fp8GemmMutations, OfTheOutputFail) {
  for (const bool blocks : {true, false}) {
    for (const Distribution distribution : kAll) {
      const Fp8GemmData& data = gemm(blocks, distribution);
      for (const ValueMutation& mutation : gemm_value_mutations()) {
        std::vector<float> values = data.truth;
        mutation.apply(values, data);
        const bool normal = distribution == Distribution::normal;
        const auto result = judge(data, values, normal);
        EXPECT_EQ(result.verdict, Verdict::failed) << place(data, mutation.name) << "\n" << describe(result);
        if (normal && mutation.pattern != nullptr) expect_pattern(result, mutation.pattern, place(data, mutation.name));
      }
      Tensor unwritten = in_type(type_of(data), "D", data.truth, kN);
      auto poison = Tensor::create("p", type_of(data), {kN});
      fill_poison(*poison);
      std::memcpy(static_cast<std::byte*>(unwritten.data()) + 199 * poison->bytes(), poison->data(), poison->bytes());
      EXPECT_EQ(judge(data, unwritten).unwritten, static_cast<std::uint64_t>(kN));
    }
  }
}

TEST(Fp8GemmMutations, OfScaleFactorsFailAndAreExplained) {
  for (const bool blocks : {true, false}) {
    for (const Distribution distribution : kAll) {
      const Fp8GemmData& data = gemm(blocks, distribution);
      for (const FactorMutation& mutation : factor_mutations()) {
        for (int which = 1; which <= 3; ++which) {
          const BlockScales a = (which & 1) != 0 ? changed(data.scales_a, mutation.factor) : data.scales_a;
          const BlockScales b = (which & 2) != 0 ? changed(data.scales_b, mutation.factor) : data.scales_b;
          const std::string what = place(data, mutation.name) + (which == 1 ? " of A" : which == 2 ? " of B" : "");
          const bool normal = distribution == Distribution::normal;
          const auto result = judge(data, product(data, a, b), normal);
          EXPECT_EQ(result.verdict, Verdict::failed) << what << "\n" << describe(result);
          if (normal) expect_pattern(result, "block_scale", what);
        }
      }
      // One factor for each row taken for one of 128 rows, and the reverse.
      const auto other = [&](const BlockScales& scales) {
        return changed(scales, [](const auto& s, auto row, auto column) {
          return s.rows == 1 ? factor_at(s, row / 128 * 128, column) : factor_at(s, row * 128, column);
        });
      };
      const auto result = judge(data, product(data, data.scales_a, other(data.scales_b)));
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, "SF_B of rows taken for that of blocks");
      const auto exchanged = judge(data, product(data,
                                                 changed(data.scales_a,
                                                         [&](const auto&, auto row, auto column) {
                                                           return data.scales_b.at(row, column * kScaleBlock);
                                                         }),
                                                 data.scales_b));
      EXPECT_EQ(exchanged.verdict, Verdict::failed) << place(data, "SF_B for SF_A");
    }
  }
}

TEST(Fp8GemmMutations, OfTheReductionFail) {
  for (const bool blocks : {true, false}) {
    for (const Distribution distribution : kAll) {
      const Fp8GemmData& data = gemm(blocks, distribution);
      const auto fails = [&](const char* what, const std::vector<float>& values) {
        const auto result = judge(data, values);
        EXPECT_EQ(result.verdict, Verdict::failed) << place(data, what) << "\n" << describe(result);
      };
      for (std::int64_t block = 0; block < kK; block += kScaleBlock) {
        if (block % 512 == 0 || block + kScaleBlock == kK) {
          fails("a block of 128 skipped", without_k(data, block, block + kScaleBlock));
        }
      }
      fails("a step of 32 skipped", without_k(data, 640, 672));
      fails("the last 1 % of K skipped", without_k(data, kK - kK / 100, kK));
      Fp8GemmData e5m2 = data;
      e5m2.a = through_e5m2_bytes(e5m2.a);
      fails("A taken for e5m2", product(e5m2, data.scales_a, data.scales_b));
      e5m2.a = data.a;
      e5m2.b = through_e5m2_bytes(e5m2.b);
      fails("B taken for e5m2", product(e5m2, data.scales_a, data.scales_b));
      fails("sums of 128 added up in bf16", run_gemm(data, {Accumulator::hopper, true, through_bf16}));
      fails("sums of 128 added up in e4m3", run_gemm(data, {Accumulator::hopper, true, through_e4m3}));
    }
  }
}

// What fp32 results show already at K = 2048 is as large as bf16 rounds in the worst case, and comes out at 7168.
TEST(Fp8GemmMutations, SumsLeftToTheTensorCoreFail) {
  for (const bool blocks : {true, false}) {
    const Fp8GemmData& data = gemm(blocks, Distribution::normal, 7168);
    const auto result = judge(data, run_gemm(data, {Accumulator::hopper, false, nullptr}));
    EXPECT_EQ(result.verdict, Verdict::failed) << place(data, "no promotion") << "\n" << describe(result);
  }
  for (const Distribution distribution : kAll) {
    const Fp8GemmData& data = gemm(false, distribution);
    const auto result = judge(data, run_gemm(data, {Accumulator::hopper, false, nullptr}));
    EXPECT_EQ(result.verdict, Verdict::failed) << place(data, "no promotion") << "\n" << describe(result);
  }
}

TEST(Fp8GemmControls, SoundKernelsPassWithMargin) {
  for (const bool blocks : {true, false}) {
    for (const Distribution distribution : kAll) {
      for (const std::int64_t k : {kK, std::int64_t{512}, std::int64_t{7168}}) {
        const bool long_one = k > kK;
        if (long_one && distribution != Distribution::normal && distribution != Distribution::spiky) continue;
        const Fp8GemmData& data = gemm(blocks, distribution, k);
        expect_sound(judge(data, run_gemm(data, {}), false, true), place(data, "promoted every 128"));
        if (!long_one) {
          expect_sound(judge(data, run_gemm(data, {Accumulator::fp32, true, nullptr}), false, true),
                       place(data, "fp32"));
        }
      }
    }
  }
}

// --- attention

constexpr std::int64_t kHeads = 2, kS = 200, kD = 64;

const Fp8AttentionData& attention(Distribution distribution, bool causal, std::int64_t heads = kHeads,
                                  std::int64_t s = kS, std::int64_t d = kD) {
  static std::map<std::tuple<Distribution, bool, std::int64_t, std::int64_t, std::int64_t>,
                  std::unique_ptr<Fp8AttentionData>>
      made;
  auto& slot = made[{distribution, causal, heads, s, d}];
  if (!slot) slot = std::make_unique<Fp8AttentionData>(heads, s, d, causal, distribution);
  return *slot;
}

std::string place(const Fp8AttentionData& data, std::string_view what) {
  return fmt::format("{} with {} inputs{}", what, to_string(data.distribution), data.shape.causal ? ", causal" : "");
}

AttentionOperands operands_of(const Fp8AttentionData& data, AttentionOperands::Output output) {
  const auto rows = [&](const std::vector<float>& values) {
    return MatrixRows(values.data(), Dtype::float32, data.shape.rows(), data.shape.depth);
  };
  return {data.shape, {rows(data.q), rows(data.k), rows(data.v)}, std::nullopt, output, data.descales};
}

TensorComparison judge_o(const Fp8AttentionData& data, const Tensor& output, bool diagnose = false,
                         const Limits& limits = fp8_attention_limits()) {
  const AttentionOperands operands = operands_of(data, AttentionOperands::Output::o);
  CompareOptions options;
  options.attention = &operands;
  options.diagnose = diagnose;
  return compare(output, data.o_truth, limits, options);
}
TensorComparison judge_o(const Fp8AttentionData& data, const std::vector<float>& values, bool diagnose = false,
                         const Limits& limits = fp8_attention_limits()) {
  return judge_o(data, in_type(Dtype::float8_e4m3fn, "O", values, data.shape.depth), diagnose, limits);
}
TensorComparison judge_lse(const Fp8AttentionData& data, const std::vector<float>& values, bool diagnose = false,
                           const Limits& limits = fp8_log_sum_limits()) {
  const AttentionOperands operands = operands_of(data, AttentionOperands::Output::lse);
  CompareOptions options;
  options.attention = &operands;
  options.diagnose = diagnose;
  return compare(in_type(Dtype::float32, "LSE", values, data.shape.sequence), data.lse, limits, options);
}

struct OutputMutation {
  const char* name;
  const char* pattern;
  std::function<void(std::vector<float>&, const Fp8AttentionData&)> apply;
};
const std::vector<OutputMutation>& output_mutations() {
  const auto rows = [](std::vector<float>& y, std::int64_t first) { return y.begin() + first * kD; };
  const auto times = [](float factor) {
    return [factor](std::vector<float>& y, const Fp8AttentionData&) {
      for (float& value : y) value *= factor;
    };
  };
  static const std::vector<OutputMutation> kList = {
      {"zeros", "all_zero", [](auto& y, const auto&) { std::fill(y.begin(), y.end(), 0.0f); }},
      {"a constant", "constant_value", [](auto& y, const auto&) { std::fill(y.begin(), y.end(), 0.5f); }},
      {"a copy of V", nullptr, [](auto& y, const auto& data) { y = data.v; }},
      {"a copy of Q", nullptr, [](auto& y, const auto& data) { y = data.q; }},
      {"times 1.05", nullptr, times(1.05f)},
      {"times 1.02", nullptr, times(1.02f)},
      {"times 0.98", nullptr, times(0.98f)},
      {"times 1.5", "constant_scale", times(1.5f)},
      {"heads swapped", "permuted_rows",
       [=](auto& y, const auto&) { std::swap_ranges(rows(y, 0), rows(y, kS), rows(y, kS)); }},
      {"row blocks swapped", "permuted_rows",
       [=](auto& y, const auto&) { std::swap_ranges(rows(y, 64), rows(y, 128), rows(y, 128)); }},
      {"last tile of rows zero", nullptr,
       [=](auto& y, const auto&) { std::fill(rows(y, kS / 64 * 64), rows(y, kS), 0.0f); }},
      {"last tile of rows is the one before", nullptr,
       [=](auto& y, const auto&) { std::copy(rows(y, kS - 72), rows(y, kS - 64), rows(y, kS - 8)); }},
      {"columns shifted by one", nullptr, [](auto& y, const auto&) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
      {"columns in other order", nullptr,
       [](auto& y, const auto&) {
         for (std::size_t i = 0; i + 32 <= y.size(); i += 32)
           std::swap_ranges(y.begin() + i, y.begin() + i + 16, y.begin() + i + 16);
       }},
      {"a tile transposed", nullptr,
       [](auto& y, const auto&) {
         for (std::size_t i = 0; i < 64; ++i) {
           for (std::size_t j = 0; j < i; ++j) std::swap(y[(64 + i) * kD + j], y[(64 + j) * kD + i]);
         }
       }},
      {"bytes of e5m2", nullptr,
       [](auto& y, const auto&) {
         for (float& value : y) value = from_e4m3(to_e5m2(value));
       }},
      {"NaN in one element", "not_finite", [](auto& y, const auto&) { y[4321] = std::nanf(""); }},
      {"one element wrong", nullptr,
       [](auto& y, const auto&) {
         double row = 0, all = 0;
         for (std::size_t i = 0; i < kD; ++i)
           row += static_cast<double>(y[50 * kD + i]) * static_cast<double>(y[50 * kD + i]);
         for (const float value : y) all += static_cast<double>(value) * static_cast<double>(value);
         const double rms = std::sqrt(std::max(row / kD, 0.01 * all / static_cast<double>(y.size())));
         y[50 * kD + 9] += std::copysign(static_cast<float>(rms), -y[50 * kD + 9]);
       }},
  };
  return kList;
}

struct KernelMutation {
  const char* name;
  const char* pattern;  ///< of O or LSE; null: none in particular
  std::function<Fp8KernelModel(const Fp8AttentionData&)> model;
  bool causal_only = false;
  /// With a mask only the last three queries of a head notice, by little more than two roundings.
  bool unmasked_only = false;
};
Fp8KernelModel model_with(const std::function<void(Fp8KernelModel&)>& change) {
  Fp8KernelModel model;
  change(model);
  return model;
}
KernelMutation scores_times(const char* name, const char* pattern,
                            const std::function<double(const Fp8AttentionData&)>& factor) {
  return {name, pattern,
          [factor](const auto& data) { return model_with([&](auto& m) { m.score_factor = factor(data); }); }};
}
KernelMutation output_times(const char* name, const std::function<double(const AttentionDescales&)>& factor) {
  return {name, "descale",
          [factor](const auto& data) { return model_with([&](auto& m) { m.output_factor = factor(data.descales); }); }};
}
KernelMutation keys_skipped(const char* name, const char* pattern, std::int64_t begin, std::int64_t end) {
  return {name, pattern,
          [begin, end](const auto&) { return model_with([&](auto& m) { m.skip_begin = begin, m.skip_end = end; }); }};
}

KernelMutation unmasked(KernelMutation mutation) {
  mutation.unmasked_only = true;
  return mutation;
}

const std::vector<KernelMutation>& kernel_mutations() {
  const auto wide = [](float value) { return static_cast<double>(value); };
  static const std::vector<KernelMutation> kList = {
      scores_times("no 1/sqrt(D)", "softmax_scale",
                   [](const auto& data) { return std::sqrt(static_cast<double>(data.shape.depth)); }),
      scores_times("1/sqrt(D) twice", "softmax_scale",
                   [](const auto& data) { return 1 / std::sqrt(static_cast<double>(data.shape.depth)); }),
      scores_times("exponentials in base 2", "softmax_scale", [](const auto&) { return std::log(2.0); }),
      scores_times("descale_q ignored", "descale", [=](const auto& data) { return 1 / wide(data.descales.q); }),
      scores_times("descale_k ignored", "descale", [=](const auto& data) { return 1 / wide(data.descales.k); }),
      scores_times("descale_q and descale_k ignored", "descale",
                   [=](const auto& data) { return 1 / data.descales.of_scores(); }),
      scores_times("descale_q twice", "descale", [=](const auto& data) { return wide(data.descales.q); }),
      scores_times("descale_k twice", "descale", [=](const auto& data) { return wide(data.descales.k); }),
      scores_times("descale_k for descale_q", nullptr,
                   [=](const auto& data) { return wide(data.descales.k) / wide(data.descales.q); }),
      scores_times("descale_v for descale_k", nullptr,
                   [=](const auto& data) { return wide(data.descales.v) / wide(data.descales.k); }),
      output_times("descale_v ignored", [=](const auto& d) { return 1 / wide(d.v); }),
      output_times("descale_s ignored", [=](const auto& d) { return 1 / wide(d.o); }),
      output_times("descale_v and descale_s ignored", [=](const auto& d) { return 1 / d.of_output(); }),
      output_times("descale_v twice", [=](const auto& d) { return wide(d.v); }),
      output_times("descale_s twice", [=](const auto& d) { return wide(d.o); }),
      {"descale_v and descale_q exchanged", nullptr,
       [=](const auto& data) {
         return model_with([&](auto& m) {
           m.score_factor = wide(data.descales.v) / wide(data.descales.q);
           m.output_factor = 1 / m.score_factor;
         });
       }},
      {"the weights' scale left in O", nullptr,
       [](const auto&) { return model_with([](auto& m) { m.output_factor = 256; }); }},
      keys_skipped("a tile of 64 keys skipped", "missing_keys", 64, 128),
      keys_skipped("the tail tile of keys skipped", nullptr, kS / 64 * 64, kS),
      unmasked(keys_skipped("the last 1 % of keys skipped", nullptr, kS - 3, kS)),
      keys_skipped("the last 5 % of keys skipped", nullptr, kS - 13, kS),
      keys_skipped("the first key skipped", nullptr, 0, 1),
      {"mask ignored", "causal_mask", [](const auto&) { return model_with([](auto& m) { m.ignores_mask = true; }); },
       true},
      {"mask one key too wide", "causal_mask",
       [](const auto&) { return model_with([](auto& m) { m.mask_shift = 1; }); }, true},
      {"mask without the diagonal", "causal_mask",
       [](const auto&) { return model_with([](auto& m) { m.mask_shift = -1; }); }, true},
      {"O not rescaled when the maximum grows", nullptr,
       [](const auto&) { return model_with([](auto& m) { m.tile = 64, m.rescales_output = false; }); }},
      {"the row sum not rescaled", nullptr,
       [](const auto&) { return model_with([](auto& m) { m.tile = 64, m.rescales_sum = false; }); }},
      {"weights in e2m1", nullptr,
       [](const auto&) {
         return model_with([](auto& m) {
           m.weight_scale = 6;
           m.round_weight = [](float value) { return from_e2m1(to_e2m1(value)); };
         });
       }},
  };
  return kList;
}

template <class Body>
void for_all_attention(const Body& body) {
  for (const Distribution distribution : kAll) {
    for (const bool causal : {false, true}) body(attention(distribution, causal));
  }
}

TEST(Fp8AttentionMutations, OfTheOutputFail) {
  for_all_attention([](const Fp8AttentionData& data) {
    ASSERT_EQ(judge_o(data, data.o_truth).verdict, Verdict::passed) << place(data, "the rounded truth");
    for (const OutputMutation& mutation : output_mutations()) {
      std::vector<float> values = data.o_truth;
      mutation.apply(values, data);
      const bool explained = data.distribution == Distribution::normal && !data.shape.causal;
      const auto result = judge_o(data, values, explained);
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, mutation.name) << "\n" << describe(result);
      if (explained && mutation.pattern != nullptr) expect_pattern(result, mutation.pattern, mutation.name);
    }
  });
}

// Of eight bits only NaN is no value of a result: an element that nobody wrote is one, and is told from those that
// arithmetic gives, so that a kernel which does not saturate where it must shows another fault.
TEST(Fp8AttentionMutations, UnwrittenAndUnsaturatedElementsFail) {
  const Fp8AttentionData& data = attention(Distribution::normal, false);
  Tensor output = in_type(Dtype::float8_e4m3fn, "O", data.o_truth, kD);
  auto poison = Tensor::create("p", Dtype::float8_e4m3fn, {1});
  fill_poison(*poison);
  std::fill_n(output.as<std::uint8_t>().begin() + 100 * kD, 64, poison->as<std::uint8_t>()[0]);
  const auto unwritten = judge_o(data, output, true);
  EXPECT_EQ(unwritten.unwritten, 64u);
  EXPECT_EQ(unwritten.nan, 0u);
  EXPECT_EQ(unwritten.verdict, Verdict::failed);
  expect_pattern(unwritten, "unwritten_region", "a row unwritten");

  std::vector<float> large = data.o_truth;
  for (float& value : large) value = std::fabs(value) > 10 ? std::nanf("") : value;
  const auto unsaturated = judge_o(data, large);
  EXPECT_GT(unsaturated.nan, 0u);
  EXPECT_EQ(unsaturated.unwritten, 0u);
  EXPECT_EQ(unsaturated.verdict, Verdict::failed);
}

TEST(Fp8AttentionMutations, OfTheLogarithmFail) {
  for_all_attention([](const Fp8AttentionData& data) {
    const std::pair<const char*, std::function<void(std::vector<float>&)>> mutations[] = {
        {"zeros", [](auto& y) { std::fill(y.begin(), y.end(), 0.0f); }},
        {"base 2",
         [](auto& y) {
           for (float& value : y) value *= 1.44269504f;
         }},
        {"plus 0.01",
         [](auto& y) {
           for (float& value : y) value += 0.01f;
         }},
        {"minus 0.005",
         [](auto& y) {
           for (float& value : y) value -= 0.005f;
         }},
        {"of the weights' scale",
         [](auto& y) {
           for (float& value : y) value += std::log(256.0f);
         }},
        {"heads swapped", [](auto& y) { std::swap_ranges(y.begin(), y.begin() + kS, y.begin() + kS); }},
        {"shifted by one", [](auto& y) { std::rotate(y.begin(), y.begin() + 1, y.end()); }},
        {"last tile zero", [](auto& y) { std::fill(y.end() - 8, y.end(), 0.0f); }},
        {"in bf16",
         [](auto& y) {
           for (float& value : y) value = through_bf16(value);
         }},
        {"one element wrong", [](auto& y) { y[17] += 0.1f; }},
        {"NaN in one element", [](auto& y) { y[100] = std::nanf(""); }},
    };
    for (const auto& [name, apply] : mutations) {
      std::vector<float> values = data.lse;
      apply(values);
      const auto result = judge_lse(data, values);
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, name) << "\n" << describe(result);
    }
  });
}

TEST(Fp8AttentionMutations, OfKernelsFail) {
  for_all_attention([](const Fp8AttentionData& data) {
    for (const KernelMutation& mutation : kernel_mutations()) {
      if (data.shape.causal ? mutation.unmasked_only : mutation.causal_only) continue;
      const Fp8AttentionOutput output = run_attention(data, mutation.model(data));
      const bool explained = data.distribution == Distribution::normal && mutation.pattern != nullptr;
      const auto o = judge_o(data, output.o, explained), lse = judge_lse(data, output.lse, explained);
      const std::string what = place(data, mutation.name);
      EXPECT_TRUE(o.verdict == Verdict::failed || lse.verdict == Verdict::failed) << what << "\n"
                                                                                  << describe(o) << describe(lse);
      if (!explained) continue;
      // LSE has less noise than O, but what is behind the softmax it does not see.
      const auto says = [&](const TensorComparison& result) {
        return !result.hypotheses.empty() && result.hypotheses[0].pattern == mutation.pattern;
      };
      EXPECT_TRUE(says(o) || says(lse)) << what << "\n" << describe(o) << describe(lse);
      EXPECT_NE(remedy_for(mutation.pattern), remedy_for("no such pattern")) << mutation.pattern;
    }
  });
}

// Long sums in eight bits, and what one tile of many or the last keys weigh.
TEST(Fp8AttentionMutations, OfLongSumsFail) {
  for (const bool causal : {false, true}) {
    const Fp8AttentionData& data = attention(Distribution::normal, causal, 1, 512, 128);
    for (const auto& [name, model] :
         {std::pair{"accumulators in e4m3", model_with([](auto& m) { m.tile = 32, m.round_sum = through_e4m3; })},
          {"one tile of keys", model_with([](auto& m) { m.skip_begin = 256, m.skip_end = 320; })},
          {"last 5 % of keys", model_with([](auto& m) { m.skip_begin = 486, m.skip_end = 512; })}}) {
      const auto result = judge_o(data, run_attention(data, model).o);
      EXPECT_EQ(result.verdict, Verdict::failed) << place(data, name) << "\n" << describe(result);
    }
  }
}

TEST(Fp8AttentionMutations, OfInputsReadWronglyFail) {
  for_all_attention([](const Fp8AttentionData& data) {
    for (auto input : {&Fp8AttentionData::q, &Fp8AttentionData::k, &Fp8AttentionData::v}) {
      Fp8AttentionData other = data;
      other.*input = through_e5m2_bytes(other.*input);
      const Fp8AttentionOutput output = run_attention(other, {});
      EXPECT_TRUE(judge_o(data, output.o).verdict == Verdict::failed ||
                  judge_lse(data, output.lse).verdict == Verdict::failed)
          << place(data, "an input taken for e5m2");
    }
  });
}

TEST(Fp8AttentionControls, SoundKernelsPassWithMargin) {
  struct Shape {
    std::int64_t heads, s, d;
  };
  Margins margins;
  for (const auto& [heads, s, d] : {Shape{kHeads, kS, kD}, {1, 320, 96}, {1, 512, 128}, {1, 320, 256}}) {
    for (const Distribution distribution : kAll) {
      for (const bool causal : {false, true}) {
        const Fp8AttentionData& data = attention(distribution, causal, heads, s, d);
        const auto passes = [&, s = s, d = d](const char* name, const Fp8KernelModel& model) {
          const Fp8AttentionOutput output = run_attention(data, model);
          const std::string what = fmt::format("{}, S {} D {}", place(data, name), s, d);
          expect_sound(judge_o(data, output.o, false, tightened(fp8_attention_limits())), what + ", O");
          expect_sound(judge_lse(data, output.lse, false, tightened(fp8_log_sum_limits())), what + ", LSE");
          margins.take(fmt::format("O, {}", to_string(distribution)), judge_o(data, output.o), what + ", O");
        };
        passes("the usual kernel", {});
        if (d != kD) continue;
        passes("tiles of 64", model_with([](auto& m) { m.tile = 64; }));
        passes("weights not scaled", model_with([](auto& m) { m.weight_scale = 1; }));
        passes("weights up to 448", model_with([](auto& m) { m.weight_scale = 448; }));
        passes("no promotion of the second product", model_with([](auto& m) { m.promotes = false; }));
        passes("fp32 accumulation", model_with([](auto& m) { m.accumulator = Accumulator::fp32; }));
        passes("weights in bf16", model_with([](auto& m) {
                 m.accumulator = Accumulator::fp32;
                 m.round_weight = through_bf16;
               }));
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem
