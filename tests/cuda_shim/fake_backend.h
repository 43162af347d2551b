#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <regex>
#include <string>
#include <vector>

#include "cuda_shim/device_backend.h"

namespace ptxbench::cuda_shim::test {

/// A device whose kernels are C++ functions: enough to test the protocol, streams and the client libraries without the
/// emulator. Parameters come from the PTX text's .param lines; memory is the emulator's address space.
class FakeBackend final : public DeviceBackend {
 public:
  using KernelBody = std::function<std::optional<emulator::Fault>(const emulator::LaunchRequest&)>;

  static std::unique_ptr<FakeBackend> create(uint64_t capacity = 1ull << 33) {
    auto memory = emulator::AddressSpace::create(capacity);
    if (!memory) return nullptr;
    return std::unique_ptr<FakeBackend>(new FakeBackend(std::move(*memory)));
  }

  emulator::Device::Symbol symbol(const std::string& name) const {
    for (const auto& [key, symbol] : symbols_) {
      if (key.second == name) return symbol;
    }
    return {};
  }
  /// What a kernel of this name does when it is launched.
  void define(const std::string& name, KernelBody body) { bodies_[name] = std::move(body); }
  const std::vector<emulator::LaunchRequest>& launches() const { return launches_; }

  Result<uint64_t> allocate(uint64_t bytes, std::string label) override {
    return memory_->allocate(bytes, emulator::AllocationKind::device, std::move(label));
  }
  Result<void> free(uint64_t address) override { return memory_->free(address); }
  Result<void> adopt(uint64_t address, uint64_t bytes, std::string label) override {
    return memory_->adopt(address, bytes, std::move(label));
  }
  Result<void> release(uint64_t address) override { return memory_->free(address); }
  bool contains(uint64_t address, uint64_t bytes) const override { return memory_->contains(address, bytes); }
  std::shared_ptr<const emulator::Allocation> find(uint64_t address) const override {
    auto found = memory_->find(address);
    return found != nullptr && !found->freed ? found : nullptr;
  }
  uint64_t used_bytes() const override { return memory_->used(); }
  uint64_t total_bytes() const override { return memory_->capacity(); }

  Result<emulator::ModuleId> load_ptx(std::string_view text, std::string) override {
    static const std::regex kEntry(R"(\.entry\s+([A-Za-z_$][\w$]*)\s*\(([^)]*)\))");
    static const std::regex kParameter(
        R"(\.param\s+(?:\.align\s+(\d+)\s+)?\.[a-z](\d+)\s+(?:\.ptr\s+(?:\.[a-z]+\s+)?\.align\s+\d+\s+)?[\w$]+(?:\[(\d+)\])?)");
    const std::string source(text);
    if (source.find(".version") == std::string::npos) return input_error("not PTX");
    std::vector<Kernel> kernels;
    for (std::sregex_iterator at(source.begin(), source.end(), kEntry), end; at != end; ++at) {
      Kernel kernel;
      kernel.name = (*at)[1];
      const std::string list = (*at)[2];
      for (std::sregex_iterator p(list.begin(), list.end(), kParameter); p != end; ++p) {
        const auto element = static_cast<uint32_t>(std::stoul((*p)[2]) / 8);
        const auto size = (*p)[3].matched ? element * static_cast<uint32_t>(std::stoul((*p)[3])) : element;
        const auto align = (*p)[1].matched ? static_cast<uint32_t>(std::stoul((*p)[1])) : element;
        kernel.attributes.parameter_bytes = (kernel.attributes.parameter_bytes + align - 1) / align * align;
        kernel.attributes.parameter_offsets.push_back(kernel.attributes.parameter_bytes);
        kernel.attributes.parameter_sizes.push_back(size);
        kernel.attributes.parameter_bytes += size;
      }
      kernels.push_back(std::move(kernel));
    }
    static const std::regex kVariable(
        R"(\.(?:global|const)\s+(?:\.attribute\(\.managed\)\s+)?\.align\s+\d+\s+\.[a-z](\d+)\s+([\w$]+)(?:\[(\d+)\])?(?:\s*=\s*(\d+))?;)");
    const std::lock_guard lock(mutex_);
    modules_[++next_module_] = std::move(kernels);
    for (std::sregex_iterator at(source.begin(), source.end(), kVariable), end; at != end; ++at) {
      const uint64_t count = (*at)[3].matched ? std::stoull((*at)[3]) : 1;
      const uint64_t bytes = std::stoull((*at)[1]) / 8 * count;
      const auto address = memory_->allocate(bytes, emulator::AllocationKind::module, (*at)[2]);
      if (!address) return tl::unexpected<Error>(address.error());
      const uint64_t value = (*at)[4].matched ? std::stoull((*at)[4]) : 0;
      std::memcpy(emulator::host_pointer(*address), &value, std::min<uint64_t>(bytes, 8));
      symbols_[{next_module_, (*at)[2]}] = {*address, bytes};
    }
    return next_module_;
  }
  Result<void> unload(emulator::ModuleId module) override {
    const std::lock_guard lock(mutex_);
    if (modules_.erase(module) == 0) return input_error("no module {}", module);
    std::erase_if(symbols_, [&](const auto& symbol) {
      return symbol.first.first == module && memory_->free(symbol.second.address).has_value();
    });
    return {};
  }
  Result<emulator::FunctionId> find_kernel(emulator::ModuleId module, std::string_view name) const override {
    const std::lock_guard lock(mutex_);
    const auto found = modules_.find(module);
    if (found == modules_.end()) return input_error("no module {}", module);
    for (uint32_t i = 0; i < found->second.size(); ++i) {
      if (found->second[i].name == name) return emulator::FunctionId{module, i};
    }
    return input_error("no kernel {}", name);
  }
  Result<emulator::FunctionAttributes> attributes(emulator::FunctionId function) const override {
    const std::lock_guard lock(mutex_);
    return modules_.at(function.module).at(function.function).attributes;
  }
  Result<emulator::Device::Symbol> find_symbol(emulator::ModuleId module, std::string_view name) const override {
    const std::lock_guard lock(mutex_);
    const auto found = symbols_.find({module, std::string(name)});
    if (found == symbols_.end()) return input_error("no symbol {}", name);
    return found->second;
  }
  Result<uint32_t> occupancy(emulator::FunctionId, uint32_t block_threads, uint32_t) const override {
    return 2048 / std::max(32u, block_threads);
  }
  tl::expected<emulator::LaunchReport, emulator::LaunchError> launch(const emulator::LaunchRequest& request) override {
    emulator::LaunchReport report;
    {
      const std::lock_guard lock(mutex_);
      launches_.push_back(request);
      report.kernel = modules_.at(request.function.module).at(request.function.function).name;
    }
    report.warp_instructions = 1;
    if (const auto body = bodies_.find(report.kernel); body != bodies_.end()) report.fault = body->second(request);
    return report;
  }
  Result<void> write(uint64_t address, std::span<const std::byte> bytes) override {
    if (!contains(address, bytes.size())) return input_error("write to {:#x}", address);
    std::copy(bytes.begin(), bytes.end(), emulator::host_pointer(address));
    return {};
  }
  Result<void> read(uint64_t address, std::span<std::byte> bytes) const override {
    if (!contains(address, bytes.size())) return input_error("read of {:#x}", address);
    std::copy_n(emulator::host_pointer(address), bytes.size(), bytes.begin());
    return {};
  }
  Result<void> copy(uint64_t destination, uint64_t source, uint64_t bytes) override {
    if (!contains(destination, bytes) || !contains(source, bytes)) return input_error("copy");
    std::memmove(emulator::host_pointer(destination), emulator::host_pointer(source), bytes);
    return {};
  }
  Result<void> fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) override {
    if (!contains(address, value_bytes * count)) return input_error("fill");
    for (uint64_t i = 0; i < count; ++i)
      std::memcpy(emulator::host_pointer(address + i * value_bytes), &value, value_bytes);
    return {};
  }

 private:
  struct Kernel {
    std::string name;
    emulator::FunctionAttributes attributes;
  };
  explicit FakeBackend(std::unique_ptr<emulator::AddressSpace> memory) : memory_(std::move(memory)) {}
  std::unique_ptr<emulator::AddressSpace> memory_;
  mutable std::mutex mutex_;
  std::map<emulator::ModuleId, std::vector<Kernel>> modules_;
  std::map<std::pair<emulator::ModuleId, std::string>, emulator::Device::Symbol> symbols_;
  std::map<std::string, KernelBody> bodies_;
  std::vector<emulator::LaunchRequest> launches_;
  emulator::ModuleId next_module_ = 0;
};

}  // namespace ptxbench::cuda_shim::test
