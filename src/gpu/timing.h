#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ptxbench::gpu {

/// One timed call of the candidate and, right before or after it, one of the baseline. Milliseconds.
struct TimedCall {
  double candidate = 0;            ///< first start to last end, by events
  double candidate_stamps = 0;     ///< the same by the GPU's own clock, read by kernels on either side
  std::optional<double> baseline;  ///< by events
  std::optional<double> baseline_stamps;
  bool interrupted = false;  ///< the host waited for the device inside the call: its time is in it
};

/// A median with the limits within which that of endless repetition lies with 95 % confidence, by order statistics:
/// nothing is assumed about the distribution.
struct Median {
  double value = 0, low = 0, high = 0;
  std::size_t count = 0;
  /// Half the width of the interval over the median; infinite for fewer than six values.
  double relative_error() const;
};
Median median_of(std::vector<double> values);

/// What the calls say together.
struct TimingSummary {
  Median candidate;  ///< milliseconds
  std::optional<Median> baseline;
  std::optional<Median> speedup;  ///< baseline over candidate, call by call
  double timer_disagreement = 0;  ///< largest median difference of the two timers, relative
  std::size_t interrupted = 0;
};
TimingSummary summarise(std::span<const TimedCall> calls);

/// When to stop repeating: the quantity that decides (the speed-up where there is a baseline, else the time) is known
/// to `relative_error`, or the limits are reached.
struct StopRule {
  double relative_error = 0.003;
  std::size_t warm_up = 4;  ///< calls that do not count, before all others
  std::size_t least = 12, most = 100;
  double seconds = 10;  ///< of GPU time
  /// As many calls as this, whatever they say.
  static StopRule exactly(std::size_t calls) { return {0, 4, calls, calls, 600}; }
  bool enough(std::span<const TimedCall> calls, double seconds_spent) const;
};

/// The least time a call can take, in milliseconds: all inputs come from memory, outputs beyond the cache go there, and
/// the multiply-adds are done at the highest rate of the tensor cores at the highest clock.
struct Floor {
  double bytes = 0, multiply_adds = 0;
  double memory_bytes_per_second = 0, multiply_adds_per_second = 0;
  double milliseconds() const;
};

}  // namespace ptxbench::gpu
