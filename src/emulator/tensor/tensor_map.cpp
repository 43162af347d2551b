#include "emulator/tensor/tensor_map.h"

#include <cstring>

namespace ptxbench::emulator {
namespace {

// tensormap.replace .elemtype values 0..12 (PTX ISA, "tensormap.replace").
constexpr std::array kReplaceElementTypes = {
    TensorDataType::u8,   TensorDataType::u16,  TensorDataType::u32,     TensorDataType::s32,     TensorDataType::u64,
    TensorDataType::s64,  TensorDataType::f16,  TensorDataType::f32,     TensorDataType::f32_ftz, TensorDataType::f64,
    TensorDataType::bf16, TensorDataType::tf32, TensorDataType::tf32_ftz};

Result<void> check_ordinal(const char* field, std::uint32_t ordinal, std::uint32_t limit) {
  if (ordinal >= limit) {
    return input_error("tensormap.replace {}: ordinal {} is out of range, dimensions are 0..{}", field, ordinal,
                       limit - 1);
  }
  return {};
}

Result<void> check_range(const char* field, std::uint64_t value, std::uint64_t lowest, std::uint64_t highest) {
  if (value < lowest || value > highest) {
    return input_error("tensormap.replace {}: value {} is outside {}..{}", field, value, lowest, highest);
  }
  return {};
}

}  // namespace

unsigned element_bytes(TensorDataType type) {
  switch (type) {
    case TensorDataType::u8:
      return 1;
    case TensorDataType::u16:
    case TensorDataType::f16:
    case TensorDataType::bf16:
      return 2;
    case TensorDataType::u32:
    case TensorDataType::s32:
    case TensorDataType::f32:
    case TensorDataType::f32_ftz:
    case TensorDataType::tf32:
    case TensorDataType::tf32_ftz:
      return 4;
    case TensorDataType::u64:
    case TensorDataType::s64:
    case TensorDataType::f64:
      return 8;
    case TensorDataType::u4x16_align8:
    case TensorDataType::u4x16_align16:
    case TensorDataType::u6x16_align16:
      return 0;
  }
  return 0;
}

bool is_floating(TensorDataType type) {
  switch (type) {
    case TensorDataType::f16:
    case TensorDataType::bf16:
    case TensorDataType::f32:
    case TensorDataType::f64:
    case TensorDataType::f32_ftz:
    case TensorDataType::tf32:
    case TensorDataType::tf32_ftz:
      return true;
    default:
      return false;
  }
}

const char* to_string(TensorDataType type) {
  constexpr std::array names = {"UINT8",        "UINT16",       "UINT32",        "INT32",
                                "UINT64",       "INT64",        "FLOAT16",       "FLOAT32",
                                "FLOAT64",      "BFLOAT16",     "FLOAT32_FTZ",   "TFLOAT32",
                                "TFLOAT32_FTZ", "16U4_ALIGN8B", "16U4_ALIGN16B", "16U6_ALIGN16B"};
  const auto index = static_cast<std::size_t>(type);
  return index < names.size() ? names[index] : "?";
}

unsigned swizzle_span(TensorSwizzle swizzle) {
  switch (swizzle) {
    case TensorSwizzle::none:
      return 0;
    case TensorSwizzle::bytes32:
      return 32;
    case TensorSwizzle::bytes64:
      return 64;
    case TensorSwizzle::bytes128:
    case TensorSwizzle::bytes128_atom32:
    case TensorSwizzle::bytes128_atom32_flip8:
    case TensorSwizzle::bytes128_atom64:
      return 128;
  }
  return 0;
}

Result<TensorMap> read_tensor_map(const std::byte* bytes) {
  TensorMap map;
  std::memcpy(&map, bytes, sizeof map);
  if (map.magic != TensorMap::kMagic || map.version != TensorMap::kVersion) {
    return input_error(
        "the 128 bytes given as a tensor map are not one: they were never filled by cuTensorMapEncodeTiled, were "
        "overwritten, or were copied in part; pass the CUtensorMap as a `const __grid_constant__` parameter or copy "
        "all "
        "128 bytes to 64-byte aligned global or constant memory");
  }
  return map;
}

Result<void> replace_address(void* tensor_map, std::uint64_t global_address) {
  auto map = read_tensor_map(static_cast<const std::byte*>(tensor_map));
  if (!map) {
    return tl::unexpected(map.error());
  }
  map->global_address = global_address;
  if (auto valid = validate(*map); !valid) {
    return valid;
  }
  std::memcpy(tensor_map, &*map, sizeof *map);
  return {};
}

Result<void> replace_field(TensorMap& map, TensorMapField field, std::uint32_t ordinal, std::uint64_t value) {
  Result<void> checked;
  switch (field) {
    case TensorMapField::global_address:
      map.global_address = value;
      return {};
    case TensorMapField::rank:
      checked = check_range(".rank", value, 0, kMaxTensorRank - 1);
      if (checked) {
        map.rank = static_cast<std::uint8_t>(value + 1);
      }
      return checked;
    case TensorMapField::box_dim:
      checked = check_ordinal(".box_dim", ordinal, kMaxTensorRank).and_then([&] {
        return check_range(".box_dim", value, 1, 256);
      });
      if (checked) {
        map.box_dims[ordinal] = static_cast<std::uint16_t>(value);
      }
      return checked;
    case TensorMapField::global_dim:
      checked = check_ordinal(".global_dim", ordinal, kMaxTensorRank).and_then([&] {
        return check_range(".global_dim", value, 1, 1ULL << 32);
      });
      if (checked) {
        map.global_dims[ordinal] = value;
      }
      return checked;
    case TensorMapField::global_stride:
      checked = check_ordinal(".global_stride", ordinal, kMaxTensorRank - 1);
      if (checked && (value % 16 != 0 || value >= 1ULL << 40)) {
        checked = input_error("tensormap.replace .global_stride: {} bytes is not a multiple of 16 below 2^40", value);
      }
      if (checked) {
        map.global_strides[ordinal] = value;
      }
      return checked;
    case TensorMapField::element_stride:
      checked = check_ordinal(".element_stride", ordinal, kMaxTensorRank).and_then([&] {
        return check_range(".element_stride", value, 1, 8);
      });
      if (checked) {
        map.element_strides[ordinal] = static_cast<std::uint8_t>(value);
      }
      return checked;
    case TensorMapField::elemtype:
      if (value >= kReplaceElementTypes.size()) {
        return input_error("unsupported: tensormap.replace .elemtype value {} (packed sub-byte types are not modelled)",
                           value);
      }
      map.data_type = kReplaceElementTypes[value];
      return {};
    case TensorMapField::interleave_layout:
      checked = check_range(".interleave_layout", value, 0, 2);
      if (checked) {
        map.interleave = static_cast<TensorInterleave>(value);
      }
      return checked;
    case TensorMapField::swizzle_mode:
      if (value > 3) {
        return input_error("unsupported: tensormap.replace .swizzle_mode value {} (only none, 32B, 64B and 128B)",
                           value);
      }
      map.swizzle = static_cast<TensorSwizzle>(value);
      return {};
    case TensorMapField::fill_mode:
      checked = check_range(".fill_mode", value, 0, 1);
      if (checked) {
        map.oob_fill = static_cast<TensorOobFill>(value);
      }
      return checked;
    case TensorMapField::swizzle_atomicity:
      if (value != 0) {
        return input_error("unsupported: tensormap.replace .swizzle_atomicity value {} (only the 16-byte atom)", value);
      }
      return {};
  }
  return input_error("tensormap.replace: unknown field");
}

}  // namespace ptxbench::emulator
