#pragma once

#include <cstdint>
#include <optional>
#include <string>
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

/// "sw-power-cap" and the like, for the reasons that slow a GPU down.
std::vector<std::string> slowdown_names(std::uint64_t reasons);

/// Least and most of each reading, and all reasons seen.
base::Json clocks_json(const std::vector<ClockReader::Reading>& readings);

}  // namespace ptxbench::gpu
