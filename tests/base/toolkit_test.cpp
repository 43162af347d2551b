#include "base/toolkit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/files.h"

namespace ptxbench::base {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A folder whose bin/nvcc prints the given version.
fs::path fake_toolkit(const fs::path& root, const std::string& release) {
  const fs::path nvcc = root / "bin" / "nvcc";
  EXPECT_TRUE(write_file_atomic(
      nvcc, "#!/bin/sh\necho 'Cuda compilation tools, release " + release.substr(0, 4) + ", V" + release + "'\n"));
  fs::permissions(nvcc, fs::perms::owner_all);
  return root;
}

class Toolkit : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("PTXBENCH_FORCE_WHEEL_CUDA");
    ::unsetenv("CUDA_HOME");
    ::setenv("PTXBENCH_HOME", dir_.path().c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"PTXBENCH_FORCE_WHEEL_CUDA", "CUDA_HOME", "PTXBENCH_HOME", "PTXBENCH_TVM_FFI"}) {
      ::unsetenv(name);
    }
  }
  TempDir dir_ = TempDir::create("toolkit-test").value();
};

TEST_F(Toolkit, VersionText) {
  EXPECT_EQ(parse_cuda_tool_version("nvcc: x\nCuda compilation tools, release 13.0, V13.0.88\nBuild y"), "13.0.88");
  EXPECT_EQ(parse_cuda_tool_version("no version"), std::nullopt);
  EXPECT_EQ(parse_cuda_tool_version("release 13.0, Vx"), std::nullopt);
}

TEST_F(Toolkit, CudaHomeWins) {
  ::setenv("CUDA_HOME", fake_toolkit(dir_.path() / "c", "13.0.48").c_str(), 1);
  const auto toolkit = find_cuda_toolkit();
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  EXPECT_EQ(toolkit->root, dir_.path() / "c");
  EXPECT_EQ(toolkit->version, "13.0.48");
  EXPECT_EQ(toolkit->origin, "CUDA_HOME");
}

TEST_F(Toolkit, OtherReleasesArePassedOver) {
  ::setenv("CUDA_HOME", fake_toolkit(dir_.path() / "c", "12.8.93").c_str(), 1);
  fake_toolkit(dir_.path() / ".deps" / "cuda", "13.0.88");
  const auto toolkit = find_cuda_toolkit();
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  EXPECT_NE(toolkit->root, dir_.path() / "c");
  EXPECT_THAT(toolkit->version, ::testing::StartsWith("13.0."));
}

TEST_F(Toolkit, SetUpsOwnCopy) {
  ::setenv("PTXBENCH_FORCE_WHEEL_CUDA", "1", 1);
  const auto none = find_cuda_toolkit();
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("scripts/setup.sh"));
  fake_toolkit(dir_.path() / ".deps" / "cuda", "13.1.80");
  const auto newer = find_cuda_toolkit();
  ASSERT_FALSE(newer);
  EXPECT_EQ(newer.error().kind, ErrorKind::infrastructure);
  EXPECT_THAT(newer.error().message, HasSubstr("release 13.1.80, 13.0 is needed"));
  fake_toolkit(dir_.path() / ".deps" / "cuda", "13.0.88");
  const auto toolkit = find_cuda_toolkit();
  ASSERT_TRUE(toolkit) << toolkit.error().message;
  EXPECT_EQ(toolkit->origin, ".deps/cuda");
}

TEST_F(Toolkit, SeparateTools) {
  const fs::path tool = dir_.path() / ".deps" / "cuda-tools" / "bin" / "ptxbench-test-tool";
  EXPECT_FALSE(find_cuda_tool("ptxbench-test-tool", nullptr));
  ASSERT_TRUE(write_file_atomic(tool, "#!/bin/sh\n"));
  fs::permissions(tool, fs::perms::owner_all);
  EXPECT_EQ(find_cuda_tool("ptxbench-test-tool", nullptr), tool);
}

TEST_F(Toolkit, TvmFfi) {
  const auto none = find_tvm_ffi();
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("scripts/setup.sh"));
  const fs::path root = dir_.path() / "ffi";
  ASSERT_TRUE(write_file_atomic(root / "include" / "tvm" / "ffi" / "tvm_ffi.h", ""));
  ASSERT_TRUE(write_file_atomic(root / "lib" / "libtvm_ffi.so", ""));
  ASSERT_TRUE(write_file_atomic(root / "VERSION", "0.1.10\n"));
  ::setenv("PTXBENCH_TVM_FFI", root.c_str(), 1);
  const auto ffi = find_tvm_ffi();
  ASSERT_TRUE(ffi) << ffi.error().message;
  EXPECT_EQ(ffi->version, "0.1.10");
  EXPECT_EQ(ffi->include, root / "include");
}

}  // namespace
}  // namespace ptxbench::base
