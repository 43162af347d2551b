#include <fatbinary_section.h>
#include <vector_types.h>

#include <atomic>
#include <unordered_map>

#include "cuda_shim/client/runtime.h"
#include "cuda_shim/client/stubs.h"
#include "cuda_shim/fatbin.h"

namespace ptxbench::cuda_shim::client::runtime {
namespace {

constexpr int kInvalidSymbol = 13, kMissingConfiguration = 52, kInvalidDeviceFunction = 98;

struct Registry {
  std::mutex mutex;
  std::unordered_map<const void*, Kernel*> kernels;     // by the address of the host function
  std::unordered_map<const void*, Variable> variables;  // by the address of the host's shadow
  std::unordered_map<Module*, std::vector<Variable>> managed;
};
Registry& registry() {
  static Registry& instance = *new Registry;  // exit handlers of the program come after our destructors
  return instance;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  void* stream = nullptr;
};
std::vector<Configuration>& configurations() {
  thread_local std::vector<Configuration> stack;
  return stack;
}

thread_local int t_last_error = 0;
/// Whether a launch by <<<>>> was made, or failed, that the server has not been told to be checked; whether it was told
/// of any.
std::atomic<bool> g_worth_telling{false}, g_told{false};

/// Managed variables get their addresses when the program first asks, which nvcc arranges before every use of them.
int share_managed(Module* module) {
  Registry& all = registry();
  std::vector<Variable> waiting;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.managed.find(module);
    if (found == all.managed.end()) return 0;
    waiting = std::move(found->second);
    all.managed.erase(found);
  }
  for (const Variable& variable : waiting) {
    uint64_t address = 0, bytes = 0;
    if (const int error = share_symbol(*module, variable.name, address, bytes); error != 0) return error;
    *variable.managed_pointer = reinterpret_cast<void*>(address);
    const std::lock_guard lock(all.mutex);
    all.variables[reinterpret_cast<void*>(address)] = variable;
  }
  return 0;
}

}  // namespace

cudaError_t finish(int error) {
  if (error != 0) t_last_error = error;
  return static_cast<cudaError_t>(error);
}
int peek_error() { return t_last_error; }
int take_error() { return std::exchange(t_last_error, 0); }

Kernel* find_kernel(const void* function) {
  {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    if (const auto found = all.kernels.find(function); found != all.kernels.end()) return found->second;
  }
  return as_kernel(function);
}

int resolve_variable(const void* symbol, uint64_t& address, uint64_t& bytes) {
  Registry& all = registry();
  Variable variable;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.variables.find(symbol);
    if (found == all.variables.end()) return kInvalidSymbol;
    variable = found->second;
  }
  if (variable.managed) {
    if (const int error = share_managed(variable.module); error != 0) return error;
  }
  const int error = find_symbol(*variable.module, variable.name, address, bytes);
  return error == cuda_error::kNotFound ? kInvalidSymbol : error;
}

int launch_kernel(Kernel* kernel, dim3 grid, dim3 block, void** arguments, std::size_t shared, cudaStream_t stream,
                  LaunchCall call, uint32_t flags, dim3 cluster) {
  if (kernel == nullptr) return kInvalidDeviceFunction;
  Launch what;
  what.grid[0] = grid.x, what.grid[1] = grid.y, what.grid[2] = grid.z;
  what.block[0] = block.x, what.block[1] = block.y, what.block[2] = block.z;
  what.cluster[0] = cluster.x, what.cluster[1] = cluster.y, what.cluster[2] = cluster.z;
  what.dynamic_shared = shared;
  what.arguments = arguments;
  what.flags = flags;
  what.call = call;
  if (const int error = decode_stream(stream, what.stream); error != 0) return error;
  const int error = launch(*kernel, what);
  // Before anything is told there is one message a process, afterwards one for every launch that fails.
  if (call == LaunchCall::runtime && (error != 0 || !g_told)) g_worth_telling = true;
  return error;
}

void tell_launches_are_checked() {
  if (!g_worth_telling.exchange(false)) return;
  g_told = true;
  simple_call(Op::launch_checked, BytesBody{});
}

}  // namespace ptxbench::cuda_shim::client::runtime

using namespace ptxbench::cuda_shim::client;
using namespace ptxbench::cuda_shim::client::runtime;

// What code compiled by nvcc calls.
extern "C" {

void** __cudaRegisterFatBinary(void* wrapper_address) {
  const auto* wrapper = static_cast<const __fatBinC_Wrapper_t*>(wrapper_address);
  auto module = std::make_unique<Module>();
  module->kind = ptxbench::cuda_shim::ImageKind::fatbin;
  if (static_cast<uint32_t>(wrapper->magic) != ptxbench::cuda_shim::kFatbinWrapperMagic) {
    complain("a fat binary with an unknown wrapper; the program was built by another CUDA version");
  } else {
    module->data = wrapper->data;
    module->needs_linking = wrapper->version == FATBINC_LINK_VERSION;
  }
  return reinterpret_cast<void**>(add_module(std::move(module)));
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  // The process ends: the server frees all it had, and handles may still be used by later exit handlers.
  static_cast<void>(handle);
}

void __cudaRegisterFunction(void** handle, const char* host_function, char*, const char* device_name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  Module* module = as_module(handle);
  if (module == nullptr) return complain("__cudaRegisterFunction with an unknown fat binary");
  Kernel* kernel = add_kernel(*module, device_name, host_function);
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.kernels.emplace(host_function, kernel);
}

void __cudaRegisterVar(void** handle, char* host_variable, char*, const char* device_name, int, size_t, int, int) {
  Module* module = as_module(handle);
  if (module == nullptr) return complain("__cudaRegisterVar with an unknown fat binary");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.variables.emplace(host_variable, Variable{module, device_name, false, nullptr});
}

void __cudaRegisterManagedVar(void** handle, void** host_pointer, char*, const char* device_name, int, size_t, int,
                              int) {
  Module* module = as_module(handle);
  if (module == nullptr) return complain("__cudaRegisterManagedVar with an unknown fat binary");
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const Variable variable{module, device_name, true, host_pointer};
  all.variables.emplace(host_pointer, variable);
  all.managed[module].push_back(variable);
}

char __cudaInitModule(void** handle) {
  Module* module = as_module(handle);
  return module != nullptr && finish(share_managed(module)) == cudaSuccess ? 1 : 0;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* stream) {
  configurations().push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  auto& stack = configurations();
  if (stack.empty()) return finish(kMissingConfiguration);
  const Configuration top = stack.back();
  stack.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared = top.shared;
  *static_cast<void**>(stream) = top.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* function) {
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return finish(kInvalidDeviceFunction);
  *out = reinterpret_cast<cudaKernel_t>(kernel);
  return cudaSuccess;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return finish(launch_kernel(as_kernel(kernel), grid, block, arguments, shared, stream));
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                                    cudaStream_t stream) {
  const PerThreadDefault guard;
  return finish(launch_kernel(as_kernel(kernel), grid, block, arguments, shared, stream));
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  return finish(launch_kernel(find_kernel(function), grid, block, arguments, shared, stream));
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                                        cudaStream_t stream) {
  return finish(launch_kernel(find_kernel(function), grid, block, arguments, shared, stream,
                              ptxbench::cuda_shim::LaunchCall::runtime_cooperative,
                              ptxbench::cuda_shim::kLaunchCooperative));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  if (config == nullptr || (config->numAttrs != 0 && config->attrs == nullptr)) return finish(cudaErrorInvalidValue);
  Kernel* kernel = find_kernel(function);
  if (kernel == nullptr) return finish(kInvalidDeviceFunction);
  dim3 cluster{0, 0, 0};
  uint32_t flags = 0;
  cudaEvent_t completion = nullptr;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    switch (attribute.id) {
      case cudaLaunchAttributeClusterDimension:
        cluster = {attribute.val.clusterDim.x, attribute.val.clusterDim.y, attribute.val.clusterDim.z};
        break;
      case cudaLaunchAttributeCooperative:
        if (attribute.val.cooperative != 0) flags |= ptxbench::cuda_shim::kLaunchCooperative;
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        // Starting only when the predecessor has ended is one of the orders the attribute allows.
        if (attribute.val.programmaticStreamSerializationAllowed != 0)
          flags |= ptxbench::cuda_shim::kLaunchProgrammatic;
        break;
      case cudaLaunchAttributeLaunchCompletionEvent:
        completion = attribute.val.launchCompletionEvent.event;
        break;
      case cudaLaunchAttributeProgrammaticEvent:
        completion = attribute.val.programmaticEvent.event;
        break;
      // Hints about speed: no effect on results.
      case cudaLaunchAttributeIgnore:
      case cudaLaunchAttributeAccessPolicyWindow:
      case cudaLaunchAttributeSynchronizationPolicy:
      case cudaLaunchAttributeClusterSchedulingPolicyPreference:
      case cudaLaunchAttributePriority:
      case cudaLaunchAttributeMemSyncDomainMap:
      case cudaLaunchAttributeMemSyncDomain:
      case cudaLaunchAttributePreferredClusterDimension:
      case cudaLaunchAttributePreferredSharedMemoryCarveout:
      case cudaLaunchAttributeNvlinkUtilCentricScheduling:
        break;
      default:
        ptxbench_unsupported_call(
            ("cudaLaunchKernelExC with launch attribute " + std::to_string(attribute.id)).c_str());
    }
  }
  int error = launch_kernel(kernel, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                            config->stream, ptxbench::cuda_shim::LaunchCall::runtime_extensible, flags, cluster);
  // An event recorded behind the whole kernel is a legal, late completion of either kind of launch event.
  if (error == 0 && completion != nullptr) error = record_event(completion, config->stream);
  return finish(error);
}

}  // extern "C"
