// Triton kernels whose results depend on who comes first or what stands where: sorts, scans, histograms, atomics; and
// its random numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "triton_program.h"

namespace ptxbench::foreign {
namespace {

std::vector<int32_t> random_ints(size_t count, int32_t low, int32_t high, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<int32_t> distribution(low, high);
  std::vector<int32_t> values(count);
  for (int32_t& value : values) value = distribution(generator);
  return values;
}

TEST(TritonOrder, Sort) {
  constexpr size_t kRows = 3, kColumns = 512;
  auto x = random_ints(kRows * kColumns, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max(), 1);
  TritonProgram program("sort_ints");
  const uint64_t y = program.tensor(std::vector<int32_t>(x.size()));
  Arguments arguments;
  arguments << program.tensor(x) << y;
  program.run(kRows, 1, 1, arguments);
  for (size_t row = 0; row < kRows; ++row) {
    std::sort(x.begin() + static_cast<ptrdiff_t>(row * kColumns),
              x.begin() + static_cast<ptrdiff_t>((row + 1) * kColumns));
  }
  EXPECT_EQ(program.read<int32_t>(y, x.size()), x);
}

TEST(TritonOrder, TopK) {
  constexpr size_t kRows = 4, kColumns = 256, kBest = 16;
  const auto x = to_f32(normal(kRows * kColumns, 2));
  TritonProgram program("topk_floats");
  const uint64_t y = program.tensor(std::vector<float>(kRows * kBest));
  Arguments arguments;
  arguments << program.tensor(x) << y;
  program.run(kRows, 1, 1, arguments);
  std::vector<float> expected;
  for (size_t row = 0; row < kRows; ++row) {
    std::vector<float> values(x.begin() + static_cast<ptrdiff_t>(row * kColumns),
                              x.begin() + static_cast<ptrdiff_t>((row + 1) * kColumns));
    std::sort(values.begin(), values.end(), std::greater<>());
    expected.insert(expected.end(), values.begin(), values.begin() + kBest);
  }
  EXPECT_EQ(program.read<float>(y, expected.size()), expected);
}

TEST(TritonOrder, AssociativeScanOfAffineMaps) {
  constexpr size_t kRows = 3, kLength = 700;
  auto a = widen(to_f32(normal(kRows * kLength, 3)));
  for (double& factor : a) factor = static_cast<double>(static_cast<float>(std::tanh(factor)));
  const auto x = widen(to_f32(normal(kRows * kLength, 4)));
  std::vector<double> expected;
  for (size_t row = 0; row < kRows; ++row) {
    double state = 0;
    for (size_t i = 0; i < kLength; ++i) {
      state = a[row * kLength + i] * state + x[row * kLength + i];
      expected.push_back(state);
    }
  }
  TritonProgram program("linear_recurrence");
  const uint64_t y = program.tensor(std::vector<float>(x.size()));
  Arguments arguments;
  arguments << program.tensor(to_f32(a)) << program.tensor(to_f32(x)) << y << int32_t{kLength};
  program.run(kRows, 1, 1, arguments);
  expect_close(widen(program.read<float>(y, x.size())), expected, 1e-5, 1e-5);
}

TEST(TritonOrder, Histogram) {
  constexpr size_t kLength = 1900, kBins = 64;
  const auto x = random_ints(kLength, 0, kBins - 1, 5);
  std::vector<int32_t> expected(kBins, 100);
  for (const int32_t value : x) ++expected[static_cast<size_t>(value)];
  TritonProgram program("histogram");
  const uint64_t counts = program.tensor(std::vector<int32_t>(kBins, 100));
  Arguments arguments;
  arguments << program.tensor(x) << counts << int32_t{kLength};
  program.run(4, 1, 1, arguments);
  EXPECT_EQ(program.read<int32_t>(counts, kBins), expected);
}

TEST(TritonOrder, AtomicsAndASpinLock) {
  constexpr size_t kLength = 2500;
  constexpr uint32_t kBlocks = 10;
  const auto x = random_ints(kLength, -1'000'000, 1'000'000, 6);
  std::vector<int32_t> expected = {0,
                                   std::numeric_limits<int32_t>::min(),
                                   std::numeric_limits<int32_t>::max(),
                                   0,
                                   -1,
                                   0,
                                   kBlocks * (kBlocks - 1) / 2,
                                   0};
  std::vector<int32_t> start = expected;
  start[6] = 0;
  for (const int32_t value : x) {
    expected[0] = static_cast<int32_t>(static_cast<uint32_t>(expected[0]) + static_cast<uint32_t>(value));
    expected[1] = std::max(expected[1], value), expected[2] = std::min(expected[2], value);
    expected[3] |= value, expected[4] &= value, expected[5] ^= value;
  }
  TritonProgram program("atomics");
  // Triton lets every thread read the counter, also those that do not write it: they race with the one that does.
  program.expect_a_race();
  const uint64_t results = program.tensor(start);
  Arguments arguments;
  arguments << program.tensor(x) << results << int32_t{kLength};
  program.run(kBlocks, 1, 1, arguments);
  EXPECT_EQ(program.read<int32_t>(results, expected.size()), expected);
}

/// Philox 4x32-10, first word, written from its published definition.
uint32_t philox(uint32_t key, uint32_t counter) {
  uint32_t c[4] = {counter, 0, 0, 0}, k[2] = {key, 0};
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xD2511F53} * c[0], second = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(second >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(second),
                              static_cast<uint32_t>(first >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(first)};
    std::copy(next, next + 4, c);
    k[0] += 0x9E3779B9u, k[1] += 0xBB67AE85u;
  }
  return c[0];
}

TEST(TritonOrder, PhiloxRandomNumbers) {
  constexpr size_t kCount = 1024;
  constexpr int32_t kSeed = 20250607;
  TritonProgram program("random_numbers");
  const uint64_t integers = program.tensor(std::vector<uint32_t>(kCount));
  const uint64_t normals = program.tensor(std::vector<float>(kCount));
  Arguments arguments;
  arguments << kSeed << integers << normals;
  program.run(4, 1, 1, arguments);
  std::vector<uint32_t> expected(kCount);
  for (uint32_t i = 0; i < kCount; ++i) expected[i] = philox(static_cast<uint32_t>(kSeed), i);
  EXPECT_EQ(program.read<uint32_t>(integers, kCount), expected);
  double sum = 0, squares = 0;
  for (const float value : program.read<float>(normals, kCount)) {
    sum += static_cast<double>(value), squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / kCount, 0, 4 / std::sqrt(kCount));
  EXPECT_NEAR(squares / kCount, 1, 4 * std::sqrt(2.0 / kCount));
}

// Three kernels that follow each other: tokens are grouped by the expert they go to.
TEST(TritonOrder, LigerExpertRouting) {
  constexpr size_t kTokens = 150, kChoices = 3, kExperts = 12, kTiles = 3, kTile = 16;
  constexpr size_t kEntries = kTokens * kChoices;
  std::vector<int32_t> choices;
  std::mt19937 generator(7);
  std::vector<int32_t> all(kExperts);
  std::iota(all.begin(), all.end(), 0);
  for (size_t token = 0; token < kTokens; ++token) {
    std::shuffle(all.begin(), all.end(), generator);
    choices.insert(choices.end(), all.begin(), all.begin() + kChoices);
  }
  std::vector<int32_t> per_tile(kExperts * kTiles), frequency(kExperts);
  for (size_t entry = 0; entry < kEntries; ++entry) {
    const auto expert = static_cast<size_t>(choices[entry]);
    ++per_tile[expert * kTiles + entry / kChoices / 64], ++frequency[expert];
  }
  // Expert by expert, each one's entries in their old order.
  std::vector<int32_t> order(kEntries), place(kEntries), tokens, starts, tile_offsets, tile_rows, tile_experts;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return choices[static_cast<size_t>(a)] < choices[static_cast<size_t>(b)];
  });
  for (size_t at = 0; at < kEntries; ++at) {
    place[static_cast<size_t>(order[at])] = static_cast<int32_t>(at);
    tokens.push_back(order[at] / static_cast<int32_t>(kChoices));
  }
  int32_t start = 0;
  for (size_t expert = 0; expert < kExperts; ++expert) {
    starts.push_back(start), tile_offsets.push_back(static_cast<int32_t>(tile_rows.size()));
    for (int32_t row = 0; row < frequency[expert]; row += kTile) {
      tile_rows.push_back(start + row), tile_experts.push_back(static_cast<int32_t>(expert));
    }
    start += frequency[expert];
  }
  starts.push_back(start), tile_offsets.push_back(static_cast<int32_t>(tile_rows.size()));

  TritonProgram program("liger_moe_histogram");
  const auto fresh = [&](size_t count) { return program.tensor(std::vector<int32_t>(count, -7)); };
  const uint64_t choices_at = program.tensor(choices), partial = fresh(per_tile.size());
  Arguments histogram;
  histogram << choices_at << partial << int32_t{kTokens} << int32_t{kTiles};
  program.run(kTiles, 1, 1, histogram);
  ASSERT_EQ(program.read<int32_t>(partial, per_tile.size()), per_tile);

  program.load("liger_moe_prefix_sum");
  const uint64_t starts_at = fresh(kExperts + 1), offsets_at = fresh(kExperts + 1);
  Arguments prefix;
  prefix << program.tensor(frequency) << starts_at << offsets_at << partial << int32_t{kTiles} << int32_t{kEntries};
  program.run(kExperts + 2, 1, 1, prefix);
  ASSERT_EQ(program.read<int32_t>(starts_at, starts.size()), starts);
  ASSERT_EQ(program.read<int32_t>(offsets_at, tile_offsets.size()), tile_offsets);

  program.load("liger_moe_scatter");
  const uint64_t order_at = fresh(kEntries), place_at = fresh(kEntries), tokens_at = fresh(kEntries);
  const uint64_t rows_at = fresh(tile_rows.size()), experts_at = fresh(tile_rows.size());
  Arguments scatter;
  scatter << order_at << place_at << tokens_at << rows_at << experts_at << choices_at << int32_t{kTokens} << partial
          << int32_t{kTiles} << starts_at << offsets_at;
  program.run(kTiles, 1, 1, scatter);
  EXPECT_EQ(program.read<int32_t>(order_at, kEntries), order);
  EXPECT_EQ(program.read<int32_t>(place_at, kEntries), place);
  EXPECT_EQ(program.read<int32_t>(tokens_at, kEntries), tokens);
  EXPECT_EQ(program.read<int32_t>(rows_at, tile_rows.size()), tile_rows);
  EXPECT_EQ(program.read<int32_t>(experts_at, tile_experts.size()), tile_experts);
}

}  // namespace
}  // namespace ptxbench::foreign
