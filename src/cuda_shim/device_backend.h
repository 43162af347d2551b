#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "emulator/device.h"

namespace ptxbench::cuda_shim {

/// What stands behind the client libraries: the emulated device, or a real GPU that this process owns (src/gpu). The
/// server calls it from several threads; launches, copies and fills come from one thread, in stream order.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  virtual Result<uint64_t> allocate(uint64_t bytes, std::string label) = 0;
  virtual Result<void> free(uint64_t address) = 0;
  /// Memory that the server mapped at `address` and shares with the client.
  virtual Result<void> adopt(uint64_t address, uint64_t bytes, std::string label) = 0;
  virtual Result<void> release(uint64_t address) = 0;
  virtual bool contains(uint64_t address, uint64_t bytes) const = 0;
  /// The live allocation around the address; null if there is none.
  virtual std::shared_ptr<const emulator::Allocation> find(uint64_t address) const = 0;
  virtual uint64_t used_bytes() const = 0;
  virtual uint64_t total_bytes() const = 0;

  virtual Result<emulator::ModuleId> load_ptx(std::string_view text, std::string name) = 0;
  /// Whether modules are loaded from machine code: then load_machine_code() is called instead of load_ptx().
  virtual bool wants_machine_code() const { return false; }
  virtual Result<emulator::ModuleId> load_machine_code(std::string_view cubin, std::string name);
  virtual Result<void> unload(emulator::ModuleId module) = 0;
  virtual Result<emulator::FunctionId> find_kernel(emulator::ModuleId module, std::string_view name) const = 0;
  virtual Result<emulator::FunctionAttributes> attributes(emulator::FunctionId function) const = 0;
  virtual Result<emulator::Device::Symbol> find_symbol(emulator::ModuleId module, std::string_view name) const = 0;
  virtual Result<uint32_t> occupancy(emulator::FunctionId function, uint32_t block_threads,
                                     uint32_t dynamic_shared_bytes) const = 0;

  virtual tl::expected<emulator::LaunchReport, emulator::LaunchError> launch(
      const emulator::LaunchRequest& request) = 0;

  virtual Result<void> write(uint64_t address, std::span<const std::byte> bytes) = 0;
  virtual Result<void> read(uint64_t address, std::span<std::byte> bytes) const = 0;
  virtual Result<void> copy(uint64_t destination, uint64_t source, uint64_t bytes) = 0;
  virtual Result<void> fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) = 0;
  /// Whether the address is memory that the host shares. Module variables may lie anywhere outside the window.
  virtual bool is_host_shared(uint64_t address) const { return address >= emulator::kHostSharedBase; }
  /// Whether a module's variable can become memory that the host shares (__managed__).
  virtual bool shares_symbols() const { return true; }
  /// The client waits for work that the calls above have accepted.
  virtual void synchronize() {}
  /// A stream is about to copy or fill: for whoever watches the device.
  virtual void observe(const emulator::StreamCopyEvent&) {}
};

/// The emulated device. `device` must outlive the backend.
std::unique_ptr<DeviceBackend> make_emulator_backend(emulator::Device& device);

}  // namespace ptxbench::cuda_shim
