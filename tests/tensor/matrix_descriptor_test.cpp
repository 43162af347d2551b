#include "emulator/tensor/matrix_descriptor.h"

#include "emulator/tensor/operand_ranges.h"
#include "emulator/tensor/tensor_box.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace ptxbench::emulator {
namespace {

TEST(MatrixDescriptor, BitFields) {
  // Start 0x12340 >> 4, LBO 0x80 >> 4, SBO 0x400 >> 4, base offset 5, 128-byte swizzle (1 in bits 62..63).
  const std::uint64_t bits = 0x1234ULL | 0x8ULL << 16 | 0x40ULL << 32 | 5ULL << 49 | 1ULL << 62;
  const MatrixDescriptor d = MatrixDescriptor::decode(bits);
  EXPECT_EQ(d.start_address, 0x12340U);
  EXPECT_EQ(d.leading_offset, 0x80U);
  EXPECT_EQ(d.stride_offset, 0x400U);
  EXPECT_EQ(d.base_offset, 5U);
  EXPECT_EQ(d.swizzle, MatrixSwizzle::bytes128);
  EXPECT_EQ(d.encode(), bits);
  EXPECT_EQ(MatrixDescriptor::decode(2ULL << 62).swizzle, MatrixSwizzle::bytes64);
  EXPECT_EQ(MatrixDescriptor::decode(3ULL << 62).swizzle, MatrixSwizzle::bytes32);
}

constexpr std::uint32_t kShared = 1U << 18;

// Loads boxes of a row-major matrix whose element (r, c) holds the number r * columns + c, as TMA would.
struct TmaTile {
  unsigned rows;
  unsigned columns;
  unsigned size;  // bytes of an element: 2 or 4
  std::vector<std::byte> global = std::vector<std::byte>(std::size_t{rows} * columns * size);
  std::vector<std::byte> shared = std::vector<std::byte>(kShared);

  void load(TensorSwizzle swizzle, unsigned box_columns, unsigned first_column, std::uint32_t address) {
    for (unsigned i = 0; i < rows * columns; ++i) {
      std::memcpy(global.data() + std::size_t{i} * size, &i, size);
    }
    TensorMap map;
    map.data_type = size == 2 ? TensorDataType::u16 : TensorDataType::u32;
    map.rank = 2;
    map.global_dims = {columns, rows};
    map.global_strides = {std::uint64_t{columns} * size};
    map.box_dims = {static_cast<std::uint16_t>(box_columns), static_cast<std::uint16_t>(rows)};
    map.element_strides = {1, 1};
    map.swizzle = swizzle;
    load_box(map, {static_cast<int>(first_column), 0}, {shared.data(), kShared}, address, {global.data()});
  }
  unsigned at(std::uint32_t address) const {
    unsigned value = 0;
    std::memcpy(&value, shared.data() + address, size);
    return value;
  }
};

struct SwizzlePair {
  TensorSwizzle tma;
  MatrixSwizzle matrix;
  unsigned span;
};
constexpr SwizzlePair kSwizzles[] = {{TensorSwizzle::bytes32, MatrixSwizzle::bytes32, 32},
                                     {TensorSwizzle::bytes64, MatrixSwizzle::bytes64, 64},
                                     {TensorSwizzle::bytes128, MatrixSwizzle::bytes128, 128}};

TEST(MatrixLayout, KMajorSwizzledTilesAsTmaWritesThem) {
  for (const SwizzlePair& swizzle : kSwizzles) {
    for (const unsigned size : {2U, 4U}) {
      const unsigned row_elements = swizzle.span / size;
      TmaTile tile{64, row_elements, size};
      tile.load(swizzle.tma, row_elements, 0, 4096);
      const unsigned k_step = 32 / size;
      for (unsigned first_k = 0; first_k < row_elements; first_k += k_step) {
        const MatrixDescriptor descriptor{4096 + first_k * size, 16, 8 * swizzle.span, 0, swizzle.matrix};
        const MatrixLayout layout(descriptor, MatrixMajor::k_major, size);
        for (unsigned row = 0; row < 64; ++row) {
          for (unsigned k = 0; k < k_step; ++k) {
            ASSERT_EQ(tile.at(layout.address(row, k)), row * row_elements + first_k + k);
          }
        }
      }
    }
  }
}

TEST(MatrixLayout, KMajorWithoutSwizzle) {
  // One box per 16 bytes of k: columns of core matrices, LBO from one box to the next.
  TmaTile tile{64, 16, 2};
  tile.load(TensorSwizzle::none, 8, 0, 2048);
  tile.load(TensorSwizzle::none, 8, 8, 2048 + 64 * 16);
  const MatrixLayout layout({2048, 64 * 16, 128, 0, MatrixSwizzle::none}, MatrixMajor::k_major, 2);
  for (unsigned row = 0; row < 64; ++row) {
    for (unsigned k = 0; k < 16; ++k) {
      ASSERT_EQ(tile.at(layout.address(row, k)), row * 16 + k);
    }
  }
}

TEST(MatrixLayout, MnMajorTilesAsTmaWritesThem) {
  // Global memory is [k][mn]; each box holds one swizzle span of mn for 16 k.
  for (const SwizzlePair& swizzle : kSwizzles) {
    const unsigned box = swizzle.span / 2;
    const std::uint32_t box_bytes = 16 * swizzle.span;
    TmaTile tile{16, 128, 2};
    for (unsigned first = 0; first < 128; first += box) {
      tile.load(swizzle.tma, box, first, 8192 + first / box * box_bytes);
    }
    const MatrixLayout layout({8192, box_bytes, 8 * swizzle.span, 0, swizzle.matrix}, MatrixMajor::mn_major, 2);
    for (unsigned mn = 0; mn < 128; ++mn) {
      for (unsigned k = 0; k < 16; ++k) {
        ASSERT_EQ(tile.at(layout.address(mn, k)), k * 128 + mn) << swizzle.span;
      }
    }
  }
}

TEST(MatrixLayout, MnMajorWithoutSwizzle) {
  TmaTile tile{16, 64, 2};
  for (unsigned first = 0; first < 64; first += 8) {  // SBO between groups of eight mn, LBO between groups of eight k
    tile.load(TensorSwizzle::none, 8, first, 1024 + first / 8 * 256);
  }
  const MatrixLayout layout({1024, 128, 256, 0, MatrixSwizzle::none}, MatrixMajor::mn_major, 2);
  for (unsigned mn = 0; mn < 64; ++mn) {
    for (unsigned k = 0; k < 16; ++k) {
      ASSERT_EQ(tile.at(layout.address(mn, k)), k * 64 + mn);
    }
  }
}

TEST(MatrixLayout, BaseOffsetMovesThePattern) {
  // A tile whose pattern starts 256 bytes late: bits 7..9 of its addresses are two ahead of its rows.
  const MatrixLayout aligned({0x800, 16, 1024, 0, MatrixSwizzle::bytes128}, MatrixMajor::k_major, 2);
  const MatrixLayout shifted({0x900, 16, 1024, 2, MatrixSwizzle::bytes128}, MatrixMajor::k_major, 2);
  for (unsigned row = 0; row < 64; ++row) {
    for (unsigned k = 0; k < 16; ++k) {
      ASSERT_EQ(shifted.address(row, k), aligned.address(row, k) + 0x100);
    }
  }
}

TEST(MatrixLayout, AddressesWrapAt18Bits) {
  const MatrixLayout layout({0x3fc00, 16, 1024, 0, MatrixSwizzle::none}, MatrixMajor::k_major, 2);
  EXPECT_EQ(layout.address(8, 0), 0U);
}

TEST(MatrixDescriptor, ReservedBits) {
  const MatrixDescriptor full{0x3fff0, 0x3fff0, 0x3fff0, 7, MatrixSwizzle::bytes32};
  EXPECT_EQ(MatrixDescriptor::reserved_bits(full.encode()), 0U);
  EXPECT_EQ(MatrixDescriptor::reserved_bits(1ULL << 46), 1ULL << 46);  // the constant of tcgen05 descriptors
}

std::uint64_t swizzled_step(std::uint32_t address) {
  return MatrixDescriptor{address, 16, 1024, 0, MatrixSwizzle::bytes128}.encode();
}

TEST(OperandRanges, MergesWhatTouches) {
  // K-major, 128-byte swizzle, one k-step: 32 bytes of every 128-byte row, chunks permuted.
  const std::uint64_t one[] = {swizzled_step(1024)};
  std::uint32_t bytes = 0;
  for (const SharedRange& range : operand_ranges({.descriptors = one, .mn = 8})) {
    bytes += range.bytes;
    EXPECT_EQ(range.address % 16, 0U);
    EXPECT_GE(range.address, 1024U);
    EXPECT_LE(range.address + range.bytes, 2048U);
  }
  EXPECT_EQ(bytes, 8U * 32);
  // The four k-steps of a tile read all of it.
  const std::uint64_t four[] = {swizzled_step(1024), swizzled_step(1056), swizzled_step(1088), swizzled_step(1120)};
  EXPECT_EQ(operand_ranges({.descriptors = four, .mn = 128}), (std::vector<SharedRange>{{1024, 16384}}));
  // The rows of one warp of a warpgroup.
  EXPECT_EQ(operand_ranges({.descriptors = four, .mn = 16, .first = 32}),
            (std::vector<SharedRange>{{1024 + 4096, 2048}}));
}

}  // namespace
}  // namespace ptxbench::emulator
