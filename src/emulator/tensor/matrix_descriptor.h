#pragma once

#include <cstdint>

namespace ptxbench::emulator {

/// Bits 62..63 of a wgmma matrix descriptor.
enum class MatrixSwizzle : std::uint8_t { none = 0, bytes128 = 1, bytes64 = 2, bytes32 = 3 };

/// Which dimension is contiguous in shared memory. Only 16-bit types may be `mn_major` (PTX imm-trans-a/b = 1).
enum class MatrixMajor : std::uint8_t { k_major, mn_major };

/// Shared addresses of the asynchronous proxy have 18 bits.
inline constexpr std::uint32_t kSharedAddressMask = 0x3ffffU;

/// The 64-bit descriptor of PTX ISA "Asynchronous Warpgroup Level Matrix Shared Memory Layout", offsets in bytes.
struct MatrixDescriptor {
  std::uint32_t start_address = 0;
  std::uint32_t leading_offset = 0;  ///< LBO
  std::uint32_t stride_offset = 0;   ///< SBO
  std::uint32_t base_offset = 0;     ///< 0..7, in units of 128 bytes
  MatrixSwizzle swizzle = MatrixSwizzle::none;

  static constexpr MatrixDescriptor decode(std::uint64_t bits) {
    const auto field = [bits](unsigned shift) { return static_cast<std::uint32_t>((bits >> shift) & 0x3fffU) << 4; };
    return {field(0), field(16), field(32), static_cast<std::uint32_t>((bits >> 49) & 7U),
            static_cast<MatrixSwizzle>(bits >> 62)};
  }

  constexpr std::uint64_t encode() const {
    const auto field = [](std::uint32_t bytes, unsigned shift) {
      return static_cast<std::uint64_t>((bytes & kSharedAddressMask) >> 4) << shift;
    };
    return field(start_address, 0) | field(leading_offset, 16) | field(stride_offset, 32) |
           static_cast<std::uint64_t>(base_offset & 7U) << 49 | static_cast<std::uint64_t>(swizzle) << 62;
  }

  /// Bits that must be zero. Set ones betray another descriptor format, for instance tcgen05's.
  static constexpr std::uint64_t reserved_bits(std::uint64_t bits) {
    constexpr std::uint64_t fields = 0x3fffULL | 0x3fffULL << 16 | 0x3fffULL << 32 | 7ULL << 49 | 3ULL << 62;
    return bits & ~fields;
  }

  constexpr bool operator==(const MatrixDescriptor&) const = default;
};

/// Bytes of one swizzled line: 16 (no swizzle), 32, 64 or 128.
constexpr std::uint32_t line_bytes(MatrixSwizzle swizzle) {
  switch (swizzle) {
    case MatrixSwizzle::none:
      return 16;
    case MatrixSwizzle::bytes32:
      return 32;
    case MatrixSwizzle::bytes64:
      return 64;
    case MatrixSwizzle::bytes128:
      return 128;
  }
  return 16;
}

/// Where the operand of one wgmma lies in shared memory.
///
/// Coordinates: `mn` is the row of A or the column of B, `k` the reduction index, both in elements of `element_bytes`.
/// The canonical layouts, in 16-byte units (rows of eight 16-byte pieces form a core matrix):
///   K-major, no swizzle      mn%8 at 1 unit, mn/8 at SBO, k piece at LBO
///   K-major, swizzle S       mn%8 at one S-byte line, mn/8 at SBO, k pieces adjacent (LBO unused)
///   MN-major, no swizzle     k%8 at 1 unit, k/8 at LBO, mn piece at SBO
///   MN-major, swizzle S      k%8 at one S-byte line, k/8 at SBO, mn pieces adjacent within a line, then LBO
/// The linear address is then swizzled by XOR of absolute address bits, so a start address may be advanced inside a
/// line.
class MatrixLayout {
 public:
  constexpr MatrixLayout(const MatrixDescriptor& descriptor, MatrixMajor major, std::uint32_t element_bytes)
      : descriptor_(descriptor), major_(major), element_bytes_(element_bytes) {}

  /// Address before swizzling, not yet wrapped to 18 bits. The 16 bytes from here (K-major: along k; MN-major: along
  /// mn) are contiguous when the element is the first of its 16-byte piece.
  constexpr std::uint32_t linear_address(std::uint32_t mn, std::uint32_t k) const {
    const std::uint32_t line = line_bytes(descriptor_.swizzle);
    const bool swizzled = descriptor_.swizzle != MatrixSwizzle::none;
    std::uint32_t offset = 0;
    if (major_ == MatrixMajor::k_major) {
      const std::uint32_t k_bytes = k * element_bytes_;
      offset = mn % 8 * line + mn / 8 * descriptor_.stride_offset +
               (swizzled ? k_bytes : k_bytes / 16 * descriptor_.leading_offset + k_bytes % 16);
    } else {
      const std::uint32_t mn_bytes = mn * element_bytes_;
      offset =
          k % 8 * line +
          (swizzled ? k / 8 * descriptor_.stride_offset + mn_bytes / line * descriptor_.leading_offset + mn_bytes % line
                    : k / 8 * descriptor_.leading_offset + mn_bytes / 16 * descriptor_.stride_offset + mn_bytes % 16);
    }
    return descriptor_.start_address + offset;
  }

  /// Shared address of element (mn, k).
  constexpr std::uint32_t address(std::uint32_t mn, std::uint32_t k) const { return swizzled(linear_address(mn, k)); }

  /// Applies the XOR swizzle and the 18-bit wrap to a linear address.
  constexpr std::uint32_t swizzled(std::uint32_t linear) const {
    return (linear ^ (((linear - phase()) >> 3) & mask())) & kSharedAddressMask;
  }

  /// Address bits that the swizzle may flip.
  constexpr std::uint32_t mask() const { return line_bytes(descriptor_.swizzle) - 16; }
  /// The base offset: subtracted from an address before its bits 7..9 select the flip.
  constexpr std::uint32_t phase() const { return descriptor_.base_offset << 7; }

  constexpr MatrixMajor major() const { return major_; }
  constexpr std::uint32_t element_bytes() const { return element_bytes_; }
  constexpr const MatrixDescriptor& descriptor() const { return descriptor_; }

 private:
  MatrixDescriptor descriptor_;
  MatrixMajor major_;
  std::uint32_t element_bytes_;
};

}  // namespace ptxbench::emulator
