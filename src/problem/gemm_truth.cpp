#include "problem/gemm_truth.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "problem/aligned_floats.h"
#include "problem/micro_kernel.h"
#include "problem/parallel.h"

namespace ptxbench::problem {
namespace {

constexpr std::int64_t kChain = 256;         // elements of K whose products are summed in fp32
constexpr std::int64_t kPitch = kChain + 8;  // of a widened row of A, so that rows start in different cache sets
constexpr std::int64_t kRowsA = kMicroRows;
constexpr std::int64_t kRowsB = kMicroColumns;
constexpr std::int64_t kBlockM = 192;  // rows of A widened together: half of a level-2 cache
constexpr std::int64_t kMaxBlockN = 512;
constexpr std::int64_t kSuperM = 2 * kBlockM;  // rows of A for which one packed block of B is used

/// Sixteen rows of B, `kChain` long each, to [k][16].
void pack_columns(const float* rows, std::int64_t depth, float* out) {
  // Square pieces keep both sides in the level-1 cache.
  for (std::int64_t k0 = 0; k0 < depth; k0 += 16) {
    const std::int64_t end = std::min(depth, k0 + 16);
    for (std::int64_t row = 0; row < kRowsB; ++row) {
      for (std::int64_t k = k0; k < end; ++k) out[k * kRowsB + row] = rows[row * kPitch + k];
    }
  }
}

/// Part of a tile that one thread computes.
void compute_part(const MatrixRows& a, const MatrixRows& b, const Tile& part, float* out) {
  const auto kernel = micro_kernels().add_fp64;
  const std::int64_t depth = a.columns();
  const std::int64_t rows = part.row_end - part.row_begin;
  const std::int64_t columns = part.column_end - part.column_begin;
  const std::int64_t padded_rows = round_up(rows, kRowsA);
  const std::int64_t padded_columns = round_up(columns, kRowsB);
  AlignedFloats packed_b(padded_columns * kChain);
  AlignedFloats wide_a(round_up(kBlockM, kRowsA) * kPitch);
  AlignedFloats wide_b(kRowsB * kPitch);
  std::vector<double> sums(static_cast<std::size_t>(padded_rows * padded_columns), 0.0);
  for (std::int64_t k0 = 0; k0 < depth; k0 += kChain) {
    const std::int64_t chain = std::min(kChain, depth - k0);
    for (std::int64_t column = 0; column < padded_columns; column += kRowsB) {
      for (std::int64_t i = 0; i < kRowsB; ++i) {
        float* row = wide_b.get() + i * kPitch;
        if (column + i < columns) {
          b.read(part.column_begin + column + i, k0, chain, row);
        } else {
          std::fill(row, row + chain, 0.0f);
        }
      }
      pack_columns(wide_b.get(), chain, packed_b.get() + column * kChain);
    }
    for (std::int64_t row0 = 0; row0 < padded_rows; row0 += kBlockM) {
      const std::int64_t block = std::min(kBlockM, padded_rows - row0);
      for (std::int64_t i = 0; i < block; ++i) {
        float* row = wide_a.get() + i * kPitch;
        if (row0 + i < rows) {
          a.read(part.row_begin + row0 + i, k0, chain, row);
        } else {
          std::fill(row, row + chain, 0.0f);
        }
      }
      for (std::int64_t column = 0; column < padded_columns; column += kRowsB) {
        for (std::int64_t i = 0; i < block; i += kRowsA) {
          kernel({wide_a.get() + i * kPitch, kPitch, packed_b.get() + column * kChain, kRowsB, chain},
                 sums.data() + (row0 + i) * padded_columns + column, padded_columns);
        }
      }
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    float* to = out + (part.row_begin + row) * b.rows() + part.column_begin;
    const double* from = sums.data() + row * padded_columns;
    for (std::int64_t column = 0; column < columns; ++column) to[column] = static_cast<float>(from[column]);
  }
}

std::vector<Tile> split(std::span<const Tile> tiles, int threads) {
  // Wide parts widen A less often; at least four parts a thread keep the threads busy to the end.
  std::int64_t area = 0;
  for (const Tile& tile : tiles) area += (tile.row_end - tile.row_begin) * (tile.column_end - tile.column_begin);
  const std::int64_t wanted = area / (4 * std::max(1, resolve_threads(threads)));
  std::vector<Tile> parts;
  for (const Tile& tile : tiles) {
    const std::int64_t height = std::min(kSuperM, tile.row_end - tile.row_begin);
    if (height <= 0) continue;
    const std::int64_t width = std::clamp(round_up(wanted / height, kRowsB), std::int64_t{64}, kMaxBlockN);
    for (std::int64_t row = tile.row_begin; row < tile.row_end; row += height) {
      for (std::int64_t column = tile.column_begin; column < tile.column_end; column += width) {
        parts.push_back({row, std::min(row + height, tile.row_end), column, std::min(column + width, tile.column_end)});
      }
    }
  }
  return parts;
}

}  // namespace

MatrixRows MatrixRows::scaled(std::shared_ptr<const BlockScales> scales) const {
  MatrixRows copy = *this;
  copy.scales_ = std::move(scales);
  return copy;
}

void MatrixRows::read(std::int64_t row, std::int64_t first, std::int64_t count, float* out) const {
  read_unscaled(static_cast<std::uint64_t>(row * columns_ + first), count, out);
  if (scales_ == nullptr) return;
  for (std::int64_t column = first; column < first + count;) {
    const std::int64_t end = std::min(first + count, (column / scales_->columns + 1) * scales_->columns);
    const float factor = scales_->at(row, column);
    for (; column < end; ++column) out[column - first] *= factor;
  }
}

void MatrixRows::read_unscaled(std::uint64_t element, std::int64_t count, float* out) const {
  if (data_ != nullptr) return to_float(dtype_, data_, element, static_cast<std::uint64_t>(count), out);
  // One aligned run of 256 elements is what the generator makes at once.
  alignas(64) std::byte raw[kChain * sizeof(std::int64_t)];
  for (std::int64_t done = 0; done < count; done += kChain) {
    const auto part = static_cast<std::uint64_t>(std::min(kChain, count - done));
    random_.fill(element + static_cast<std::uint64_t>(done), part, raw);
    to_float(dtype_, raw, 0, part, out + done);
  }
}

void gemm_nt_truth(const MatrixRows& a, const MatrixRows& b, std::span<const Tile> tiles, float* out, int threads) {
  const std::vector<Tile> parts = split(tiles, threads);
  parallel_for(parts.size(), threads, [&](std::uint64_t i) { compute_part(a, b, parts[i], out); });
}

void gemm_nt_truth_fp64(const MatrixRows& a, const MatrixRows& b, std::span<const Tile> tiles, double* out,
                        int threads) {
  const auto depth = static_cast<std::size_t>(a.columns());
  for (const Tile& tile : tiles) {
    parallel_for(static_cast<std::uint64_t>(std::max<std::int64_t>(0, tile.row_end - tile.row_begin)), threads,
                 [&](std::uint64_t i) {
                   const std::int64_t row = tile.row_begin + static_cast<std::int64_t>(i);
                   std::vector<float> left(depth), right(depth);
                   a.read(row, 0, a.columns(), left.data());
                   for (std::int64_t column = tile.column_begin; column < tile.column_end; ++column) {
                     b.read(column, 0, b.columns(), right.data());
                     double sum = 0;
                     for (std::size_t k = 0; k < depth; ++k) {
                       sum = std::fma(static_cast<double>(left[k]), static_cast<double>(right[k]), sum);
                     }
                     out[row * b.rows() + column] = sum;
                   }
                 });
  }
}

}  // namespace ptxbench::problem
