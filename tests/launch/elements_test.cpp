#include "launch/elements.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ptxbench::launch {
namespace {

TEST(LaunchElements, NamesRoundTrip) {
  for (const std::string_view name : element_type_names()) {
    const auto type = parse_element_type(name);
    ASSERT_TRUE(type) << name;
    EXPECT_EQ(to_string(*type), name);
    EXPECT_EQ(emulator::element_bytes(tensor_type(*type)), bytes_of(*type)) << name;
  }
  EXPECT_FALSE(parse_element_type("float"));
}

TEST(LaunchElements, IndexIsExactAndWrapsAtTheLimit) {
  for (const std::string_view name : element_type_names()) {
    const ElementType type = *parse_element_type(name);
    EXPECT_TRUE(representable(type, static_cast<double>(index_limit(type) - 1))) << name;
    const auto data = filled(type, {Fill::Kind::index, 0}, 300, 1, 300, 0);
    for (uint64_t i = 0; i < 300; ++i)
      ASSERT_EQ(element(type, data.data(), i), static_cast<double>(i % index_limit(type))) << name;
  }
}

TEST(LaunchElements, RandomValuesAreSmallIntegersAndDifferBetweenArguments) {
  for (const std::string_view name : element_type_names()) {
    const ElementType type = *parse_element_type(name);
    const auto data = filled(type, {Fill::Kind::random, 0}, 500, 1, 500, 1);
    for (uint64_t i = 0; i < 500; ++i) {
      const double value = element(type, data.data(), i);
      ASSERT_EQ(value, std::trunc(value));
      ASSERT_LE(std::abs(value), 15) << name;
    }
    EXPECT_NE(data, filled(type, {Fill::Kind::random, 0}, 500, 1, 500, 2)) << name;
  }
}

TEST(LaunchElements, PoisonIsNanInFloatingTypes) {
  for (const std::string_view name : element_type_names()) {
    const ElementType type = *parse_element_type(name);
    const auto data = filled(type, {Fill::Kind::poison, 0}, 4, 1, 4, 0);
    EXPECT_EQ(std::isnan(element(type, data.data(), 3)), is_float(type)) << name;
  }
}

TEST(LaunchElements, IdentityFollowsTheLastTwoDimensions) {
  const auto data = filled(ElementType::s32, {Fill::Kind::identity, 0}, 2 * 3 * 4, 3, 4, 0);
  for (uint64_t i = 0; i < 24; ++i) {
    const uint64_t row = i / 4 % 3, column = i % 4;
    EXPECT_EQ(element(ElementType::s32, data.data(), i), row == column ? 1.0 : 0.0);
  }
}

TEST(LaunchElements, KnowsWhatATypeCanHold) {
  EXPECT_TRUE(representable(ElementType::u8, 255));
  EXPECT_FALSE(representable(ElementType::u8, -1));
  EXPECT_FALSE(representable(ElementType::s32, 2147483648.0));
  EXPECT_TRUE(representable(ElementType::s32, -2147483648.0));
  EXPECT_FALSE(representable(ElementType::u64, 18446744073709551616.0));
  EXPECT_FALSE(representable(ElementType::bf16, 257));
  EXPECT_TRUE(representable(ElementType::f16, 0.5));
  EXPECT_FALSE(representable(ElementType::f32, 0.1));
  EXPECT_FALSE(representable(ElementType::f32, 1e300));
  EXPECT_TRUE(representable(ElementType::f32, std::nan("")));
  EXPECT_FALSE(representable(ElementType::s32, std::nan("")));
}

}  // namespace
}  // namespace ptxbench::launch
