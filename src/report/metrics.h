#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "report/table.h"

namespace ptxbench::report {

struct MetricOptions {
  std::vector<double> thresholds = {0, 0.5, 0.8, 1.0};
  std::vector<unsigned> turn_limits = {1, 4, 8};
  unsigned replicates = 1000;  ///< of the bootstrap; 0: no intervals
};

/// 95 % limits, as shares.
struct Interval {
  double low = 0, high = 1;
  bool exact = false;  ///< of Clopper and Pearson, where the trajectories do not differ and resampling says nothing
};

/// `count` of `of`; `unknown` more may belong to it, because something was not measured.
struct Share {
  std::size_t count = 0, of = 0, unknown = 0;
  std::optional<Interval> interval;
  /// Nothing where it is not known, or where there is nothing to count.
  std::optional<double> value() const;
};

/// "12.50", or nothing.
std::string percent(const Share& share);

/// Of one turn limit. The denominator is trajectories.
struct AtTurns {
  unsigned turns = 0;
  Share correct, target;
  std::optional<double> best_speedup;  ///< over correct turns that were timed
  std::size_t unmeasured = 0;          ///< correct turns that were not
};

/// A sum over what is known, and how much is not.
struct Sum {
  double sum = 0;
  std::size_t known = 0, unknown = 0;
  void add(double value);
  /// Only if everything is known.
  std::optional<double> whole() const;
};

struct Metrics {
  std::size_t runs = 0, trajectories = 0, turns = 0, correct = 0, passed = 0, passed_unknown = 0;
  std::vector<Share> fast_p, fast_p_target;  ///< per threshold; the denominator is turns
  std::vector<AtTurns> at;
  std::optional<double> best_speedup;
  std::size_t unmeasured = 0;
  Sum reasoning_tokens, tokens, cost, model_seconds, judge_seconds, host_seconds, cpu_seconds, gpu_seconds;
  std::optional<double> median_reasoning_tokens;
};

/// Of some trajectories of the table.
Metrics metrics_of(const Table& table, std::span<const std::uint32_t> trajectories, const MetricOptions& options);

/// Turns with a higher index are counted in total only.
inline constexpr std::uint32_t kMostTurnColumns = 1000;

/// Counts of labels in total and per turn index, of label pairs in consecutive turns, of finding rules.
struct Classes {
  std::vector<std::size_t> by_label;              ///< per label
  std::vector<std::vector<std::size_t>> by_turn;  ///< [turn][label]
  std::vector<std::vector<std::size_t>> next;     ///< [label][label of the following turn]
  std::vector<std::size_t> rules;                 ///< per rule: turns with such a finding
};
Classes classes_of(const Table& table, std::span<const std::uint32_t> trajectories);

std::vector<std::uint32_t> all_trajectories(const Table& table);

/// What is resampled separately: trajectories of one run on one problem by one model and so on. One number per
/// trajectory.
std::vector<std::uint32_t> strata_of(const Table& table);

/// xoshiro128**, the same here and in the page's script: the same figures from both.
class Random {
 public:
  explicit Random(std::uint32_t seed);
  std::uint32_t next();
  /// 0 .. n-1
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((std::uint64_t{next()} * n) >> 32); }

 private:
  std::array<std::uint32_t, 4> state_;
};

/// Limits of a share by resampling whole trajectories within their strata (runs): `counts` of `sizes` per trajectory.
struct Unit {
  std::uint32_t stratum = 0;
  std::vector<std::uint32_t> counts;  ///< per quantity
  std::vector<std::uint32_t> sizes;   ///< per quantity
};
std::vector<Interval> bootstrap(std::span<const Unit> units, unsigned replicates);

/// Exact 95 % limits of a proportion.
Interval clopper_pearson(std::size_t count, std::size_t of);

}  // namespace ptxbench::report
