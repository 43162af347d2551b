#include "base/cpu_meter.h"

#include <ctime>

namespace ptxbench::base {
namespace {

thread_local CpuMeter* current_meter = nullptr;

std::int64_t thread_nanoseconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

CpuMeter* CpuMeter::current() { return current_meter; }

void CpuMeter::add(double seconds) {
  const auto nanoseconds = static_cast<std::int64_t>(seconds * 1e9);
  for (CpuMeter* meter = this; meter != nullptr; meter = meter->parent_) meter->nanoseconds_ += nanoseconds;
}

CpuScope::CpuScope(CpuMeter* meter) : meter_(meter), before_(current_meter) {
  if (meter_ == nullptr) return;
  current_meter = meter_;
  started_ = thread_nanoseconds();
}

CpuScope::~CpuScope() {
  if (meter_ == nullptr) return;
  const std::int64_t spent = thread_nanoseconds() - started_;
  // A meter this thread works for already counts the time by itself.
  for (CpuMeter* meter = meter_; meter != nullptr && meter != before_; meter = meter->parent_) {
    meter->nanoseconds_ += spent;
  }
  current_meter = before_;
}

}  // namespace ptxbench::base
