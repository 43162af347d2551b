#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "emulator/observer.h"

/// Which tensor copy wrote what lies in the shared memory of a cluster, and whether a wgmma descriptor walks through
/// such a tile as through a matrix (PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout").
namespace ptxbench::checker {

/// Why an operand cannot be what the copy wrote. `copy_site`: number of the copy's site.
struct TileMismatch {
  std::string message, fix;
  uint32_t copy_site = 0;
};

class Tiles {
 public:
  using Layout = emulator::AsyncIssueEvent::TileLayout;
  static constexpr uint32_t kNoSwizzleLine = 16;

  /// A tensor copy writes its box to [address, address + bytes), cluster shared addresses.
  void copied(uint64_t address, uint32_t bytes, const Layout& layout, uint64_t tensor_map, uint32_t site);
  /// Anything else writes there: how those bytes are arranged is not known.
  void written(uint64_t address, uint32_t bytes);
  /// An operand of a wgmma. Only what no right program does is a mismatch; operands that other writes than tensor
  /// copies contributed to are not judged.
  std::optional<TileMismatch> check(const Layout& operand);

 private:
  struct Tile {
    uint64_t base = 0, end = 0;
    uint32_t line = 0;  ///< bytes from one row to the next
    uint32_t rows = 0;
    Layout layout;
    uint64_t tensor_map = 0;
    uint32_t site = 0;
  };
  static constexpr uint32_t kPiece = 16;
  /// One bit for each 16 bytes of a CTA's shared memory.
  using Pieces = std::vector<uint64_t>;

  const Tile* tile_at(uint64_t address) const;
  void mark(uint64_t address, uint64_t bytes, bool unknown);
  bool any_unknown(uint64_t address, uint64_t bytes) const;
  /// The rows that follow `tile` in memory are those that follow it in the tensor.
  static bool continues(const Tile& tile, const Tile& next);
  std::optional<TileMismatch> judge(const Tile& tile, const Layout& operand) const;

  std::map<uint64_t, Tile> tiles_;  ///< by base
  std::vector<Pieces> unknown_;     ///< by CTA rank
  /// Operands that were found to be right, until some tile lies differently.
  std::set<std::vector<uint64_t>> right_;
};

}  // namespace ptxbench::checker
