#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/files.h"

namespace ptxbench::base {
namespace {

// Digests published in FIPS 180-4's example documents.
constexpr const char* kSha256Empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kSha256Abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

TEST(Hash, Sha256OfKnownTexts) {
  EXPECT_EQ(sha256_hex(""), kSha256Empty);
  EXPECT_EQ(sha256_hex("abc"), kSha256Abc);
}

TEST(Hash, PiecesEqualTheWhole) {
  Sha256 hash;
  hash.update("a").update("").update("bc");
  EXPECT_EQ(hash.hex(), kSha256Abc);
}

TEST(Hash, FieldsAreSeparated) {
  EXPECT_NE(Sha256().update_field("ab").update_field("c").hex(), Sha256().update_field("a").update_field("bc").hex());
}

TEST(Hash, UseAfterTheEndThrows) {
  Sha256 hash;
  hash.hex();
  EXPECT_THROW(hash.update("x"), std::logic_error);
  EXPECT_THROW(hash.hex(), std::logic_error);
}

TEST(Hash, FileEqualsItsBytes) {
  auto folder = TempDir::create();
  ASSERT_TRUE(folder);
  const std::string bytes(200'000, '\7');
  ASSERT_TRUE(write_file_atomic(folder->path() / "f", bytes));
  EXPECT_EQ(sha256_file(folder->path() / "f").value(), sha256_hex(bytes));
  ASSERT_TRUE(write_file_atomic(folder->path() / "abc", "abc"));
  EXPECT_EQ(sha256_file(folder->path() / "abc").value(), kSha256Abc);
  const auto missing = sha256_file(folder->path() / "none");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message.find("none"), std::string::npos);
}

TEST(Hash, Sha1OfKnownTextAndOfTheTraceFormatsVector) {
  EXPECT_EQ(sha1_hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  // The solution hash concatenates definition, language, entry point, binding and each source's path and content.
  const std::string head =
      "gemm_n7168_k5120"
      "cuda"
      "kernel.cu::run";
  const std::string source =
      "kernel.cu"
      "// demo\n";
  EXPECT_EQ(sha1_hex(head + "tvm-ffi" + source), "9a6e57930aec57d2f6ed80a29529a3d614837665");
  EXPECT_EQ(sha1_hex(head + source), "bbb58513fff3054d2cda9524679a621cb741831b");
}

}  // namespace
}  // namespace ptxbench::base
