#include "emulator/tensor/wgmma.h"

#include "logical_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace ptxbench::emulator {
namespace {

constexpr std::uint32_t kShared = 1U << 18;

// Writes a matrix [mn][k] to shared memory by the canonical layout, spelled out per case; returns its descriptor.
std::uint64_t place_operand(std::vector<std::byte>& shared, std::uint32_t start, const LogicalMatrix& matrix,
                            unsigned size, MatrixMajor major, MatrixSwizzle swizzle) {
  const std::uint32_t line = swizzle == MatrixSwizzle::none ? 16 : 256U >> static_cast<unsigned>(swizzle);
  const std::uint32_t rows = matrix.rows;
  // K-major: 8-row groups follow each other; without a swizzle the two 16-byte pieces of k are far apart.
  const std::uint32_t piece = rows * 16;
  // MN-major: a block of one line of mn by 16 k.
  const std::uint32_t block = line * 16;
  for (unsigned r = 0; r < rows; ++r) {
    for (unsigned k = 0; k < matrix.columns; ++k) {
      std::uint32_t address = start;
      if (major == MatrixMajor::k_major) {
        const std::uint32_t byte = k * size;
        address += r * line + (swizzle == MatrixSwizzle::none ? byte / 16 * piece + byte % 16 : byte);
      } else {
        const std::uint32_t byte = r * size;
        address += byte / line * block + k * line + byte % line;
      }
      const std::uint32_t row_bits = (address >> 7) & (line / 16 - 1);
      address ^= row_bits << 4;
      std::memcpy(shared.data() + address, &matrix.bits[std::size_t{r} * matrix.columns + k], size);
    }
  }
  MatrixDescriptor descriptor{start, 0, 8 * line, 0, swizzle};
  if (major == MatrixMajor::k_major) {
    descriptor.leading_offset = swizzle == MatrixSwizzle::none ? piece : 16;
  } else if (swizzle == MatrixSwizzle::none) {
    descriptor.leading_offset = 128;   // next eight k
    descriptor.stride_offset = block;  // next eight mn
  } else {
    descriptor.leading_offset = block;    // next line of mn
    descriptor.stride_offset = 8 * line;  // next eight k
  }
  return descriptor.encode();
}

struct Registers {
  explicit Registers(unsigned count)
      : lanes(std::size_t{4} * count * 32), pointers(std::size_t{4} * count), per_warp(count) {
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      pointers[i] = lanes.data() + i * 32;
    }
  }
  std::uint32_t& at(unsigned warp, unsigned reg, unsigned lane) {
    return lanes[(std::size_t{warp} * per_warp + reg) * 32 + lane];
  }
  std::vector<std::uint32_t> lanes;
  std::vector<std::uint32_t*> pointers;
  unsigned per_warp;
};

// The accumulator fragment of PTX ISA "wgmma": rows 16*warp + lane/4 (+8), columns 8*j + 2*(lane%4) + {0, 1}.
double read_d(Registers& d, const WgmmaShape& shape, unsigned row, unsigned column) {
  const unsigned warp = row / 16;
  const unsigned lane = row % 8 * 4 + column % 8 / 2;
  const unsigned low = row % 16 / 8;
  if (shape.accumulator == AccumulatorType::f16) {
    const std::uint32_t word = d.at(warp, column / 8 * 2 + low, lane);
    return decode_float(FloatFormat::f16, column % 2 ? word >> 16 : word & 0xffffU);
  }
  const std::uint32_t word = d.at(warp, column / 8 * 4 + low * 2 + column % 2, lane);
  return shape.accumulator == AccumulatorType::s32 ? static_cast<double>(static_cast<std::int32_t>(word))
                                                   : static_cast<double>(bits_to_f32(word));
}

void write_d(Registers& d, const WgmmaShape& shape, unsigned row, unsigned column, double value) {
  const unsigned warp = row / 16;
  const unsigned lane = row % 8 * 4 + column % 8 / 2;
  const unsigned low = row % 16 / 8;
  if (shape.accumulator == AccumulatorType::f16) {
    std::uint32_t& word = d.at(warp, column / 8 * 2 + low, lane);
    const std::uint32_t half = encode_float(FloatFormat::f16, value);
    word = column % 2 ? (word & 0xffffU) | half << 16 : (word & 0xffff0000U) | half;
    return;
  }
  d.at(warp, column / 8 * 4 + low * 2 + column % 2, lane) =
      shape.accumulator == AccumulatorType::s32 ? static_cast<std::uint32_t>(static_cast<std::int32_t>(value))
                                                : f32_to_bits(static_cast<float>(value));
}

// Register A fragment: register i holds row lane/4 (+8 for odd i), 32 bits of k from lane%4, second half for i >= 2.
void fill_a_registers(Registers& a, unsigned first, const LogicalMatrix& matrix, MmaType type) {
  const unsigned size = element_bytes(type);
  const unsigned per_register = 4 / size;
  for (unsigned row = 0; row < 64; ++row) {
    for (unsigned k = 0; k < matrix.columns; ++k) {
      const unsigned reg = k / (4 * per_register) * 2 + row % 16 / 8;
      const unsigned lane = row % 8 * 4 + k / per_register % 4;
      const unsigned shift = k % per_register * size * 8;
      std::uint32_t& word = a.at(row / 16, first + reg, lane);
      word |= matrix.bit(row, k) << shift;
    }
  }
}

struct Batch {
  WgmmaShape shape;
  std::vector<LogicalMatrix> a;  // per step, [64][k]
  std::vector<LogicalMatrix> b;  // per step, [n][k]
  std::vector<double> c;         // [64][n]
  std::vector<bool> scale_d;
  std::vector<double> result;  // [64][n]
};

MatrixSwizzle any_swizzle(Random& random) { return static_cast<MatrixSwizzle>(random() % 4); }

void execute(Batch& run, MmaMode mode, Random& random, WgmmaEngine& engine, unsigned warp_mask = 15) {
  static std::uint64_t generation = 0;
  const WgmmaShape& shape = run.shape;
  const unsigned size = element_bytes(shape.a_type);
  const unsigned steps = static_cast<unsigned>(run.b.size());
  std::vector<std::byte> shared(kShared);
  Registers d(shape.d_registers());
  Registers a(4 * steps);
  std::vector<WgmmaStep> instructions(steps);
  std::uint32_t next = 1024;
  const auto reserve = [&](unsigned rows) {
    const std::uint32_t start = next;
    next += (rows * 128 + 4096 + 1023) / 1024 * 1024;
    return start;
  };
  for (unsigned i = 0; i < steps; ++i) {
    if (shape.a_in_registers) {
      fill_a_registers(a, 4 * i, run.a[i], shape.a_type);
    } else {
      instructions[i].a_descriptor =
          place_operand(shared, reserve(64), run.a[i], size, shape.a_major, any_swizzle(random));
    }
    instructions[i].b_descriptor =
        place_operand(shared, reserve(shape.n), run.b[i], size, shape.b_major, any_swizzle(random));
    instructions[i].scale_d = run.scale_d[i];
    ASSERT_LE(next, kShared);
  }
  for (unsigned row = 0; row < 64; ++row) {
    for (unsigned column = 0; column < shape.n; ++column) {
      write_d(d, shape, row, column, run.c[std::size_t{row} * shape.n + column]);
    }
  }
  std::vector<WgmmaWarp> warps;
  for (unsigned w = 0; w < 4; ++w) {
    if ((warp_mask >> w) & 1U) {
      warps.push_back({w, d.pointers.data() + w * d.per_warp, a.pointers.data() + w * a.per_warp});
    }
  }
  engine.execute(shape, instructions, warps, shared.data(), ++generation, mode);
  run.result.resize(run.c.size());
  for (unsigned row = 0; row < 64; ++row) {
    for (unsigned column = 0; column < shape.n; ++column) {
      run.result[std::size_t{row} * shape.n + column] = read_d(d, shape, row, column);
    }
  }
}

struct Types {
  MmaType a;
  MmaType b;
  AccumulatorType accumulator;
};
const std::vector<Types> kTypes = {
    {MmaType::bf16, MmaType::bf16, AccumulatorType::f32}, {MmaType::f16, MmaType::f16, AccumulatorType::f32},
    {MmaType::f16, MmaType::f16, AccumulatorType::f16},   {MmaType::tf32, MmaType::tf32, AccumulatorType::f32},
    {MmaType::e4m3, MmaType::e4m3, AccumulatorType::f32}, {MmaType::e4m3, MmaType::e5m2, AccumulatorType::f32},
    {MmaType::e5m2, MmaType::e4m3, AccumulatorType::f16}, {MmaType::s8, MmaType::s8, AccumulatorType::s32},
    {MmaType::u8, MmaType::s8, AccumulatorType::s32},     {MmaType::u8, MmaType::u8, AccumulatorType::s32}};

Batch random_run(const Types& types, Random& random) {
  Batch run;
  WgmmaShape& shape = run.shape;
  shape.a_type = types.a;
  shape.b_type = types.b;
  shape.accumulator = types.accumulator;
  shape.n = 8 * (1 + random() % 32);
  if (is_integer(types.a) && shape.n > 32) {
    shape.n = shape.n / 16 * 16;
  }
  shape.a_in_registers = random() % 3 == 0;
  if (element_bytes(types.a) == 2) {
    shape.a_major = !shape.a_in_registers && random() % 2 ? MatrixMajor::mn_major : MatrixMajor::k_major;
    shape.b_major = random() % 2 ? MatrixMajor::mn_major : MatrixMajor::k_major;
  }
  if (!is_integer(types.a)) {
    shape.negate_a = random() % 4 == 0;
    shape.negate_b = random() % 4 == 0;
  }
  return run;
}

double exact_product(const Batch& run, unsigned step, unsigned row, unsigned column) {
  double sum = 0;
  for (unsigned k = 0; k < run.shape.k(); ++k) {
    sum += run.a[step].value(row, k) * run.b[step].value(column, k);
  }
  return run.shape.negate_a != run.shape.negate_b ? -sum : sum;
}

TEST(Wgmma, SmallIntegersAreExactInEveryTypeShapeAndLayout) {
  Random random(21);
  WgmmaEngine engine;
  for (int round = 0; round < 300; ++round) {
    Batch run = random_run(kTypes[static_cast<std::size_t>(round) % kTypes.size()], random);
    const WgmmaShape& shape = run.shape;
    ASSERT_TRUE(check_wgmma(shape).has_value());
    const unsigned steps = 1 + random() % (shape.n > 128 ? 2 : 5);
    for (unsigned i = 0; i < steps; ++i) {
      run.a.push_back(small_integers(shape.a_type, 64, shape.k(), random));
      run.b.push_back(small_integers(shape.b_type, shape.n, shape.k(), random));
      run.scale_d.push_back(random() % 4 != 0);
    }
    for (unsigned i = 0; i < 64 * shape.n; ++i) {
      run.c.push_back(static_cast<double>(random() % 201) - 100);
    }
    const unsigned mask = round % 2 ? 15 : 1 + random() % 15;
    ASSERT_NO_FATAL_FAILURE(execute(run, round % 3 ? MmaMode::fast : MmaMode::exact, random, engine, mask));
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < shape.n; ++column) {
        double expected = run.c[std::size_t{row} * shape.n + column];
        for (unsigned i = 0; i < steps && ((mask >> (row / 16)) & 1U); ++i) {
          expected = (run.scale_d[i] ? expected : 0) + exact_product(run, i, row, column);
        }
        ASSERT_EQ(run.result[std::size_t{row} * shape.n + column], expected)
            << "round " << round << " row " << row << " column " << column << " n " << shape.n;
      }
    }
  }
}

TEST(Wgmma, FastModeStaysWithinTheErrorBoundUnderCancellation) {
  Random random(22);
  WgmmaEngine engine;
  for (int round = 0; round < 24; ++round) {
    Batch run = random_run(kTypes[static_cast<std::size_t>(round % 4)], random);
    const WgmmaShape& shape = run.shape;
    const unsigned steps = 2;
    for (unsigned i = 0; i < steps; ++i) {
      run.a.push_back(spread_values(shape.a_type, 64, shape.k(), 12, random));
      run.b.push_back(spread_values(shape.b_type, shape.n, shape.k(), 12, random));
      run.scale_d.push_back(true);
    }
    // C cancels the first product, so the result is small against its terms.
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < shape.n; ++column) {
        const double c = -exact_product(run, 0, row, column);
        run.c.push_back(shape.accumulator == AccumulatorType::f16
                            ? decode_float(FloatFormat::f16, encode_float(FloatFormat::f16, c))
                            : static_cast<double>(static_cast<float>(c)));
      }
    }
    execute(run, MmaMode::fast, random, engine);
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < shape.n; ++column) {
        const std::size_t index = std::size_t{row} * shape.n + column;
        double expected = run.c[index];
        double magnitude = std::fabs(expected);
        for (unsigned i = 0; i < steps; ++i) {
          expected += exact_product(run, i, row, column);
          for (unsigned k = 0; k < shape.k(); ++k) {
            magnitude += std::fabs(run.a[i].value(row, k) * run.b[i].value(column, k));
          }
        }
        const double unit =
            shape.accumulator == AccumulatorType::f16 ? std::ldexp(1.0, -10) : std::ldexp(1.0, -24) * 33;
        ASSERT_NEAR(run.result[index], expected, magnitude * unit);
      }
    }
  }
}

TEST(Wgmma, ExactModeFollowsTheAlignmentRule) {
  Random random(23);
  WgmmaEngine engine;
  for (int round = 0; round < 36; ++round) {
    const Types types = kTypes[std::array{0U, 1U, 3U, 4U, 5U, 0U}[static_cast<std::size_t>(round % 6)]];
    Batch run = random_run(types, random);
    WgmmaShape& shape = run.shape;
    shape.negate_a = shape.negate_b = false;
    shape.n = std::min(shape.n, 64U);
    const int binades = std::array{2, 8, 30}[static_cast<std::size_t>(round / 6 % 3)];
    run.a.push_back(spread_values(shape.a_type, 64, shape.k(), binades, random));
    run.b.push_back(spread_values(shape.b_type, shape.n, shape.k(), binades, random));
    run.scale_d.push_back(true);
    for (unsigned i = 0; i < 64 * shape.n; ++i) {
      const double c =
          std::ldexp(static_cast<double>(random() % 2000001) - 1000000, static_cast<int>(random() % 40) - 40);
      run.c.push_back(static_cast<double>(static_cast<float>(c)));
    }
    execute(run, MmaMode::exact, random, engine);
    const bool fp8 = is_fp8(types.a);
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < shape.n; ++column) {
        std::vector<std::uint32_t> a(shape.k());
        std::vector<std::uint32_t> b(shape.k());
        for (unsigned k = 0; k < shape.k(); ++k) {
          a[k] = run.a[0].bit(row, k);
          b[k] = run.b[0].bit(column, k);
        }
        const std::size_t index = std::size_t{row} * shape.n + column;
        const float expected =
            aligned_dot(types.a, a, types.b, b, static_cast<float>(run.c[index]), fp8 ? 13 : 25, fp8 ? 13 : 23);
        ASSERT_EQ(run.result[index], static_cast<double>(expected)) << "round " << round;
      }
    }
  }
}

TEST(Wgmma, IntegersWrapOrSaturate) {
  Random random(24);
  WgmmaEngine engine;
  for (const bool saturate : {false, true}) {
    Batch run;
    run.shape.n = 32;
    run.shape.a_type = MmaType::u8;
    run.shape.b_type = MmaType::s8;
    run.shape.accumulator = AccumulatorType::s32;
    run.shape.saturate = saturate;
    for (int i = 0; i < 3; ++i) {
      run.a.push_back(spread_values(MmaType::u8, 64, 32, 1, random));
      run.b.push_back(spread_values(MmaType::s8, 32, 32, 1, random));
      run.scale_d.push_back(true);
    }
    for (unsigned i = 0; i < 64 * 32; ++i) {
      run.c.push_back(i % 2 ? 2147483647.0 - random() % 50000 : -2147483648.0 + static_cast<double>(random() % 50000));
    }
    execute(run, MmaMode::fast, random, engine);
    for (unsigned row = 0; row < 64; ++row) {
      for (unsigned column = 0; column < 32; ++column) {
        double expected = run.c[row * 32 + column];
        for (unsigned i = 0; i < 3; ++i) {
          expected += exact_product(run, i, row, column);
          if (saturate) {
            expected = std::clamp(expected, -2147483648.0, 2147483647.0);
          }
        }
        const auto wrapped = static_cast<std::int32_t>(static_cast<std::uint32_t>(static_cast<std::int64_t>(expected)));
        ASSERT_EQ(run.result[row * 32 + column], static_cast<double>(wrapped));
      }
    }
  }
}

TEST(Wgmma, SpecialValues) {
  Random random(25);
  WgmmaEngine engine;
  for (const MmaMode mode : {MmaMode::fast, MmaMode::exact}) {
    for (const Types& types : {kTypes[0], kTypes[1], kTypes[3], kTypes[5]}) {
      Batch run;
      run.shape.n = 8;
      run.shape.a_type = types.a;
      run.shape.b_type = types.b;
      run.a.push_back(small_integers(types.a, 64, run.shape.k(), random));
      run.b.push_back(small_integers(types.b, 8, run.shape.k(), random));
      run.scale_d = {true};
      run.c.assign(64 * 8, 1.0);
      const std::uint32_t infinity = types.b == MmaType::bf16   ? 0x7f80
                                     : types.b == MmaType::f16  ? 0x7c00
                                     : types.b == MmaType::e5m2 ? 0x7c
                                                                : 0x7f800000;
      run.b[0].bit(2, 3) = infinity;
      run.b[0].bit(5, 3) = infinity + (types.b == MmaType::tf32 ? 0x2000 : 1);  // NaN
      for (unsigned row = 0; row < 64; ++row) {
        run.a[0].value(row, 3) = row % 3 - 1.0;
        run.a[0].bit(row, 3) = encode_operand(types.a, row % 3 - 1.0);
      }
      execute(run, mode, random, engine);
      for (unsigned row = 0; row < 64; ++row) {
        EXPECT_TRUE(std::isnan(run.result[row * 8 + 5]));
        const double with_infinity = run.result[row * 8 + 2];
        if (row % 3 == 1) {
          EXPECT_TRUE(std::isnan(with_infinity));  // 0 * inf
        } else {
          EXPECT_EQ(with_infinity, row % 3 == 0 ? -INFINITY : INFINITY);
        }
        EXPECT_TRUE(std::isfinite(run.result[row * 8 + 1]));
      }
    }
  }
}

TEST(Wgmma, PackedBFollowsTheGeneration) {
  WgmmaShape shape;
  std::vector<std::byte> shared(kShared);
  const auto fill = [&](float value) {
    const std::uint16_t bits = f32_to_bf16_rn(value);
    for (std::size_t i = 0; i < 32768; i += 2) {
      std::memcpy(shared.data() + i, &bits, sizeof bits);
    }
  };
  Registers d(4);
  const std::uint64_t descriptor = MatrixDescriptor{0, 128, 256, 0, MatrixSwizzle::none}.encode();
  const WgmmaStep step{descriptor, descriptor, false};
  const WgmmaWarp warp{0, d.pointers.data(), nullptr};
  WgmmaEngine engine;
  const auto run = [&](std::uint64_t generation) {
    engine.execute(shape, {&step, 1}, {&warp, 1}, shared.data(), generation);
    return bits_to_f32(d.at(0, 0, 0));
  };
  fill(1);
  EXPECT_EQ(run(1), 16.0F);
  EXPECT_EQ(run(1), 16.0F);
  fill(2);
  EXPECT_EQ(run(2), 64.0F);
}

TEST(Wgmma, OnlyDefinedCombinations) {
  const auto refused = [](auto change) {
    WgmmaShape shape;
    change(shape);
    const auto checked = check_wgmma(shape);
    return checked ? std::string() : checked.error().message;
  };
  using ::testing::HasSubstr;
  EXPECT_EQ(refused([](WgmmaShape&) {}), "");
  EXPECT_THAT(refused([](WgmmaShape& s) { s.n = 12; }), HasSubstr("multiple of 8"));
  EXPECT_THAT(refused([](WgmmaShape& s) { s.n = 264; }), HasSubstr("256"));
  EXPECT_THAT(refused([](WgmmaShape& s) { s.b_type = MmaType::f16; }), HasSubstr("combined"));
  EXPECT_THAT(refused([](WgmmaShape& s) { s.accumulator = AccumulatorType::f16; }), HasSubstr("f16 accumulators"));
  EXPECT_THAT(refused([](WgmmaShape& s) { s.accumulator = AccumulatorType::s32; }), HasSubstr("s32"));
  EXPECT_THAT(refused([](WgmmaShape& s) { s.saturate = true; }), HasSubstr(".satfinite"));
  EXPECT_THAT(refused([](WgmmaShape& s) {
                s.a_type = s.b_type = MmaType::e4m3;
                s.b_major = MatrixMajor::mn_major;
              }),
              HasSubstr("MN-major"));
  EXPECT_THAT(refused([](WgmmaShape& s) {
                s.a_type = s.b_type = MmaType::s8;
                s.accumulator = AccumulatorType::s32;
                s.n = 40;
              }),
              HasSubstr("16"));
}

}  // namespace
}  // namespace ptxbench::emulator
