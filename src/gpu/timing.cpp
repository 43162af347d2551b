#include "gpu/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ptxbench::gpu {
namespace {

/// Of `count` values in order, the index k such that the median lies between the k-th smallest and the k-th largest
/// with at least 95 % probability: P(Binomial(count, 1/2) <= k - 1) <= 2.5 %. Nothing where no k does.
std::optional<std::size_t> interval_index(std::size_t count) {
  // Probabilities by logarithms: 2^-count underflows for a thousand values.
  double log_term = -static_cast<double>(count) * std::log(2.0), below = 0;
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < count; ++i) {
    below += std::exp(log_term);
    if (below > 0.025) break;
    best = i;
    log_term += std::log(static_cast<double>(count - i)) - std::log(static_cast<double>(i + 1));
  }
  return best;
}

double relative_difference(double left, double right) {
  const double scale = std::max(std::fabs(left), std::fabs(right));
  return scale == 0 ? 0 : std::fabs(left - right) / scale;
}

}  // namespace

double Median::relative_error() const {
  if (!(value > 0) || count < 6) return std::numeric_limits<double>::infinity();
  return (high - low) / 2 / value;
}

Median median_of(std::vector<double> values) {
  Median out;
  out.count = values.size();
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  out.value = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  const auto index = interval_index(values.size());
  out.low = index ? values[*index] : values.front();
  out.high = index ? values[values.size() - 1 - *index] : values.back();
  return out;
}

TimingSummary summarise(std::span<const TimedCall> calls) {
  TimingSummary out;
  std::vector<double> candidate, stamps, baseline, ratios;
  for (const TimedCall& call : calls) {
    candidate.push_back(call.candidate);
    if (!call.interrupted) stamps.push_back(relative_difference(call.candidate, call.candidate_stamps));
    out.interrupted += call.interrupted ? 1 : 0;
    if (call.baseline) {
      baseline.push_back(*call.baseline);
      if (call.candidate > 0) ratios.push_back(*call.baseline / call.candidate);
    }
  }
  out.candidate = median_of(std::move(candidate));
  out.timer_disagreement = median_of(std::move(stamps)).value;
  if (!baseline.empty()) {
    out.baseline = median_of(std::move(baseline));
    out.speedup = median_of(std::move(ratios));
  }
  return out;
}

bool StopRule::enough(std::span<const TimedCall> calls, double seconds_spent) const {
  if (calls.size() < least) return false;
  if (calls.size() >= most || seconds_spent >= seconds) return true;
  const TimingSummary summary = summarise(calls);
  const Median& decisive = summary.speedup ? *summary.speedup : summary.candidate;
  return decisive.relative_error() <= relative_error;
}

double Floor::milliseconds() const {
  const double memory = memory_bytes_per_second > 0 ? bytes / memory_bytes_per_second : 0;
  const double arithmetic = multiply_adds_per_second > 0 ? multiply_adds / multiply_adds_per_second : 0;
  return 1e3 * std::max(memory, arithmetic);
}

}  // namespace ptxbench::gpu
