#pragma once

#include <deque>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/error.h"
#include "candidate/abi.h"

namespace ptxbench::gpu {

/// FlashInfer's kernels as TVM-FFI modules, built ahead of time by scripts/build_flashinfer.sh: one library each, the
/// libtvm_ffi.so that they were built with, and VERSION.
struct FlashInferFolder {
  std::filesystem::path path;
  std::string version;  ///< "0.6.14"
};

/// $PTXBENCH_FLASHINFER, else the folder flashinfer beside the program, else .deps/flashinfer. The error says where
/// none is and how to get one.
Result<FlashInferFolder> find_flashinfer();

/// Arguments of a module's function, in order. They refer to the memory that they are told, and live as long as this.
class FfiArguments {
 public:
  using Any = candidate::abi::Any;
  using Dtype = candidate::abi::Dtype;
  using Device = candidate::abi::Device;

  static constexpr Dtype kInt32{candidate::abi::DtypeCode::integer, 32, 1};
  static constexpr Dtype kBytes{candidate::abi::DtypeCode::unsigned_integer, 8, 1};
  static constexpr Dtype kFloat32{candidate::abi::DtypeCode::floating, 32, 1};
  static constexpr Dtype kBfloat16{candidate::abi::DtypeCode::bfloat, 16, 1};
  static constexpr Device kHost{candidate::abi::DeviceType::cpu, 0};

  /// Dense and row-major.
  void tensor(void* data, Device device, Dtype dtype, std::initializer_list<std::int64_t> shape);
  void integer(std::int64_t value);
  void boolean(bool value);
  void number(double value);
  void nothing(int count = 1);
  /// What another function returned; still owned by whoever got it.
  void object(const Any& value) { list_.push_back(value); }

  const std::vector<Any>& list() const { return list_; }

 private:
  struct Storage {
    candidate::abi::Tensor tensor;
    std::vector<std::int64_t> shape, strides;
  };
  std::vector<Any> list_;
  std::deque<Storage> tensors_;
};

/// One library, loaded for good: what CUDA's runtime keeps of it cannot be taken back.
class FlashInferModule {
 public:
  /// `name`: "decode". Errors name the file.
  static Result<FlashInferModule> load(const FlashInferFolder& folder, const std::string& name,
                                       std::initializer_list<const char*> functions);

  /// Function `index` of those given to load(), on `stream` of GPU `device`. Who gets an object must release() it.
  Result<candidate::abi::Any> call(std::size_t index, const FfiArguments& arguments, int device, void* stream) const;
  void release(const candidate::abi::Any& value) const;

 private:
  std::string name_;
  std::vector<std::string> function_names_;
  std::vector<candidate::abi::EntryFunction> functions_;
  candidate::abi::SetStreamFunction set_stream_ = nullptr;
  candidate::abi::MoveErrorFunction move_error_ = nullptr;
  candidate::abi::ReleaseFunction release_ = nullptr;
};

}  // namespace ptxbench::gpu
