#pragma once

#include <cstdint>
#include <string>

#include "gpu/driver.h"

namespace ptxbench::gpu {

/// What of a GPU decides how a measurement is to be read.
struct DeviceFacts {
  std::string name, pci_bus_id;
  int driver_version = 0;  ///< as cuDriverGetVersion gives it: 13000
  int ordinal = 0;
  int capability_major = 0, capability_minor = 0;
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0, l2_bytes = 0;
  double sm_clock_hz = 0;              ///< the highest
  double memory_bytes_per_second = 0;  ///< bus width times clock: what no copy exceeds
};

/// One GPU with its primary context and the one stream on which everything runs. cuBLAS and the like use the primary
/// context too.
class Device {
 public:
  static Result<Device> open(int ordinal);

  const Driver& driver() const { return *driver_; }
  CUdevice handle() const { return device_; }
  CUstream stream() const { return stream_; }
  const DeviceFacts& facts() const { return facts_; }
  /// Makes the context current in the calling thread.
  void activate() const;
  Result<void> check(CUresult result, std::string_view what) const { return driver_->check(result, what); }
  Result<void> synchronize(std::string_view what) const;

 private:
  const Driver* driver_ = nullptr;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  DeviceFacts facts_;
};

}  // namespace ptxbench::gpu
