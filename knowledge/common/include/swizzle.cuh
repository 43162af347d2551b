// Where TMA puts a byte, and where tensor cores look for it.
#pragma once
#include <cstdint>

// region swizzle
// Byte offset inside a tile whose rows are kSpan bytes (32, 64 or 128) -> where it lies under the swizzle of that span.
// The tile starts at a multiple of 8 * kSpan. 16-byte chunks move within 128-byte lines; their contents stay together.
template <uint32_t kSpan>
__host__ __device__ constexpr uint32_t swizzle(uint32_t offset) {
  static_assert(kSpan == 32 || kSpan == 64 || kSpan == 128, "spans of 32, 64 and 128 bytes");
  return offset ^ ((offset >> 3) & (kSpan - 16));
}
// Element (row, col) of a tile with rows of kSpan bytes.
template <uint32_t kSpan>
__host__ __device__ constexpr uint32_t swizzled_offset(uint32_t row, uint32_t col, uint32_t element_bytes) {
  return swizzle<kSpan>(row * kSpan + col * element_bytes);
}
// endregion swizzle

// region swizzle_facts
static_assert(swizzle<128>(0) == 0 && swizzle<128>(1 * 128) == 128 + 16, "row 1: chunk 0 moves to chunk 1");
static_assert(swizzled_offset<128>(5, 8, 2) == 5 * 128 + (1 ^ 5) * 16, "128: chunk ^ (row % 8)");
static_assert(swizzled_offset<64>(6, 8, 2) == 6 * 64 + (1 ^ 6 / 2 % 4) * 16, "64: chunk ^ (row / 2 % 4)");
static_assert(swizzled_offset<32>(4, 8, 2) == 4 * 32 + (1 ^ 4 / 4 % 2) * 16, "32: chunk ^ (row / 4 % 2)");
// endregion swizzle_facts
