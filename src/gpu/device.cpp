#include "gpu/device.h"

namespace ptxbench::gpu {

Result<Device> Device::open(int ordinal) {
  const auto driver = Driver::load();
  if (!driver) return tl::unexpected<Error>(driver.error());
  Device out;
  out.driver_ = *driver;
  const Driver& cuda = **driver;
  int count = 0;
  if (auto done = cuda.check(cuda.cuDeviceGetCount(&count), "counting GPUs"); !done)
    return tl::unexpected<Error>(done.error());
  if (ordinal < 0 || ordinal >= count) {
    return infrastructure_error("there is no GPU {}: the driver shows {}", ordinal, count);
  }
  if (auto done = cuda.check(cuda.cuDeviceGet(&out.device_, ordinal), "cuDeviceGet"); !done)
    return tl::unexpected<Error>(done.error());
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    cuda.cuDeviceGetAttribute(&value, which, out.device_);
    return value;
  };
  DeviceFacts& facts = out.facts_;
  char text[256]{};
  cuda.cuDeviceGetName(text, sizeof text - 1, out.device_);
  facts.name = text;
  char bus[32]{};
  cuda.cuDeviceGetPCIBusId(bus, sizeof bus, out.device_);
  facts.pci_bus_id = bus;
  cuda.cuDriverGetVersion(&facts.driver_version);
  facts.ordinal = ordinal;
  facts.capability_major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  facts.capability_minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  facts.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.l2_bytes = static_cast<std::uint64_t>(attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
  facts.sm_clock_hz = 1e3 * attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  // Two transfers a clock.
  facts.memory_bytes_per_second = 2e3 * attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) *
                                  attribute(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH) / 8;
  std::size_t bytes = 0;
  cuda.cuDeviceTotalMem(&bytes, out.device_);
  facts.memory_bytes = bytes;
  if (facts.capability_major != 9 || facts.capability_minor != 0) {
    return infrastructure_error("GPU {} is a {} of compute capability {}.{}; candidates are built for 9.0", ordinal,
                                facts.name, facts.capability_major, facts.capability_minor);
  }
  if (auto done = cuda.check(cuda.cuDevicePrimaryCtxRetain(&out.context_, out.device_), "opening the GPU"); !done)
    return tl::unexpected<Error>(done.error());
  out.activate();
  if (auto done = cuda.check(cuda.cuStreamCreate(&out.stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); !done)
    return tl::unexpected<Error>(done.error());
  return out;
}

void Device::activate() const { driver_->cuCtxSetCurrent(context_); }

Result<void> Device::synchronize(std::string_view what) const {
  return check(driver_->cuStreamSynchronize(stream_), what);
}

}  // namespace ptxbench::gpu
