#pragma once

#include "base/error.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace ptxbench::emulator {

/// Element types of a tensor map, numbered like CUtensorMapDataType.
enum class TensorDataType : std::uint8_t {
  u8,
  u16,
  u32,
  s32,
  u64,
  s64,
  f16,
  f32,
  f64,
  bf16,
  f32_ftz,
  tf32,
  tf32_ftz,
  u4x16_align8,
  u4x16_align16,
  u6x16_align16
};
/// Numbered like CUtensorMapInterleave.
enum class TensorInterleave : std::uint8_t { none, bytes16, bytes32 };
/// Numbered like CUtensorMapSwizzle.
enum class TensorSwizzle : std::uint8_t {
  none,
  bytes32,
  bytes64,
  bytes128,
  bytes128_atom32,
  bytes128_atom32_flip8,
  bytes128_atom64
};
/// Numbered like CUtensorMapL2promotion; kept but without effect.
enum class TensorL2Promotion : std::uint8_t { none, bytes64, bytes128, bytes256 };
/// Numbered like CUtensorMapFloatOOBfill.
enum class TensorOobFill : std::uint8_t { zeros, nan };

/// Bytes of one element; 0 for the packed sub-byte types, which are not modelled.
unsigned element_bytes(TensorDataType type);
bool is_floating(TensorDataType type);
const char* to_string(TensorDataType type);
/// Bytes after which the 16-byte chunk permutation of a swizzle repeats inside a row: 32, 64, 128; 0 for none.
unsigned swizzle_span(TensorSwizzle swizzle);

inline constexpr unsigned kMaxTensorRank = 5;
inline constexpr std::size_t kTensorMapBytes = 128;
inline constexpr std::size_t kTensorMapAlignment = 64;

/// Our meaning for the 128 opaque bytes of a CUtensorMap. A kernel may copy the bytes around (tensormap.cp_fenceproxy)
/// and edit fields with tensormap.replace, so the struct is trivially copyable and holds everything; `magic` tells a
/// map that this emulator made from memory that merely happens to be there.
struct alignas(kTensorMapAlignment) TensorMap {
  static constexpr std::uint64_t kMagic = 0x3150414d'58545047ULL;
  static constexpr std::uint8_t kVersion = 1;

  std::uint64_t magic = kMagic;
  std::uint64_t global_address = 0;
  std::array<std::uint64_t, kMaxTensorRank> global_dims{};         ///< elements, innermost first
  std::array<std::uint64_t, kMaxTensorRank - 1> global_strides{};  ///< bytes, of dimensions 1..rank-1
  std::array<std::uint16_t, kMaxTensorRank> box_dims{};            ///< elements traversed, before element strides
  std::array<std::uint8_t, kMaxTensorRank> element_strides{};
  std::uint8_t rank = 0;
  TensorDataType data_type = TensorDataType::u8;
  TensorInterleave interleave = TensorInterleave::none;
  TensorSwizzle swizzle = TensorSwizzle::none;
  TensorL2Promotion l2_promotion = TensorL2Promotion::none;
  TensorOobFill oob_fill = TensorOobFill::zeros;
  std::uint8_t version = kVersion;
  std::array<std::uint8_t, 18> reserved{};
};
static_assert(sizeof(TensorMap) == kTensorMapBytes);

/// Reads a map from the 128 bytes at `bytes` (any alignment). An error when they are not a map made by
/// `encode_tiled`: never initialised, overwritten, or not yet visible.
Result<TensorMap> read_tensor_map(const std::byte* bytes);

/// The rules of cuTensorMapEncodeTiled (CUDA driver API, "Tensor Map Object Management"); the message of an error
/// names the argument and the rule. Checked again after tensormap.replace, which can break them.
Result<void> validate(const TensorMap& map);

/// cuTensorMapEncodeTiled with the driver's argument order and enum values. `tensor_map` must be 64-byte aligned
/// memory of 128 bytes. Arrays have `rank` entries, `global_strides` rank-1 (may be null for rank 1).
Result<void> encode_tiled(void* tensor_map, std::uint32_t data_type, std::uint32_t rank, std::uint64_t global_address,
                          const std::uint64_t* global_dims, const std::uint64_t* global_strides,
                          const std::uint32_t* box_dims, const std::uint32_t* element_strides, std::uint32_t interleave,
                          std::uint32_t swizzle, std::uint32_t l2_promotion, std::uint32_t oob_fill);

/// cuTensorMapEncodeIm2col: not modelled; always an error that says so.
Result<void> encode_im2col();

/// cuTensorMapReplaceAddress.
Result<void> replace_address(void* tensor_map, std::uint64_t global_address);

/// The fields of `tensormap.replace` (PTX ISA, "tensormap.replace").
enum class TensorMapField : std::uint8_t {
  global_address,
  rank,
  box_dim,
  global_dim,
  global_stride,
  element_stride,
  elemtype,
  interleave_layout,
  swizzle_mode,
  fill_mode,
  swizzle_atomicity
};

/// Applies one `tensormap.replace.tile.<field> [map], {ordinal,} value`. Encodings are those of the instruction, which
/// differ from the driver's: `rank` is the rank minus one, `elemtype` has its own numbering. The result is not
/// validated as a whole, because maps are edited field by field.
Result<void> replace_field(TensorMap& map, TensorMapField field, std::uint32_t ordinal, std::uint64_t value);

}  // namespace ptxbench::emulator
