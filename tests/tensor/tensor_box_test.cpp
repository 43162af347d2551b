#include "emulator/tensor/tensor_box.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace ptxbench::emulator {
namespace {

constexpr std::uint64_t kDeviceAddress = 0x7000'0000'0000;
constexpr std::uint32_t kSharedBytes = 1U << 18;  // more than the largest box below

struct Scene {
  TensorMap map;
  BoxCoordinates coordinates{};
  std::uint32_t shared_address = 0;
  std::vector<std::byte> global;
  std::vector<std::byte> shared = std::vector<std::byte>(kSharedBytes);

  GlobalWindow window() {
    return {reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(global.data()) - kDeviceAddress)};
  }
  SharedWindow shared_window() { return {shared.data(), kSharedBytes}; }
};

// Where TMA puts byte `offset` of the dense box, written bit by bit.
std::uint32_t place(TensorSwizzle swizzle, std::uint32_t address) {
  const auto bit = [&](unsigned n) { return (address >> n) & 1U; };
  std::uint32_t result = address;
  const unsigned bits = swizzle == TensorSwizzle::bytes128  ? 3
                        : swizzle == TensorSwizzle::bytes64 ? 2
                        : swizzle == TensorSwizzle::bytes32 ? 1
                                                            : 0;
  for (unsigned i = 0; i < bits; ++i) {
    result ^= bit(7 + i) << (4 + i);
  }
  return result;
}

// Visits each element of the box: its byte in shared memory before swizzling (from the box's start), whether it
// exists, its byte offset in the tensor. With a swizzle each row starts on a new line of the swizzle's width. For
// stores the row ends at a multiple of 16 bytes.
template <class Visit>
void for_each_element(const TensorMap& map, const BoxCoordinates& coordinates, BoxDirection direction, Visit visit) {
  const auto row_elements = [&] {
    const std::uint64_t bytes = map.global_dims[0] * element_bytes(map.data_type);
    return direction == BoxDirection::load ? map.global_dims[0] : (bytes + 15) / 16 * 16 / element_bytes(map.data_type);
  }();
  std::array<int, 5> counts{1, 1, 1, 1, 1};
  for (unsigned i = 0; i < map.rank; ++i) {
    const int step = i == 0 ? 1 : map.element_strides[i];
    counts[i] = (map.box_dims[i] + step - 1) / step;
  }
  const unsigned size = element_bytes(map.data_type);
  const unsigned row = static_cast<unsigned>(counts[0]) * size;
  const unsigned line = map.swizzle == TensorSwizzle::none ? row : 16U << static_cast<unsigned>(map.swizzle);
  std::uint32_t row_start = 0;
  std::array<int, 5> j{};
  for (j[4] = 0; j[4] < counts[4]; ++j[4]) {
    for (j[3] = 0; j[3] < counts[3]; ++j[3]) {
      for (j[2] = 0; j[2] < counts[2]; ++j[2]) {
        for (j[1] = 0; j[1] < counts[1]; ++j[1], row_start += line) {
          for (j[0] = 0; j[0] < counts[0]; ++j[0]) {
            bool exists = true;
            std::int64_t offset = 0;
            for (unsigned i = 0; i < map.rank; ++i) {
              const std::int64_t c =
                  coordinates[i] + static_cast<std::int64_t>(j[i]) * (i == 0 ? 1 : map.element_strides[i]);
              exists = exists && c >= 0 && c < static_cast<std::int64_t>(i == 0 ? row_elements : map.global_dims[i]);
              offset +=
                  c * static_cast<std::int64_t>(i == 0 ? element_bytes(map.data_type) : map.global_strides[i - 1]);
            }
            visit(row_start + static_cast<unsigned>(j[0]) * size, exists, offset);
          }
        }
      }
    }
  }
}

Scene random_scene(std::mt19937& random, BoxDirection direction) {
  const auto pick = [&](std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(low + random() % (high - low + 1));
  };
  Scene scene;
  TensorMap& map = scene.map;
  constexpr std::array types = {TensorDataType::u8,  TensorDataType::bf16, TensorDataType::f16, TensorDataType::f32,
                                TensorDataType::u32, TensorDataType::f64,  TensorDataType::u16};
  map.data_type = types[random() % types.size()];
  map.rank = static_cast<std::uint8_t>(pick(1, 5));
  map.swizzle = static_cast<TensorSwizzle>(pick(0, 3));
  map.oob_fill = is_floating(map.data_type) && random() % 2 ? TensorOobFill::nan : TensorOobFill::zeros;
  map.global_address = kDeviceAddress;
  const std::uint32_t size = element_bytes(map.data_type);
  const std::uint32_t span = swizzle_span(map.swizzle);
  const std::uint32_t row = 16 * (span == 0 ? pick(1, 12) : random() % 2 ? span / 16 : pick(1, span / 16));
  std::uint64_t bytes = 0;
  for (unsigned i = 0; i < map.rank; ++i) {
    map.global_dims[i] = i == 0 ? pick(1, 100) : pick(1, map.rank > 3 ? 5 : 20);
    map.box_dims[i] = static_cast<std::uint16_t>(i == 0 ? row / size : pick(1, map.rank > 3 ? 4 : 16));
    map.element_strides[i] = static_cast<std::uint8_t>(i != 0 && random() % 4 == 0 ? pick(1, 8) : 1);
    if (i == 0) {
      bytes = (map.global_dims[0] * size + 15) / 16 * 16 + 16 * pick(0, 2);
    } else {
      map.global_strides[i - 1] = bytes;
      bytes *= map.global_dims[i];
    }
    const int reach = static_cast<int>(map.box_dims[i]) + static_cast<int>(map.global_dims[i]);
    scene.coordinates[i] = random() % 2 ? 0 : static_cast<int>(random() % static_cast<unsigned>(2 * reach)) - reach;
    if (i == 0) {
      scene.coordinates[0] = scene.coordinates[0] / static_cast<int>(16 / size) * static_cast<int>(16 / size);
    }
    if (direction == BoxDirection::store) {
      scene.coordinates[i] = std::max(scene.coordinates[i], 0);
    }
  }
  scene.shared_address = 128 * pick(0, 40);
  scene.global.resize(bytes);
  for (auto& b : scene.global) {
    b = static_cast<std::byte>(random());
  }
  for (auto& b : scene.shared) {
    b = static_cast<std::byte>(random());
  }
  return scene;
}

TEST(TensorBox, LoadMatchesElementWiseModel) {
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) {
    Scene scene = random_scene(random, BoxDirection::load);
    const TensorMap& map = scene.map;
    ASSERT_TRUE(check_box(map, map.rank, scene.shared_address, kSharedBytes).has_value());
    std::vector<std::byte> expected = scene.shared;
    const std::uint32_t size = element_bytes(map.data_type);
    std::uint32_t elements = 0;
    for_each_element(map, scene.coordinates, BoxDirection::load,
                     [&](std::uint32_t inside, bool exists, std::int64_t offset) {
                       ++elements;
                       for (std::uint32_t b = 0; b < size; ++b) {
                         const std::byte fill = map.oob_fill == TensorOobFill::zeros ? std::byte{0}
                                                : b % 2                              ? std::byte{0x7f}
                                                                                     : std::byte{0xf7};
                         expected[place(map.swizzle, scene.shared_address + inside + b)] =
                             exists ? scene.global[static_cast<std::size_t>(offset) + b] : fill;
                       }
                     });
    load_box(map, scene.coordinates, scene.shared_window(), scene.shared_address, scene.window());
    ASSERT_EQ(std::memcmp(expected.data(), scene.shared.data(), kSharedBytes), 0) << "round " << round;
    ASSERT_EQ(box_geometry(map).transfer_bytes, elements * size);
  }
}

TEST(TensorBox, StoreMatchesElementWiseModel) {
  std::mt19937 random(2);
  for (int round = 0; round < 1500; ++round) {
    Scene scene = random_scene(random, BoxDirection::store);
    const TensorMap& map = scene.map;
    std::vector<std::byte> expected = scene.global;
    const std::uint32_t size = element_bytes(map.data_type);
    for_each_element(map, scene.coordinates, BoxDirection::store,
                     [&](std::uint32_t inside, bool exists, std::int64_t offset) {
                       for (std::uint32_t b = 0; exists && b < size; ++b) {
                         expected[static_cast<std::size_t>(offset) + b] =
                             scene.shared[place(map.swizzle, scene.shared_address + inside + b)];
                       }
                     });
    store_box(map, scene.coordinates, scene.shared_window(), scene.shared_address, scene.window());
    ASSERT_EQ(expected, scene.global) << "round " << round;
  }
}

TEST(TensorBox, RunsCoverExactlyTheExistingElements) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    const BoxDirection direction = round % 2 ? BoxDirection::load : BoxDirection::store;
    Scene scene = random_scene(random, direction);
    const TensorMap& map = scene.map;
    const std::uint32_t size = element_bytes(map.data_type);
    std::map<std::uint64_t, std::uint32_t> expected;  // global address -> shared address, per byte
    for_each_element(map, scene.coordinates, direction, [&](std::uint32_t inside, bool exists, std::int64_t offset) {
      for (std::uint32_t b = 0; exists && b < size; ++b) {
        expected[kDeviceAddress + static_cast<std::uint64_t>(offset) + b] =
            place(map.swizzle, scene.shared_address + inside + b);
      }
    });
    std::map<std::uint64_t, std::uint32_t> seen;
    for_each_box_run(map, scene.coordinates, direction, scene.shared_address, false, [&](const BoxRun& run) {
      for (std::uint32_t b = 0; b < run.bytes; ++b) {
        ASSERT_TRUE(seen.emplace(run.global_address + b, run.shared_address + b).second);
      }
    });
    ASSERT_EQ(seen, expected) << "round " << round;
    // Merged: the same sets of bytes on both sides.
    std::map<std::uint64_t, int> global_set;
    std::map<std::uint64_t, int> shared_set;
    for_each_box_run(map, scene.coordinates, direction, scene.shared_address, true, [&](const BoxRun& run) {
      for (std::uint32_t b = 0; b < run.bytes; ++b) {
        ++global_set[run.global_address + b];
        ++shared_set[run.shared_address + b];
      }
    });
    std::map<std::uint64_t, int> ranges;
    for_each_global_range(map, scene.coordinates, direction, [&](std::uint64_t address, std::uint64_t bytes) {
      for (std::uint64_t b = 0; b < bytes; ++b) {
        ++ranges[address + b];
      }
    });
    std::map<std::uint64_t, int> expected_global;
    std::map<std::uint64_t, int> expected_shared;
    for (const auto& [global, shared] : expected) {
      ++expected_global[global];
      ++expected_shared[shared];
    }
    ASSERT_EQ(global_set, expected_global);
    ASSERT_EQ(shared_set, expected_shared);
    ASSERT_EQ(ranges, expected_global);
  }
}

TEST(TensorBox, ContiguousRowsAreOneGlobalRange) {
  TensorMap map;
  map.rank = 2;
  map.data_type = TensorDataType::f32;
  map.global_address = kDeviceAddress;
  map.global_dims = {32, 100};
  map.global_strides = {128};
  map.box_dims = {32, 16};
  map.element_strides = {1, 1};
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;
  for_each_global_range(map, {0, 90}, BoxDirection::load,
                        [&](std::uint64_t address, std::uint64_t bytes) { ranges.emplace_back(address, bytes); });
  ASSERT_EQ(ranges.size(), 1U);
  EXPECT_EQ(ranges[0].first, kDeviceAddress + 90 * 128);
  EXPECT_EQ(ranges[0].second, 10U * 128);  // rows 100.. do not exist
}

TEST(TensorBox, CoordinatesTheHardwareRefuses) {
  TensorMap map;
  map.rank = 2;
  map.data_type = TensorDataType::bf16;
  EXPECT_TRUE(check_coordinates(map, {-8, -3}, BoxDirection::load).has_value());
  EXPECT_TRUE(check_coordinates(map, {24, 3}, BoxDirection::store).has_value());
  EXPECT_THAT(check_coordinates(map, {4, 0}, BoxDirection::load).error().message, ::testing::HasSubstr("16 bytes"));
  EXPECT_THAT(check_coordinates(map, {-8, 0}, BoxDirection::store).error().message, ::testing::HasSubstr("negative"));
  EXPECT_THAT(check_coordinates(map, {0, -1}, BoxDirection::store).error().message, ::testing::HasSubstr("negative"));
}

TEST(TensorBox, CheckBoxNamesTheFault) {
  TensorMap map;
  map.rank = 2;
  map.data_type = TensorDataType::bf16;
  map.global_address = kDeviceAddress;
  map.global_dims = {64, 64};
  map.global_strides = {128};
  map.box_dims = {64, 64};
  map.element_strides = {1, 1};
  EXPECT_TRUE(check_box(map, 2, 1024, 16384).has_value());
  EXPECT_THAT(check_box(map, 3, 1024, 16384).error().message, ::testing::HasSubstr("rank"));
  EXPECT_THAT(check_box(map, 2, 1040, 16384).error().message, ::testing::HasSubstr("128"));
  EXPECT_THAT(check_box(map, 2, 8320, 16384).error().message, ::testing::HasSubstr("exceeds"));
  map.rank = 3;
  map.global_dims[2] = 1;
  map.global_strides[1] = 128;
  map.box_dims[2] = map.element_strides[2] = 1;
  map.interleave = TensorInterleave::bytes16;
  EXPECT_THAT(check_box(map, 3, 1024, 16384).error().message, ::testing::HasSubstr("unsupported"));
}

template <class T>
T reduce_one(BulkReduction operation, TensorDataType type, T left, T right) {
  reduce_elements(operation, type, reinterpret_cast<std::byte*>(&left), reinterpret_cast<const std::byte*>(&right), 1);
  return left;
}

TEST(TensorReduce, Integers) {
  using enum BulkReduction;
  EXPECT_EQ(reduce_one<std::uint32_t>(add, TensorDataType::u32, 0xffffffffU, 2), 1U);
  EXPECT_EQ(reduce_one<std::int32_t>(min, TensorDataType::s32, -5, 3), -5);
  EXPECT_EQ(reduce_one<std::uint32_t>(min, TensorDataType::u32, 0xfffffffbU, 3), 3U);
  EXPECT_EQ(reduce_one<std::int64_t>(max, TensorDataType::s64, -5, -7), -5);
  EXPECT_EQ(reduce_one<std::uint32_t>(inc, TensorDataType::u32, 7, 7), 0U);
  EXPECT_EQ(reduce_one<std::uint32_t>(inc, TensorDataType::u32, 6, 7), 7U);
  EXPECT_EQ(reduce_one<std::uint32_t>(dec, TensorDataType::u32, 0, 7), 7U);
  EXPECT_EQ(reduce_one<std::uint32_t>(dec, TensorDataType::u32, 9, 7), 7U);
  EXPECT_EQ(reduce_one<std::uint32_t>(dec, TensorDataType::u32, 5, 7), 4U);
  EXPECT_EQ(reduce_one<std::uint64_t>(bit_xor, TensorDataType::u64, 0xf0, 0xff), 0x0fU);
  EXPECT_EQ(reduce_one<std::uint32_t>(bit_and, TensorDataType::u32, 0xf0, 0x3f), 0x30U);
  EXPECT_EQ(reduce_one<std::uint32_t>(bit_or, TensorDataType::u32, 0xf0, 0x0f), 0xffU);
}

TEST(TensorReduce, Floats) {
  using enum BulkReduction;
  EXPECT_EQ(reduce_one<float>(add, TensorDataType::f32, 1.5F, 2.25F), 3.75F);
  EXPECT_EQ(reduce_one<std::uint32_t>(add, TensorDataType::f32, 0x00128352, 0x000e48f0), 0x0020cc42U);  // subnormal
  EXPECT_EQ(reduce_one<std::uint32_t>(add, TensorDataType::f32_ftz, 0x00128352, 0x3f800000), 0x3f800000U);
  EXPECT_EQ(reduce_one<std::uint32_t>(add, TensorDataType::f32_ftz, 0x80128352, 0x80128352), 0x80000000U);
  EXPECT_EQ(reduce_one<double>(add, TensorDataType::f64, 1.0, 1e-20), 1.0);
  // f16: 2048 + 1 is a tie and stays even; the smallest subnormals add exactly.
  EXPECT_EQ(reduce_one<std::uint16_t>(add, TensorDataType::f16, 0x6800, 0x3c00), 0x6800);
  EXPECT_EQ(reduce_one<std::uint16_t>(add, TensorDataType::f16, 0x0001, 0x0001), 0x0002);
  EXPECT_EQ(reduce_one<std::uint16_t>(add, TensorDataType::bf16, 0x3f80, 0x3f80), 0x4000);
  EXPECT_EQ(reduce_one<std::uint16_t>(max, TensorDataType::bf16, 0xbf80, 0x3f80), 0x3f80);
  EXPECT_EQ(reduce_one<std::uint16_t>(min, TensorDataType::f16, 0x7fff, 0x3c00), 0x3c00);  // NaN gives way
}

TEST(TensorReduce, OnlyDefinedPairs) {
  using enum BulkReduction;
  EXPECT_FALSE(check_reduction(min, TensorDataType::f32).has_value());
  EXPECT_FALSE(check_reduction(add, TensorDataType::u8).has_value());
  EXPECT_FALSE(check_reduction(inc, TensorDataType::s32).has_value());
  EXPECT_FALSE(check_reduction(bit_or, TensorDataType::f16).has_value());
  EXPECT_FALSE(check_reduction(add, TensorDataType::s64).has_value());
  EXPECT_TRUE(check_reduction(add, TensorDataType::bf16).has_value());
}

TEST(TensorReduce, BoxAddsOnlyExistingElements) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    Scene scene = random_scene(random, BoxDirection::store);
    if (scene.map.data_type != TensorDataType::u32) {
      continue;
    }
    std::vector<std::byte> expected = scene.global;
    for_each_element(
        scene.map, scene.coordinates, BoxDirection::store, [&](std::uint32_t inside, bool exists, std::int64_t offset) {
          if (exists) {
            std::uint32_t left;
            std::uint32_t right;
            std::memcpy(&left, expected.data() + offset, 4);
            std::memcpy(&right, scene.shared.data() + place(scene.map.swizzle, scene.shared_address + inside), 4);
            left += right;
            std::memcpy(expected.data() + offset, &left, 4);
          }
        });
    reduce_box(BulkReduction::add, scene.map, scene.coordinates, scene.shared_window(), scene.shared_address,
               scene.window());
    ASSERT_EQ(expected, scene.global);
  }
}

}  // namespace
}  // namespace ptxbench::emulator
