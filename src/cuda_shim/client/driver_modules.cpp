#include <algorithm>
#include <cstring>

#include "cuda_shim/client/driver_internal.h"
#include "cuda_shim/client/stubs.h"

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::driver;

namespace {

template <class Handle>
CUresult load(Handle* out, std::unique_ptr<Module> module) {
  Module* handle = add_module(std::move(module));
  const int error = handle->load();
  if (error == 0) {
    *out = reinterpret_cast<Handle>(handle);
  } else {
    unload(handle);
  }
  return result(error);
}

template <class Handle>
CUresult load_image(Handle* out, const void* image) {
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_unique<Module>();
  if (!adopt_image(*module, image)) return CUDA_ERROR_INVALID_IMAGE;
  return load(out, std::move(module));
}

template <class Handle>
CUresult load_file(Handle* out, const char* path) {
  if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto module = std::make_unique<Module>();
  if (!read_image(*module, path)) return CUDA_ERROR_FILE_NOT_FOUND;
  return load(out, std::move(module));
}

template <class Handle>
CUresult find_kernel_in(Handle* out, const void* module_handle, const char* name) {
  Module* module = as_module(module_handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Kernel* kernel = add_kernel(*module, name, nullptr);
  if (const int error = kernel->resolve(); error != 0) return result(error);
  *out = reinterpret_cast<Handle>(kernel);
  return CUDA_SUCCESS;
}

CUresult find_global(CUdeviceptr* address, size_t* bytes, const void* module_handle, const char* name) {
  Module* module = as_module(module_handle);
  if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t begin = 0, size = 0;
  const int error = find_symbol(*module, name, begin, size);
  if (error == 0 && address != nullptr) *address = begin;
  if (error == 0 && bytes != nullptr) *bytes = size;
  return result(error);
}

CUresult get_attribute(int* value, CUfunction_attribute attribute, const void* handle) {
  Kernel* kernel = nullptr;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const int error = need_kernel(handle, kernel); error != 0) return result(error);
  const auto& info = kernel->info;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = static_cast<int>(info.max_threads_per_block);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(info.static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = static_cast<int>(info.constant_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(info.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = static_cast<int>(info.registers);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = 90;
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel->max_dynamic_shared);
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = kernel->carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = info.required_cluster[0] != 0 ? 1 : 0;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
      *value = static_cast<int>(info.required_cluster[0]);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
      *value = static_cast<int>(info.required_cluster[1]);
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = static_cast<int>(info.required_cluster[2]);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = kernel->non_portable ? 1 : 0;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = kernel->cluster_policy;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_attribute(const void* handle, CUfunction_attribute attribute, int value) {
  Kernel* kernel = nullptr;
  if (const int error = need_kernel(handle, kernel); error != 0) return result(error);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return value < 0 ? CUDA_ERROR_INVALID_VALUE
                       : result(kernel->set_max_dynamic_shared(static_cast<uint32_t>(value)));
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      kernel->carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      return result(kernel->set_non_portable(value != 0));
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      kernel->cluster_policy = value;
      return CUDA_SUCCESS;
    default:
      ptxbench_unsupported_call(("cuFuncSetAttribute " + std::to_string(attribute)).c_str());
  }
}

CUresult parameter_info(const void* handle, size_t index, size_t* offset, size_t* size) {
  Kernel* kernel = nullptr;
  if (const int error = need_kernel(handle, kernel); error != 0) return result(error);
  if (offset == nullptr || index >= kernel->offsets.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = kernel->offsets[index];
  if (size != nullptr) *size = kernel->sizes[index];
  return CUDA_SUCCESS;
}

/// `extra` is a list of key, value pairs that ends with CU_LAUNCH_PARAM_END.
bool read_extra(void** extra, Launch& what) {
  for (int i = 0; i < 16; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_END) return what.packed != nullptr;
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      what.packed = extra[i + 1];
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      what.packed_bytes = *static_cast<size_t*>(extra[i + 1]);
    } else {
      return false;
    }
  }
  return false;
}

CUresult launch_function(const void* function, Launch& what, CUstream stream, void** parameters, void** extra) {
  Kernel* kernel = nullptr;
  if (const int error = need_kernel(function, kernel); error != 0) return result(error);
  if (const int error = decode_stream(stream, what.stream); error != 0) return result(error);
  what.arguments = parameters;
  if (extra != nullptr && (parameters != nullptr || !read_extra(extra, what))) return CUDA_ERROR_INVALID_VALUE;
  return result(launch(*kernel, what));
}

}  // namespace

extern "C" {

CUresult cuModuleLoad(CUmodule* out, const char* path) { return load_file(out, path); }
CUresult cuModuleLoadData(CUmodule* out, const void* image) { return load_image(out, image); }
CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned count, CUjit_option* options, void** values) {
  // Logs are the only outputs among the options: say that they are empty.
  for (unsigned i = 0; i < count && options != nullptr && values != nullptr; ++i) {
    if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES || options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
      values[i] = nullptr;
  }
  return load_image(out, image);
}
CUresult cuModuleLoadFatBinary(CUmodule* out, const void* image) { return load_image(out, image); }
CUresult cuModuleUnload(CUmodule handle) {
  Module* module = as_module(handle);
  return module == nullptr ? CUDA_ERROR_INVALID_HANDLE : result(unload(module));
}
CUresult cuModuleGetFunction(CUfunction* out, CUmodule module, const char* name) {
  return find_kernel_in(out, module, name);
}
CUresult cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  return find_global(address, bytes, module, name);
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary* out, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*, void**,
                           unsigned) {
  return load_image(out, image);
}
CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option*, void**, unsigned, CUlibraryOption*,
                               void**, unsigned) {
  return load_file(out, path);
}
CUresult cuLibraryUnload(CUlibrary handle) { return cuModuleUnload(reinterpret_cast<CUmodule>(handle)); }
CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary library, const char* name) {
  return find_kernel_in(out, library, name);
}
CUresult cuLibraryGetModule(CUmodule* out, CUlibrary library) {
  if (as_module(library) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(library);
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return find_global(address, bytes, library, name);
}
CUresult cuKernelGetFunction(CUfunction* out, CUkernel kernel) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (as_kernel(kernel) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice) {
  return get_attribute(value, attribute, kernel);
}
CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice) {
  return set_attribute(kernel, attribute, value);
}
CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  return as_kernel(kernel) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel));
}
CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return parameter_info(kernel, index, offset, size);
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return get_attribute(value, attribute, function);
}
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return set_attribute(function, attribute, value);
}
CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return as_kernel(function) == nullptr ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}
CUresult cuFuncGetModule(CUmodule* out, CUfunction function) {
  Kernel* kernel = as_kernel(function);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = reinterpret_cast<CUmodule>(kernel->module);
  return CUDA_SUCCESS;
}
CUresult cuFuncGetName(const char** name, CUfunction function) {
  Kernel* kernel = as_kernel(function);
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}
CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  return parameter_info(function, index, offset, size);
}
CUresult cuFuncLoad(CUfunction function) {
  Kernel* kernel = nullptr;
  return result(need_kernel(function, kernel));
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** parameters,
                        void** extra) {
  Launch what{{grid_x, grid_y, grid_z},
              {block_x, block_y, block_z},
              {},
              shared,
              0,
              0,
              ptxbench::cuda_shim::LaunchCall::driver,
              nullptr,
              nullptr,
              0};
  return launch_function(function, what, stream, parameters, extra);
}
CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                                   CUstream stream, void** parameters) {
  Launch what{{grid_x, grid_y, grid_z},
              {block_x, block_y, block_z},
              {},
              shared,
              0,
              ptxbench::cuda_shim::kLaunchCooperative,
              ptxbench::cuda_shim::LaunchCall::driver_cooperative,
              nullptr,
              nullptr,
              0};
  return launch_function(function, what, stream, parameters, nullptr);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  Launch what{{config->gridDimX, config->gridDimY, config->gridDimZ},
              {config->blockDimX, config->blockDimY, config->blockDimZ},
              {},
              config->sharedMemBytes,
              0,
              0,
              ptxbench::cuda_shim::LaunchCall::driver_extensible,
              nullptr,
              nullptr,
              0};
  CUevent completion = nullptr;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
        what.cluster[0] = attribute.value.clusterDim.x;
        what.cluster[1] = attribute.value.clusterDim.y;
        what.cluster[2] = attribute.value.clusterDim.z;
        break;
      case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        if (attribute.value.cooperative != 0) what.flags |= ptxbench::cuda_shim::kLaunchCooperative;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
        if (attribute.value.programmaticStreamSerializationAllowed != 0)
          what.flags |= ptxbench::cuda_shim::kLaunchProgrammatic;
        break;
      case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        completion = attribute.value.programmaticEvent.event;
        break;
      case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        completion = attribute.value.launchCompletionEvent.event;
        break;
      // Hints about speed: no effect on results.
      case CU_LAUNCH_ATTRIBUTE_IGNORE:
      case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
      case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
        break;
      default:
        ptxbench_unsupported_call(("cuLaunchKernelEx with launch attribute " + std::to_string(attribute.id)).c_str());
    }
  }
  const CUresult launched = launch_function(function, what, config->hStream, parameters, extra);
  if (launched != CUDA_SUCCESS || completion == nullptr) return launched;
  return result(record_event(completion, config->hStream));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned flags) {
  Kernel* kernel = nullptr;
  if (blocks == nullptr || threads <= 0 || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  if (const int error = need_kernel(function, kernel); error != 0) return result(error);
  unsigned count = 0;
  const int error = occupancy(*kernel, static_cast<unsigned>(threads), shared, count);
  *blocks = static_cast<int>(count);
  return result(error);
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads, size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}
CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block, CUfunction function,
                                                   CUoccupancyB2DSize shared_of, size_t shared, int limit,
                                                   unsigned flags) {
  Kernel* kernel = nullptr;
  if (grid == nullptr || block == nullptr || flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  if (const int error = need_kernel(function, kernel); error != 0) return result(error);
  int top = static_cast<int>(kernel->info.max_threads_per_block);
  if (limit > 0) top = std::min(top, limit);
  int best_threads = 0, best_block = 0, best_count = 0;
  for (int threads = (top + 31) / 32 * 32; threads > 0; threads -= 32) {
    const int used = std::min(threads, top);
    int count = 0;
    const CUresult answer = cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &count, function, used, shared_of != nullptr ? shared_of(used) : shared, flags);
    if (answer != CUDA_SUCCESS) return answer;
    if (count * used > best_threads) best_threads = count * used, best_block = used, best_count = count;
  }
  *block = best_block;
  *grid = best_count * 132;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function, CUoccupancyB2DSize shared_of,
                                          size_t shared, int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit, 0);
}
CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction function, const CUlaunchConfig* config) {
  Kernel* kernel = nullptr;
  if (clusters == nullptr || config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (const int error = need_kernel(function, kernel); error != 0) return result(error);
  unsigned blocks = std::max(
      1u, kernel->info.required_cluster[0] * kernel->info.required_cluster[1] * kernel->info.required_cluster[2]);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& dim = config->attrs[i].value.clusterDim;
    blocks = dim.x * dim.y * dim.z;
  }
  unsigned count = 0;
  const int error = active_clusters(*kernel, config->blockDimX * config->blockDimY * config->blockDimZ,
                                    config->sharedMemBytes, blocks, count);
  *clusters = static_cast<int>(count);
  return result(error);
}

}  // extern "C"
