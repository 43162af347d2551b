#pragma once

#include "emulator/tensor/matrix_descriptor.h"

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace ptxbench::emulator {

/// A piece of shared memory.
struct SharedRange {
  std::uint32_t address = 0;
  std::uint32_t bytes = 0;
  bool operator==(const SharedRange&) const = default;
};

/// One operand of consecutive wgmmas: the same matrix shape at several descriptors.
struct OperandSet {
  std::span<const std::uint64_t> descriptors;
  MatrixMajor major = MatrixMajor::k_major;
  unsigned element_bytes = 2;
  unsigned mn = 64;  ///< rows of A (64 for a warpgroup, 16 for a warp with `first` set) or columns of B
  unsigned k = 16;
  unsigned first = 0;  ///< first row
};

/// The bytes that the instructions read of the operand: sorted, touching pieces merged.
std::vector<SharedRange> operand_ranges(const OperandSet& operand);

/// operand_ranges remembered by pattern: a main loop cycles through few stages, and a pattern moved by a multiple of
/// 1024 bytes keeps its shape. Not thread-safe.
class OperandRangeCache {
 public:
  /// Ranges relative to `*base`, which is set to a multiple of 1024. Valid until the next call. Operands that wrap at
  /// the end of the 18-bit address space get absolute ranges and base 0.
  std::span<const SharedRange> get(const OperandSet& operand, std::uint32_t* base);

 private:
  struct Entry {
    std::vector<std::uint64_t> key;
    std::vector<SharedRange> ranges;
  };
  std::unordered_map<std::uint64_t, std::vector<Entry>> entries_;  // by hash of the key
};

}  // namespace ptxbench::emulator
