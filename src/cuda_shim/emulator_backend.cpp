#include "cuda_shim/device_backend.h"

namespace ptxbench::cuda_shim {
namespace {

class EmulatorBackend final : public DeviceBackend {
 public:
  explicit EmulatorBackend(emulator::Device& device) : device_(device) {}

  Result<uint64_t> allocate(uint64_t bytes, std::string label) override {
    return device_.memory().allocate(bytes, emulator::AllocationKind::device, std::move(label));
  }
  Result<void> free(uint64_t address) override { return device_.memory().free(address); }
  Result<void> adopt(uint64_t address, uint64_t bytes, std::string label) override {
    return device_.memory().adopt(address, bytes, std::move(label));
  }
  Result<void> release(uint64_t address) override { return device_.memory().free(address); }
  bool contains(uint64_t address, uint64_t bytes) const override { return device_.memory().contains(address, bytes); }
  std::shared_ptr<const emulator::Allocation> find(uint64_t address) const override {
    auto found = device_.memory().find(address);
    return found != nullptr && !found->freed ? found : nullptr;
  }
  uint64_t used_bytes() const override { return device_.memory().used(); }
  uint64_t total_bytes() const override { return device_.memory().capacity(); }

  Result<emulator::ModuleId> load_ptx(std::string_view text, std::string name) override {
    return device_.load_ptx(text, std::move(name));
  }
  Result<void> unload(emulator::ModuleId module) override { return device_.unload(module); }
  Result<emulator::FunctionId> find_kernel(emulator::ModuleId module, std::string_view name) const override {
    return device_.find_kernel(module, name);
  }
  Result<emulator::FunctionAttributes> attributes(emulator::FunctionId function) const override {
    return device_.attributes(function);
  }
  Result<emulator::Device::Symbol> find_symbol(emulator::ModuleId module, std::string_view name) const override {
    return device_.find_symbol(module, name);
  }
  Result<uint32_t> occupancy(emulator::FunctionId function, uint32_t block_threads,
                             uint32_t dynamic_shared_bytes) const override {
    return device_.occupancy(function, block_threads, dynamic_shared_bytes);
  }
  tl::expected<emulator::LaunchReport, emulator::LaunchError> launch(const emulator::LaunchRequest& request) override {
    return device_.launch(request);
  }
  Result<void> write(uint64_t address, std::span<const std::byte> bytes) override {
    return device_.write(address, bytes);
  }
  Result<void> read(uint64_t address, std::span<std::byte> bytes) const override {
    return device_.read(address, bytes);
  }
  Result<void> copy(uint64_t destination, uint64_t source, uint64_t bytes) override {
    return device_.copy(destination, source, bytes);
  }
  Result<void> fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) override {
    return device_.fill(address, value, value_bytes, count);
  }

  void observe(const emulator::StreamCopyEvent& event) override { device_.observe(event); }

 private:
  emulator::Device& device_;
};

}  // namespace

Result<emulator::ModuleId> DeviceBackend::load_machine_code(std::string_view, std::string name) {
  return infrastructure_error("{}: this device executes PTX, not machine code", name);
}

std::unique_ptr<DeviceBackend> make_emulator_backend(emulator::Device& device) {
  return std::make_unique<EmulatorBackend>(device);
}

}  // namespace ptxbench::cuda_shim
