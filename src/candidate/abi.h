#pragma once

#include <cstddef>
#include <cstdint>

/// The binary interface between a candidate's library and whoever calls it (TVM-FFI and DLPack, as structures of our
/// own). A test compares these with the headers that candidates are compiled against.
namespace ptxbench::candidate::abi {

enum class DeviceType : std::int32_t { cpu = 1, cuda = 2 };

/// DLPack's dtype codes.
enum class DtypeCode : std::uint8_t {
  integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12,
  float4_e2m1fn = 17,
};

struct Dtype {
  DtypeCode code = DtypeCode::floating;
  std::uint8_t bits = 32;
  std::uint16_t lanes = 1;
};

struct Device {
  DeviceType type = DeviceType::cuda;
  std::int32_t id = 0;
};

struct Tensor {
  void* data = nullptr;
  Device device;
  std::int32_t ndim = 0;
  Dtype dtype;
  std::int64_t* shape = nullptr;    ///< `ndim` extents
  std::int64_t* strides = nullptr;  ///< `ndim` strides in elements
  std::uint64_t byte_offset = 0;
};

enum class TypeIndex : std::int32_t { none = 0, integer = 1, boolean = 2, floating = 3, tensor_pointer = 7 };

/// One argument or the result. The caller presets the result to `none`.
struct Any {
  TypeIndex type = TypeIndex::none;
  std::uint32_t zero = 0;
  union {
    std::int64_t integer = 0;
    double floating;
    Tensor* tensor;
    void* pointer;
  };
};

struct Bytes {
  const char* data = nullptr;
  std::size_t size = 0;
};

struct ObjectHeader {
  std::uint64_t combined_ref_count = 0;
  std::int32_t type_index = 0;
  std::uint32_t padding = 0;
  void (*deleter)(void* self, int flags) = nullptr;
};

/// What a handle from TVMFFIErrorMoveFromRaised points at; release it with TVMFFIObjectDecRef.
struct ErrorObject {
  ObjectHeader header;
  Bytes kind;
  Bytes message;
  Bytes backtrace;  ///< lines `  File "kernel.cu", line 12, in ...`, innermost first
  void (*update_backtrace)(void* self, const Bytes* backtrace, std::int32_t mode) = nullptr;
  void* cause_chain = nullptr;
  void* extra_context = nullptr;
};

/// The symbol a candidate exports. 0: done. -1: this thread's pending error says why.
inline constexpr const char* kEntrySymbol = "__tvm_ffi_run";
using EntryFunction = int (*)(void* self, const Any* args, std::int32_t count, Any* result);

// Found with dlsym in libtvm_ffi.so, ours or upstream's.
using SetStreamFunction = int (*)(std::int32_t device_type, std::int32_t device_id, void* stream, void** old_stream);
using MoveErrorFunction = void (*)(void** error);
using ReleaseFunction = int (*)(void* object);
inline constexpr const char* kSetStreamSymbol = "TVMFFIEnvSetStream";
inline constexpr const char* kMoveErrorSymbol = "TVMFFIErrorMoveFromRaised";
inline constexpr const char* kReleaseSymbol = "TVMFFIObjectDecRef";

static_assert(sizeof(Dtype) == 4 && sizeof(Device) == 8 && sizeof(Tensor) == 48);
static_assert(sizeof(Any) == 16 && offsetof(Any, integer) == 8);
static_assert(sizeof(ObjectHeader) == 24 && offsetof(ErrorObject, kind) == 24);

}  // namespace ptxbench::candidate::abi
