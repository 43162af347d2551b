#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"

namespace ptxbench::gpu {

/// Clocks and what holds them down, as the management library tells; nothing can be set through this.
class ClockReader {
 public:
  /// Of the GPU with this PCI bus id. Without the library every reading is empty, and `missing()` says why.
  explicit ClockReader(const std::string& pci_bus_id);
  ~ClockReader();
  ClockReader(const ClockReader&) = delete;
  ClockReader& operator=(const ClockReader&) = delete;

  struct Reading {
    unsigned sm_mhz = 0, memory_mhz = 0, temperature = 0, power_milliwatts = 0;
    std::uint64_t reasons = 0;  ///< nvmlClocksEventReasons
  };
  std::optional<Reading> read() const;
  const std::string& missing() const { return missing_; }

 private:
  struct Library;
  Library* library_ = nullptr;
  void* handle_ = nullptr;
  std::string missing_;
};

/// Reads clocks beside what is measured, every 20 ms: asking takes longer than a short call.
class ClockSampler {
 public:
  using Read = std::function<std::optional<ClockReader::Reading>()>;
  /// `missing`: why there is nothing to read; empty if there is.
  ClockSampler(Read read, std::string missing);
  ClockSampler(const ClockSampler&) = delete;
  ClockSampler& operator=(const ClockSampler&) = delete;
  void begin();
  /// The readings that began after begin(): at least one, which is waited for, if there can be any. Without begin()
  /// none.
  std::vector<ClockReader::Reading> end();
  const std::string& missing() const { return missing_; }

 private:
  void work(const std::stop_token& stop);
  Read read_;
  std::string missing_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  bool active_ = false;
  std::uint64_t row_ = 0;   ///< begin() was called as often
  std::size_t rounds_ = 0;  ///< readings tried since begin()
  std::vector<ClockReader::Reading> readings_;
  std::jthread thread_;
};

/// "sw-power-cap" and the like, for the reasons that slow a GPU down.
std::vector<std::string> slowdown_names(std::uint64_t reasons);

/// Least and most of each reading, and all reasons seen.
base::Json clocks_json(const std::vector<ClockReader::Reading>& readings);

}  // namespace ptxbench::gpu
