#pragma once

#include "emulator/tensor/matrix_descriptor.h"
#include "emulator/tensor/mma_types.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace ptxbench::emulator {

/// A growing array aligned to cache lines; growing discards the contents.
template <class T>
class AlignedBuffer {
 public:
  T* reserve(std::size_t count) {
    if (count > capacity_) {
      data_.reset(static_cast<T*>(::operator new(count * sizeof(T), kAlignment)));
      capacity_ = count;
    }
    return data_.get();
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* pointer) const { ::operator delete(pointer, kAlignment); }
  };
  std::unique_ptr<T, Free> data_;
  std::size_t capacity_ = 0;
};

/// 32-bit words that the kernels consume per instruction: 32 bytes of operand per row.
constexpr unsigned words_per_step(MmaType type) {
  switch (element_bytes(type)) {
    case 4:
      return 8;
    case 2:
      return 16;
    default:
      return is_integer(type) ? 16 : 32;
  }
}

/// Steps packed together: at most 64 words, so that one warp's packed A (16 KB) stays in the first-level cache.
inline constexpr unsigned kMaxPackedSteps = 8;
constexpr unsigned packed_steps(MmaType type) { return 64 / words_per_step(type); }

/// The A operand of one warp for some consecutive steps, in the layout of tensor_kernels.h.
class PackedA {
 public:
  /// Shared-memory operand: sixteen rows from `first_row` of each descriptor's matrix.
  void pack_shared(MmaType type, MatrixMajor major, std::span<const std::uint64_t> descriptors, unsigned first_row,
                   bool negate, const std::byte* shared_base);
  /// Register operand: `registers` holds four registers per step; null ones (short fragments) count as zero.
  void pack_registers(MmaType type, const std::uint32_t* const* registers, unsigned steps, bool negate);
  /// Raw space for callers that fill the words themselves; [half][word][32].
  std::uint32_t* start_words(unsigned words);
  /// Fills exponents(); call before exact kernels. True when an operand is infinite or NaN.
  bool compute_exponents(MmaType type);

  unsigned words() const { return words_; }
  const std::uint32_t* data() const { return words_buffer_.data(); }
  const float* floats() const { return reinterpret_cast<const float*>(words_buffer_.data()); }
  const std::int16_t* exponents() const { return exponents_.data(); }

 private:
  unsigned words_ = 0;
  AlignedBuffer<std::uint32_t> words_buffer_;
  AlignedBuffer<std::int16_t> exponents_;
};

/// The B operand of some consecutive steps.
class PackedB {
 public:
  void pack_shared(MmaType type, MatrixMajor major, std::span<const std::uint64_t> descriptors, unsigned columns,
                   bool negate, const std::byte* shared_base);
  /// Raw space for callers that fill the words themselves (mma.sync); [group][word][8].
  std::uint32_t* start(unsigned words, unsigned columns);
  /// Fills exponents() once; later calls return the remembered answer.
  bool compute_exponents(MmaType type);

  unsigned words() const { return words_; }
  const std::uint32_t* data() const { return words_buffer_.data(); }
  const float* floats() const { return reinterpret_cast<const float*>(words_buffer_.data()); }
  const std::int16_t* exponents() const { return exponents_.data(); }

 private:
  unsigned words_ = 0;
  unsigned columns_ = 0;
  bool has_exponents_ = false;
  bool has_special_ = false;
  AlignedBuffer<std::uint32_t> words_buffer_;
  AlignedBuffer<std::int16_t> exponents_;
};

/// The last few packed B operands.
class PackedBCache {
 public:
  struct Key {
    const std::byte* shared_base = nullptr;
    std::uint64_t generation = 0;
    std::array<std::uint64_t, kMaxPackedSteps> descriptors{};
    unsigned steps = 0;
    unsigned columns = 0;
    MmaType type = MmaType::bf16;
    MatrixMajor major = MatrixMajor::k_major;
    bool negate = false;
    bool operator==(const Key&) const = default;
  };
  PackedB& get(const Key& key);

 private:
  struct Entry {
    Key key;
    PackedB operand;
    bool valid = false;
  };
  std::array<Entry, 8> entries_;
  unsigned next_ = 0;
};

}  // namespace ptxbench::emulator
