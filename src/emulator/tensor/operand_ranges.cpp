#include "emulator/tensor/operand_ranges.h"

#include <algorithm>

namespace ptxbench::emulator {
namespace {

constexpr std::uint32_t kPiece = 16;

MatrixLayout layout_of(const OperandSet& operand, std::uint64_t descriptor) {
  return {MatrixDescriptor::decode(descriptor), operand.major, operand.element_bytes};
}

}  // namespace

std::vector<SharedRange> operand_ranges(const OperandSet& operand) {
  const unsigned per_piece = kPiece / operand.element_bytes;
  const bool k_major = operand.major == MatrixMajor::k_major;
  std::vector<std::uint32_t> pieces;
  for (const std::uint64_t descriptor : operand.descriptors) {
    const MatrixLayout layout = layout_of(operand, descriptor);
    for (unsigned i = 0; i < operand.mn; i += k_major ? 1 : per_piece) {
      for (unsigned j = 0; j < operand.k; j += k_major ? per_piece : 1) {
        pieces.push_back(layout.address(operand.first + i, j));
      }
    }
  }
  std::sort(pieces.begin(), pieces.end());
  pieces.erase(std::unique(pieces.begin(), pieces.end()), pieces.end());
  std::vector<SharedRange> ranges;
  for (const std::uint32_t address : pieces) {
    if (!ranges.empty() && ranges.back().address + ranges.back().bytes == address) {
      ranges.back().bytes += kPiece;
    } else {
      ranges.push_back({address, kPiece});
    }
  }
  return ranges;
}

}  // namespace ptxbench::emulator
