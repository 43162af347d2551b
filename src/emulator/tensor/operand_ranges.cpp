#include "emulator/tensor/operand_ranges.h"

#include <algorithm>

namespace ptxbench::emulator {
namespace {

constexpr std::uint32_t kPiece = 16;
constexpr std::uint32_t kPatternBytes = 1024;
constexpr std::size_t kMaxEntries = 4096;

MatrixLayout layout_of(const OperandSet& operand, std::uint64_t descriptor) {
  return {MatrixDescriptor::decode(descriptor), operand.major, operand.element_bytes};
}

bool wraps(const OperandSet& operand) {
  return std::any_of(operand.descriptors.begin(), operand.descriptors.end(), [&](std::uint64_t descriptor) {
    const MatrixLayout layout = layout_of(operand, descriptor);
    return layout.linear_address(operand.first + operand.mn - 1, operand.k - 1) > kSharedAddressMask;
  });
}

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) { return (hash ^ value) * 0x9e3779b97f4a7c15ULL; }

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

std::span<const SharedRange> OperandRangeCache::get(const OperandSet& operand, std::uint32_t* base) {
  *base = 0;
  const bool movable = !operand.descriptors.empty() && !wraps(operand);
  if (movable) {
    std::uint32_t lowest = kSharedAddressMask;
    for (const std::uint64_t descriptor : operand.descriptors) {
      lowest = std::min(lowest, MatrixDescriptor::decode(descriptor).start_address);
    }
    *base = lowest / kPatternBytes * kPatternBytes;
  }
  std::vector<std::uint64_t> key = {operand.mn, operand.k, operand.first, operand.element_bytes,
                                    static_cast<std::uint64_t>(operand.major)};
  for (const std::uint64_t descriptor : operand.descriptors) {
    key.push_back(descriptor - *base / kPiece);  // the start address is the lowest field
  }
  std::uint64_t hash = 0;
  for (const std::uint64_t word : key) {
    hash = mix(hash, word);
  }
  if (entries_.size() > kMaxEntries) {
    entries_.clear();
  }
  auto& bucket = entries_[hash];
  for (const auto& [known, ranges] : bucket) {
    if (known == key) {
      return ranges;
    }
  }
  OperandSet moved = operand;
  const std::span<const std::uint64_t> descriptors(key.data() + 5, operand.descriptors.size());
  moved.descriptors = descriptors;
  std::vector<SharedRange> ranges = operand_ranges(moved);
  return bucket.emplace_back(Entry{std::move(key), std::move(ranges)}).ranges;
}

}  // namespace ptxbench::emulator
