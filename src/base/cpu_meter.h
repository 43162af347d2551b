#pragma once

#include <atomic>
#include <cstdint>

namespace ptxbench::base {

/// Processor seconds that threads and child processes spend on one piece of work, wherever they run meanwhile. What is
/// counted by a meter counts for the one that was the thread's when it was made as well, which it must not outlive.
class CpuMeter {
 public:
  CpuMeter() : parent_(current()) {}
  CpuMeter(const CpuMeter&) = delete;
  CpuMeter& operator=(const CpuMeter&) = delete;
  double seconds() const { return static_cast<double>(nanoseconds_.load()) * 1e-9; }
  void add(double seconds);
  /// Of the calling thread; null: nobody asks. To be handed to threads that work for this one.
  static CpuMeter* current();

 private:
  friend class CpuScope;
  CpuMeter* parent_;
  std::atomic<std::int64_t> nanoseconds_{0};
};

/// While it lives the calling thread works for `meter`, and so do the child processes it waits for (base/process.h).
class CpuScope {
 public:
  explicit CpuScope(CpuMeter* meter);
  CpuScope(const CpuScope&) = delete;
  CpuScope& operator=(const CpuScope&) = delete;
  ~CpuScope();

 private:
  CpuMeter* meter_;
  CpuMeter* before_;
  std::int64_t started_ = 0;
};

}  // namespace ptxbench::base
