#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "problem/attention.h"
#include "problem/fp8_attention.h"
#include "problem/fp8_gemm.h"
#include "problem/inputs.h"
#include "problem/scale_factors.h"

namespace ptxbench::problem {
namespace {

Problem problem_of(const std::string& definition_text, const std::string& axes = "{}") {
  const auto definition = parse_definition(base::Json::parse(definition_text), "d");
  EXPECT_TRUE(definition) << definition.error().message;
  const auto workload = parse_workload(base::Json::parse(R"({"uuid":"u","axes":)" + axes + R"(,"inputs":{}})"), "w");
  EXPECT_TRUE(workload) << workload.error().message;
  auto problem = make_problem(*definition, *workload);
  EXPECT_TRUE(problem) << problem.error().message;
  return *problem;
}

/// The inputs in an order of their own: roles go by names.
Problem gemm_problem(std::int64_t m, std::int64_t n, std::int64_t k, bool blocks_of_b) {
  return problem_of(fmt::format(
      R"({{"name":"g","op_type":"gemm","axes":{{"M":{{"type":"const","value":{}}},"N":{{"type":"const","value":{}}},
      "K":{{"type":"const","value":{}}},"Kb":{{"type":"const","value":{}}},"Nb":{{"type":"const","value":{}}}}},
      "inputs":{{"B":{{"shape":["N","K"],"dtype":"float8_e4m3fn"}},"SF_B":{{"shape":["{}","Kb"],"dtype":"float32"}},
      "A":{{"shape":["M","K"],"dtype":"float8_e4m3fn"}},"SF_A":{{"shape":["M","Kb"],"dtype":"float32"}}}},
      "outputs":{{"D":{{"shape":["M","N"],"dtype":"{}"}}}},"reference":"r"}})",
      m, n, k, k / 128, (n + 127) / 128, blocks_of_b ? "Nb" : "N", blocks_of_b ? "bfloat16" : "float32"));
}

Problem attention_problem(std::int64_t heads, std::int64_t s, std::int64_t d, bool causal) {
  return problem_of(fmt::format(
      R"({{"name":"a","op_type":"attention","axes":{{"B":{{"type":"const","value":1}},"H":{{"type":"const","value":{}}},
      "S":{{"type":"const","value":{}}},"D":{{"type":"const","value":{}}},"One":{{"type":"const","value":1}}}},"inputs":{{
      "Q":{{"shape":["B","H","S","D"],"dtype":"float8_e4m3fn"}},"K":{{"shape":["B","H","S","D"],"dtype":"float8_e4m3fn"}},
      "V":{{"shape":["B","H","S","D"],"dtype":"float8_e4m3fn"}},
      "descale_q":{{"shape":["One","One","One","One"],"dtype":"float32"}},
      "descale_k":{{"shape":["One","One","One","One"],"dtype":"float32"}},
      "descale_v":{{"shape":["One","One","One","One"],"dtype":"float32"}},
      "descale_s":{{"shape":["One","One","One","One"],"dtype":"float32"}}}},
      "outputs":{{"O":{{"shape":["B","H","S","D"],"dtype":"float8_e4m3fn"}},"LSE":{{"shape":["B","H","S"],"dtype":"float32"}}}},
      "reference":"r","tags":[{}]}})",
      heads, s, d, causal ? "\"mask:causal\"" : ""));
}

std::vector<float> widened(const Tensor& tensor) {
  std::vector<float> values(tensor.count);
  to_float(tensor.dtype, tensor.data(), 0, tensor.count, values.data());
  return values;
}

InputOptions options_of(Distribution distribution, std::uint64_t seed = 31) {
  InputOptions options;
  options.seed = seed;
  options.distribution = distribution;
  return options;
}

// The definition in fp64: the sum over each 128 of K times its two factors.
TEST(Fp8GemmTruth, AgreesWithFp64) {
  for (const bool blocks : {true, false}) {
    for (const Distribution distribution : {Distribution::normal, Distribution::spiky, Distribution::tiny}) {
      const std::int64_t m = 7, n = 150, k = 384;
      const Problem problem = gemm_problem(m, n, k, blocks);
      const auto inputs = make_inputs(problem, options_of(distribution));
      ASSERT_TRUE(inputs);
      const auto truth = (*find_reference(problem.definition))(request_for(problem, *inputs));
      ASSERT_TRUE(truth);
      const auto b = widened((*inputs)[0]), sf_b = widened((*inputs)[1]), a = widened((*inputs)[2]),
                 sf_a = widened((*inputs)[3]);
      const auto at = [](const std::vector<float>& values, std::int64_t row, std::int64_t pitch, std::int64_t column) {
        return static_cast<double>(values[static_cast<std::size_t>(row * pitch + column)]);
      };
      const auto got = widened(truth->outputs[0]);
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < n; ++column) {
          double sum = 0, size = 0;
          for (std::int64_t block = 0; block < k / 128; ++block) {
            double part = 0, absolute = 0;
            for (std::int64_t i = block * 128; i < block * 128 + 128; ++i) {
              part += at(a, row, k, i) * at(b, column, k, i);
              absolute += std::fabs(at(a, row, k, i) * at(b, column, k, i));
            }
            const double factor =
                at(sf_a, row, k / 128, block) * at(sf_b, blocks ? column / 128 : column, k / 128, block);
            sum += part * factor;
            size += absolute * factor;
          }
          ASSERT_NEAR(at(got, row, n, column), sum, 1e-6 * size) << row << ", " << column;
        }
      }
    }
  }
}

TEST(Fp8GemmTruth, TilesAndGeneratorsGiveTheSameNumbers) {
  const Problem problem = gemm_problem(70, 260, 256, true);
  const InputOptions options = options_of(Distribution::normal);
  const auto inputs = *make_inputs(problem, options);
  const auto reference = *find_reference(problem.definition);
  const auto whole = reference(request_for(problem, inputs));
  TruthRequest lazy{problem, {}, {{{10, 70, 120, 260}}}, 0};
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto random = random_input(problem, i, options);
    EXPECT_EQ(random.has_value(), i % 2 == 0) << "scale factors are derived";
    lazy.inputs.push_back({random ? nullptr : &inputs[i], random});
  }
  const auto part = reference(lazy);
  ASSERT_TRUE(whole && part);
  for (std::size_t i = 0; i < 70 * 260; ++i) {
    const bool inside = i / 260 >= 10 && i % 260 >= 120;
    ASSERT_EQ(part->outputs[0].as<float>()[i], inside ? whole->outputs[0].as<float>()[i] : 0.0f) << i;
  }
  // Diagnosis gets the operands with their factors.
  const auto operands = fp8_gemm_operands(lazy);
  float element = 0, scaled = 0;
  operands->second.read(200, 130, 1, &scaled);
  to_float(Dtype::float8_e4m3fn, inputs[0].data(), 200 * 256 + 130, 1, &element);
  EXPECT_EQ(scaled, element * inputs[1].as<float>()[3]);
}

TEST(Fp8GemmTruth, OnlyItsOwnStructureIsRecognised) {
  const Definition good = gemm_problem(8, 200, 256, true).definition;
  ASSERT_TRUE(fp8_gemm_roles(good));
  EXPECT_TRUE(fp8_gemm_roles(good)->blocks_of_b);
  EXPECT_FALSE(fp8_gemm_roles(gemm_problem(8, 200, 256, false).definition)->blocks_of_b);
  const auto refused = [&](auto change) {
    Definition other = good;
    change(other);
    return !find_reference(other);
  };
  EXPECT_TRUE(refused([](Definition& d) { d.op_type = "attention"; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[1].name = "scales"; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[1].dtype = Dtype::bfloat16; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[0].dtype = Dtype::float8_e5m2; }));
  EXPECT_TRUE(refused([](Definition& d) { d.outputs[0].dtype = Dtype::float16; }));
  EXPECT_TRUE(refused([](Definition& d) { d.outputs[0].shape = {{"N", "M"}}; }));
  EXPECT_TRUE(refused([](Definition& d) { d.axes[3].constant = 3; })) << "Kb is K / 128";
  EXPECT_TRUE(refused([](Definition& d) { d.axes[4].constant = 1; })) << "Nb covers N";
  EXPECT_TRUE(refused([](Definition& d) { d.axes[3].constant.reset(); }));
}

TEST(Fp8AttentionTruth, AgreesWithFp64) {
  for (const Distribution distribution : {Distribution::normal, Distribution::scaled, Distribution::spiky}) {
    for (const bool causal : {false, true}) {
      const std::int64_t heads = 2, s = 130, d = 40;
      const Problem problem = attention_problem(heads, s, d, causal);
      const auto inputs = make_inputs(problem, options_of(distribution));
      ASSERT_TRUE(inputs);
      const TruthRequest request = request_for(problem, *inputs);
      const auto truth = (*find_reference(problem.definition))(request);
      ASSERT_TRUE(truth);
      // The formula with dequantised inputs, by the fp64 reference that knows of no factors.
      const AttentionRoles roles = *attention_roles(problem.definition);
      const AttentionDescales descales = *attention_descales(request, roles);
      const auto dequantised = [&](std::size_t input, float factor) {
        auto values = widened((*inputs)[input]);
        for (float& value : values) value *= factor;
        return values;
      };
      const auto q = dequantised(roles.q, descales.q), k = dequantised(roles.k, descales.k),
                 v = dequantised(roles.v, descales.v);
      const AttentionShape shape{heads, s, d, causal};
      const auto rows = [&](const std::vector<float>& values) {
        return MatrixRows(values.data(), Dtype::float32, shape.rows(), d);
      };
      std::vector<double> o(q.size()), lse(static_cast<std::size_t>(shape.rows())), o_with(o), lse_with(lse);
      attention_forward_fp64(shape, {rows(q), rows(k), rows(v)}, o.data(), lse.data());
      attention_forward_fp64(attention_shape(request, roles), attention_inputs(request, roles), o_with.data(),
                             lse_with.data());
      double most = 0;
      for (const double value : o) most = std::max(most, std::fabs(value));
      for (std::size_t i = 0; i < o.size(); ++i) {
        const double right = o[i] * static_cast<double>(descales.o);
        ASSERT_NEAR(static_cast<double>(truth->outputs[roles.o].as<float>()[i]), right,
                    2e-5 * most * static_cast<double>(descales.o));
        ASSERT_NEAR(o_with[i], right, 1e-9 * most * static_cast<double>(descales.o));
      }
      for (std::size_t i = 0; i < lse.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(truth->outputs[roles.lse].as<float>()[i]), lse[i], 1e-4);
        ASSERT_NEAR(lse_with[i], lse[i], 1e-9);
      }
    }
  }
}

TEST(Fp8AttentionTruth, SaturatesWhereTheTypeDoes) {
  const Problem problem = attention_problem(1, 4, 64, false);
  auto inputs = *make_inputs(problem, options_of(Distribution::normal));
  const AttentionRoles roles = *attention_roles(problem.definition);
  inputs[roles.descales->o].as<float>()[0] *= 1e6f;
  const TruthRequest request = request_for(problem, inputs);
  const auto truth = (*find_reference(problem.definition))(request);
  ASSERT_TRUE(truth);
  std::vector<double> o(inputs[roles.q].count), lse(4);
  attention_forward_fp64(attention_shape(request, roles), attention_inputs(request, roles), o.data(), lse.data());
  for (std::size_t i = 0; i < o.size(); ++i) {
    EXPECT_EQ(std::fabs(truth->outputs[roles.o].as<float>()[i]), 448.0f);
    EXPECT_EQ(std::fabs(o[i]), 448.0);
  }
}

TEST(Fp8AttentionTruth, OnlyItsOwnStructureIsRecognised) {
  const Definition good = attention_problem(2, 64, 64, false).definition;
  ASSERT_TRUE(attention_roles(good));
  ASSERT_TRUE(attention_roles(good)->descales);
  for (std::size_t i = 0; i < good.inputs.size(); ++i) EXPECT_EQ(is_derived(good, i), i >= 3) << i;
  EXPECT_TRUE(limits_for(good, 0)->calibrated);
  EXPECT_TRUE(limits_for(good, 1)->absolute_max);
  Definition renamed = good;
  renamed.inputs[6].name = "scale_o";
  EXPECT_TRUE(attention_roles(renamed)) << "a factor on O by another name";
  const auto refused = [&](auto change) {
    Definition other = good;
    change(other);
    return !find_reference(other);
  };
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[3].name = "scale"; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[4].dtype = Dtype::bfloat16; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[4].shape = {{"H"}}; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[4].shape = std::vector<std::string>(); }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs[0].dtype = Dtype::bfloat16; }));
  EXPECT_TRUE(refused([](Definition& d) { d.outputs[0].dtype = Dtype::bfloat16; }));
  EXPECT_TRUE(refused([](Definition& d) { d.inputs.resize(3); })) << "e4m3 without descales";
}

TEST(ScaleFactors, ArePositiveUnevenAndReproducible) {
  const FactorRange range{-2, 4};
  std::vector<int> octaves(4);
  for (std::uint64_t i = 0; i < 4096; ++i) {
    const float factor = scale_factor(5, 2, i, range);
    ASSERT_GE(factor, 0.25f);
    ASSERT_LT(factor, 4.0f);
    ++octaves[static_cast<std::size_t>(std::ilogb(factor) + 2)];
    ASSERT_EQ(factor, scale_factor(5, 2, i, range));
    // Seventeen bits: times any e4m3 value exact.
    ASSERT_EQ(std::ldexp(factor, 16 - std::ilogb(factor)), std::nearbyint(std::ldexp(factor, 16 - std::ilogb(factor))));
  }
  for (const int count : octaves) EXPECT_NEAR(count, 1024, 130);
  EXPECT_NE(scale_factor(5, 2, 0, range), scale_factor(6, 2, 0, range));
  EXPECT_NE(scale_factor(5, 2, 0, range), scale_factor(5, 3, 0, range));
}

// Whatever the inputs, O fits its type and no factor could be left out or exchanged unnoticed.
TEST(ScaleFactors, OfAttentionFitTheInputs) {
  const Problem problem = attention_problem(2, 96, 64, true);
  for (const Distribution distribution :
       {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties, Distribution::flat,
        Distribution::tiny, Distribution::bell}) {
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      const auto inputs = make_inputs(problem, options_of(distribution, seed));
      ASSERT_TRUE(inputs);
      const auto value = [&](std::size_t i) { return (*inputs)[i].as<float>()[0]; };
      const float q = value(3), k = value(4), v = value(5), o = value(6);
      EXPECT_EQ((*inputs)[3].shape, (Shape{1, 1, 1, 1}));
      const auto rms = [&](std::size_t i) {
        double sum = 0;
        for (const float x : widened((*inputs)[i])) sum += static_cast<double>(x) * static_cast<double>(x);
        return static_cast<float>(std::sqrt(sum / static_cast<double>((*inputs)[i].count)));
      };
      const float scores = q * k * rms(0) * rms(1);
      EXPECT_GT(scores, 0.35f) << to_string(distribution);
      EXPECT_LT(scores, 1.3f) << to_string(distribution);
      EXPECT_GT(std::fabs(std::log2(v)), 0.5f);
      EXPECT_GT(std::fabs(std::log2(o)), 0.5f);
      float largest = 0;
      for (const float x : widened((*inputs)[2])) largest = std::max(largest, std::fabs(x));
      EXPECT_LE(largest * v * o, 448.0f);
      EXPECT_GE(largest * v * o, 112.0f);
      const auto one = make_input(problem, 6, options_of(distribution, seed));
      ASSERT_TRUE(one);
      EXPECT_EQ(one->as<float>()[0], o);
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem
