// Linked into every Triton candidate's library: carries out the plan of launches that was recorded when the candidate
// was compiled. Needs the driver and the C library only.

#include <cuda.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "candidate/abi.h"
#include "triton/plan.h"

namespace abi = ptxbench::candidate::abi;
namespace plan = ptxbench::triton::plan;

extern "C" {
// From the object that package.cpp assembles.
extern const unsigned char ptxbench_triton_plan[];
extern const unsigned char ptxbench_triton_module[];  ///< the wrapper of the device code
// From libtvm_ffi.so.
void* TVMFFIEnvGetStream(std::int32_t device_type, std::int32_t device_id);
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
}

namespace {

constexpr unsigned kMostParameters = 1024;
constexpr unsigned kDefaultShared = 48 * 1024;
constexpr unsigned kPortableCluster = 8;
constexpr std::uint64_t kAlignment = 16;  ///< that Triton's code relies on

template <class T>
const T* at(std::uint64_t offset) {
  return reinterpret_cast<const T*>(ptxbench_triton_plan + offset);
}

[[gnu::format(printf, 2, 3)]] int raise(const char* kind, const char* format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  TVMFFIErrorSetRaisedFromCStr(kind, text);
  return -1;
}

int raise(const char* call, const char* what, CUresult result) {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "unknown error";
  return raise("RuntimeError", "%s(%s): %s (%d)", call, what, name, static_cast<int>(result));
}

/// What lasts between calls.
struct State {
  std::mutex mutex;
  bool ready = false;
  CUfunction* functions = nullptr;
  CUdeviceptr** scratch = nullptr;  ///< by call and buffer; null until the call is made
};

State& state() {
  static State one;
  return one;
}

int prepare(State& now) {
  if (now.ready) return 0;
  CUcontext context = nullptr;
  if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) return raise("cuInit", "", result);
  if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || context == nullptr) {
    CUresult result = cuDevicePrimaryCtxRetain(&context, 0);
    if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
    if (result != CUDA_SUCCESS) return raise("cuDevicePrimaryCtxRetain", "", result);
  }
  CUmodule module = nullptr;
  if (const CUresult result = cuModuleLoadData(&module, ptxbench_triton_module); result != CUDA_SUCCESS) {
    return raise("cuModuleLoadData", "", result);
  }
  const auto* header = at<plan::Header>(0);
  now.functions = static_cast<CUfunction*>(std::calloc(header->kernels, sizeof(CUfunction)));
  now.scratch = static_cast<CUdeviceptr**>(std::calloc(header->calls, sizeof(CUdeviceptr*)));
  if (now.functions == nullptr || now.scratch == nullptr) return raise("RuntimeError", "out of memory");
  for (std::uint32_t i = 0; i < header->kernels; ++i) {
    const plan::Kernel& kernel = at<plan::Kernel>(header->kernel_table)[i];
    const char* name = at<char>(kernel.name);
    CUfunction& function = now.functions[i];
    if (const CUresult result = cuModuleGetFunction(&function, module, name); result != CUDA_SUCCESS) {
      return raise("cuModuleGetFunction", name, result);
    }
    if (kernel.shared > kDefaultShared) {
      const CUresult result = cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                 static_cast<int>(kernel.shared));
      if (result != CUDA_SUCCESS) return raise("cuFuncSetAttribute", name, result);
    }
    if (kernel.cluster > kPortableCluster) {
      const CUresult result = cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
      if (result != CUDA_SUCCESS) return raise("cuFuncSetAttribute", name, result);
    }
  }
  now.ready = true;
  return 0;
}

bool is_dense(const abi::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t step = 1;
  for (std::int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != step) return false;
    step *= tensor.shape[i];
  }
  return true;
}

bool matches(const plan::Argument& wanted, const abi::Any& given) {
  std::uint64_t bits = 0;
  switch (wanted.kind) {
    case plan::ArgumentKind::tensor: {
      if (given.type != abi::TypeIndex::tensor_pointer) return false;
      const abi::Tensor& tensor = *given.tensor;
      if (static_cast<std::uint32_t>(tensor.ndim) != wanted.dimensions ||
          static_cast<std::uint8_t>(tensor.dtype.code) != wanted.code || tensor.dtype.bits != wanted.bits ||
          tensor.dtype.lanes != 1 || !is_dense(tensor)) {
        return false;
      }
      return std::memcmp(tensor.shape, wanted.shape, wanted.dimensions * sizeof(std::int64_t)) == 0;
    }
    case plan::ArgumentKind::integer:
      return (given.type == abi::TypeIndex::integer || given.type == abi::TypeIndex::boolean) &&
             static_cast<std::uint64_t>(given.integer) == wanted.value;
    case plan::ArgumentKind::floating:
      if (given.type != abi::TypeIndex::floating) return false;
      std::memcpy(&bits, &given.floating, sizeof bits);
      return bits == wanted.value;
  }
  return false;
}

std::uint64_t address_of(const abi::Tensor& tensor) {
  return reinterpret_cast<std::uint64_t>(tensor.data) + tensor.byte_offset;
}

int encode(const plan::Parameter& what, std::uint64_t address, CUtensorMap* out) {
  const cuuint32_t element_strides[plan::kMostRank] = {1, 1, 1, 1, 1};
  cuuint64_t shape[plan::kMostRank], strides[plan::kMostRank];
  for (std::uint32_t i = 0; i < plan::kMostRank; ++i) {
    shape[i] = what.shape[i];
    strides[i] = what.strides[i];
  }
  // The innermost stride is the element's size and not given.
  const CUresult result = cuTensorMapEncodeTiled(
      out, static_cast<CUtensorMapDataType>(what.type), what.rank, reinterpret_cast<void*>(address), shape, strides + 1,
      what.box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, static_cast<CUtensorMapSwizzle>(what.swizzle),
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      what.nan_fill != 0 ? CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA : CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? 0 : raise("cuTensorMapEncodeTiled", "a tensor descriptor", result);
}

/// A parameter's bytes, with room for the largest.
union alignas(128) Slot {
  std::uint64_t bits;
  CUtensorMap map;
};

int launch(const State& now, const plan::Step& step, const CUdeviceptr* buffers, CUstream stream) {
  const plan::Kernel& kernel = at<plan::Kernel>(at<plan::Header>(0)->kernel_table)[step.kernel];
  static Slot slots[kMostParameters];
  static void* pointers[kMostParameters];
  for (std::uint32_t i = 0; i < step.parameters; ++i) {
    const plan::Parameter& one = at<plan::Parameter>(step.parameter_table)[i];
    pointers[i] = &slots[i];
    switch (one.kind) {
      case plan::ParameterKind::null:
        slots[i].bits = 0;
        break;
      case plan::ParameterKind::pointer:
        slots[i].bits = buffers[one.buffer] + one.offset;
        break;
      case plan::ParameterKind::scalar:
        slots[i].bits = one.value;
        break;
      case plan::ParameterKind::tensor_map:
        if (const int failed = encode(one, buffers[one.buffer] + one.offset, &slots[i].map); failed != 0) return failed;
        break;
    }
  }
  CUlaunchAttribute attributes[3];
  std::memset(attributes, 0, sizeof attributes);
  CUlaunchConfig config;
  std::memset(&config, 0, sizeof config);
  config.gridDimX = step.grid[0] * kernel.cluster;
  config.gridDimY = step.grid[1];
  config.gridDimZ = step.grid[2];
  config.blockDimX = kernel.threads;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = kernel.shared;
  config.hStream = stream;
  config.attrs = attributes;
  if (step.dependent != 0) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[config.numAttrs++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (step.cooperative != 0) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
    attributes[config.numAttrs++].value.cooperative = 1;
  }
  if (kernel.cluster > 1) {
    CUlaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    cluster.value.clusterDim.x = kernel.cluster;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
  }
  const CUresult result = cuLaunchKernelEx(&config, now.functions[step.kernel], pointers, nullptr);
  return result == CUDA_SUCCESS ? 0 : raise("cuLaunchKernelEx", at<char>(kernel.name), result);
}

int fill(const plan::Step& step, const CUdeviceptr* buffers, CUstream stream) {
  const CUdeviceptr to = buffers[step.buffer] + step.offset;
  const std::uint64_t count = step.bytes / step.width;
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (step.value == 0) {
    result = cuMemsetD8Async(to, 0, step.bytes, stream);
  } else if (step.width == 1) {
    result = cuMemsetD8Async(to, static_cast<unsigned char>(step.value), count, stream);
  } else if (step.width == 2) {
    result = cuMemsetD16Async(to, static_cast<unsigned short>(step.value), count, stream);
  } else if (step.width == 4) {
    result = cuMemsetD32Async(to, static_cast<unsigned>(step.value), count, stream);
  } else {  // both halves in turn
    result = cuMemsetD2D32Async(to, 8, static_cast<unsigned>(step.value), 1, count, stream);
    if (result == CUDA_SUCCESS)
      result = cuMemsetD2D32Async(to + 4, 8, static_cast<unsigned>(step.value >> 32), 1, count, stream);
  }
  return result == CUDA_SUCCESS ? 0 : raise("cuMemsetAsync", "a tensor", result);
}

int copy(const plan::Step& step, const CUdeviceptr* buffers, CUstream stream) {
  const CUresult result =
      cuMemcpyDtoDAsync(buffers[step.buffer] + step.offset, buffers[step.from] + step.from_offset, step.bytes, stream);
  return result == CUDA_SUCCESS ? 0 : raise("cuMemcpyDtoDAsync", "a tensor", result);
}

/// Scratch of a call, made once: as PyTorch's allocator would find the same memory again.
int allocate(State& now, std::uint32_t index, const plan::Call& call) {
  if (now.scratch[index] != nullptr) return 0;
  auto* buffers = static_cast<CUdeviceptr*>(std::calloc(call.buffers + 1, sizeof(CUdeviceptr)));
  if (buffers == nullptr) return raise("RuntimeError", "out of memory");
  for (std::uint32_t i = 0; i < call.buffers; ++i) {
    const plan::Buffer& buffer = at<plan::Buffer>(call.buffer_table)[i];
    if (buffer.argument != plan::kScratch || buffer.bytes == 0) continue;
    if (const CUresult result = cuMemAlloc(&buffers[i], buffer.bytes); result != CUDA_SUCCESS) {
      return raise("cuMemAlloc", "scratch", result);
    }
  }
  now.scratch[index] = buffers;
  return 0;
}

int carry_out(State& now, std::uint32_t index, const plan::Call& call, const abi::Any* args) {
  if (const int failed = allocate(now, index, call); failed != 0) return failed;
  CUdeviceptr* buffers = now.scratch[index];
  for (std::uint32_t i = 0; i < call.buffers; ++i) {
    const plan::Buffer& buffer = at<plan::Buffer>(call.buffer_table)[i];
    if (buffer.argument == plan::kScratch) continue;
    buffers[i] = address_of(*args[buffer.argument].tensor);
    if (buffers[i] % kAlignment != 0) {
      return raise("ValueError", "argument %d is not aligned to 16 bytes, which the compiled kernel relies on",
                   static_cast<int>(buffer.argument));
    }
  }
  auto* stream = static_cast<CUstream>(TVMFFIEnvGetStream(static_cast<std::int32_t>(abi::DeviceType::cuda), 0));
  for (std::uint32_t i = 0; i < call.steps; ++i) {
    const plan::Step& step = at<plan::Step>(call.step_table)[i];
    const int failed = step.kind == plan::StepKind::launch ? launch(now, step, buffers, stream)
                       : step.kind == plan::StepKind::fill ? fill(step, buffers, stream)
                                                           : copy(step, buffers, stream);
    if (failed != 0) return failed;
  }
  return 0;
}

}  // namespace

extern "C" [[gnu::visibility("default")]] int __tvm_ffi_run(void*, const abi::Any* args, std::int32_t count,
                                                            abi::Any*) {
  const auto* header = at<plan::Header>(0);
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (const int failed = prepare(now); failed != 0) return failed;
  for (std::uint32_t i = 0; i < header->calls; ++i) {
    const plan::Call& call = at<plan::Call>(header->call_table)[i];
    if (call.arguments != static_cast<std::uint32_t>(count)) continue;
    bool fits = true;
    for (std::uint32_t k = 0; k < call.arguments && fits; ++k) {
      fits = matches(at<plan::Argument>(call.argument_table)[k], args[k]);
    }
    if (fits) return carry_out(now, i, call, args);
  }
  return raise("ValueError",
               "these shapes, types or numbers are not among those that the Triton kernels were compiled for (%u)",
               header->calls);
}
