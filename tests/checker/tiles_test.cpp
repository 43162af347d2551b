// What tensor copies wrote and how a wgmma descriptor may walk through it: right walks are never a mismatch.
#include "checker/tiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ptxbench::checker {
namespace {

using Layout = Tiles::Layout;
using ::testing::HasSubstr;

constexpr uint64_t kTile = 8192;
constexpr uint64_t kMap = 1 << 20;

Layout box(uint32_t swizzle, uint32_t row_bytes, uint32_t rows, uint32_t planes = 1) {
  Layout layout;
  layout.swizzle_bytes = swizzle;
  layout.row_bytes = row_bytes;
  layout.box[0] = row_bytes / 2;
  layout.box[1] = rows;
  layout.box[2] = planes;
  return layout;
}

/// A 64 x 16 operand of 16-bit elements.
Layout operand(uint64_t start, uint32_t swizzle, uint32_t stride_offset, uint32_t leading_offset = 16) {
  Layout layout;
  layout.start = start;
  layout.swizzle_bytes = swizzle;
  layout.stride_offset = stride_offset;
  layout.leading_offset = leading_offset;
  layout.mn = 64;
  layout.k = 16;
  layout.element_bytes = 2;
  return layout;
}

std::string problem(Tiles& tiles, const Layout& wanted) {
  const auto mismatch = tiles.check(wanted);
  return mismatch ? mismatch->message : "";
}

TEST(Tiles, WalksAlongARowAndDown) {
  for (const uint32_t swizzle : {32u, 64u, 128u}) {
    Tiles tiles;
    tiles.copied(kTile, 128 * swizzle, box(swizzle, swizzle, 128), kMap, 1);
    for (uint32_t row = 0; row <= 64; row += 8) {
      for (uint32_t k = 0; k < swizzle; k += 32)
        EXPECT_EQ(problem(tiles, operand(kTile + row * swizzle + k, swizzle, 8 * swizzle)), "");
    }
    EXPECT_THAT(problem(tiles, operand(kTile + swizzle - 16, swizzle, 8 * swizzle)), HasSubstr("the next row"));
    EXPECT_THAT(problem(tiles, operand(kTile, swizzle, 4 * swizzle)), HasSubstr("read twice"));
    EXPECT_THAT(problem(tiles, operand(kTile, swizzle, 0)), HasSubstr("read twice"));
    EXPECT_THAT(problem(tiles, operand(kTile, swizzle, 8 * swizzle + 16)), HasSubstr("at other columns"));
    // Every second group of eight rows is an order, too.
    EXPECT_EQ(problem(tiles, operand(kTile, swizzle, 16 * swizzle)), "");
  }
}

TEST(Tiles, RunsOverTheEnd) {
  Tiles tiles;
  tiles.copied(kTile, 64 * 128, box(128, 128, 64), kMap, 1);
  EXPECT_THAT(problem(tiles, operand(kTile + 128, 128, 1024)), HasSubstr("runs over its end"));
  // Rows of zeros, or of another box, may follow where whole groups of eight do.
  EXPECT_EQ(problem(tiles, operand(kTile + 8 * 128, 128, 1024)), "");
  // Stored rows may follow.
  tiles.written(kTile + 64 * 128, 128);
  EXPECT_EQ(problem(tiles, operand(kTile + 128, 128, 1024)), "");
  // The next box of the same columns continues the tile, the next one along the row does not.
  for (const int dimension : {0, 1}) {
    Layout next = box(128, 128, 64);
    next.origin[dimension] = 64;
    tiles.copied(kTile + 64 * 128, 64 * 128, next, kMap, 2);
    EXPECT_EQ(problem(tiles, operand(kTile + 128, 128, 1024)).empty(), dimension == 1);
  }
  Layout next = box(128, 128, 64);
  next.origin[1] = 64;
  tiles.copied(kTile + 64 * 128, 64 * 128, next, kMap + 128, 2);
  EXPECT_THAT(problem(tiles, operand(kTile + 128, 128, 1024)), HasSubstr("runs over its end"));
}

TEST(Tiles, JudgesOnlyWhatOneCopyWrote) {
  Tiles tiles;
  const Layout wrong = operand(kTile, 128, 512);
  EXPECT_EQ(problem(tiles, wrong), "");
  tiles.copied(kTile, 64 * 128, box(128, 128, 64), kMap, 7);
  ASSERT_TRUE(tiles.check(wrong).has_value());
  EXPECT_EQ(tiles.check(wrong)->copy_site, 7u);
  Layout shifted = wrong;
  shifted.base_offset = 1;
  EXPECT_EQ(problem(tiles, shifted), "");
  tiles.written(kTile + 256, 4);
  EXPECT_EQ(problem(tiles, wrong), "");
  tiles.copied(kTile, 64 * 128, box(128, 128, 64), kMap, 7);
  EXPECT_NE(problem(tiles, wrong), "");
  // Half of the tile is written anew under another swizzle: the rest of it is no tile any more.
  tiles.copied(kTile, 32 * 64, box(64, 64, 32), kMap, 8);
  EXPECT_EQ(problem(tiles, wrong), "");
  EXPECT_EQ(problem(tiles, operand(kTile + 32 * 128, 128, 512)), "");
  EXPECT_NE(problem(tiles, operand(kTile, 64, 256)), "");
  // Rows shorter than their lines leave gaps.
  tiles.copied(kTile, 64 * 128, box(128, 64, 64), kMap, 9);
  EXPECT_EQ(problem(tiles, wrong), "");
}

TEST(Tiles, TransposedOperands) {
  // 64 k-steps of 32 elements a box, two boxes side by side.
  Tiles tiles;
  for (const uint32_t column : {0u, 1u}) {
    Layout half = box(64, 64, 64);
    half.origin[0] = static_cast<int32_t>(32 * column);
    tiles.copied(kTile + column * 4096, 4096, half, kMap, 1);
  }
  Layout right = operand(kTile, 64, 512, 4096);
  right.mn_major = true;
  EXPECT_EQ(problem(tiles, right), "");
  Layout swapped = right;
  std::swap(swapped.stride_offset, swapped.leading_offset);
  EXPECT_THAT(problem(tiles, swapped), HasSubstr("another row of the same box"));
  Layout forgotten = right;
  forgotten.leading_offset = 0;
  EXPECT_THAT(problem(tiles, forgotten), HasSubstr("another row of the same box"));
  // In one box of three dimensions the other half is the next plane.
  tiles.copied(kTile, 8192, box(64, 64, 64, 2), kMap, 2);
  EXPECT_EQ(problem(tiles, right), "");
  EXPECT_NE(problem(tiles, swapped), "");
}

TEST(Tiles, WithoutASwizzle) {
  // Columns of eight elements, 64 rows each.
  Tiles tiles;
  tiles.copied(kTile, 8 * 1024, box(0, 16, 64, 8), kMap, 1);
  EXPECT_EQ(problem(tiles, operand(kTile, 0, 128, 1024)), "");
  EXPECT_EQ(problem(tiles, operand(kTile + 2048, 0, 128, 1024)), "");
  EXPECT_THAT(problem(tiles, operand(kTile, 0, 1024, 128)), HasSubstr("another row of the same box"));
  EXPECT_THAT(problem(tiles, operand(kTile, 0, 64, 1024)), HasSubstr("read twice"));
  // Rows of more than 16 bytes may hold core matrices as they are.
  tiles.copied(kTile, 8 * 1024, box(0, 128, 64), kMap, 1);
  EXPECT_EQ(problem(tiles, operand(kTile, 0, 64, 1024)), "");
}

}  // namespace
}  // namespace ptxbench::checker
