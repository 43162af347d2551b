#pragma once

#include "emulator/tensor/matrix_descriptor.h"

#include <cstdint>
#include <span>
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

}  // namespace ptxbench::emulator
