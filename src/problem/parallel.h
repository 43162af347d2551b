#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/cpu_meter.h"

namespace ptxbench::problem {

/// 0 means as many as the machine has.
inline int resolve_threads(int threads) {
  return threads > 0 ? threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Calls body(index) for every index below `count`, in any order, on up to `threads` threads. The body must not throw.
template <class Body>
void parallel_for(std::uint64_t count, int threads, const Body& body) {
  const auto workers =
      static_cast<int>(std::min<std::uint64_t>(count, static_cast<std::uint64_t>(resolve_threads(threads))));
  std::atomic<std::uint64_t> next = 0;
  const auto work = [&, meter = base::CpuMeter::current()] {
    const base::CpuScope scope(meter);
    for (std::uint64_t index = next++; index < count; index = next++) body(index);
  };
  std::vector<std::jthread> pool;
  for (int i = 1; i < workers; ++i) pool.emplace_back(work);
  work();
}

}  // namespace ptxbench::problem
