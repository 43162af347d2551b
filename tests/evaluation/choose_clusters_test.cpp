#include <gtest/gtest.h>

#include <algorithm>

#include "evaluation/choose_clusters.h"

namespace ptxbench::evaluation {
namespace {

std::vector<std::uint32_t> choose(std::uint32_t x, std::uint32_t y, std::uint32_t z, unsigned count,
                                  std::uint64_t seed = 1) {
  const std::uint32_t clusters[3] = {x, y, z};
  return choose_clusters(clusters, count, seed);
}

bool has(const std::vector<std::uint32_t>& chosen, std::uint32_t cluster) {
  return std::find(chosen.begin(), chosen.end(), cluster) != chosen.end();
}

TEST(ChooseClusters, TakesTheCornersOfAPlane) {
  const auto chosen = choose(10, 7, 1, 0);
  EXPECT_EQ(chosen, (std::vector<std::uint32_t>{0, 9, 60, 69}));
}

TEST(ChooseClusters, AddsOthersBySeed) {
  const auto one = choose(100, 70, 1, 5, 1), same = choose(100, 70, 1, 5, 1), other = choose(100, 70, 1, 5, 2);
  EXPECT_EQ(one.size(), 9u);
  EXPECT_EQ(one, same);
  EXPECT_NE(one, other);
  for (const std::uint32_t corner : {0u, 99u, 6900u, 6999u}) EXPECT_TRUE(has(one, corner)) << corner;
  EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  EXPECT_EQ(std::adjacent_find(one.begin(), one.end()), one.end());
  EXPECT_LT(one.back(), 7000u);
}

TEST(ChooseClusters, NeverMoreThanThereAre) {
  EXPECT_EQ(choose(3, 1, 1, 100).size(), 3u);
  EXPECT_EQ(choose(1, 1, 1, 4), (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(choose(2, 2, 2, 0).size(), 8u);
}

}  // namespace
}  // namespace ptxbench::evaluation
