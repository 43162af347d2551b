#include "emulator/tensor/packed_operands.h"

#include "emulator/tensor/tensor_kernels.h"

#include <array>

namespace ptxbench::emulator {
namespace {

constexpr unsigned kHalfRows = 8;

alignas(64) constexpr std::array<std::uint32_t, kLanes> kZeroRegister{};

/// The K-major pieces of eight rows (or columns) from `mn` on.
PiecePattern piece_pattern(const MatrixLayout& layout, unsigned mn, const std::byte* shared_base) {
  const unsigned piece_elements = 16 / layout.element_bytes();
  const std::uint32_t start = layout.linear_address(mn, 0);
  return {shared_base,
          start,
          layout.linear_address(mn + 1, 0) - start,
          layout.linear_address(mn, piece_elements) - start,
          layout.phase(),
          layout.mask()};
}

}  // namespace

std::uint32_t* PackedA::start_words(unsigned words) {
  words_ = words;
  return words_buffer_.reserve(std::size_t{2} * words_ * kLanes);
}

void PackedA::pack_shared(MmaType type, MatrixMajor major, std::span<const std::uint64_t> descriptors,
                          unsigned first_row, bool negate, const std::byte* shared_base) {
  const TensorKernels& kernels = tensor_kernels();
  const unsigned step_words = words_per_step(type);
  std::uint32_t* out = start_words(static_cast<unsigned>(descriptors.size()) * step_words);
  for (unsigned step = 0; step < descriptors.size(); ++step) {
    const MatrixLayout layout(MatrixDescriptor::decode(descriptors[step]), major, element_bytes(type));
    for (unsigned half = 0; half < 2; ++half) {
      const unsigned row = first_row + half * kHalfRows;
      std::uint32_t* target = out + (std::size_t{half} * words_ + step * step_words) * kLanes;
      if (layout.major() == MatrixMajor::mn_major) {
        for (unsigned k = 0; k < step_words; ++k) {
          kernels.pack_a_mn_major(type, shared_base + layout.address(row, k), negate, target + k * kLanes);
        }
        continue;
      }
      kernels.pack_a_k_major(type, piece_pattern(layout, row, shared_base), step_words, negate, target);
    }
  }
}

void PackedA::pack_registers(MmaType type, const std::uint32_t* const* registers, unsigned steps, bool negate) {
  const TensorKernels& kernels = tensor_kernels();
  const unsigned step_words = words_per_step(type);
  std::uint32_t* out = start_words(steps * step_words);
  for (unsigned step = 0; step < steps; ++step) {
    for (unsigned i = 0; i < 4; ++i) {
      const std::uint32_t* lanes = registers[4 * step + i] != nullptr ? registers[4 * step + i] : kZeroRegister.data();
      const std::size_t word = std::size_t{i % 2} * words_ + step * step_words + i / 2 * (step_words / 2);
      kernels.pack_a_register(type, lanes, negate, out + word * kLanes);
    }
  }
}

bool PackedA::compute_exponents(MmaType type) {
  const std::size_t count = std::size_t{2} * words_ * kLanes;
  return tensor_kernels().exponents(floats(), count, smallest_exponent(type), exponents_.reserve(count));
}

std::uint32_t* PackedB::start(unsigned words, unsigned columns) {
  words_ = words;
  columns_ = columns;
  has_exponents_ = false;
  return words_buffer_.reserve(std::size_t{words} * columns);
}

void PackedB::pack_shared(MmaType type, MatrixMajor major, std::span<const std::uint64_t> descriptors, unsigned columns,
                          bool negate, const std::byte* shared_base) {
  const TensorKernels& kernels = tensor_kernels();
  const unsigned step_words = words_per_step(type);
  std::uint32_t* out = start(static_cast<unsigned>(descriptors.size()) * step_words, columns);
  for (unsigned group = 0; group < columns / kGroupColumns; ++group) {
    for (unsigned step = 0; step < descriptors.size(); ++step) {
      const MatrixLayout layout(MatrixDescriptor::decode(descriptors[step]), major, element_bytes(type));
      const unsigned column = group * kGroupColumns;
      std::uint32_t* target = out + (std::size_t{group} * words_ + step * step_words) * kGroupColumns;
      if (layout.major() == MatrixMajor::mn_major) {
        for (unsigned k = 0; k < step_words; ++k) {
          kernels.pack_b_mn_major(type, shared_base + layout.address(column, k), negate, target + k * kGroupColumns);
        }
        continue;
      }
      kernels.pack_b_k_major(type, piece_pattern(layout, column, shared_base), step_words, negate, target);
    }
  }
}

bool PackedB::compute_exponents(MmaType type) {
  if (!has_exponents_) {
    const std::size_t count = std::size_t{words_} * columns_;
    has_special_ = tensor_kernels().exponents(floats(), count, smallest_exponent(type), exponents_.reserve(count));
    has_exponents_ = true;
  }
  return has_special_;
}

PackedB& PackedBCache::get(const Key& key) {
  for (Entry& entry : entries_) {
    if (entry.valid && entry.key == key) {
      return entry.operand;
    }
  }
  Entry& entry = entries_[next_];
  next_ = (next_ + 1) % static_cast<unsigned>(entries_.size());
  entry.key = key;
  entry.valid = true;
  entry.operand.pack_shared(key.type, key.major, std::span(key.descriptors).first(key.steps), key.columns, key.negate,
                            key.shared_base);
  return entry.operand;
}

}  // namespace ptxbench::emulator
