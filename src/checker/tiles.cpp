#include "checker/tiles.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbench::checker {

namespace {

constexpr uint32_t kCoreRows = 8;  ///< of a core matrix, and of the pattern after which a swizzle repeats
constexpr size_t kRemembered = 4096;

uint32_t line_of(uint32_t swizzle_bytes) { return swizzle_bytes == 0 ? Tiles::kNoSwizzleLine : swizzle_bytes; }

}  // namespace

void Tiles::mark(uint64_t address, uint64_t bytes, bool unknown) {
  const uint64_t rank = address >> 24, first = (address & 0xffffff) / kPiece,
                 last = ((address & 0xffffff) + bytes - 1) / kPiece;
  if (rank >= unknown_.size()) unknown_.resize(rank + 1);
  Pieces& pieces = unknown_[rank];
  if (last / 64 >= pieces.size()) pieces.resize(last / 64 + 1);
  for (uint64_t word = first / 64; word <= last / 64; ++word) {
    const uint64_t low = word == first / 64 ? first % 64 : 0, high = word == last / 64 ? last % 64 : 63;
    const uint64_t bits = (~0ull >> (63 - high)) & (~0ull << low);
    pieces[word] = unknown ? pieces[word] | bits : pieces[word] & ~bits;
  }
}

bool Tiles::any_unknown(uint64_t address, uint64_t bytes) const {
  const uint64_t rank = address >> 24, first = (address & 0xffffff) / kPiece,
                 last = ((address & 0xffffff) + bytes - 1) / kPiece;
  if (rank >= unknown_.size()) return false;
  const Pieces& pieces = unknown_[rank];
  for (uint64_t piece = first; piece <= last && piece / 64 < pieces.size(); ++piece) {
    if ((pieces[piece / 64] >> piece % 64 & 1) != 0) return true;
  }
  return false;
}

void Tiles::written(uint64_t address, uint32_t bytes) {
  if (bytes != 0) mark(address, bytes, true);
}

void Tiles::copied(uint64_t address, uint32_t bytes, const Layout& layout, uint64_t tensor_map, uint32_t site) {
  if (bytes == 0) return;
  Tile tile;
  tile.base = address;
  tile.end = address + bytes;
  tile.line = layout.swizzle_bytes != 0 ? layout.swizzle_bytes : layout.row_bytes;
  tile.rows = layout.box[1] * layout.box[2] * layout.box[3] * layout.box[4];
  tile.layout = layout;
  tile.tensor_map = tensor_map;
  tile.site = site;
  auto old = tiles_.lower_bound(address);
  if (old != tiles_.begin() && std::prev(old)->second.end > address) --old;
  const bool same_place = old != tiles_.end() && old->second.base == tile.base && old->second.end == tile.end &&
                          old->second.line == tile.line && old->second.layout.swizzle_bytes == layout.swizzle_bytes &&
                          std::equal(std::begin(layout.box), std::end(layout.box), std::begin(old->second.layout.box));
  if (same_place) {
    old->second = tile;
  } else {
    right_.clear();
    while (old != tiles_.end() && old->second.base < tile.end) {
      // What is left of an older tile is there, but no tile any more.
      mark(old->second.base, old->second.end - old->second.base, true);
      old = tiles_.erase(old);
    }
    tiles_.emplace(address, tile);
  }
  mark(address, bytes, false);
}

const Tiles::Tile* Tiles::tile_at(uint64_t address) const {
  auto next = tiles_.upper_bound(address);
  if (next == tiles_.begin()) return nullptr;
  const Tile& tile = std::prev(next)->second;
  return address < tile.end ? &tile : nullptr;
}

bool Tiles::continues(const Tile& tile, const Tile& next) {
  if (tile.tensor_map != next.tensor_map || tile.end != next.base) return false;
  return tile.layout.continued_by(next.layout);
}

std::optional<TileMismatch> Tiles::check(const Layout& operand) {
  // A base offset says that the pattern of the swizzle starts elsewhere than at a multiple of its size.
  if (tiles_.empty() || operand.base_offset != 0) return std::nullopt;
  const Tile* tile = tile_at(operand.start);
  if (tile == nullptr) return std::nullopt;
  // Other swizzles than the descriptor's are found by comparing accesses. Without a swizzle only rows of 16 bytes are
  // what a descriptor calls a row; wider ones may hold core matrices that lie in the tensor already.
  if (operand.swizzle_bytes != tile->layout.swizzle_bytes || line_of(operand.swizzle_bytes) != tile->line)
    return std::nullopt;
  if (tile->layout.row_bytes != tile->line || tile->base % tile->line != 0) return std::nullopt;
  std::vector<uint64_t> key{
      operand.start, operand.leading_offset, operand.stride_offset, operand.swizzle_bytes, operand.mn,
      operand.k,     operand.element_bytes,  operand.mn_major};
  if (right_.contains(key)) return std::nullopt;
  const uint64_t first_line = operand.start / tile->line * tile->line;
  if (any_unknown(first_line, std::min<uint64_t>(kCoreRows * tile->line, tile->end - first_line))) return std::nullopt;
  auto mismatch = judge(*tile, operand);
  if (mismatch) {
    mismatch->copy_site = tile->site;
    return mismatch;
  }
  // Whether a tile continues another one changes with their coordinates.
  if ((operand.start - tile->base) / tile->line % kCoreRows == 0) {
    if (right_.size() >= kRemembered) right_.clear();
    right_.insert(std::move(key));
  }
  return std::nullopt;
}

std::optional<TileMismatch> Tiles::judge(const Tile& tile, const Layout& operand) const {
  const uint32_t line = tile.line;
  const bool swizzled = operand.swizzle_bytes != 0;
  // The rows are those of the matrix (K-major) or steps of k (MN-major); along a row lie the other's elements.
  const uint32_t rows = operand.mn_major ? operand.k : operand.mn;
  const uint32_t row_bytes = (operand.mn_major ? operand.mn : operand.k) * operand.element_bytes;
  // From eight rows to the next eight, and from one line's worth of a row to the next one.
  const bool plain_transposed = operand.mn_major && !swizzled;
  const uint32_t group_step = plain_transposed ? operand.leading_offset : operand.stride_offset;
  const uint32_t line_step = plain_transposed ? operand.stride_offset : operand.leading_offset;
  const char* const group_name = plain_transposed ? "leading" : "stride";
  const char* const line_name = plain_transposed ? "stride" : "leading";
  const uint64_t offset = operand.start - tile.base;
  const auto first_row = static_cast<uint32_t>(offset / line), first_byte = static_cast<uint32_t>(offset % line);
  const uint32_t groups = rows / kCoreRows, run = std::min(row_bytes, line);

  if (first_byte + run > line) {
    return TileMismatch{
        fmt::format("the descriptor starts {} bytes into a {}-byte row of the tile and reads {} bytes: the last of "
                    "them belong to the next row",
                    first_byte, line, run),
        "advance the start address along a row by the bytes of one k-step, from the row's beginning"};
  }
  if (groups > 1 && group_step % line != 0) {
    return TileMismatch{fmt::format("the {} offset of the descriptor is {} bytes, no multiple of the tile's {}-byte "
                                    "rows: every eight rows are read at other columns",
                                    group_name, group_step, line),
                        fmt::format("make it the distance of eight rows, {} bytes", kCoreRows * line)};
  }
  const uint32_t group_rows = group_step / line;
  if (groups > 1 && group_rows < kCoreRows && (group_rows != 0 || tile.rows > kCoreRows)) {
    return TileMismatch{fmt::format("the {} offset of the descriptor takes {} rows of the tile for eight: rows are "
                                    "read twice and others not at all",
                                    group_name, group_rows),
                        fmt::format("make it the distance of eight rows, {} bytes", kCoreRows * line)};
  }
  if (row_bytes > line) {
    const uint32_t line_rows = line_step / line;
    const bool inside = first_row + uint64_t{line_rows} < tile.rows;
    const bool flat = tile.layout.box[2] * tile.layout.box[3] * tile.layout.box[4] == 1;
    const bool other_row = line_rows == 0 || line_step % line != 0 ||
                           (flat ? swizzled && line_rows < tile.rows : line_rows % tile.layout.box[1] != 0);
    if (inside && other_row) {
      return TileMismatch{
          fmt::format("the {} offset of the descriptor is {} bytes and leads to another row of the same box, not to "
                      "the elements that continue the row",
                      line_name, line_step),
          "make it the distance from one box column of the tile to the next"};
    }
  }
  // Rows that start amid a core matrix and run over the end of the tile: the start address has left its row.
  if (swizzled && first_row % kCoreRows != 0 && tile.rows % kCoreRows == 0 && tile.base % (kCoreRows * line) == 0) {
    for (uint32_t group = 0; group < groups; ++group) {
      const uint64_t row = first_row + uint64_t{group} * group_rows;
      if (row >= tile.rows || row + kCoreRows <= tile.rows) continue;
      const uint64_t left = row + kCoreRows - tile.rows;
      if (any_unknown(tile.end, left * line)) break;
      const Tile* next = tile_at(tile.end);
      if (next != nullptr && continues(tile, *next)) break;
      return TileMismatch{
          fmt::format("the descriptor starts at row {} of the tile and runs over its end: {} rows are read that the "
                      "copy did not write",
                      first_row, left),
          "advance the start address along k by the bytes of one k-step only, and never beyond the row"};
    }
  }
  return std::nullopt;
}

}  // namespace ptxbench::checker
