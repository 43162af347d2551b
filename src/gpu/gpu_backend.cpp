#include "gpu/gpu_backend.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/hash.h"
#include "cuda_shim/protocol.h"

namespace ptxbench::gpu {
namespace {

/// Copies this small may hold tensor maps.
constexpr std::size_t kMapCopyBytes = 65536;

emulator::Fault fault_of(const Driver& driver, CUresult error, const std::string& kernel) {
  emulator::Fault fault;
  switch (error) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
      fault.rule = "memory.illegal-address";
      break;
    case CUDA_ERROR_MISALIGNED_ADDRESS:
      fault.rule = "memory.misaligned";
      break;
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
      fault.rule = "memory.address-space";
      break;
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
      fault.rule = "launch.illegal-instruction";
      break;
    case CUDA_ERROR_ASSERT:
      fault.rule = "launch.assert";
      break;
    default:
      fault.rule = "launch.failed";
      break;
  }
  fault.message = fmt::format("{}: the GPU reports {}", kernel, driver.describe(error));
  fault.remedy = "the emulator names place and cause: run `ptxbench check` on a small workload";
  fault.place.kernel = kernel;
  return fault;
}

}  // namespace

GpuBackend::~GpuBackend() {
  device_.activate();
  for (auto& [id, module] : modules_) device_.driver().cuModuleUnload(module.handle);
  for (const auto& [address, block] : shared_) device_.driver().cuMemHostUnregister(reinterpret_cast<void*>(address));
}

void GpuBackend::allow(std::set<std::string> cubins) {
  const std::lock_guard lock(mutex_);
  allowed_ = std::move(cubins);
}

void GpuBackend::set_mode(Mode mode) {
  const std::lock_guard lock(mutex_);
  mode_ = mode;
}

void GpuBackend::on_interruption(std::function<void()> told) {
  const std::lock_guard lock(mutex_);
  interrupted_ = std::move(told);
}

void GpuBackend::show(const std::vector<cuda_shim::TensorRange>& tensors) {
  const std::lock_guard lock(mutex_);
  tensors_.clear();
  for (const cuda_shim::TensorRange& tensor : tensors) {
    auto block = std::make_shared<emulator::Allocation>();
    block->begin = tensor.address;
    block->bytes = tensor.bytes;
    block->kind = emulator::AllocationKind::device;
    block->label = tensor.name;
    tensors_.emplace(tensor.address, std::move(block));
  }
}

Result<void> GpuBackend::check_open() {
  const std::lock_guard lock(mutex_);
  if (refuse_late()) return input_error("{}", fault_->message);
  return {};
}

bool GpuBackend::refuse_late() {
  if (mode_ != Mode::closed) return false;
  if (!fault_) {
    fault_.emplace();
    fault_->rule = "host.late-work";
    fault_->message = "host code asked the device for work after the call had been reported as finished";
    fault_->remedy = "join threads, and wait for all streams, before run() returns";
  }
  return true;
}

GpuBackend::Noted GpuBackend::close() {
  // Notes that a thread of the candidate's still has run now would end up outside of the measured time.
  const bool quiet = flushing_.try_lock();
  const std::lock_guard lock(mutex_);
  mode_ = Mode::closed;
  // So would a copy or a launch that one of its threads waits for.
  if (waiting_ != 0) refuse_late();
  if (quiet) {
    flushing_.unlock();
  } else {
    refuse_late();
  }
  return {std::exchange(noted_, {}), std::exchange(freed_, {})};
}

std::vector<GpuBackend::Work> GpuBackend::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(noted_, {});
}

void GpuBackend::free_now(const std::vector<std::uint64_t>& addresses) {
  for (const std::uint64_t address : addresses) static_cast<void>(memory_.free(address));
}

std::optional<emulator::Fault> GpuBackend::fault() const {
  const std::lock_guard lock(mutex_);
  return fault_;
}

bool GpuBackend::drain(const std::string& kernel) {
  device_.activate();
  ++waiting_;
  const CUresult result = device_.driver().cuStreamSynchronize(device_.stream());
  --waiting_;
  if (result == CUDA_SUCCESS) return true;
  const std::lock_guard lock(mutex_);
  if (!fault_) fault_ = fault_of(device_.driver(), result, kernel);
  return false;
}

Result<uint64_t> GpuBackend::allocate(uint64_t bytes, std::string label) {
  if (auto open = check_open(); !open) return tl::unexpected<Error>(open.error());
  return memory_.allocate(bytes, std::move(label));
}

Result<void> GpuBackend::free(uint64_t address) {
  {
    const std::lock_guard lock(mutex_);
    if (mode_ != Mode::immediate) {
      freed_.push_back(address);
      return {};
    }
  }
  return memory_.free(address);
}

Result<void> GpuBackend::adopt(uint64_t address, uint64_t bytes, std::string label) {
  if (auto open = check_open(); !open) return open;
  device_.activate();
  const std::uint64_t pages = (bytes + 4095) / 4096 * 4096;
  const CUresult result = device_.driver().cuMemHostRegister(
      reinterpret_cast<void*>(address), pages, CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE);
  if (auto done = device_.check(result, "sharing host memory with the GPU"); !done) return done;
  CUdeviceptr seen = 0;
  device_.driver().cuMemHostGetDevicePointer(&seen, reinterpret_cast<void*>(address), 0);
  if (seen != address) {
    device_.driver().cuMemHostUnregister(reinterpret_cast<void*>(address));
    return infrastructure_error("the GPU sees host memory at another address");
  }
  auto block = std::make_shared<emulator::Allocation>();
  block->begin = address;
  block->bytes = bytes;
  block->kind = emulator::AllocationKind::host_shared;
  block->label = std::move(label);
  const std::lock_guard lock(mutex_);
  shared_.emplace(address, std::move(block));
  return {};
}

Result<void> GpuBackend::release(uint64_t address) {
  if (auto open = check_open(); !open) return open;
  flush();
  device_.activate();
  const std::lock_guard lock(mutex_);
  if (shared_.erase(address) == 0) return input_error("{:#x} is no shared memory", address);
  return device_.check(device_.driver().cuMemHostUnregister(reinterpret_cast<void*>(address)), "cuMemHostUnregister");
}

bool GpuBackend::shares_memory() const {
  const std::lock_guard lock(mutex_);
  return !shared_.empty();
}

bool GpuBackend::is_host_shared(uint64_t address) const {
  return address >= emulator::kHostSharedBase && address < emulator::kGlobalWindow + emulator::kGlobalWindowBytes;
}

std::shared_ptr<const emulator::Allocation> GpuBackend::find_variable(uint64_t address) const {
  const std::lock_guard lock(mutex_);
  using Blocks = std::map<std::uint64_t, std::shared_ptr<emulator::Allocation>>;
  for (const Blocks* blocks : std::initializer_list<const Blocks*>{&tensors_, &variables_, &shared_}) {
    const auto next = blocks->upper_bound(address);
    if (next == blocks->begin()) continue;
    const auto& block = std::prev(next)->second;
    if (address < block->end()) return block;
  }
  return nullptr;
}

std::shared_ptr<const emulator::Allocation> GpuBackend::find(uint64_t address) const {
  auto block = memory_.find(address);
  return block != nullptr ? block : find_variable(address);
}

bool GpuBackend::contains(uint64_t address, uint64_t bytes) const {
  const auto block = find(address);
  return block != nullptr && bytes <= block->end() - address;
}

uint64_t GpuBackend::total_bytes() const { return device_.facts().memory_bytes; }

Result<emulator::ModuleId> GpuBackend::load_ptx(std::string_view, std::string name) {
  return infrastructure_error("{}: a GPU runs the machine code of the artifact, nothing else", name);
}

Result<emulator::ModuleId> GpuBackend::load_machine_code(std::string_view cubin, std::string name) {
  const std::string digest = base::sha256_hex(cubin);
  if (auto open = check_open(); !open) return tl::unexpected<Error>(open.error());
  {
    const std::lock_guard lock(mutex_);
    if (!allowed_.contains(digest)) {
      return input_error("{}: this machine code (SHA-256 {}) is not the artifact's", name, digest);
    }
  }
  device_.activate();
  // The driver reads as far as the ELF header tells it: the header was the compiler's, as the digest shows.
  const std::string image(cubin);
  CUmodule handle = nullptr;
  if (auto done = device_.check(device_.driver().cuModuleLoadData(&handle, image.data()), name); !done)
    return tl::unexpected<Error>(done.error());
  const std::lock_guard lock(mutex_);
  const emulator::ModuleId id = next_module_++;
  modules_[id].handle = handle;
  return id;
}

Result<void> GpuBackend::unload(emulator::ModuleId module) {
  if (auto open = check_open(); !open) return open;
  flush();
  device_.activate();
  const std::lock_guard lock(mutex_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return input_error("no module {}", module);
  device_.driver().cuModuleUnload(found->second.handle);
  modules_.erase(found);
  return {};
}

int GpuBackend::function_attribute(CUfunction function, CUfunction_attribute which) const {
  int value = 0;
  device_.driver().cuFuncGetAttribute(&value, which, function);
  return value;
}

Result<emulator::FunctionId> GpuBackend::find_kernel(emulator::ModuleId module, std::string_view name) const {
  device_.activate();
  const std::lock_guard lock(mutex_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return input_error("no module {}", module);
  const std::string text(name);
  if (const auto known = found->second.names.find(text); known != found->second.names.end())
    return emulator::FunctionId{module, known->second};
  Function function;
  function.name = text;
  const Driver& cuda = device_.driver();
  if (cuda.cuModuleGetFunction(&function.handle, found->second.handle, text.c_str()) != CUDA_SUCCESS)
    return input_error("the module has no kernel {}", text);
  emulator::FunctionAttributes& out = function.attributes;
  const auto get = [&](CUfunction_attribute which) {
    return static_cast<std::uint32_t>(std::max(0, function_attribute(function.handle, which)));
  };
  out.static_shared_bytes = get(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  out.local_bytes = get(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  out.constant_bytes = get(CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES);
  out.registers = get(CU_FUNC_ATTRIBUTE_NUM_REGS);
  out.max_threads_per_block = get(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  out.required_cluster[0] = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
  out.required_cluster[1] = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT);
  out.required_cluster[2] = get(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH);
  for (std::size_t i = 0; i < cuda_shim::kMaxParameters; ++i) {
    std::size_t offset = 0, size = 0;
    if (cuda.cuFuncGetParamInfo(function.handle, i, &offset, &size) != CUDA_SUCCESS) break;
    out.parameter_offsets.push_back(static_cast<std::uint32_t>(offset));
    out.parameter_sizes.push_back(static_cast<std::uint32_t>(size));
    out.parameter_bytes = std::max(out.parameter_bytes, static_cast<std::uint32_t>(offset + size));
  }
  functions_.push_back(std::move(function));
  const auto index = static_cast<std::uint32_t>(functions_.size() - 1);
  found->second.names.emplace(text, index);
  return emulator::FunctionId{module, index};
}

Result<emulator::FunctionAttributes> GpuBackend::attributes(emulator::FunctionId function) const {
  const std::lock_guard lock(mutex_);
  if (function.function >= functions_.size()) return input_error("no such kernel");
  return functions_[function.function].attributes;
}

Result<emulator::Device::Symbol> GpuBackend::find_symbol(emulator::ModuleId module, std::string_view name) const {
  device_.activate();
  const std::lock_guard lock(mutex_);
  const auto found = modules_.find(module);
  if (found == modules_.end()) return input_error("no module {}", module);
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  if (device_.driver().cuModuleGetGlobal(&address, &bytes, found->second.handle, std::string(name).c_str()) !=
      CUDA_SUCCESS) {
    return input_error("the module has no variable {}", name);
  }
  auto block = std::make_shared<emulator::Allocation>();
  block->begin = address;
  block->bytes = bytes;
  block->kind = emulator::AllocationKind::module;
  block->label = std::string(name);
  variables_.insert_or_assign(address, std::move(block));
  return emulator::Device::Symbol{address, bytes};
}

Result<uint32_t> GpuBackend::occupancy(emulator::FunctionId function, uint32_t block_threads,
                                       uint32_t dynamic_shared_bytes) const {
  device_.activate();
  const std::lock_guard lock(mutex_);
  if (function.function >= functions_.size()) return input_error("no such kernel");
  const CUfunction handle = functions_[function.function].handle;
  const Driver& cuda = device_.driver();
  if (dynamic_shared_bytes > 48 * 1024) {
    cuda.cuFuncSetAttribute(handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                            static_cast<int>(dynamic_shared_bytes));
  }
  int blocks = 0;
  const CUresult result = cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
      &blocks, handle, static_cast<int>(block_threads), dynamic_shared_bytes);
  if (result != CUDA_SUCCESS) return input_error("{}", cuda.describe(result));
  return static_cast<uint32_t>(blocks);
}

Result<void> GpuBackend::run(const Work& work) {
  device_.activate();
  const Driver& cuda = device_.driver();
  const CUstream stream = device_.stream();
  if (const auto* launch = std::get_if<Launch>(&work)) {
    CUlaunchConfig config = launch->config;
    std::vector<CUlaunchAttribute> attributes = launch->attributes;
    config.hStream = stream;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    std::size_t bytes = launch->parameters.size();
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, const_cast<std::byte*>(launch->parameters.data()),
                     CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, CU_LAUNCH_PARAM_END};
    return device_.check(cuda.cuLaunchKernelEx(&config, launch->function, nullptr, bytes == 0 ? nullptr : extra),
                         launch->kernel);
  }
  if (const auto* copy = std::get_if<Copy>(&work)) {
    const bool to_host = is_host_shared(copy->destination), from_host = is_host_shared(copy->source);
    CUresult result = CUDA_SUCCESS;
    if (to_host) {
      result = cuda.cuMemcpyDtoHAsync(reinterpret_cast<void*>(copy->destination), copy->source, copy->bytes, stream);
    } else if (from_host) {
      result =
          cuda.cuMemcpyHtoDAsync(copy->destination, reinterpret_cast<const void*>(copy->source), copy->bytes, stream);
    } else {
      result = cuda.cuMemcpyDtoDAsync(copy->destination, copy->source, copy->bytes, stream);
    }
    return device_.check(result, "a copy on the device");
  }
  if (const auto* write = std::get_if<Write>(&work)) {
    return device_.check(cuda.cuMemcpyHtoDAsync(write->destination, write->bytes.data(), write->bytes.size(), stream),
                         "a copy to the device");
  }
  const auto& fill = std::get<Fill>(work);
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  if (fill.value_bytes == 1) {
    result = cuda.cuMemsetD8Async(fill.address, static_cast<unsigned char>(fill.value), fill.count, stream);
  } else if (fill.value_bytes == 2) {
    result = cuda.cuMemsetD16Async(fill.address, static_cast<unsigned short>(fill.value), fill.count, stream);
  } else if (fill.value_bytes == 4) {
    result = cuda.cuMemsetD32Async(fill.address, fill.value, fill.count, stream);
  }
  return device_.check(result, "a fill");
}

Result<void> GpuBackend::submit(Work work) {
  {
    const std::lock_guard lock(mutex_);
    if (refuse_late()) return input_error("{}", fault_->message);
    if (mode_ == Mode::recorded) {
      noted_.push_back(std::move(work));
      return {};
    }
  }
  auto done = run(work);
  if (done && !drain("a copy or fill")) return input_error("{}", fault()->message);
  return done;
}

void GpuBackend::interrupt() {
  std::function<void()> interrupted;
  {
    const std::lock_guard lock(mutex_);
    interrupted = interrupted_;
  }
  if (interrupted) interrupted();
}

void GpuBackend::flush() {
  {
    const std::lock_guard lock(mutex_);
    if (noted_.empty()) return;
  }
  const std::lock_guard flushing(flushing_);
  std::vector<Work> work = take();
  if (work.empty()) return;
  interrupt();
  std::string kernel = "a copy";
  for (const Work& one : work) {
    if (const auto* launch = std::get_if<Launch>(&one)) kernel = launch->kernel;
    if (auto done = run(one); !done) {
      const std::lock_guard lock(mutex_);
      if (!fault_) {
        fault_.emplace();
        fault_->rule = "launch.failed";
        fault_->message = done.error().message;
        fault_->place.kernel = kernel;
      }
      return;
    }
  }
  drain(kernel);
}

void GpuBackend::synchronize() {
  {
    // Nobody can tell whether the work has run as long as no result is visible to the host.
    const std::lock_guard lock(mutex_);
    if (mode_ == Mode::recorded && shared_.empty()) return;
  }
  flush();
}

tl::expected<emulator::LaunchReport, emulator::LaunchError> GpuBackend::launch(const emulator::LaunchRequest& request) {
  device_.activate();
  const Driver& cuda = device_.driver();
  Launch launch;
  bool immediate = true;
  std::uint64_t clusters = 1;
  {
    const std::lock_guard lock(mutex_);
    if (refuse_late())
      return tl::unexpected(
          emulator::LaunchError{cuda_shim::cuda_error::kLaunchFailure, fault_->message, fault_->rule});
    const Function& function = functions_.at(request.function.function);
    launch.function = function.handle;
    launch.kernel = function.name;
    immediate = mode_ == Mode::immediate;
    const auto refuse = [&](CUresult result) {
      return tl::unexpected(emulator::LaunchError{static_cast<int>(result), cuda.describe(result), "launch.refused"});
    };
    if (request.dynamic_shared_bytes > 48 * 1024) {
      const CUresult result = cuda.cuFuncSetAttribute(function.handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                      static_cast<int>(request.dynamic_shared_bytes));
      if (result != CUDA_SUCCESS) return refuse(result);
    }
    if (request.non_portable_cluster)
      cuda.cuFuncSetAttribute(function.handle, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
  }
  launch.config.gridDimX = request.grid[0];
  launch.config.gridDimY = request.grid[1];
  launch.config.gridDimZ = request.grid[2];
  launch.config.blockDimX = request.block[0];
  launch.config.blockDimY = request.block[1];
  launch.config.blockDimZ = request.block[2];
  launch.config.sharedMemBytes = request.dynamic_shared_bytes;
  if (request.cluster[0] != 0) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {request.cluster[0], std::max(1u, request.cluster[1]),
                                  std::max(1u, request.cluster[2])};
    launch.attributes.push_back(attribute);
  }
  if (request.order != nullptr && request.order->programmatic) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    launch.attributes.push_back(attribute);
  }
  launch.parameters = request.parameters;
  if (auto done = translate_tensor_maps(cuda, launch.parameters); !done)
    return tl::unexpected(emulator::LaunchError{cuda_shim::cuda_error::kInvalidValue, done.error().message});
  clusters = std::uint64_t{request.grid[0]} * request.grid[1] * request.grid[2];
  emulator::LaunchReport report;
  report.kernel = launch.kernel;
  report.clusters_run = report.clusters_total = clusters;
  if (!immediate) {
    const std::lock_guard lock(mutex_);
    refuse_late();  // the call may have ended since
    if (fault_) {
      report.fault = fault_;
    } else {
      noted_.emplace_back(std::move(launch));
    }
    return report;
  }
  const std::string kernel = launch.kernel;
  const auto started = std::chrono::steady_clock::now();
  if (auto done = run(Work(std::move(launch))); !done) {
    return tl::unexpected(emulator::LaunchError{cuda_shim::cuda_error::kInvalidValue, done.error().message});
  }
  if (!drain(kernel)) report.fault = fault();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

Result<void> GpuBackend::write(uint64_t address, std::span<const std::byte> bytes) {
  Write write{address, {bytes.begin(), bytes.end()}};
  if (bytes.size() <= kMapCopyBytes) {
    if (auto done = translate_tensor_maps(device_.driver(), write.bytes); !done) return done;
  }
  return submit(std::move(write));
}

Result<void> GpuBackend::read(uint64_t address, std::span<std::byte> bytes) const {
  auto& self = const_cast<GpuBackend&>(*this);
  {
    const std::lock_guard lock(mutex_);
    if (self.refuse_late()) return input_error("{}", fault_->message);
    ++waiting_;
  }
  device_.activate();
  // The copy waits for the stream, which whoever measures may be holding up.
  self.interrupt();
  self.flush();
  const Driver& cuda = device_.driver();
  auto done = device_.check(cuda.cuMemcpyDtoHAsync(bytes.data(), address, bytes.size(), device_.stream()),
                            "a copy from the device");
  if (done) done = device_.synchronize("a copy from the device");
  --waiting_;
  return done;
}

Result<void> GpuBackend::copy(uint64_t destination, uint64_t source, uint64_t bytes) {
  return submit(Copy{destination, source, bytes});
}

Result<void> GpuBackend::fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) {
  return submit(Fill{address, value, value_bytes, count});
}

}  // namespace ptxbench::gpu
