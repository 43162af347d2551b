#pragma once

#include "base/error.h"
#include "emulator/tensor/tensor_map.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace ptxbench::emulator {

/// Box coordinates of a cp.async.bulk.tensor, innermost first; entries beyond the rank are ignored.
using BoxCoordinates = std::array<std::int32_t, kMaxTensorRank>;

/// How the host reaches device memory: byte at device address `a` lives at `base + a` (wrapping arithmetic). The
/// caller has checked that every in-bounds run (see for_each_box_run) is backed by memory.
struct GlobalWindow {
  std::byte* base = nullptr;
  std::byte* host(std::uint64_t address) const {
    return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(base) + address);
  }
};

/// The shared-memory window of one CTA: byte at shared address `a` lives at `base + a`.
struct SharedWindow {
  std::byte* base = nullptr;
  std::uint32_t bytes = 0;
};

/// What a map's box looks like once element strides and padding are applied.
struct BoxGeometry {
  std::array<std::uint32_t, kMaxTensorRank> counts{1, 1, 1, 1, 1};  ///< elements moved per dimension
  std::uint32_t row_bytes = 0;                                      ///< innermost run, a multiple of 16
  std::uint32_t row_pitch = 0;  ///< distance of consecutive rows in shared memory: row_bytes, or the swizzle span
  std::uint32_t rows = 0;
  std::uint32_t shared_bytes = 0;    ///< extent in shared memory
  std::uint32_t transfer_bytes = 0;  ///< what complete_tx counts: the full box even where clipped, without padding
};
BoxGeometry box_geometry(const TensorMap& map);

enum class BoxDirection : std::uint8_t { load, store };

/// Everything that makes a box transfer impossible: a map that breaks the encode rules (after tensormap.replace), an
/// instruction of another rank, a shared address not aligned to 128 bytes, shared memory too small, an unsupported
/// layout. Bounds of the tensor are not errors: out-of-bounds elements are filled or dropped.
Result<void> check_box(const TensorMap& map, unsigned instruction_rank, std::uint32_t shared_address,
                       std::uint32_t shared_bytes);

/// Coordinates the hardware refuses with an illegal instruction fault (observed on an H200): an innermost coordinate
/// that is not a multiple of 16 bytes, and, for stores and reductions, any negative coordinate.
Result<void> check_coordinates(const TensorMap& map, const BoxCoordinates& coordinates, BoxDirection direction);

/// XOR swizzle of a shared address (PTX ISA, "Swizzling Modes"): bits 4..6 ^= bits 7..9 for 128 bytes, bits 4..5 ^=
/// bits 7..8 for 64, bit 4 ^= bit 7 for 32. An involution that depends on absolute shared addresses.
constexpr std::uint32_t swizzle_address(TensorSwizzle swizzle, std::uint32_t address) {
  switch (swizzle) {
    case TensorSwizzle::bytes32:
      return address ^ ((address >> 3) & 0x10U);
    case TensorSwizzle::bytes64:
      return address ^ ((address >> 3) & 0x30U);
    case TensorSwizzle::bytes128:
      return address ^ ((address >> 3) & 0x70U);
    default:
      return address;
  }
}

/// Tile mode cp.async.bulk.tensor global -> shared. Rows follow each other from `shared_address` on: densely without a
/// swizzle, each on its own 32, 64 or 128-byte line with one (a shorter row leaves the rest of its line untouched).
/// Elements outside the tensor become zero or, with the NaN fill, 0x7ff7 in every halfword. tf32 maps round.
/// Precondition: check_box passed.
void load_box(const TensorMap& map, const BoxCoordinates& coordinates, SharedWindow shared,
              std::uint32_t shared_address, GlobalWindow global);

/// Tile mode cp.async.bulk.tensor shared -> global: what lies outside the tensor is dropped. Along the innermost
/// dimension the hardware drops whole 16-byte pieces only (observed on an H200): a row whose length is no multiple of
/// 16 bytes is written up to the next one, into the padding that the stride rule leaves there. Reductions do the same.
void store_box(const TensorMap& map, const BoxCoordinates& coordinates, SharedWindow shared,
               std::uint32_t shared_address, GlobalWindow global);

/// `.redOp` of cp.reduce.async.bulk{.tensor}.
enum class BulkReduction : std::uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor };
const char* to_string(BulkReduction operation);

/// Whether PTX allows the pair for cp.reduce.async.bulk; the error names both.
Result<void> check_reduction(BulkReduction operation, TensorDataType type);

/// destination[i] = destination[i] op source[i] for `count` elements of `type`, unaligned pointers allowed. Sums round
/// to nearest even and keep subnormals (f32 too: observed on an H200), except that the _FTZ types flush operands and
/// sum; tf32 types add as f32. Precondition: check_reduction passed.
void reduce_elements(BulkReduction operation, TensorDataType type, std::byte* destination, const std::byte* source,
                     std::size_t count);

/// cp.reduce.async.bulk.tensor shared -> global: like store_box with a read-modify-write per element, each atomic
/// on its own as far as the caller serialises reductions.
void reduce_box(BulkReduction operation, const TensorMap& map, const BoxCoordinates& coordinates, SharedWindow shared,
                std::uint32_t shared_address, GlobalWindow global);

/// A contiguous piece of a box: `bytes` at `global_address` exchanged with shared memory.
struct BoxRun {
  std::uint64_t global_address = 0;
  std::uint32_t shared_address = 0;
  std::uint32_t bytes = 0;
};

/// Calls `visit` for every run that memory sees, in increasing shared order, for bounds checks and the hazard checker;
/// for stores it includes the padding written (see store_box). A run
/// covers at most one row. With a swizzle the runs are single 16-byte chunks (or the in-bounds part of one) unless
/// `merge_swizzled` is set: then a row that fills its whole swizzle span is one run, whose bytes are exchanged as a
/// set, not in order.
void for_each_box_run(const TensorMap& map, const BoxCoordinates& coordinates, BoxDirection direction,
                      std::uint32_t shared_address, bool merge_swizzled,
                      const std::function<void(const BoxRun&)>& visit);

/// Calls `visit(global_address, bytes)` for the global ranges read or written, rows that touch merged into one.
void for_each_global_range(const TensorMap& map, const BoxCoordinates& coordinates, BoxDirection direction,
                           const std::function<void(std::uint64_t, std::uint64_t)>& visit);

}  // namespace ptxbench::emulator
