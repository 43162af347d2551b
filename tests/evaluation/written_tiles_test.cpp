#include <gtest/gtest.h>

#include "evaluation/run_judge.h"
#include "problem/comparison.h"

namespace ptxbench::evaluation {
namespace {

problem::Tensor poisoned(std::int64_t rows, std::int64_t columns) {
  auto tensor = problem::Tensor::create("C", problem::Dtype::bfloat16, {rows, columns});
  problem::fill_poison(*tensor);
  return std::move(*tensor);
}

void write(problem::Tensor& tensor, std::int64_t row_begin, std::int64_t row_end, std::int64_t column_begin,
           std::int64_t column_end) {
  const auto columns = static_cast<std::int64_t>(tensor.row_length());
  for (std::int64_t row = row_begin; row < row_end; ++row) {
    for (std::int64_t column = column_begin; column < column_end; ++column) {
      tensor.as<std::uint16_t>()[static_cast<std::size_t>(row * columns + column)] = 0x3f80;
    }
  }
}

bool same(const problem::Tile& tile, std::int64_t row_begin, std::int64_t row_end, std::int64_t column_begin,
          std::int64_t column_end) {
  return tile.row_begin == row_begin && tile.row_end == row_end && tile.column_begin == column_begin &&
         tile.column_end == column_end;
}

TEST(WrittenTiles, NothingAndEverything) {
  problem::Tensor tensor = poisoned(5, 12);
  EXPECT_TRUE(written_tiles(tensor)->empty());
  write(tensor, 0, 5, 0, 12);
  const auto tiles = written_tiles(tensor);
  ASSERT_EQ(tiles->size(), 1u);
  EXPECT_TRUE(same((*tiles)[0], 0, 5, 0, 12));
}

TEST(WrittenTiles, SeparateRectangles) {
  problem::Tensor tensor = poisoned(10, 20);
  write(tensor, 0, 4, 0, 8);
  write(tensor, 0, 4, 12, 20);
  write(tensor, 6, 10, 3, 5);
  const auto tiles = written_tiles(tensor);
  ASSERT_EQ(tiles->size(), 3u);
  EXPECT_TRUE(same((*tiles)[0], 0, 4, 0, 8));
  EXPECT_TRUE(same((*tiles)[1], 0, 4, 12, 20));
  EXPECT_TRUE(same((*tiles)[2], 6, 10, 3, 5));
}

TEST(WrittenTiles, AChangeOfWidthStartsAnotherTile) {
  problem::Tensor tensor = poisoned(4, 8);
  write(tensor, 0, 2, 0, 8);
  write(tensor, 2, 4, 0, 4);
  const auto tiles = written_tiles(tensor);
  ASSERT_EQ(tiles->size(), 2u);
  EXPECT_TRUE(same((*tiles)[0], 0, 2, 0, 8));
  EXPECT_TRUE(same((*tiles)[1], 2, 4, 0, 4));
}

TEST(WrittenTiles, GivesUpOnScatteredElements) {
  problem::Tensor tensor = poisoned(8, 64);
  for (std::int64_t row = 0; row < 8; ++row) {
    for (std::int64_t column = row % 2; column < 64; column += 2) write(tensor, row, row + 1, column, column + 1);
  }
  EXPECT_FALSE(written_tiles(tensor, 100));
  EXPECT_EQ(written_tiles(tensor)->size(), 8u * 32);
}

}  // namespace
}  // namespace ptxbench::evaluation
