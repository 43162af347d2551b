#include "emulator/tensor/numeric_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <vector>

namespace ptxbench::emulator {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A format as written in its specification, independent of format_traits.
struct Spec {
  FloatFormat format;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  unsigned first_special;  // magnitudes from here on are not finite numbers
  bool has_infinity;
  unsigned nan;
  int storage_shift;
};

const std::vector<Spec> kSpecs = {
    {FloatFormat::f16, 5, 10, 15, 0x7c00, true, 0x7fff, 0},
    {FloatFormat::bf16, 8, 7, 127, 0x7f80, true, 0x7fff, 0},
    {FloatFormat::tf32, 8, 10, 127, 0x3fc00, true, 0x3ffff, 13},
    {FloatFormat::e4m3, 4, 3, 7, 0x7f, false, 0x7f, 0},
    {FloatFormat::e5m2, 5, 2, 15, 0x7c, true, 0x7f, 0},
    {FloatFormat::e2m3, 2, 3, 1, 0x20, false, 0x1f, 0},
    {FloatFormat::e3m2, 3, 2, 3, 0x20, false, 0x1f, 0},
    {FloatFormat::e2m1, 2, 1, 1, 0x8, false, 0x7, 0},
};

double spec_value(const Spec& spec, unsigned magnitude) {
  const unsigned exponent = magnitude >> spec.mantissa_bits;
  const double fraction = (magnitude & ((1U << spec.mantissa_bits) - 1)) / std::pow(2.0, spec.mantissa_bits);
  return exponent == 0 ? fraction * std::pow(2.0, 1 - spec.bias)
                       : (1 + fraction) * std::pow(2.0, static_cast<int>(exponent) - spec.bias);
}

std::vector<double> magnitudes(const Spec& spec) {
  std::vector<double> values;
  for (unsigned m = 0; m < spec.first_special; ++m) {
    values.push_back(spec_value(spec, m));
  }
  return values;
}

// Rounds by searching the list of all representable magnitudes.
std::uint32_t nearest(const Spec& spec, const std::vector<double>& list, double value, ConvertOptions options) {
  const bool negative = std::signbit(value);
  const std::uint32_t sign = negative ? 1U << (spec.exponent_bits + spec.mantissa_bits) : 0;
  if (std::isnan(value)) {
    return spec.nan << spec.storage_shift;
  }
  if (negative && options.relu) {
    return 0;
  }
  const double magnitude = std::fabs(value);
  const auto above = static_cast<std::size_t>(std::lower_bound(list.begin(), list.end(), magnitude) - list.begin());
  const double next_step = 2 * list.back() - list[list.size() - 1 - (1U << 0)];  // one spacing past the largest
  std::size_t chosen = 0;
  if (above < list.size() && list[above] == magnitude) {
    chosen = above;
  } else {
    const std::size_t below = above - 1;
    const double high = above < list.size() ? list[above] : next_step;
    const double middle = (list[below] + high) / 2;
    const bool up_direction = options.rounding == Rounding::rp ? !negative : negative;
    switch (options.rounding) {
      case Rounding::rn:
        chosen = magnitude > middle || (magnitude == middle && below % 2 == 1) ? above : below;
        break;
      case Rounding::rna:
        chosen = magnitude >= middle ? above : below;
        break;
      case Rounding::rz:
        chosen = below;
        break;
      default:
        chosen = up_direction ? above : below;
        break;
    }
  }
  if (std::isinf(value)) {
    chosen = list.size();
  }
  if (chosen >= list.size()) {
    if (options.satfinite) {
      chosen = list.size() - 1;
    } else if (!spec.has_infinity) {
      return spec.nan;
    }
  }
  return (sign | static_cast<std::uint32_t>(chosen)) << spec.storage_shift;
}

TEST(NumericFormats, DecodesEveryEncoding) {
  for (const Spec& spec : kSpecs) {
    const unsigned sign = 1U << (spec.exponent_bits + spec.mantissa_bits);
    for (unsigned magnitude = 0; magnitude < sign; ++magnitude) {
      const double decoded = decode_float(spec.format, magnitude << spec.storage_shift);
      const double negated = decode_float(spec.format, (magnitude | sign) << spec.storage_shift);
      if (magnitude < spec.first_special) {
        ASSERT_EQ(decoded, spec_value(spec, magnitude));
        ASSERT_EQ(negated, -decoded);
        ASSERT_TRUE(std::signbit(negated));
      } else if (spec.has_infinity && magnitude == spec.first_special) {
        ASSERT_EQ(decoded, kInfinity);
        ASSERT_EQ(negated, -kInfinity);
      } else {
        ASSERT_TRUE(std::isnan(decoded));
      }
    }
  }
  EXPECT_EQ(decode_float(FloatFormat::ue8m0, 127), 1.0);
  EXPECT_EQ(decode_float(FloatFormat::ue8m0, 0), std::ldexp(1.0, -127));
  EXPECT_TRUE(std::isnan(decode_float(FloatFormat::ue8m0, 255)));
}

TEST(NumericFormats, EncodesLikeAnExhaustiveSearch) {
  std::mt19937_64 random(7);
  for (const Spec& spec : kSpecs) {
    const std::vector<double> list = magnitudes(spec);
    std::vector<double> inputs = {0.0, kInfinity, std::numeric_limits<double>::quiet_NaN(), 1e300, 1e-300, 5e-324};
    // Every value, every midpoint, and the doubles beside them.
    const std::size_t step = std::max<std::size_t>(1, list.size() / 20000);
    for (std::size_t i = 0; i < list.size(); i += step) {
      const double next = i + 1 < list.size() ? list[i + 1] : 2 * list[i] - list[i - 1];
      for (const double centre : {list[i], (list[i] + next) / 2}) {
        inputs.push_back(centre);
        inputs.push_back(std::nextafter(centre, kInfinity));
        inputs.push_back(std::nextafter(centre, -kInfinity));
      }
    }
    for (int i = 0; i < 20000; ++i) {
      inputs.push_back(static_cast<double>(bits_to_f32(static_cast<std::uint32_t>(random()))));
    }
    for (const Rounding rounding : {Rounding::rn, Rounding::rz, Rounding::rm, Rounding::rp, Rounding::rna}) {
      for (const bool satfinite : {false, true}) {
        for (const bool relu : {false, true}) {
          const ConvertOptions options{rounding, satfinite, relu};
          for (const double input : inputs) {
            for (const double value : {input, -input}) {
              const bool directed_to_max = !satfinite && !std::isinf(value) && std::fabs(value) > list.back() &&
                                           (rounding == Rounding::rz || (rounding == Rounding::rm && value > 0) ||
                                            (rounding == Rounding::rp && value < 0));
              const std::uint32_t expected = directed_to_max ? nearest(spec, list, value, {rounding, true, relu})
                                                             : nearest(spec, list, value, options);
              ASSERT_EQ(encode_float(spec.format, value, options), expected)
                  << "format " << static_cast<int>(spec.format) << " value " << value << " rounding "
                  << static_cast<int>(rounding) << " satfinite " << satfinite << " relu " << relu;
            }
          }
        }
      }
    }
  }
}

TEST(NumericFormats, EncodesF32LikeTheProcessor) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 200000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(static_cast<std::int64_t>(random())), static_cast<int>(random() % 340) - 230);
    ASSERT_EQ(encode_float(FloatFormat::f32, value), f32_to_bits(static_cast<float>(value))) << value;
  }
  EXPECT_EQ(encode_float(FloatFormat::f32, std::numeric_limits<double>::quiet_NaN()), 0x7fffffffU);
}

TEST(NumericFormats, CanonicalNansAndSaturation) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(encode_float(FloatFormat::f16, -nan), 0x7fffU);
  EXPECT_EQ(encode_float(FloatFormat::bf16, nan), 0x7fffU);
  EXPECT_EQ(encode_float(FloatFormat::e4m3, nan, {.satfinite = true}), 0x7fU);
  EXPECT_EQ(encode_float(FloatFormat::e5m2, nan, {.satfinite = true}), 0x7fU);
  EXPECT_EQ(encode_float(FloatFormat::e4m3, 1e9, {.satfinite = true}), 0x7eU);  // 448
  EXPECT_EQ(encode_float(FloatFormat::e4m3, -1e9, {.satfinite = true}), 0xfeU);
  EXPECT_EQ(encode_float(FloatFormat::e5m2, kInfinity, {.satfinite = true}), 0x7bU);  // 57344
  EXPECT_EQ(encode_float(FloatFormat::e5m2, 61440.0, {}), 0x7cU);
  EXPECT_EQ(encode_float(FloatFormat::f16, 65519.0), 0x7bffU);
  EXPECT_EQ(encode_float(FloatFormat::f16, 65520.0), 0x7c00U);
  EXPECT_EQ(encode_float(FloatFormat::f16, -3.0, {.relu = true}), 0U);
  EXPECT_EQ(encode_float(FloatFormat::tf32, 1.0 + std::ldexp(1.0, -11), {.rounding = Rounding::rna}), 0x3f802000U);
}

TEST(NumericFormats, FastPathsAgreeWithTheGeneralOnes) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double f16 = decode_float(FloatFormat::f16, bits);
    const double bf16 = decode_float(FloatFormat::bf16, bits);
    ASSERT_TRUE(std::isnan(f16) ? std::isnan(f16_to_f32(half)) : f16_to_f32(half) == static_cast<float>(f16));
    ASSERT_TRUE(std::isnan(bf16) ? std::isnan(bf16_to_f32(half)) : bf16_to_f32(half) == static_cast<float>(bf16));
  }
  std::mt19937 random(3);
  const auto check = [](float value) {
    const double wide = static_cast<double>(value);
    ASSERT_EQ(f32_to_bf16_rn(value), encode_float(FloatFormat::bf16, wide));
    ASSERT_EQ(f32_to_bf16_rz(value), encode_float(FloatFormat::bf16, wide, {.rounding = Rounding::rz}));
    ASSERT_EQ(f32_to_tf32_rna(value), std::isnan(value)
                                          ? f32_to_bits(value) & 0xffffe000U
                                          : encode_float(FloatFormat::tf32, wide, {.rounding = Rounding::rna}));
    ASSERT_EQ(f32_to_f16_rn(value), encode_float(FloatFormat::f16, wide));
    ASSERT_EQ(f32_to_e4m3_rn_satfinite(value), encode_float(FloatFormat::e4m3, wide, {.satfinite = true})) << value;
    ASSERT_EQ(f32_to_e5m2_rn_satfinite(value), encode_float(FloatFormat::e5m2, wide, {.satfinite = true})) << value;
  };
  for (int i = 0; i < 2000000; ++i) {
    check(bits_to_f32(static_cast<std::uint32_t>(random())));
  }
  for (int i = 0; i < 2000000; ++i) {  // the range where fp8 and f16 have their detail, ties included
    const float scale = std::ldexp(1.0F, static_cast<int>(random() % 48) - 28);
    check(static_cast<float>(static_cast<int>(random() % 4096) - 2048) * scale);
  }
}

TEST(NumericFormats, Spans) {
  std::mt19937 random(5);
  for (const std::size_t count : {0UL, 1UL, 7UL, 8UL, 61UL}) {
    std::vector<std::uint16_t> halves(count);
    std::vector<std::uint8_t> bytes(count);
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      halves[i] = static_cast<std::uint16_t>(random());
      bytes[i] = static_cast<std::uint8_t>(random());
      values[i] = bits_to_f32(i % 5 == 0 ? 0x7fc00001U : static_cast<std::uint32_t>(random()));
    }
    std::vector<float> wide(count);
    const auto expect_values = [&](auto decode) {
      for (std::size_t i = 0; i < count; ++i) {
        const double expected = decode(i);
        ASSERT_TRUE(std::isnan(expected) ? std::isnan(wide[i]) : static_cast<double>(wide[i]) == expected);
      }
    };
    bf16_to_f32(halves, wide);
    expect_values([&](std::size_t i) { return decode_float(FloatFormat::bf16, halves[i]); });
    f16_to_f32(halves, wide);
    expect_values([&](std::size_t i) { return decode_float(FloatFormat::f16, halves[i]); });
    e4m3_to_f32(bytes, wide);
    expect_values([&](std::size_t i) { return decode_float(FloatFormat::e4m3, bytes[i]); });
    e5m2_to_f32(bytes, wide);
    expect_values([&](std::size_t i) { return decode_float(FloatFormat::e5m2, bytes[i]); });
    std::vector<std::uint16_t> narrow(count);
    f32_to_f16_rn(values, narrow);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(narrow[i], encode_float(FloatFormat::f16, static_cast<double>(values[i])));
    }
    f32_to_bf16_rn(values, narrow);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(narrow[i], encode_float(FloatFormat::bf16, static_cast<double>(values[i])));
    }
  }
}

}  // namespace
}  // namespace ptxbench::emulator
