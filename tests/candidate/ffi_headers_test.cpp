// The lean TVM-FFI headers and our libtvm_ffi.so, called as the runner calls a candidate.
#define PTXBENCH_STD_OPTIONAL
#define PTXBENCH_STD_STRING
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <gtest/gtest.h>

#include <cstddef>
#include <stdexcept>
#include <thread>

#include "candidate/abi.h"

namespace call_abi = ptxbench::candidate::abi;

// The caller's structures and the candidate's must be the same bytes.
static_assert(sizeof(call_abi::Tensor) == sizeof(DLTensor));
static_assert(offsetof(call_abi::Tensor, device) == offsetof(DLTensor, device));
static_assert(offsetof(call_abi::Tensor, ndim) == offsetof(DLTensor, ndim));
static_assert(offsetof(call_abi::Tensor, dtype) == offsetof(DLTensor, dtype));
static_assert(offsetof(call_abi::Tensor, shape) == offsetof(DLTensor, shape));
static_assert(offsetof(call_abi::Tensor, strides) == offsetof(DLTensor, strides));
static_assert(offsetof(call_abi::Tensor, byte_offset) == offsetof(DLTensor, byte_offset));
static_assert(sizeof(call_abi::Any) == sizeof(TVMFFIAny) && sizeof(TVMFFIAny) == 16);
static_assert(offsetof(call_abi::Any, integer) == offsetof(TVMFFIAny, v_int64));
static_assert(sizeof(call_abi::ObjectHeader) == sizeof(TVMFFIObject));
static_assert(static_cast<int>(call_abi::TypeIndex::tensor_pointer) == kTVMFFIDLTensorPtr);
static_assert(static_cast<int>(call_abi::DtypeCode::bfloat) == kDLBfloat);
static_assert(static_cast<int>(call_abi::DtypeCode::float8_e4m3fn) == kDLFloat8_e4m3fn);
static_assert(static_cast<int>(call_abi::DtypeCode::float8_e5m2) == kDLFloat8_e5m2);

namespace {

struct Seen {
  std::int64_t rows = 0, columns = 0, numel = 0, last_stride = 0;
  bool contiguous = false, has_mask = false;
  double scale = 0;
  std::int64_t count = 0;
  bool flag = false;
  void* stream = nullptr;
} seen;

void demo(tvm::ffi::TensorView a, const tvm::ffi::TensorView& b, float scale, int32_t count, bool flag,
          tvm::ffi::Optional<tvm::ffi::TensorView> mask) {
  TVM_FFI_ICHECK_EQ(a.ndim(), 2) << "a is a matrix";
  if (a.size(1) != b.size(-1)) TVM_FFI_THROW(ValueError) << "columns " << a.size(1) << " and " << b.size(-1);
  if (count == 7) throw std::runtime_error("seven");
  seen = {a.size(0),
          a.sizes()[1],
          a.numel(),
          a.stride(-1),
          a.is_contiguous(),
          mask.has_value(),
          scale,
          count,
          flag,
          TVMFFIEnvGetStream(a.device().device_type, a.device().device_id)};
}

int add(int x, int y) { return x + y; }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(demo, demo);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(half, [](double x) { return x / 2; });
TVM_FFI_DLL_EXPORT_TYPED_FUNC(maybe, [](std::optional<int64_t> x) { return x.value_or(-1); });

namespace {

struct Matrix {
  std::int64_t shape[2], strides[2];
  call_abi::Tensor tensor;
  Matrix(std::int64_t rows, std::int64_t columns) : shape{rows, columns}, strides{columns, 1} {
    tensor.ndim = 2;
    tensor.shape = shape;
    tensor.strides = strides;
    tensor.dtype = {call_abi::DtypeCode::bfloat, 16, 1};
  }
};

call_abi::Any any(call_abi::Tensor& tensor) {
  call_abi::Any value;
  value.type = call_abi::TypeIndex::tensor_pointer;
  value.tensor = &tensor;
  return value;
}
call_abi::Any any(std::int64_t integer) {
  call_abi::Any value;
  value.type = call_abi::TypeIndex::integer;
  value.integer = integer;
  return value;
}
call_abi::Any any(double floating) {
  call_abi::Any value;
  value.type = call_abi::TypeIndex::floating;
  value.floating = floating;
  return value;
}
call_abi::Any any(bool boolean) {
  call_abi::Any value;
  value.type = call_abi::TypeIndex::boolean;
  value.integer = boolean;
  return value;
}

using Entry = int (*)(void*, const TVMFFIAny*, std::int32_t, TVMFFIAny*);
int call(Entry entry, const std::vector<call_abi::Any>& args, call_abi::Any* result) {
  return entry(nullptr, reinterpret_cast<const TVMFFIAny*>(args.data()), static_cast<std::int32_t>(args.size()),
               reinterpret_cast<TVMFFIAny*>(result));
}

/// "Kind: message" of the pending error.
std::string take_error() {
  void* handle = nullptr;
  TVMFFIErrorMoveFromRaised(&handle);
  if (handle == nullptr) return "";
  const auto* error = static_cast<const call_abi::ErrorObject*>(handle);
  std::string text =
      std::string(error->kind.data, error->kind.size) + ": " + std::string(error->message.data, error->message.size);
  EXPECT_NE(error->backtrace.data, nullptr);
  TVMFFIObjectDecRef(handle);
  return text;
}

TEST(FfiHeaders, PassesEveryKindOfArgument) {
  Matrix a(3, 8), b(5, 8);
  int stream = 0;
  void* old = nullptr;
  ASSERT_EQ(TVMFFIEnvSetStream(2, 0, &stream, &old), 0);
  EXPECT_EQ(old, nullptr);
  call_abi::Any result;
  ASSERT_EQ(call(&__tvm_ffi_demo,
                 {any(a.tensor), any(b.tensor), any(0.5), any(std::int64_t{4}), any(true), call_abi::Any()}, &result),
            0)
      << take_error();
  EXPECT_EQ(seen.rows, 3);
  EXPECT_EQ(seen.columns, 8);
  EXPECT_EQ(seen.numel, 24);
  EXPECT_EQ(seen.last_stride, 1);
  EXPECT_TRUE(seen.contiguous);
  EXPECT_EQ(seen.scale, 0.5);
  EXPECT_EQ(seen.count, 4);
  EXPECT_TRUE(seen.flag);
  EXPECT_FALSE(seen.has_mask);
  EXPECT_EQ(seen.stream, &stream);
  EXPECT_EQ(result.type, call_abi::TypeIndex::none);

  a.strides[0] = 16;
  ASSERT_EQ(call(&__tvm_ffi_demo,
                 {any(a.tensor), any(b.tensor), any(std::int64_t{2}), any(true), any(false), any(b.tensor)}, &result),
            0);
  EXPECT_FALSE(seen.contiguous);
  EXPECT_TRUE(seen.has_mask);
  EXPECT_EQ(seen.scale, 2.0) << "an int passes as a float";
  ASSERT_EQ(TVMFFIEnvSetStream(2, 0, nullptr, &old), 0);
  EXPECT_EQ(old, &stream);
}

TEST(FfiHeaders, StreamsBelongToThreads) {
  int stream = 0;
  TVMFFIEnvSetStream(2, 0, &stream, nullptr);
  void* other = &stream;
  std::thread([&] { other = TVMFFIEnvGetStream(2, 0); }).join();
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(TVMFFIEnvGetStream(2, 1), nullptr);
  TVMFFIEnvSetStream(2, 0, nullptr, nullptr);
}

TEST(FfiHeaders, ReturnsNumbers) {
  call_abi::Any result;
  ASSERT_EQ(call(&__tvm_ffi_add, {any(std::int64_t{2}), any(std::int64_t{3})}, &result), 0);
  EXPECT_EQ(result.type, call_abi::TypeIndex::integer);
  EXPECT_EQ(result.integer, 5);
  ASSERT_EQ(call(&__tvm_ffi_half, {any(3.0)}, &result), 0);
  EXPECT_EQ(result.type, call_abi::TypeIndex::floating);
  EXPECT_EQ(result.floating, 1.5);
  ASSERT_EQ(call(&__tvm_ffi_maybe, {call_abi::Any()}, &result), 0);
  EXPECT_EQ(result.integer, -1);
  ASSERT_EQ(call(&__tvm_ffi_maybe, {any(std::int64_t{9})}, &result), 0);
  EXPECT_EQ(result.integer, 9);
}

TEST(FfiHeaders, ErrorsCrossTheBoundary) {
  Matrix a(3, 8), b(5, 9);
  call_abi::Any result;
  const auto demo_error = [&](const std::vector<call_abi::Any>& args) {
    EXPECT_EQ(call(&__tvm_ffi_demo, args, &result), -1);
    return take_error();
  };
  const std::vector<call_abi::Any> good = {any(a.tensor),        any(a.tensor), any(0.5),
                                           any(std::int64_t{4}), any(true),     call_abi::Any()};
  auto args = good;
  args[1] = any(b.tensor);
  EXPECT_EQ(demo_error(args), "ValueError: columns 8 and 9");
  args = good;
  args.pop_back();
  EXPECT_EQ(demo_error(args), "TypeError: demo takes 6 arguments, but the call passes 5");
  args = good;
  args[0] = any(1.0);
  EXPECT_EQ(demo_error(args), "TypeError: argument 0 of demo must be Tensor, but the call passes float");
  args = good;
  args[3] = any(1.5);
  EXPECT_EQ(demo_error(args), "TypeError: argument 3 of demo must be int, but the call passes float");
  args = good;
  args[3] = any(std::int64_t{7});
  EXPECT_EQ(demo_error(args), "InternalError: seven");
  Matrix cube(1, 1);
  cube.tensor.ndim = 1;
  args = good;
  args[0] = any(cube.tensor);
  EXPECT_EQ(demo_error(args), "InternalError: Check failed: a.ndim() == 2 (1 vs. 2): a is a matrix");
  EXPECT_EQ(take_error(), "") << "taking an error clears it";
}

TEST(FfiHeaders, ErrorObjectsAreFreedOnce) {
  const TVMFFIByteArray text{"abc", 3};
  void* error = nullptr;
  ASSERT_EQ(TVMFFIErrorCreate(&text, &text, &text, &error), 0);
  const auto* header = static_cast<const call_abi::ObjectHeader*>(error);
  EXPECT_EQ(header->combined_ref_count, (std::uint64_t{1} << 32) + 1);
  TVMFFIErrorSetRaised(error);
  EXPECT_EQ(header->combined_ref_count, (std::uint64_t{1} << 32) + 2);
  TVMFFIObjectDecRef(error);
  EXPECT_EQ(take_error(), "abc: abc");
}

TEST(FfiHeaders, MessagesTakeWhatStreamsTake) {
  try {
    const std::string name = "name";
    TVM_FFI_THROW(ValueError) << name << ' ' << 1.5f << ' ' << std::int64_t{-3} << ' ' << std::size_t{4} << ' ' << true
                              << ' ' << kDLCUDA << ' ' << DLDataType{kDLBfloat, 16, 1};
  } catch (const tvm::ffi::Error& error) {
    EXPECT_STREQ(error.what(), "name 1.5 -3 4 1 2 bfloat16");
    const std::string kind = error.kind();
    EXPECT_EQ(kind, "ValueError");
    const std::string backtrace = error.backtrace();
    EXPECT_NE(backtrace.find("ffi_headers_test.cpp\", line "), std::string::npos) << backtrace;
  }
}

TEST(FfiHeaders, StridedViews) {
  Matrix a(4, 8);
  char data[64] = {};
  a.tensor.data = data;
  const tvm::ffi::TensorView view(reinterpret_cast<const DLTensor*>(&a.tensor));
  const std::int64_t shape[2] = {2, 8}, strides[2] = {16, 1};
  const auto half = view.as_strided({shape, 2}, {strides, 2}, std::int64_t{8});
  EXPECT_EQ(half.data_ptr(), data + 16) << "eight bf16 are 16 bytes";
  EXPECT_EQ(half.size(0), 2);
  EXPECT_EQ(half.byte_offset(), 0u);
  EXPECT_FALSE(half.is_contiguous());
  EXPECT_THROW(view.size(2), tvm::ffi::Error);
  EXPECT_THROW(view.size(-3), tvm::ffi::Error);
  EXPECT_THROW(view.shape().at(2), tvm::ffi::Error);
}

}  // namespace
