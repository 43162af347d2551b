#include "emulator/tensor/mma_sync.h"

#include "logical_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

namespace ptxbench::emulator {
namespace {

using Type = MmaSyncType;

unsigned bits_of(Type type) {
  switch (type) {
    case Type::tf32:
      return 32;
    case Type::f16:
    case Type::bf16:
      return 16;
    case Type::s4:
    case Type::u4:
      return 4;
    case Type::b1:
      return 1;
    default:
      return 8;
  }
}

MmaType scalar_type(Type type) {
  switch (type) {
    case Type::f16:
      return MmaType::f16;
    case Type::bf16:
      return MmaType::bf16;
    case Type::tf32:
      return MmaType::tf32;
    case Type::e4m3:
      return MmaType::e4m3;
    case Type::e5m2:
      return MmaType::e5m2;
    case Type::s8:
      return MmaType::s8;
    default:
      return MmaType::u8;
  }
}

struct Fragment {
  std::array<std::array<std::uint32_t, 32>, 8> lanes{};
  std::array<std::uint32_t*, 8> pointers{};
  Fragment() {
    for (std::size_t i = 0; i < pointers.size(); ++i) {
      pointers[i] = lanes[i].data();
    }
  }
};

// PTX ISA figures of the mma fragments, as formulas: register i of thread (g, t) = (lane/4, lane%4) holds, for A, row g
// (i even) or g+8 (i odd; m8 has no odd ones) and 32 bits of k starting at t*(32/bits), 4*(32/bits) further per pair.
void put_a(Fragment& fragment, unsigned m, Type type, unsigned row, unsigned k, std::uint32_t value) {
  const unsigned per = 32 / bits_of(type);
  const unsigned reg = m == 16 ? k / (4 * per) * 2 + row / 8 : k / (4 * per);
  fragment.lanes[reg][row % 8 * 4 + k % (4 * per) / per] |= value << (k % per * bits_of(type));
}

void put_b(Fragment& fragment, Type type, unsigned k, unsigned column, std::uint32_t value) {
  const unsigned per = 32 / bits_of(type);
  fragment.lanes[k / (4 * per)][column * 4 + k % (4 * per) / per] |= value << (k % per * bits_of(type));
}

struct Operand {
  std::uint32_t bits;
  double value;
};

Operand random_operand(Type type, Random& random) {
  const std::uint32_t r = random();
  switch (type) {
    case Type::s4:
      return {r & 15U, static_cast<double>(static_cast<int>(r & 15U) - (r & 8U ? 16 : 0))};
    case Type::u4:
      return {r & 15U, static_cast<double>(r & 15U)};
    case Type::b1:
      return {r & 1U, static_cast<double>(r & 1U)};
    case Type::s8:
      return {r & 255U, static_cast<double>(static_cast<std::int8_t>(r))};
    case Type::u8:
      return {r & 255U, static_cast<double>(r & 255U)};
    default: {
      const double value = static_cast<double>(r % 9) - 4;
      return {encode_operand(scalar_type(type), value), value};
    }
  }
}

struct Case {
  unsigned m;
  unsigned k;
  Type a;
  Type b;
  AccumulatorType accumulator;
  bool saturate = false;
};

const std::vector<Case> kCases = {
    {16, 16, Type::f16, Type::f16, AccumulatorType::f32},   {16, 8, Type::f16, Type::f16, AccumulatorType::f32},
    {16, 16, Type::f16, Type::f16, AccumulatorType::f16},   {16, 8, Type::f16, Type::f16, AccumulatorType::f16},
    {16, 16, Type::bf16, Type::bf16, AccumulatorType::f32}, {16, 8, Type::bf16, Type::bf16, AccumulatorType::f32},
    {16, 8, Type::tf32, Type::tf32, AccumulatorType::f32},  {16, 4, Type::tf32, Type::tf32, AccumulatorType::f32},
    {16, 32, Type::e4m3, Type::e5m2, AccumulatorType::f32}, {16, 16, Type::e5m2, Type::e4m3, AccumulatorType::f32},
    {16, 32, Type::s8, Type::u8, AccumulatorType::s32},     {16, 16, Type::u8, Type::u8, AccumulatorType::s32, true},
    {8, 16, Type::s8, Type::s8, AccumulatorType::s32},      {16, 64, Type::s4, Type::u4, AccumulatorType::s32},
    {16, 32, Type::u4, Type::s4, AccumulatorType::s32},     {8, 32, Type::s4, Type::s4, AccumulatorType::s32, true},
    {16, 256, Type::b1, Type::b1, AccumulatorType::s32},    {16, 128, Type::b1, Type::b1, AccumulatorType::s32},
    {8, 128, Type::b1, Type::b1, AccumulatorType::s32}};

TEST(MmaSync, EveryShapeMatchesTheMatrixProduct) {
  Random random(31);
  MmaSyncEngine engine;
  for (int round = 0; round < 400; ++round) {
    const Case& test = kCases[static_cast<std::size_t>(round) % kCases.size()];
    MmaSyncShape shape;
    shape.m = test.m;
    shape.k = test.k;
    shape.a_type = test.a;
    shape.b_type = test.b;
    shape.accumulator = test.accumulator;
    shape.saturate = test.saturate;
    shape.bit_operation = round / 20 % 2 ? MmaBitOperation::bit_and : MmaBitOperation::bit_xor;
    ASSERT_TRUE(check_mma_sync(shape).has_value());
    Fragment a;
    Fragment b;
    Fragment c;
    std::vector<Operand> av(std::size_t{test.m} * test.k);
    std::vector<Operand> bv(std::size_t{8} * test.k);
    for (unsigned k = 0; k < test.k; ++k) {
      for (unsigned row = 0; row < test.m; ++row) {
        av[row * test.k + k] = random_operand(test.a, random);
        put_a(a, test.m, test.a, row, k, av[row * test.k + k].bits);
      }
      for (unsigned column = 0; column < 8; ++column) {
        bv[column * test.k + k] = random_operand(test.b, random);
        put_b(b, test.b, k, column, bv[column * test.k + k].bits);
      }
    }
    std::vector<double> expected(std::size_t{test.m} * 8);
    for (unsigned row = 0; row < test.m; ++row) {
      for (unsigned column = 0; column < 8; ++column) {
        const double start =
            test.saturate && column % 2 ? 2147483647.0 - random() % 100 : static_cast<double>(random() % 201) - 100;
        const unsigned lane = row % 8 * 4 + column / 2;
        if (test.accumulator == AccumulatorType::f16) {
          c.lanes[row / 8][lane] |= encode_float(FloatFormat::f16, start) << (16 * (column % 2));
        } else {
          c.lanes[row / 8 * 2 + column % 2][lane] = test.accumulator == AccumulatorType::s32
                                                        ? static_cast<std::uint32_t>(static_cast<std::int32_t>(start))
                                                        : f32_to_bits(static_cast<float>(start));
        }
        double sum = start;
        for (unsigned k = 0; k < test.k; ++k) {
          const double x = av[row * test.k + k].value;
          const double y = bv[column * test.k + k].value;
          sum += test.a != Type::b1                                ? x * y
                 : shape.bit_operation == MmaBitOperation::bit_and ? x * y
                                                                   : (x != y ? 1 : 0);
        }
        expected[row * 8 + column] = test.saturate ? std::clamp(sum, -2147483648.0, 2147483647.0) : sum;
      }
    }
    const bool in_place = round % 2 != 0;
    Fragment separate;
    Fragment& d = in_place ? c : separate;
    engine.execute(shape, a.pointers.data(), b.pointers.data(), c.pointers.data(), d.pointers.data(),
                   round / 3 % 2 ? MmaMode::fast : MmaMode::exact);
    for (unsigned row = 0; row < test.m; ++row) {
      for (unsigned column = 0; column < 8; ++column) {
        const unsigned lane = row % 8 * 4 + column / 2;
        double result = 0;
        if (test.accumulator == AccumulatorType::f16) {
          result = decode_float(FloatFormat::f16, d.lanes[row / 8][lane] >> (16 * (column % 2)) & 0xffffU);
        } else {
          const std::uint32_t word = d.lanes[row / 8 * 2 + column % 2][lane];
          result = test.accumulator == AccumulatorType::s32 ? static_cast<double>(static_cast<std::int32_t>(word))
                                                            : static_cast<double>(bits_to_f32(word));
        }
        ASSERT_EQ(result, expected[row * 8 + column]) << "case " << round % static_cast<int>(kCases.size());
      }
    }
  }
}

TEST(MmaSync, RegisterCounts) {
  const auto counts = [](unsigned m, unsigned k, Type type, AccumulatorType accumulator) {
    const MmaSyncShape shape{m, k, type, type, accumulator};
    return std::array{shape.a_registers(), shape.b_registers(), shape.c_registers()};
  };
  EXPECT_EQ(counts(16, 16, Type::f16, AccumulatorType::f32), (std::array{4U, 2U, 4U}));
  EXPECT_EQ(counts(16, 8, Type::bf16, AccumulatorType::f32), (std::array{2U, 1U, 4U}));
  EXPECT_EQ(counts(16, 16, Type::f16, AccumulatorType::f16), (std::array{4U, 2U, 2U}));
  EXPECT_EQ(counts(16, 4, Type::tf32, AccumulatorType::f32), (std::array{2U, 1U, 4U}));
  EXPECT_EQ(counts(8, 16, Type::s8, AccumulatorType::s32), (std::array{1U, 1U, 2U}));
  EXPECT_EQ(counts(16, 256, Type::b1, AccumulatorType::s32), (std::array{4U, 2U, 4U}));
}

TEST(MmaSync, RefusesWhatIsNotDefined) {
  using ::testing::HasSubstr;
  const auto message = [](MmaSyncShape shape) {
    const auto checked = check_mma_sync(shape);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_THAT(message({8, 4, Type::f16, Type::f16}), HasSubstr("unsupported: mma.sync m8n8k4"));
  EXPECT_THAT(message({16, 32, Type::f16, Type::f16}), HasSubstr("unsupported"));
  EXPECT_THAT(message({16, 16, Type::f16, Type::bf16}), HasSubstr("combined"));
  EXPECT_THAT(message({16, 16, Type::bf16, Type::bf16, AccumulatorType::f16}), HasSubstr("f16 accumulators"));
  EXPECT_THAT(message({16, 16, Type::f16, Type::f16, AccumulatorType::f32, true}), HasSubstr(".satfinite"));
  EXPECT_THAT(message({16, 32, Type::s8, Type::s8, AccumulatorType::f32}), HasSubstr("s32"));
  EXPECT_FALSE(check_mma_sync_f64(8, 8).has_value());
}

TEST(MmaSync, F64IsAChainOfFusedMultiplyAdds) {
  Random random(32);
  const auto any = [&] {
    return std::ldexp(static_cast<double>(static_cast<std::int32_t>(random())), static_cast<int>(random() % 20) - 40);
  };
  for (const auto& [m, k] : {std::pair{8U, 4U}, {16U, 4U}, {16U, 8U}, {16U, 16U}}) {
    std::array<std::array<double, 32>, 8> a;
    std::array<std::array<double, 32>, 4> b;
    std::array<std::array<double, 32>, 4> c;
    std::vector<double> av(std::size_t{m} * k);
    std::vector<double> bv(std::size_t{8} * k);
    for (unsigned i = 0; i < k; ++i) {
      for (unsigned row = 0; row < m; ++row) {
        av[row * k + i] = any();
        a[i / 4 * (m / 8) + row / 8][row % 8 * 4 + i % 4] = av[row * k + i];
      }
      for (unsigned column = 0; column < 8; ++column) {
        bv[column * k + i] = any();
        b[i / 4][column * 4 + i % 4] = bv[column * k + i];
      }
    }
    for (auto& reg : c) {
      std::generate(reg.begin(), reg.end(), any);
    }
    const auto before = c;
    std::array<const double*, 8> ap;
    std::array<const double*, 4> bp;
    std::array<double*, 4> cp;
    std::transform(a.begin(), a.end(), ap.begin(), [](auto& reg) { return reg.data(); });
    std::transform(b.begin(), b.end(), bp.begin(), [](auto& reg) { return reg.data(); });
    std::transform(c.begin(), c.end(), cp.begin(), [](auto& reg) { return reg.data(); });
    mma_sync_f64(m, k, ap.data(), bp.data(), cp.data(), cp.data());
    for (unsigned row = 0; row < m; ++row) {
      for (unsigned column = 0; column < 8; ++column) {
        const unsigned reg = row / 8 * 2 + column % 2;
        const unsigned lane = row % 8 * 4 + column / 2;
        double expected = before[reg][lane];
        for (unsigned i = 0; i < k; ++i) {
          expected = std::fma(av[row * k + i], bv[column * k + i], expected);
        }
        ASSERT_EQ(c[reg][lane], expected);
      }
    }
  }
}

TEST(Ldmatrix, MovesElementsToTheirLanes) {
  std::array<std::array<std::uint16_t, 8>, 8> matrix;
  std::array<const std::byte*, 8> rows;
  for (unsigned row = 0; row < 8; ++row) {
    for (unsigned column = 0; column < 8; ++column) {
      matrix[row][column] = static_cast<std::uint16_t>(16 * row + column);
    }
    rows[row] = reinterpret_cast<const std::byte*>(matrix[row].data());
  }
  std::array<std::uint32_t, 32> lanes;
  ldmatrix_b16(rows.data(), false, lanes.data());
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned first = 16 * (lane / 4) + 2 * (lane % 4);
    ASSERT_EQ(lanes[lane], first | (first + 1) << 16);
  }
  ldmatrix_b16(rows.data(), true, lanes.data());
  for (unsigned lane = 0; lane < 32; ++lane) {
    const unsigned first = 16 * 2 * (lane % 4) + lane / 4;
    ASSERT_EQ(lanes[lane], first | (first + 16) << 16);
  }
  std::array<std::array<std::uint16_t, 8>, 8> copy{};
  std::array<std::byte*, 8> targets;
  std::transform(copy.begin(), copy.end(), targets.begin(),
                 [](auto& row) { return reinterpret_cast<std::byte*>(row.data()); });
  stmatrix_b16(lanes.data(), true, targets.data());
  EXPECT_EQ(copy, matrix);
  ldmatrix_b16(rows.data(), false, lanes.data());
  copy = {};
  stmatrix_b16(lanes.data(), false, targets.data());
  EXPECT_EQ(copy, matrix);
  std::array<std::uint32_t, 32> transposed;
  ldmatrix_b16(rows.data(), true, transposed.data());
  movmatrix_b16(lanes.data(), lanes.data());
  EXPECT_EQ(lanes, transposed);
}

}  // namespace
}  // namespace ptxbench::emulator
