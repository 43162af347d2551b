#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "problem/random.h"
#include "problem/tensor.h"

namespace ptxbench::problem {

/// What the elements of a matrix are multiplied by, one factor for each block of `rows` x `columns` elements; blocks at
/// the far edges may be partial. Where an element's significand and its factor's have at most 24 bits together, as
/// those of e4m3 and derived scale factors do, the product is exact.
struct BlockScales {
  std::int64_t rows = 1, columns = 1;
  std::int64_t across = 1;     ///< blocks along a row
  std::vector<float> factors;  ///< [block row][block column]

  float at(std::int64_t row, std::int64_t column) const {
    return factors[static_cast<std::size_t>(row / rows * across + column / columns)];
  }
};

/// A matrix whose rows are the reduction dimension, in memory or made on demand: a sampled run of a big problem needs
/// few of its rows.
class MatrixRows {
 public:
  MatrixRows(const void* data, Dtype dtype, std::int64_t rows, std::int64_t columns)
      : data_(data), dtype_(dtype), rows_(rows), columns_(columns) {}
  MatrixRows(const RandomTensor& random, std::int64_t rows, std::int64_t columns)
      : random_(random), dtype_(random.dtype), rows_(rows), columns_(columns) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  Dtype dtype() const { return dtype_; }
  /// Null: none.
  const BlockScales* scales() const { return scales_.get(); }
  /// The same matrix times these factors, instead of those that it has.
  MatrixRows scaled(std::shared_ptr<const BlockScales> scales) const;
  /// Elements [first, first + count) of a row, widened and scaled.
  void read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const;

 private:
  void read_unscaled(std::uint64_t element, std::int64_t count, float* out) const;

  const void* data_ = nullptr;
  RandomTensor random_;
  Dtype dtype_;
  std::int64_t rows_, columns_;
  std::shared_ptr<const BlockScales> scales_;
};

/// Rows [row_begin, row_end) and columns [column_begin, column_end) of a matrix.
struct Tile {
  std::int64_t row_begin = 0, row_end = 0, column_begin = 0, column_end = 0;
};

/// out[m, n] = sum over k of a[m, k] * b[n, k], for the tiles given; other elements of `out` (a.rows() x b.rows()) stay
/// as they are. fp32 fused multiply-adds in chains of at most 256, the chains added in fp64: against exact arithmetic
/// the error is below about 256 * 2^-24 of the sum of the absolute products, in practice near 1e-6 of a row's rms.
void gemm_nt_truth(const MatrixRows& a, const MatrixRows& b, std::span<const Tile> tiles, float* out, int threads = 0);

/// The same in fp64 throughout, slowly.
void gemm_nt_truth_fp64(const MatrixRows& a, const MatrixRows& b, std::span<const Tile> tiles, double* out,
                        int threads = 0);

}  // namespace ptxbench::problem
