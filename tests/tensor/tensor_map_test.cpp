#include "emulator/tensor/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace ptxbench::emulator {
namespace {

using ::testing::HasSubstr;

// A valid call: a row-major 4096x1024 bf16 matrix, 64x64 boxes, 128-byte swizzle.
struct Arguments {
  std::uint32_t data_type = 9;
  std::uint32_t rank = 2;
  std::uint64_t address = 0x10000;
  std::vector<std::uint64_t> dims{1024, 4096};
  std::vector<std::uint64_t> strides{2048};
  std::vector<std::uint32_t> box{64, 64};
  std::vector<std::uint32_t> steps{1, 1};
  std::uint32_t interleave = 0;
  std::uint32_t swizzle = 3;
  std::uint32_t promotion = 2;
  std::uint32_t fill = 0;
};

Result<TensorMap> encode(const Arguments& a) {
  alignas(64) std::byte storage[kTensorMapBytes]{};
  auto encoded = encode_tiled(storage, a.data_type, a.rank, a.address, a.dims.data(), a.strides.data(), a.box.data(),
                              a.steps.data(), a.interleave, a.swizzle, a.promotion, a.fill);
  if (!encoded) {
    return tl::unexpected(encoded.error());
  }
  return read_tensor_map(storage);
}

Arguments rank3() {
  Arguments a;
  a.rank = 3;
  a.dims = {1024, 4096, 8};
  a.strides = {2048, 2048 * 4096};
  a.box = {64, 64, 1};
  a.steps = {1, 1, 1};
  return a;
}

TEST(TensorMap, KeepsEveryArgument) {
  const auto map = encode(Arguments{});
  ASSERT_TRUE(map.has_value()) << map.error().message;
  EXPECT_EQ(map->data_type, TensorDataType::bf16);
  EXPECT_EQ(map->rank, 2);
  EXPECT_EQ(map->global_address, 0x10000U);
  EXPECT_EQ(map->global_dims[1], 4096U);
  EXPECT_EQ(map->global_strides[0], 2048U);
  EXPECT_EQ(map->box_dims[0], 64);
  EXPECT_EQ(map->swizzle, TensorSwizzle::bytes128);
  EXPECT_EQ(map->l2_promotion, TensorL2Promotion::bytes128);
}

TEST(TensorMap, RefusesWhatTheDriverRefuses) {
  struct Case {
    std::function<void(Arguments&)> change;
    std::string argument;
  };
  const std::vector<Case> cases = {
      {[](Arguments& a) { a.rank = 0; }, "tensorRank"},
      {[](Arguments& a) { a.rank = 6; }, "tensorRank"},
      {[](Arguments& a) { a.data_type = 16; }, "tensorDataType"},
      {[](Arguments& a) { a.address += 8; }, "globalAddress"},
      {[](Arguments& a) { a.dims[1] = 0; }, "globalDim[1]"},
      {[](Arguments& a) { a.dims[0] = (1ULL << 32) + 1; }, "globalDim[0]"},
      {[](Arguments& a) { a.strides[0] = 2056; }, "globalStrides[0]"},
      {[](Arguments& a) { a.strides[0] = 1ULL << 40; }, "globalStrides[0]"},
      {[](Arguments& a) { a.box[1] = 257; }, "boxDim[1]"},
      {[](Arguments& a) { a.box[1] = 0; }, "boxDim[1]"},
      {[](Arguments& a) { a.box[0] = 4; }, "boxDim[0]"},    // 8 bytes
      {[](Arguments& a) { a.box[0] = 128; }, "boxDim[0]"},  // wider than the 128-byte swizzle
      {[](Arguments& a) { a.steps[1] = 9; }, "elementStrides[1]"},
      {[](Arguments& a) { a.steps[1] = 0; }, "elementStrides[1]"},
      {[](Arguments& a) { a.steps[0] = 0; }, "elementStrides[0]"},
      {[](Arguments& a) {
         a = rank3();
         a.box = {64, 256, 8};
       },
       "boxDim"},  // 256 KB
      {[](Arguments& a) {
         a = rank3();
         a.interleave = 1;
         a.box[0] = 12;
       },
       "boxDim[0]"},
      {[](Arguments& a) { a.interleave = 1; }, "tensorRank"},  // needs rank 3
      {[](Arguments& a) {
         a = rank3();
         a.interleave = 2;
       },
       "swizzle"},
      {[](Arguments& a) {
         a = rank3();
         a.interleave = 2;
         a.swizzle = 1;
         a.address = 0x10010;
       },
       "globalAddress"},
      {[](Arguments& a) {
         a = rank3();
         a.interleave = 2;
         a.swizzle = 1;
         a.strides[0] = 2064;
       },
       "globalStrides[0]"},
      {[](Arguments& a) { a.interleave = 3; }, "interleave"},
      {[](Arguments& a) { a.swizzle = 7; }, "swizzle"},
      {[](Arguments& a) { a.promotion = 4; }, "l2Promotion"},
      {[](Arguments& a) { a.fill = 2; }, "oobFill"},
      {[](Arguments& a) {
         a.data_type = 2;
         a.box[0] = 32;
         a.fill = 1;
       },
       "oobFill"},  // NaN for an integer
      {[](Arguments& a) { a.swizzle = 4; }, "unsupported"},
      {[](Arguments& a) { a.data_type = 13; }, "unsupported"},
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Arguments a;
    cases[i].change(a);
    const auto map = encode(a);
    ASSERT_FALSE(map.has_value()) << "case " << i;
    EXPECT_THAT(map.error().message, HasSubstr(cases[i].argument)) << "case " << i;
  }
}

TEST(TensorMap, AcceptsTheLimits) {
  Arguments a;
  a.dims = {1ULL << 32, 1ULL << 32};
  a.strides = {(1ULL << 40) - 16};
  a.box = {8, 256};
  a.steps = {1, 8};
  a.fill = 1;
  EXPECT_TRUE(encode(a).has_value());
  a.swizzle = 0;
  a.box[0] = 256;
  EXPECT_TRUE(encode(a).has_value());
  Arguments interleaved = rank3();
  interleaved.interleave = 1;
  interleaved.box[0] = 8;
  EXPECT_TRUE(encode(interleaved).has_value());
}

TEST(TensorMap, RejectsNullAndMisalignedPointers) {
  alignas(64) std::byte storage[192]{};
  const Arguments a;
  const auto call = [&](void* map, const std::uint64_t* dims, const std::uint64_t* strides) {
    return encode_tiled(map, a.data_type, a.rank, a.address, dims, strides, a.box.data(), a.steps.data(), 0, 3, 0, 0);
  };
  EXPECT_TRUE(call(storage, a.dims.data(), a.strides.data()).has_value());
  EXPECT_FALSE(call(storage + 16, a.dims.data(), a.strides.data()).has_value());
  EXPECT_FALSE(call(nullptr, a.dims.data(), a.strides.data()).has_value());
  EXPECT_FALSE(call(storage, nullptr, a.strides.data()).has_value());
  EXPECT_FALSE(call(storage, a.dims.data(), nullptr).has_value());
}

TEST(TensorMap, GarbageIsRecognised) {
  alignas(64) std::byte storage[kTensorMapBytes];
  std::memset(storage, 0, sizeof storage);
  EXPECT_FALSE(read_tensor_map(storage).has_value());
  std::memset(storage, 0xcd, sizeof storage);
  EXPECT_FALSE(read_tensor_map(storage).has_value());
  EXPECT_THAT(encode_im2col().error().message, HasSubstr("unsupported"));
}

TEST(TensorMap, ReplaceFields) {
  TensorMap map = *encode(rank3());
  EXPECT_TRUE(replace_field(map, TensorMapField::global_address, 0, 0x20000).has_value());
  EXPECT_TRUE(replace_field(map, TensorMapField::rank, 0, 1).has_value());  // zero-based
  EXPECT_TRUE(replace_field(map, TensorMapField::box_dim, 1, 32).has_value());
  EXPECT_TRUE(replace_field(map, TensorMapField::global_dim, 1, 77).has_value());
  EXPECT_TRUE(replace_field(map, TensorMapField::global_stride, 0, 4096).has_value());
  EXPECT_TRUE(replace_field(map, TensorMapField::element_stride, 1, 2).has_value());
  EXPECT_TRUE(replace_field(map, TensorMapField::elemtype, 0, 6).has_value());  // .f16
  EXPECT_TRUE(replace_field(map, TensorMapField::swizzle_mode, 0, 2).has_value());
  EXPECT_TRUE(replace_field(map, TensorMapField::fill_mode, 0, 1).has_value());
  EXPECT_EQ(map.global_address, 0x20000U);
  EXPECT_EQ(map.rank, 2);
  EXPECT_EQ(map.box_dims[1], 32);
  EXPECT_EQ(map.global_dims[1], 77U);
  EXPECT_EQ(map.global_strides[0], 4096U);
  EXPECT_EQ(map.element_strides[1], 2);
  EXPECT_EQ(map.data_type, TensorDataType::f16);
  EXPECT_EQ(map.swizzle, TensorSwizzle::bytes64);
  EXPECT_EQ(map.oob_fill, TensorOobFill::nan);
  EXPECT_FALSE(validate(map).has_value());  // 128-byte rows no longer fit the 64-byte swizzle
  EXPECT_TRUE(replace_field(map, TensorMapField::swizzle_mode, 0, 3).has_value());
  EXPECT_TRUE(validate(map).has_value());

  EXPECT_FALSE(replace_field(map, TensorMapField::rank, 0, 5).has_value());
  EXPECT_FALSE(replace_field(map, TensorMapField::box_dim, 5, 32).has_value());
  EXPECT_FALSE(replace_field(map, TensorMapField::box_dim, 0, 300).has_value());
  EXPECT_FALSE(replace_field(map, TensorMapField::global_stride, 0, 24).has_value());
  EXPECT_FALSE(replace_field(map, TensorMapField::elemtype, 0, 13).has_value());
  EXPECT_FALSE(replace_field(map, TensorMapField::swizzle_mode, 0, 4).has_value());
}

TEST(TensorMap, ReplaceElementTypesFollowTheInstruction) {
  // PTX numbering: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz.
  const std::vector<TensorDataType> expected = {
      TensorDataType::u8,   TensorDataType::u16,  TensorDataType::u32,     TensorDataType::s32,     TensorDataType::u64,
      TensorDataType::s64,  TensorDataType::f16,  TensorDataType::f32,     TensorDataType::f32_ftz, TensorDataType::f64,
      TensorDataType::bf16, TensorDataType::tf32, TensorDataType::tf32_ftz};
  TensorMap map = *encode(Arguments{});
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(replace_field(map, TensorMapField::elemtype, 0, i).has_value());
    EXPECT_EQ(map.data_type, expected[i]);
  }
}

TEST(TensorMap, ReplaceAddress) {
  alignas(64) std::byte storage[kTensorMapBytes];
  const TensorMap map = *encode(Arguments{});
  std::memcpy(storage, &map, sizeof map);
  EXPECT_TRUE(replace_address(storage, 0x40000).has_value());
  EXPECT_EQ(read_tensor_map(storage)->global_address, 0x40000U);
  EXPECT_FALSE(replace_address(storage, 0x40008).has_value());
}

}  // namespace
}  // namespace ptxbench::emulator
