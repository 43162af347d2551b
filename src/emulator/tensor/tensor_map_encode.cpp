#include "emulator/tensor/tensor_map.h"

#include <cstring>

namespace ptxbench::emulator {
namespace {

constexpr std::uint64_t kMaxGlobalDim = 1ULL << 32;
constexpr std::uint64_t kMaxGlobalStride = 1ULL << 40;
constexpr unsigned kMaxBoxDim = 256;
constexpr unsigned kMaxElementStride = 8;
// Not documented: observed on an H200 (driver 13.0): boxes of up to 228 KB are accepted, larger ones refused, with the
// extent of a strided dimension taken as boxDim / elementStride rounded down.
constexpr std::uint64_t kMaxBoxBytes = 228 * 1024;

const char* swizzle_name(TensorSwizzle swizzle) {
  constexpr std::array names = {"SWIZZLE_NONE",         "SWIZZLE_32B",           "SWIZZLE_64B",
                                "SWIZZLE_128B",         "SWIZZLE_128B_ATOM_32B", "SWIZZLE_128B_ATOM_32B_FLIP_8B",
                                "SWIZZLE_128B_ATOM_64B"};
  return names[static_cast<std::size_t>(swizzle)];
}

Result<void> validate_modes(const TensorMap& map) {
  if (element_bytes(map.data_type) == 0) {
    return input_error("unsupported: tensorDataType {}: packed sub-byte tensor maps are not modelled",
                       to_string(map.data_type));
  }
  if (map.swizzle > TensorSwizzle::bytes128) {
    return input_error("unsupported: swizzle {}: only SWIZZLE_NONE, 32B, 64B and 128B are modelled",
                       swizzle_name(map.swizzle));
  }
  if (map.rank < 1 || map.rank > kMaxTensorRank) {
    return input_error("tensorRank is {}: it must be 1..{}", map.rank, kMaxTensorRank);
  }
  if (map.interleave != TensorInterleave::none && map.rank < 3) {
    return input_error("tensorRank is {}: with an interleaved layout it must be at least 3", map.rank);
  }
  if (map.interleave == TensorInterleave::bytes32 && map.swizzle != TensorSwizzle::bytes32) {
    return input_error("swizzle is {}: INTERLEAVE_32B requires SWIZZLE_32B", swizzle_name(map.swizzle));
  }
  if (map.oob_fill == TensorOobFill::nan && !is_floating(map.data_type)) {
    return input_error("oobFill is NAN_REQUEST_ZERO_FMA: only floating-point types allow it, tensorDataType is {}",
                       to_string(map.data_type));
  }
  return {};
}

Result<void> validate_global(const TensorMap& map) {
  const unsigned alignment = map.interleave == TensorInterleave::bytes32 ? 32 : 16;
  if (map.global_address % alignment != 0) {
    return input_error("globalAddress is {:#x}: it must be a multiple of {} bytes", map.global_address, alignment);
  }
  for (unsigned i = 0; i < map.rank; ++i) {
    if (map.global_dims[i] < 1 || map.global_dims[i] > kMaxGlobalDim) {
      return input_error("globalDim[{}] is {}: it must be 1..2^32", i, map.global_dims[i]);
    }
  }
  for (unsigned i = 0; i + 1 < map.rank; ++i) {
    const std::uint64_t stride = map.global_strides[i];
    if (stride % alignment != 0 || stride >= kMaxGlobalStride) {
      return input_error(
          "globalStrides[{}] is {} bytes: the stride of dimension {} must be a multiple of {} and below 2^40 (pad the "
          "rows, or make the tensor's inner extent a multiple of {} bytes)",
          i, stride, i + 1, alignment, alignment);
    }
  }
  return {};
}

Result<void> validate_box(const TensorMap& map) {
  for (unsigned i = 0; i < map.rank; ++i) {
    if (map.box_dims[i] < 1 || map.box_dims[i] > kMaxBoxDim) {
      return input_error("boxDim[{}] is {}: it must be 1..{}", i, map.box_dims[i], kMaxBoxDim);
    }
  }
  for (unsigned i = 0; i < map.rank; ++i) {
    if (map.element_strides[i] < 1 || map.element_strides[i] > kMaxElementStride) {
      return input_error("elementStrides[{}] is {}: it must be 1..{}", i, map.element_strides[i], kMaxElementStride);
    }
  }
  const unsigned inner_bytes = map.box_dims[0] * element_bytes(map.data_type);
  if (inner_bytes % 16 != 0) {
    return input_error("boxDim[0] is {} elements of {} bytes = {} bytes: the inner box must be a multiple of 16 bytes",
                       map.box_dims[0], element_bytes(map.data_type), inner_bytes);
  }
  std::uint64_t box_bytes = element_bytes(map.data_type);
  for (unsigned i = 0; i < map.rank; ++i) {
    box_bytes *= (map.box_dims[i] + map.element_strides[i] - 1U) / map.element_strides[i];
  }
  if (box_bytes > kMaxBoxBytes) {
    return input_error("boxDim: the box is {} bytes: it may not exceed {} bytes, the shared memory of a multiprocessor",
                       box_bytes, kMaxBoxBytes);
  }
  if (map.interleave != TensorInterleave::none) {
    return {};
  }
  const unsigned span = swizzle_span(map.swizzle);
  if (span != 0 && inner_bytes > span) {
    return input_error(
        "boxDim[0] is {} elements of {} bytes = {} bytes: with {} the inner box may not exceed {} bytes (split the "
        "tile "
        "into several boxes)",
        map.box_dims[0], element_bytes(map.data_type), inner_bytes, swizzle_name(map.swizzle), span);
  }
  return {};
}

Result<void> check_enum(const char* name, std::uint32_t value, std::uint32_t count) {
  if (value >= count) {
    return input_error("{} is {}: not a value of its enumeration (0..{})", name, value, count - 1);
  }
  return {};
}

}  // namespace

Result<void> validate(const TensorMap& map) {
  return validate_modes(map).and_then([&] { return validate_global(map); }).and_then([&] { return validate_box(map); });
}

Result<void> encode_tiled(void* tensor_map, std::uint32_t data_type, std::uint32_t rank, std::uint64_t global_address,
                          const std::uint64_t* global_dims, const std::uint64_t* global_strides,
                          const std::uint32_t* box_dims, const std::uint32_t* element_strides, std::uint32_t interleave,
                          std::uint32_t swizzle, std::uint32_t l2_promotion, std::uint32_t oob_fill) {
  if (tensor_map == nullptr || reinterpret_cast<std::uintptr_t>(tensor_map) % kTensorMapAlignment != 0) {
    return input_error("tensorMap is {}: it must be a non-null address aligned to {} bytes (declare it `alignas(64)`)",
                       fmt::ptr(tensor_map), kTensorMapAlignment);
  }
  if (rank < 1 || rank > kMaxTensorRank) {
    return input_error("tensorRank is {}: it must be 1..{}", rank, kMaxTensorRank);
  }
  if (global_dims == nullptr || box_dims == nullptr || element_strides == nullptr ||
      (global_strides == nullptr && rank > 1)) {
    return input_error("globalDim, boxDim, elementStrides and (for rank above 1) globalStrides must not be null");
  }
  auto enums = check_enum("tensorDataType", data_type, 16)
                   .and_then([&] { return check_enum("interleave", interleave, 3); })
                   .and_then([&] { return check_enum("swizzle", swizzle, 7); })
                   .and_then([&] { return check_enum("l2Promotion", l2_promotion, 4); })
                   .and_then([&] { return check_enum("oobFill", oob_fill, 2); });
  if (!enums) {
    return enums;
  }
  TensorMap map;
  map.rank = static_cast<std::uint8_t>(rank);
  map.data_type = static_cast<TensorDataType>(data_type);
  map.interleave = static_cast<TensorInterleave>(interleave);
  map.swizzle = static_cast<TensorSwizzle>(swizzle);
  map.l2_promotion = static_cast<TensorL2Promotion>(l2_promotion);
  map.oob_fill = static_cast<TensorOobFill>(oob_fill);
  map.global_address = global_address;
  for (unsigned i = 0; i < rank; ++i) {
    // The stored fields are narrower than the arguments, so the range is checked before narrowing.
    if (box_dims[i] < 1 || box_dims[i] > kMaxBoxDim) {
      return input_error("boxDim[{}] is {}: it must be 1..{}", i, box_dims[i], kMaxBoxDim);
    }
    if (element_strides[i] < 1 || element_strides[i] > kMaxElementStride) {
      return input_error("elementStrides[{}] is {}: it must be 1..{}", i, element_strides[i], kMaxElementStride);
    }
    map.global_dims[i] = global_dims[i];
    map.box_dims[i] = static_cast<std::uint16_t>(box_dims[i]);
    map.element_strides[i] = static_cast<std::uint8_t>(element_strides[i]);
    if (i + 1 < rank) {
      map.global_strides[i] = global_strides[i];
    }
  }
  if (auto valid = validate(map); !valid) {
    return valid;
  }
  std::memcpy(tensor_map, &map, sizeof map);
  return {};
}

Result<void> encode_im2col() {
  return input_error("unsupported: cuTensorMapEncodeIm2col: im2col tensor maps are not modelled; use a tiled map");
}

}  // namespace ptxbench::emulator
