#include "problem/gemm_truth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ptxbench::problem {
namespace {

struct Case {
  std::int64_t m, n, k;
};

TEST(GemmTruth, AgreesWithFp64OnAwkwardShapes) {
  for (const auto& [m, n, k] : {Case{1, 1, 1}, {7, 17, 33}, {65, 130, 300}, {5, 3, 1000}, {200, 40, 256}}) {
    for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16, Dtype::float32}) {
      const MatrixRows a(RandomTensor{dtype, Distribution::spiky, 3, 0}, m, k);
      const MatrixRows b(RandomTensor{dtype, Distribution::normal, 3, 1}, n, k);
      const Tile all{0, m, 0, n};
      std::vector<float> truth(static_cast<std::size_t>(m * n));
      std::vector<double> exact(truth.size());
      gemm_nt_truth(a, b, {&all, 1}, truth.data());
      gemm_nt_truth_fp64(a, b, {&all, 1}, exact.data());
      for (std::size_t i = 0; i < truth.size(); ++i) {
        ASSERT_NEAR(static_cast<double>(truth[i]), exact[i],
                    2e-5 * std::sqrt(static_cast<double>(k)) + 1e-6 * std::fabs(exact[i]));
      }
    }
  }
}

TEST(GemmTruth, SmallIntegersAreExact) {
  // |sum| < 2^24, so fp32 is exact whatever the order, and integer arithmetic is the judge.
  const std::int64_t m = 40, n = 50, k = 513;
  const RandomTensor left{Dtype::int32, Distribution::normal, 1, 0}, right{Dtype::int32, Distribution::normal, 1, 1};
  std::vector<std::int32_t> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k));
  left.fill(0, a.size(), a.data());
  right.fill(0, b.size(), b.data());
  std::vector<float> truth(static_cast<std::size_t>(m * n));
  const Tile all{0, m, 0, n};
  gemm_nt_truth(MatrixRows(a.data(), Dtype::int32, m, k), MatrixRows(b.data(), Dtype::int32, n, k), {&all, 1},
                truth.data());
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      std::int64_t sum = 0;
      for (std::int64_t x = 0; x < k; ++x) {
        sum += std::int64_t{a[static_cast<std::size_t>(i * k + x)]} * b[static_cast<std::size_t>(j * k + x)];
      }
      ASSERT_EQ(truth[static_cast<std::size_t>(i * n + j)], static_cast<float>(sum));
    }
  }
}

TEST(GemmTruth, TilesGiveTheSameNumbersAndTouchNothingElse) {
  const std::int64_t m = 300, n = 200, k = 500;
  const RandomTensor left{Dtype::bfloat16, Distribution::normal, 7, 0},
      right{Dtype::bfloat16, Distribution::normal, 7, 1};
  auto a = Tensor::create("A", Dtype::bfloat16, {m, k});
  auto b = Tensor::create("B", Dtype::bfloat16, {n, k});
  ASSERT_TRUE(a && b);
  fill(left, *a);
  fill(right, *b);
  std::vector<float> whole(static_cast<std::size_t>(m * n)), part(whole.size(), -1.0f);
  const Tile all{0, m, 0, n};
  gemm_nt_truth(MatrixRows(a->data(), a->dtype, m, k), MatrixRows(b->data(), b->dtype, n, k), {&all, 1}, whole.data(),
                2);
  const std::vector<Tile> tiles = {{128, 256, 64, 128}, {290, 300, 0, 7}};
  gemm_nt_truth(MatrixRows(left, m, k), MatrixRows(right, n, k), tiles, part.data(), 3);
  for (std::int64_t row = 0; row < m; ++row) {
    for (std::int64_t column = 0; column < n; ++column) {
      bool inside = false;
      for (const Tile& tile : tiles) {
        inside = inside || (row >= tile.row_begin && row < tile.row_end && column >= tile.column_begin &&
                            column < tile.column_end);
      }
      const auto at = static_cast<std::size_t>(row * n + column);
      ASSERT_EQ(part[at], inside ? whole[at] : -1.0f) << row << ", " << column;
    }
  }
}

}  // namespace
}  // namespace ptxbench::problem
