// Comparison and diagnosis of a GEMM on shapes smaller than every sample and tile, with tails everywhere, seen in part.
// The mutations (gemm_mutation_test.cpp) are too slow for sanitizers, which see the same code here.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "problem/comparison.h"
#include "problem/triage.h"

namespace ptxbench::problem {
namespace {

TEST(GemmDiagnosis, OddShapesAreSafe) {
  for (const auto& [rows, columns, depth] : std::vector<std::array<std::int64_t, 3>>{{1, 1, 1},
                                                                                     {1, 300, 16},
                                                                                     {300, 1, 17},
                                                                                     {3, 5, 100},
                                                                                     {8, 8, 15},
                                                                                     {65, 70, 48},
                                                                                     {70, 130, 33},
                                                                                     {128, 64, 200}}) {
    std::vector<float> a(static_cast<std::size_t>(rows * depth)), b(static_cast<std::size_t>(columns * depth));
    RandomTensor{Dtype::float32, Distribution::normal, 3, 0}.fill(0, a.size(), a.data());
    RandomTensor{Dtype::float32, Distribution::normal, 3, 1}.fill(0, b.size(), b.data());
    const MatrixRows a_rows(a.data(), Dtype::float32, rows, depth), b_rows(b.data(), Dtype::float32, columns, depth);
    std::vector<float> truth(static_cast<std::size_t>(rows * columns));
    const Tile all{0, rows, 0, columns};
    gemm_nt_truth(a_rows, b_rows, {&all, 1}, truth.data());
    for (int kind = 0; kind < 6; ++kind) {
      std::vector<float> values = truth;
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (kind == 0) values[i] = 0;
        if (kind == 1) values[i] = truth[values.size() - 1 - i] + 3;
        if (kind == 2) values[i] = i % 3 == 0 ? std::nanf("") : -values[i];
        if (kind == 3) values[i] *= 1 + 0.1f * static_cast<float>(i % 7 + 1);
        if (kind == 4 && i + 1 == values.size()) values[i] += 100;
        if (kind == 5) values[i] = truth[i] + truth[(i * 7 + 5) % truth.size()] + 1;
      }
      auto output = Tensor::create("C", Dtype::bfloat16, {rows, columns});
      from_float(Dtype::bfloat16, values.data(), 0, values.size(), output->data());
      CompareOptions options;
      options.a = &a_rows;
      options.b = &b_rows;
      if (kind % 2 == 1 && rows > 2 && columns > 2) options.known = {{0, rows / 2, 1, columns}, {rows / 2, rows, 0, 2}};
      const auto result = compare(*output, truth, limits_for("gemm", Dtype::bfloat16), options);
      EXPECT_EQ(result.verdict, Verdict::failed) << rows << "x" << columns << "x" << depth << " kind " << kind;
      for (const Hypothesis& one : result.hypotheses) {
        EXPECT_GE(one.confidence, 0) << one.pattern;
        EXPECT_LE(one.confidence, 1) << one.pattern;
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem
