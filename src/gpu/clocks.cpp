#include "gpu/clocks.h"

#include <dlfcn.h>

#include <algorithm>

namespace ptxbench::gpu {

// Of nvml.h (NVML API reference), so that the header is not needed: return 0 is success, clock 1 is the SMs', 2 the
// memory's, sensor 0 the GPU's.
struct ClockReader::Library {
  using Device = void*;
  int (*init)() = nullptr;
  int (*by_bus_id)(const char*, Device*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
  int (*temperature)(Device, int, unsigned*) = nullptr;
  int (*power)(Device, unsigned*) = nullptr;
  int (*reasons)(Device, unsigned long long*) = nullptr;
};

ClockReader::ClockReader(const std::string& pci_bus_id) {
  void* file = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (file == nullptr) {
    missing_ = "libnvidia-ml.so.1 is not there";
    return;
  }
  auto library = new Library;
  library_ = library;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(file, name));
    if (function == nullptr) missing_ = std::string(name) + " is not there";
  };
  find(library->init, "nvmlInit_v2");
  find(library->by_bus_id, "nvmlDeviceGetHandleByPciBusId_v2");
  find(library->clock, "nvmlDeviceGetClockInfo");
  find(library->temperature, "nvmlDeviceGetTemperature");
  find(library->power, "nvmlDeviceGetPowerUsage");
  find(library->reasons, "nvmlDeviceGetCurrentClocksThrottleReasons");
  if (!missing_.empty()) return;
  if (library->init() != 0 || library->by_bus_id(pci_bus_id.c_str(), &handle_) != 0) {
    missing_ = "the management library does not answer";
    handle_ = nullptr;
  }
}

ClockReader::~ClockReader() { delete library_; }

std::optional<ClockReader::Reading> ClockReader::read() const {
  if (handle_ == nullptr) return std::nullopt;
  Reading reading;
  unsigned long long reasons = 0;
  const bool ok = library_->clock(handle_, 1, &reading.sm_mhz) == 0 &&
                  library_->clock(handle_, 2, &reading.memory_mhz) == 0 && library_->reasons(handle_, &reasons) == 0;
  if (!ok) return std::nullopt;
  library_->temperature(handle_, 0, &reading.temperature);
  library_->power(handle_, &reading.power_milliwatts);
  reading.reasons = reasons;
  return reading;
}

ClockSampler::ClockSampler(Read read, std::string missing) : read_(std::move(read)), missing_(std::move(missing)) {
  if (!missing_.empty()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { work(stop); });
}

void ClockSampler::work(const std::stop_token& stop) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  std::unique_lock lock(mutex_);
  // A wait that is stopped says whether its condition holds: the stop has to be asked for apart.
  while (!stop.stop_requested() && changed_.wait(lock, stop, [this] { return active_; })) {
    const std::uint64_t row = row_;
    lock.unlock();
    const auto reading = read_();
    lock.lock();
    if (!active_ || row != row_) continue;  // it took longer than what it was to stand beside
    ++rounds_;
    if (reading) readings_.push_back(*reading);
    changed_.notify_all();
    changed_.wait_for(lock, stop, kPause, [this, row] { return !active_ || row != row_; });
  }
}

void ClockSampler::begin() {
  const std::lock_guard lock(mutex_);
  readings_.clear();
  rounds_ = 0;
  ++row_;
  active_ = true;
  changed_.notify_all();
}

std::vector<ClockReader::Reading> ClockSampler::end() {
  std::unique_lock lock(mutex_);
  if (thread_.joinable()) changed_.wait(lock, [this] { return rounds_ > 0 || !active_; });
  active_ = false;
  changed_.notify_all();
  return std::exchange(readings_, {});
}

std::vector<std::string> slowdown_names(std::uint64_t reasons) {
  // Idle (1) and applications' clocks (2) are no slowdown.
  static constexpr std::pair<std::uint64_t, const char*> kNames[] = {
      {0x4, "sw-power-cap"}, {0x8, "hw-slowdown"},     {0x10, "sync-boost"},      {0x20, "sw-thermal"},
      {0x40, "hw-thermal"},  {0x80, "hw-power-brake"}, {0x100, "display-clocks"},
  };
  std::vector<std::string> out;
  for (const auto& [bit, name] : kNames) {
    if ((reasons & bit) != 0) out.emplace_back(name);
  }
  return out;
}

base::Json clocks_json(const std::vector<ClockReader::Reading>& readings) {
  base::Json out = base::Json::object();
  if (readings.empty()) return out;
  const auto range = [&](const char* name, auto member) {
    unsigned low = readings.front().*member, high = low;
    for (const ClockReader::Reading& reading : readings) {
      low = std::min(low, reading.*member);
      high = std::max(high, reading.*member);
    }
    out[name] = {low, high};
  };
  range("sm_mhz", &ClockReader::Reading::sm_mhz);
  range("memory_mhz", &ClockReader::Reading::memory_mhz);
  range("temperature_c", &ClockReader::Reading::temperature);
  range("power_mw", &ClockReader::Reading::power_milliwatts);
  std::uint64_t reasons = 0;
  for (const ClockReader::Reading& reading : readings) reasons |= reading.reasons;
  out["slowdowns"] = slowdown_names(reasons);
  return out;
}

}  // namespace ptxbench::gpu
