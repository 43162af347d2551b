#include "problem/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "problem/random_element.h"

namespace ptxbench::problem {
namespace {

// Known answers of Philox4x32-10 published with Random123 (counter, key, result).
TEST(Philox, KnownAnswers) {
  struct Case {
    PhiloxBlock counter;
    std::uint32_t key0, key1;
    PhiloxBlock expected;
  };
  const Case cases[] = {
      {{{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
      {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
       0xffffffff,
       0xffffffff,
       {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
      {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
       0xa4093822,
       0x299f31d0,
       {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
  };
  for (const Case& test : cases) {
    const PhiloxBlock block = philox(test.counter, test.key0, test.key1);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(block.word[i], test.expected.word[i]);
  }
}

TEST(NormalPair, IsBoxAndMuller) {
  double worst = 0;
  for (std::uint32_t i = 0; i < 300000; ++i) {
    const std::uint32_t w0 = i * 2654435761u + 17, w1 = i * 2246822519u + 3;
    const NormalPair pair = normal_pair(w0, w1);
    const double u = static_cast<double>(static_cast<float>(w0 >> 1) * 0x1p-31f + 0x1p-32f);
    const double radius = std::sqrt(std::max(0.0, -2 * std::log(u)));
    const double angle = 2 * M_PI * (w1 / 4294967296.0) - M_PI / 4;
    worst = std::max({worst, std::fabs(static_cast<double>(pair.first) - radius * std::cos(angle)),
                      std::fabs(static_cast<double>(pair.second) - radius * std::sin(angle))});
  }
  EXPECT_LT(worst, 2e-5);
}

TEST(NormalPair, ExtremesAreFinite) {
  for (const std::uint32_t w0 : {0u, 1u, 0xffffffffu, 0x7fffffffu, 0x80000000u}) {
    for (const std::uint32_t w1 : {0u, 0xffffffffu, 0x20000000u, 0x3fffffffu, 0x40000000u, 0xc0000000u}) {
      const NormalPair pair = normal_pair(w0, w1);
      EXPECT_TRUE(std::isfinite(pair.first) && std::isfinite(pair.second));
      EXPECT_LT(std::fabs(pair.first), 6.7f);
    }
  }
  // The smallest u is 2^-32: sqrt(-2 ln 2^-32) = 6.66.
  const NormalPair far = normal_pair(0, 0x20000000u);
  EXPECT_NEAR(static_cast<double>(std::hypot(far.first, far.second)), std::sqrt(64 * std::log(2.0)), 1e-5);
}

TEST(RandomTensor, VectorCodeAgreesWithTheDefinition) {
  const RandomTensor random{Dtype::float32, Distribution::normal, 0x123456789abcdefu, 3};
  std::vector<float> values(5000);
  // Far from the start as well, where the block number needs its upper half.
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1}, (std::uint64_t{1} << 34) - 7}) {
    random.fill(first, values.size(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float expected = normal_element(random.seed, random.tensor, first + i);
      ASSERT_EQ(std::memcmp(&values[i], &expected, 4), 0) << "element " << first + i;
    }
  }
}

TEST(RandomTensor, DistributionsAreTheDefinitionsTransformations) {
  constexpr std::uint64_t kSeed = 77;
  constexpr std::uint32_t kTensor = 2;
  std::vector<float> values(20000);
  const auto expect = [&](Distribution distribution, auto transformed) {
    RandomTensor{Dtype::float32, distribution, kSeed, kTensor}.fill(5, values.size(), values.data());
    for (std::uint64_t i = 0; i < values.size(); ++i) {
      const std::uint64_t element = 5 + i;
      const PhiloxBlock spikes = philox(element_counter(element >> 2, kTensor, 1), kSeed, 0);
      const float expected = transformed(normal_element(kSeed, kTensor, element), spikes.word[element & 3u]);
      ASSERT_EQ(std::memcmp(&values[i], &expected, 4), 0) << to_string(distribution) << " " << i;
      const float scalar = random_element(distribution, kSeed, kTensor, element);
      ASSERT_EQ(std::memcmp(&values[i], &scalar, 4), 0) << to_string(distribution) << " " << i;
    }
  };
  expect(Distribution::scaled, [](float normal, std::uint32_t) { return normal * 4; });
  expect(Distribution::flat, [](float normal, std::uint32_t) { return normal / 16; });
  expect(Distribution::ties, [](float normal, std::uint32_t) { return near_tie(normal); });
  expect(Distribution::spiky,
         [](float normal, std::uint32_t word) { return word < kSpikeBelow ? normal * 16 : normal; });
  expect(Distribution::tiny,
         [](float normal, std::uint32_t word) { return word < kTinyBelow ? normal * kTinyFactor : normal; });
}

TEST(RandomTensor, BellValuesAreSumsOfBytes) {
  std::vector<float> values(5000);
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{3}, (std::uint64_t{1} << 34) - 7}) {
    RandomTensor{Dtype::float32, Distribution::bell, 0x123456789abcdefu, 3}.fill(first, values.size(), values.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::uint64_t element = first + i;
      const PhiloxBlock block = philox(element_counter(element / 4, 3, 4), 0x89abcdefu, 0x1234567u, 7);
      int sum = 0;
      for (int byte = 0; byte < 4; ++byte) sum += static_cast<int>(block.word[element % 4] >> (8 * byte) & 0xffu);
      ASSERT_EQ(values[i], static_cast<float>(sum - 510) * kBellFactor) << "element " << element;
      ASSERT_EQ(values[i], random_element(Distribution::bell, 0x123456789abcdefu, 3, element));
    }
  }
}

TEST(RandomTensor, TiesAndTinyValuesAreWhatTheySay) {
  std::vector<std::uint16_t> bits(1 << 16);
  RandomTensor{Dtype::bfloat16, Distribution::ties, 3, 0}.fill(0, bits.size(), bits.data());
  for (const std::uint16_t value : bits) {
    ASSERT_GE(std::fabs(from_bfloat16(value)), 1.0f);
    ASSERT_LT(std::fabs(from_bfloat16(value)), 1.11f);
  }
  RandomTensor{Dtype::bfloat16, Distribution::tiny, 3, 0}.fill(0, bits.size(), bits.data());
  int subnormal = 0;
  for (const std::uint16_t value : bits) subnormal += (value & 0x7f80u) == 0 && (value & 0x7fu) != 0 ? 1 : 0;
  EXPECT_NEAR(subnormal, (1 << 16) / 8, 600);
}

TEST(RandomTensor, AnyRangeGivesTheSameElements) {
  for (const Dtype dtype : {Dtype::bfloat16, Dtype::float16, Dtype::float32, Dtype::float8_e4m3fn, Dtype::int32,
                            Dtype::int64, Dtype::boolean}) {
    for (const Distribution distribution :
         {Distribution::normal, Distribution::scaled, Distribution::spiky, Distribution::ties, Distribution::flat,
          Distribution::tiny, Distribution::bell}) {
      const RandomTensor random{dtype, distribution, 9, 1};
      std::vector<std::byte> whole(bytes_of(dtype, 3000)), part(bytes_of(dtype, 3000));
      random.fill(0, 3000, whole.data());
      for (const auto& [first, count] : {std::pair{0, 1}, {1, 2}, {3, 1000}, {255, 2}, {256, 256}, {2999, 1}}) {
        random.fill(static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(count), part.data());
        EXPECT_EQ(std::memcmp(part.data(), whole.data() + bytes_of(dtype, static_cast<std::uint64_t>(first)),
                              bytes_of(dtype, static_cast<std::uint64_t>(count))),
                  0)
            << to_string(dtype) << " from " << first;
      }
    }
  }
}

TEST(RandomTensor, ThreadsDoNotMatter) {
  const RandomTensor random{Dtype::bfloat16, Distribution::normal, 1, 0};
  auto one = Tensor::create("a", Dtype::bfloat16, {700, 1000});
  auto many = Tensor::create("b", Dtype::bfloat16, {700, 1000});
  ASSERT_TRUE(one && many);
  fill(random, *one, 1);
  fill(random, *many, 5);
  EXPECT_EQ(std::memcmp(one->data(), many->data(), one->bytes()), 0);
}

TEST(RandomTensor, Moments) {
  const auto moments = [](const RandomTensor& random) {
    std::vector<float> values(1 << 20);
    random.fill(0, values.size(), values.data());
    double sum = 0, squares = 0, fourth = 0;
    for (const float value : values) {
      const double v = static_cast<double>(value);
      sum += v;
      squares += v * v;
      fourth += v * v * v * v;
    }
    const double n = static_cast<double>(values.size());
    return std::array{sum / n, squares / n, fourth / n};
  };
  // Standard errors at 2^20 samples: 0.001, 0.0014 and 0.01.
  const auto normal = moments({Dtype::float32, Distribution::normal, 5, 0});
  EXPECT_NEAR(normal[0], 0, 0.005);
  EXPECT_NEAR(normal[1], 1, 0.007);
  EXPECT_NEAR(normal[2], 3, 0.05);
  EXPECT_NEAR(moments({Dtype::float32, Distribution::scaled, 5, 0})[1], 16, 0.1);
  // A sum of four uniform values: 3 - 6 / (5 * 4) for the fourth moment.
  const auto bell = moments({Dtype::float32, Distribution::bell, 5, 0});
  EXPECT_NEAR(bell[0], 0, 0.005);
  EXPECT_NEAR(bell[1], 1, 0.007);
  EXPECT_NEAR(bell[2], 2.7, 0.05);
  // One in 1024 with 256 times the square: 1 - 1/1024 + 256/1024.
  EXPECT_NEAR(moments({Dtype::float32, Distribution::spiky, 5, 0})[1], 1.249, 0.05);
}

TEST(RandomTensor, SeedsAndTensorsDiffer) {
  float a[64], b[64], c[64];
  RandomTensor{Dtype::float32, Distribution::normal, 1, 0}.fill(0, 64, a);
  RandomTensor{Dtype::float32, Distribution::normal, 2, 0}.fill(0, 64, b);
  RandomTensor{Dtype::float32, Distribution::normal, 1, 1}.fill(0, 64, c);
  int equal = 0;
  for (int i = 0; i < 64; ++i) equal += (a[i] == b[i]) + (a[i] == c[i]);
  EXPECT_EQ(equal, 0);
}

TEST(RandomTensor, IntegersAreSmallAndUniform) {
  std::vector<std::int32_t> values(1 << 14);
  RandomTensor{Dtype::int32, Distribution::normal, 1, 0}.fill(0, values.size(), values.data());
  std::array<int, 16> counts = {};
  for (const std::int32_t value : values) {
    ASSERT_GE(value, -8);
    ASSERT_LT(value, 8);
    ++counts[static_cast<std::size_t>(value + 8)];
  }
  for (const int count : counts) EXPECT_NEAR(count, 1024, 160);
}

TEST(RandomTensor, NamesOfDistributions) {
  EXPECT_EQ(*parse_distribution("spiky"), Distribution::spiky);
  EXPECT_FALSE(parse_distribution("gauss"));
}

}  // namespace
}  // namespace ptxbench::problem
