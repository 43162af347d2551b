#include "problem/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace ptxbench::problem {
namespace {

const float kInf = std::numeric_limits<float>::infinity();

/// Rounding is right when no other value of the format is nearer, and ties go to the even one. All finite values of the
/// format are listed, so nothing of the conversion under test is used to judge it.
template <class Bits, class Widen, class Narrow>
void check_rounding(Widen widen, Narrow narrow, Bits positive_count) {
  for (Bits bits = 0; bits + 1 < positive_count; ++bits) {
    const float low = widen(bits);
    const float high = widen(static_cast<Bits>(bits + 1));
    ASSERT_LT(low, high);
    const float middle = static_cast<float>((static_cast<double>(low) + static_cast<double>(high)) / 2);
    EXPECT_EQ(narrow(low), bits);
    EXPECT_EQ(narrow(middle), bits % 2 == 0 ? bits : static_cast<Bits>(bits + 1)) << "tie above " << low;
    EXPECT_EQ(narrow(std::nextafter(middle, -kInf)), bits);
    EXPECT_EQ(narrow(std::nextafter(middle, kInf)), static_cast<Bits>(bits + 1));
  }
}

TEST(Dtype, RoundsToNearestEven) {
  check_rounding<std::uint8_t>(from_e4m3, to_e4m3, 0x7f);
  check_rounding<std::uint8_t>(from_e5m2, to_e5m2, 0x7c);
  check_rounding<std::uint8_t>(from_e2m1, to_e2m1, 8);
  check_rounding<std::uint16_t>(from_float16, to_float16, 0x7c00);
  check_rounding<std::uint16_t>(from_bfloat16, to_bfloat16, 0x7f80);
}

TEST(Dtype, KnownValues) {
  EXPECT_EQ(from_e4m3(0x7e), 448.0f);
  EXPECT_EQ(from_e4m3(0x01), 0x1p-9f);
  EXPECT_TRUE(std::isnan(from_e4m3(0x7f)));
  EXPECT_EQ(from_e5m2(0x7b), 57344.0f);
  EXPECT_EQ(from_e5m2(0x7c), kInf);
  EXPECT_EQ(from_e2m1(7), 6.0f);
  EXPECT_EQ(from_e2m1(0x9), -0.5f);
  EXPECT_EQ(from_float16(0x7bff), 65504.0f);
  EXPECT_EQ(from_float16(1), 0x1p-24f);
  EXPECT_EQ(from_float16(0xbc00), -1.0f);
  EXPECT_EQ(to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(to_float16(65519.9f), 0x7bff);
  EXPECT_EQ(to_bfloat16(3.0e38f) & 0x7f80, 0x7f00);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(to_e4m3(1e9f), 0x7e) << "saturates";
  EXPECT_EQ(to_e4m3(-1e9f), 0xfe);
}

TEST(Dtype, NanStaysNan) {
  const float nan = std::nanf("");
  EXPECT_TRUE(std::isnan(from_bfloat16(to_bfloat16(nan))));
  EXPECT_TRUE(std::isnan(from_float16(to_float16(nan))));
  EXPECT_TRUE(std::isnan(from_e4m3(to_e4m3(nan))));
  EXPECT_TRUE(std::isnan(from_e5m2(to_e5m2(nan))));
}

TEST(Dtype, ArraysOfEveryType) {
  for (const Dtype dtype : {Dtype::float32, Dtype::float16, Dtype::bfloat16, Dtype::float8_e4m3fn, Dtype::float8_e5m2,
                            Dtype::float4_e2m1, Dtype::int64, Dtype::int32, Dtype::int16, Dtype::int8}) {
    const std::vector<float> values = {0, 1, -2, 3, 4, -1, 2};
    std::vector<std::byte> packed(bytes_of(dtype, values.size()));
    from_float(dtype, values.data(), 0, values.size(), packed.data());
    std::vector<float> back(values.size());
    to_float(dtype, packed.data(), 0, values.size(), back.data());
    EXPECT_EQ(back, values) << to_string(dtype);
    float third = 0;
    to_float(dtype, packed.data(), 3, 1, &third);
    EXPECT_EQ(third, 3.0f) << to_string(dtype);
  }
}

TEST(Dtype, Names) {
  EXPECT_EQ(*parse_dtype("bool", "x"), Dtype::boolean);
  const auto wrong = parse_dtype("bfloat61", "file: inputs.A.dtype");
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("file: inputs.A.dtype"), std::string::npos);
  EXPECT_NE(wrong.error().message.find("bfloat16"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::problem
