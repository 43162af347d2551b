#include "cuda_shim/fatbin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "base/files.h"

namespace ptxbench::cuda_shim {
namespace {

using ::testing::HasSubstr;

std::string fixture(const std::string& name) {
  auto bytes = base::read_file("tests/cuda_shim/data/" + name);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes.value_or("");
}
std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The PTX as it lies uncompressed in its container: found by its first directive, not by our parser.
std::string plain_ptx() {
  const std::string bytes = fixture("ptx_plain.fatbin");
  const std::size_t begin = bytes.find(".version");
  return bytes.substr(begin, bytes.rfind('}') + 1 - begin);
}

class Compressed : public ::testing::TestWithParam<const char*> {};

TEST_P(Compressed, UnpacksToTheSamePtx) {
  const auto text = select_ptx(as_bytes(fixture(GetParam())));
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, HasSubstr(plain_ptx()));
  EXPECT_THAT(*text, HasSubstr(".target sm_90a"));
  EXPECT_EQ(text->find('\0'), std::string::npos);
}
INSTANTIATE_TEST_SUITE_P(AllModes, Compressed,
                         ::testing::Values("ptx_plain.fatbin", "ptx_default.fatbin", "ptx_lz4.fatbin",
                                           "ptx_size.fatbin", "ptx_balance.fatbin", "ptx_compress_all.fatbin",
                                           "ptx_several.fatbin"));

TEST(Fatbin, ListsEntries) {
  const std::string bytes = fixture("ptx_several.fatbin");
  const auto entries = parse_fatbin(as_bytes(bytes));
  ASSERT_TRUE(entries) << entries.error().message;
  std::vector<std::string> names;
  for (const FatbinEntry& entry : *entries) names.push_back(entry.name());
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("compute_75 PTX", "compute_80 PTX", "compute_90a PTX",
                                                     "compute_100a PTX"));
}

TEST(Fatbin, ReadsContainersInARow) {
  const std::string bytes =
      fixture("machine_code.fatbin") + std::string(24, '\0') + fixture("ptx_lz4.fatbin") + std::string(8, '\0');
  const auto entries = parse_fatbin(as_bytes(bytes));
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name(), "sm_90a machine code");
  EXPECT_EQ((*entries)[1].compression, FatbinCompression::lz4);
}

TEST(Fatbin, RefusesWhatHasNoUsablePtx) {
  for (const char* name : {"machine_code.fatbin", "ptx_other.fatbin"}) {
    const auto text = select_ptx(as_bytes(fixture(name)));
    ASSERT_FALSE(text) << name;
    EXPECT_THAT(text.error().message, HasSubstr("-gencode arch=compute_90a,code=[sm_90a,compute_90a]"));
    EXPECT_THAT(text.error().message, HasSubstr("NVCC_APPEND_FLAGS"));
  }
}

TEST(Fatbin, RefusesOtherBytes) {
  EXPECT_FALSE(parse_fatbin(as_bytes("this is no container at all")));
  EXPECT_FALSE(fatbin_bytes(as_bytes("short")));
  const auto empty = parse_fatbin({});
  ASSERT_TRUE(empty);
  EXPECT_TRUE(empty->empty());
}

TEST(Fatbin, RefusesEveryTruncation) {
  const std::string whole = fixture("ptx_several.fatbin");
  for (std::size_t length = 1; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_fatbin(as_bytes(whole.substr(0, length)))) << length;
  }
}

TEST(Fatbin, RefusesDamagedPayloads) {
  for (const char* name : {"ptx_lz4.fatbin", "ptx_size.fatbin"}) {
    std::string bytes = fixture(name);
    const uint64_t claimed = 1ull << 40;
    std::memcpy(bytes.data() + 16 + 56, &claimed, sizeof claimed);
    EXPECT_FALSE(select_ptx(as_bytes(bytes))) << name;
  }
}

TEST(Fatbin, SurvivesRandomDamage) {
  std::mt19937 random(7);
  for (const char* name : {"ptx_several.fatbin", "ptx_lz4.fatbin", "ptx_plain.fatbin", "machine_code.fatbin"}) {
    const std::string whole = fixture(name);
    for (int round = 0; round < 3000; ++round) {
      std::string bytes = whole;
      const int changes = 1 + static_cast<int>(random() % 8);
      // Headers decide most; hit them more often than the payload.
      for (int i = 0; i < changes; ++i)
        bytes[random() % (random() % 2 == 0 ? 128 : bytes.size())] = static_cast<char>(random());
      const auto entries = parse_fatbin(as_bytes(bytes));
      if (!entries) continue;
      for (const FatbinEntry& entry : *entries) {
        if (entry.unpacked_bytes < (1u << 20)) static_cast<void>(unpack(entry));
      }
    }
  }
}

}  // namespace
}  // namespace ptxbench::cuda_shim
