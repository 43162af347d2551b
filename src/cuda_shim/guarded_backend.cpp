#include "cuda_shim/guarded_backend.h"

#include <algorithm>

#include "base/hash.h"
#include "base/text.h"

namespace ptxbench::cuda_shim {
namespace {

/// cudaErrorLaunchTimeout
constexpr int kLaunchTimeout = 702;

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

GuardedBackend::GuardedBackend(std::unique_ptr<DeviceBackend> device, std::vector<TensorRange> tensors, Adjust adjust,
                               Limits limits)
    : device_(std::move(device)), tensors_(std::move(tensors)), adjust_(std::move(adjust)), limits_(limits) {}

GuardedBackend::Observed GuardedBackend::observed() const {
  const std::lock_guard lock(mutex_);
  return observed_;
}

bool GuardedBackend::idle_since(std::chrono::steady_clock::time_point& since) const {
  const std::lock_guard lock(mutex_);
  since = idle_since_;
  return !running_;
}

void GuardedBackend::guard(std::vector<TensorRange> tensors) {
  const std::lock_guard lock(mutex_);
  tensors_ = std::move(tensors);
  observed_ = {};
  instructions_ = 0;
}

std::optional<TensorRange> GuardedBackend::touched(uint64_t address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  for (const TensorRange& tensor : tensors_) {
    if (address < tensor.address + tensor.bytes && tensor.address < address + bytes) return tensor;
  }
  return std::nullopt;
}

Result<void> GuardedBackend::refuse(const TensorRange& tensor) {
  {
    const std::lock_guard lock(mutex_);
    add_once(observed_.written_by_host, tensor.name);
  }
  return input_error("host code may not write {} '{}'", tensor.output ? "output" : "input", tensor.name);
}

Result<uint64_t> GuardedBackend::allocate(uint64_t bytes, std::string label) {
  auto address = device_->allocate(bytes, std::move(label));
  if (!address) {
    const std::lock_guard lock(mutex_);
    if (observed_.failed_allocations.size() < 8) observed_.failed_allocations.push_back(address.error().message);
  }
  return address;
}

Result<void> GuardedBackend::free(uint64_t address) { return device_->free(address); }
Result<void> GuardedBackend::adopt(uint64_t address, uint64_t bytes, std::string label) {
  return device_->adopt(address, bytes, std::move(label));
}
Result<void> GuardedBackend::release(uint64_t address) { return device_->release(address); }
bool GuardedBackend::contains(uint64_t address, uint64_t bytes) const { return device_->contains(address, bytes); }
std::shared_ptr<const emulator::Allocation> GuardedBackend::find(uint64_t address) const {
  return device_->find(address);
}
uint64_t GuardedBackend::used_bytes() const { return device_->used_bytes(); }
uint64_t GuardedBackend::total_bytes() const { return device_->total_bytes(); }
void GuardedBackend::allow_ptx(std::set<std::string> digests) {
  const std::lock_guard lock(mutex_);
  allowed_ptx_ = std::move(digests);
}

Result<emulator::ModuleId> GuardedBackend::load_ptx(std::string_view text, std::string name) {
  const std::string digest = base::sha256_hex(text);
  {
    const std::lock_guard lock(mutex_);
    if (allowed_ptx_ && !allowed_ptx_->contains(digest))
      return input_error("{}: this PTX (SHA-256 {}) is not the artifact's", name, digest);
  }
  return device_->load_ptx(text, std::move(name));
}
Result<void> GuardedBackend::unload(emulator::ModuleId module) { return device_->unload(module); }
Result<emulator::FunctionId> GuardedBackend::find_kernel(emulator::ModuleId module, std::string_view name) const {
  return device_->find_kernel(module, name);
}
Result<emulator::FunctionAttributes> GuardedBackend::attributes(emulator::FunctionId function) const {
  return device_->attributes(function);
}
Result<emulator::Device::Symbol> GuardedBackend::find_symbol(emulator::ModuleId module, std::string_view name) const {
  return device_->find_symbol(module, name);
}
Result<uint32_t> GuardedBackend::occupancy(emulator::FunctionId function, uint32_t block_threads,
                                           uint32_t dynamic_shared_bytes) const {
  return device_->occupancy(function, block_threads, dynamic_shared_bytes);
}

tl::expected<emulator::LaunchReport, emulator::LaunchError> GuardedBackend::launch(
    const emulator::LaunchRequest& request) {
  {
    const std::lock_guard lock(mutex_);
    ++observed_.launches;
    if (observed_.launches > limits_.launches || instructions_ > limits_.instructions) {
      return tl::unexpected(emulator::LaunchError{
          kLaunchTimeout,
          fmt::format("the call has launched {} kernels and {} warp instructions, more than any solution needs",
                      observed_.launches - 1, instructions_)});
    }
    running_ = true;
  }
  auto report = [&] {
    if (!adjust_) return device_->launch(request);
    emulator::LaunchRequest adjusted = request;
    adjust_(adjusted);
    return device_->launch(adjusted);
  }();
  const std::lock_guard lock(mutex_);
  running_ = false;
  idle_since_ = std::chrono::steady_clock::now();
  if (report) instructions_ += report->warp_instructions;
  return report;
}

Result<void> GuardedBackend::write(uint64_t address, std::span<const std::byte> bytes) {
  if (const auto tensor = touched(address, bytes.size())) return refuse(*tensor);
  {
    const std::lock_guard lock(mutex_);
    observed_.host_bytes += bytes.size();
  }
  return device_->write(address, bytes);
}

Result<void> GuardedBackend::read(uint64_t address, std::span<std::byte> bytes) const {
  return device_->read(address, bytes);
}

Result<void> GuardedBackend::copy(uint64_t destination, uint64_t source, uint64_t bytes) {
  const auto tensor = touched(destination, bytes);
  const bool from_host = is_host_shared(source);
  // Device-side copies into outputs are a legitimate last step; into inputs they are not.
  if (tensor && (from_host || !tensor->output)) return refuse(*tensor);
  if (from_host) {
    const std::lock_guard lock(mutex_);
    observed_.host_bytes += bytes;
  }
  return device_->copy(destination, source, bytes);
}

Result<void> GuardedBackend::fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) {
  if (const auto tensor = touched(address, count * value_bytes)) {
    if (!tensor->output) return refuse(*tensor);
    const std::lock_guard lock(mutex_);
    add_once(observed_.filled, tensor->name);
  }
  return device_->fill(address, value, value_bytes, count);
}

bool GuardedBackend::is_host_shared(uint64_t address) const { return device_->is_host_shared(address); }
bool GuardedBackend::shares_symbols() const { return device_->shares_symbols(); }
void GuardedBackend::synchronize() { device_->synchronize(); }
void GuardedBackend::observe(const emulator::StreamCopyEvent& event) { device_->observe(event); }
bool GuardedBackend::wants_machine_code() const { return device_->wants_machine_code(); }
Result<emulator::ModuleId> GuardedBackend::load_machine_code(std::string_view cubin, std::string name) {
  return device_->load_machine_code(cubin, std::move(name));
}

}  // namespace ptxbench::cuda_shim
