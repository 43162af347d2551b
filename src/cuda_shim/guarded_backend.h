#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cuda_shim/device_backend.h"

namespace ptxbench::cuda_shim {

/// A range of device memory that holds a tensor of the problem.
struct TensorRange {
  std::uint64_t address = 0, bytes = 0;
  std::string name;
  bool output = false;
};

/// A device as a candidate may use it. On the way through: host copies into the problem's tensors are refused, launches
/// can be changed (cut down to a sample), and what happens is counted.
class GuardedBackend final : public DeviceBackend {
 public:
  /// May change a launch before it runs. Called in the executing thread.
  using Adjust = std::function<void(emulator::LaunchRequest&)>;

  /// Bytes that host code may copy to the device in one call, for tables and tensor maps: more could be results that
  /// the host computed.
  static std::uint64_t most_host_bytes(std::uint64_t output_bytes) {
    return std::max<std::uint64_t>(64 * 1024, output_bytes / 4);
  }
  /// What one call of the candidate may do before its launches are refused.
  struct Limits {
    std::uint64_t launches = 10'000;
    std::uint64_t instructions = ~0ull;  ///< warp instructions of all launches together
  };
  GuardedBackend(std::unique_ptr<DeviceBackend> device, std::vector<TensorRange> tensors, Adjust adjust, Limits limits);
  /// From now on these are the problem's tensors, and counting starts again.
  void guard(std::vector<TensorRange> tensors);

  /// From now on only PTX with these SHA-256 is loaded: other code did not come out of the judged source.
  void allow_ptx(std::set<std::string> digests);

  struct Observed {
    std::uint64_t launches = 0;
    std::vector<std::string> written_by_host;  ///< names of tensors the host tried to write
    std::vector<std::string> filled;           ///< outputs that were memset
    std::uint64_t host_bytes = 0;              ///< copied from the host into device memory
    std::vector<std::string> failed_allocations;
  };
  Observed observed() const;
  /// Since when no kernel has been running; nothing while one is.
  bool idle_since(std::chrono::steady_clock::time_point& since) const;

  Result<uint64_t> allocate(uint64_t bytes, std::string label) override;
  Result<void> free(uint64_t address) override;
  Result<void> adopt(uint64_t address, uint64_t bytes, std::string label) override;
  Result<void> release(uint64_t address) override;
  bool contains(uint64_t address, uint64_t bytes) const override;
  std::shared_ptr<const emulator::Allocation> find(uint64_t address) const override;
  uint64_t used_bytes() const override;
  uint64_t total_bytes() const override;
  Result<emulator::ModuleId> load_ptx(std::string_view text, std::string name) override;
  bool wants_machine_code() const override;
  Result<emulator::ModuleId> load_machine_code(std::string_view cubin, std::string name) override;
  Result<void> unload(emulator::ModuleId module) override;
  Result<emulator::FunctionId> find_kernel(emulator::ModuleId module, std::string_view name) const override;
  Result<emulator::FunctionAttributes> attributes(emulator::FunctionId function) const override;
  Result<emulator::Device::Symbol> find_symbol(emulator::ModuleId module, std::string_view name) const override;
  Result<uint32_t> occupancy(emulator::FunctionId function, uint32_t block_threads,
                             uint32_t dynamic_shared_bytes) const override;
  tl::expected<emulator::LaunchReport, emulator::LaunchError> launch(const emulator::LaunchRequest& request) override;
  Result<void> write(uint64_t address, std::span<const std::byte> bytes) override;
  Result<void> read(uint64_t address, std::span<std::byte> bytes) const override;
  Result<void> copy(uint64_t destination, uint64_t source, uint64_t bytes) override;
  Result<void> fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) override;
  bool is_host_shared(uint64_t address) const override;
  bool shares_symbols() const override;
  void synchronize() override;
  void observe(const emulator::StreamCopyEvent& event) override;

 private:
  std::optional<TensorRange> touched(uint64_t address, uint64_t bytes) const;
  Result<void> refuse(const TensorRange& tensor);

  std::unique_ptr<DeviceBackend> device_;
  std::vector<TensorRange> tensors_;
  Adjust adjust_;
  mutable std::mutex mutex_;
  Observed observed_;
  Limits limits_;
  std::uint64_t instructions_ = 0;
  std::optional<std::set<std::string>> allowed_ptx_;
  bool running_ = false;
  std::chrono::steady_clock::time_point idle_since_ = std::chrono::steady_clock::now();
};

}  // namespace ptxbench::cuda_shim
