// The same candidate source, compiled with both sets of headers, loaded with our libtvm_ffi.so.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "candidate/abi.h"
#include "candidate/elf_symbols.h"
#include "candidate/toolchain.h"

namespace ptxbench::candidate {
namespace {

class Sample : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()).empty()) GTEST_SKIP() << "upstream headers were not installed when this was built";
    const auto runtime = find_ffi_runtime();
    ASSERT_TRUE(runtime) << runtime.error().message;
    ffi_ = dlopen(runtime->c_str(), RTLD_NOW | RTLD_GLOBAL);
    ASSERT_NE(ffi_, nullptr) << dlerror();
    library_ = dlopen(GetParam(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library_, nullptr) << dlerror();
    entry_ = reinterpret_cast<abi::EntryFunction>(dlsym(library_, abi::kEntrySymbol));
    ASSERT_NE(entry_, nullptr);
  }

  /// "" when the call succeeded, else "Kind: message".
  std::string call(const std::vector<abi::Any>& arguments) {
    abi::Any result;
    if (entry_(nullptr, arguments.data(), static_cast<std::int32_t>(arguments.size()), &result) == 0) return "";
    void* handle = nullptr;
    reinterpret_cast<abi::MoveErrorFunction>(dlsym(ffi_, abi::kMoveErrorSymbol))(&handle);
    if (handle == nullptr) return "no error";
    const auto* error = static_cast<const abi::ErrorObject*>(handle);
    backtrace_ = std::string(error->backtrace.data, error->backtrace.size);
    const std::string text =
        std::string(error->kind.data, error->kind.size) + ": " + std::string(error->message.data, error->message.size);
    reinterpret_cast<abi::ReleaseFunction>(dlsym(ffi_, abi::kReleaseSymbol))(handle);
    return text;
  }

  static abi::Any tensor(abi::Tensor& value) {
    abi::Any any;
    any.type = abi::TypeIndex::tensor_pointer;
    any.tensor = &value;
    return any;
  }
  static abi::Any number(double value) {
    abi::Any any;
    any.type = abi::TypeIndex::floating;
    any.floating = value;
    return any;
  }
  static abi::Any number(std::int64_t value) {
    abi::Any any;
    any.type = abi::TypeIndex::integer;
    any.integer = value;
    return any;
  }

  void* ffi_ = nullptr;
  void* library_ = nullptr;
  abi::EntryFunction entry_ = nullptr;
  std::string backtrace_;
};

TEST_P(Sample, BehavesTheSame) {
  std::int64_t shape[2] = {4, 8}, strides[2] = {8, 1}, out_shape[1] = {8}, out_strides[1] = {1};
  double seen[8] = {};
  abi::Tensor a, out;
  a.ndim = 2;
  a.shape = shape;
  a.strides = strides;
  a.dtype = {abi::DtypeCode::bfloat, 16, 1};
  out.ndim = 1;
  out.shape = out_shape;
  out.strides = out_strides;
  out.dtype = {abi::DtypeCode::floating, 64, 1};
  out.data = seen;
  void* old = nullptr;
  reinterpret_cast<abi::SetStreamFunction>(dlsym(ffi_, abi::kSetStreamSymbol))(2, 0, seen, &old);
  EXPECT_EQ(call({tensor(a), tensor(out), number(0.25), number(std::int64_t{-7})}), "");
  const double expected[7] = {32, 8, 1, 0.25, -7, 8 + 4 + 1 + 2, 1};
  for (int i = 0; i < 7; ++i) EXPECT_EQ(seen[i], expected[i]) << i;
  // An integer passes where a floating-point number is wanted, not the other way round.
  EXPECT_EQ(call({tensor(a), tensor(out), number(std::int64_t{3}), number(std::int64_t{1})}), "");
  EXPECT_EQ(seen[3], 3.0);
  EXPECT_TRUE(call({tensor(a), tensor(out), number(0.5), number(0.5)}).starts_with("TypeError"));
  EXPECT_TRUE(call({tensor(a), number(1.0), number(0.5), number(std::int64_t{1})}).starts_with("TypeError"));
  EXPECT_TRUE(call({tensor(a), tensor(out)}).starts_with("TypeError"));

  shape[0] = 13;
  EXPECT_EQ(call({tensor(a), tensor(out), number(0.25), number(std::int64_t{1})}), "ValueError: thirteen rows of 8");
  EXPECT_NE(backtrace_.find("sample_candidate.cpp"), std::string::npos) << backtrace_;
  a.ndim = 1;
  EXPECT_NE(call({tensor(a), tensor(out), number(0.25), number(std::int64_t{1})}).find("(1 vs. 2)"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Lean, Sample, ::testing::Values(LEAN_SAMPLE));
INSTANTIATE_TEST_SUITE_P(Upstream, Sample, ::testing::Values(UPSTREAM_SAMPLE));

}  // namespace
}  // namespace ptxbench::candidate
