#include "report/metrics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace ptxbench::report {
namespace {

constexpr double kTail = 0.025;
constexpr std::uint32_t kSeed = 1;

std::uint32_t rotate(std::uint32_t x, int by) { return (x << by) | (x >> (32 - by)); }

/// How a turn counts for a threshold: certainly, perhaps, or not.
Known exceeds(const TurnRow& turn, double threshold) {
  if (!turn.correct) return Known::no;
  if (threshold <= 0) return Known::yes;  // p = 0 is the share of correct turns, timed or not
  if (!is_known(turn.speedup)) return Known::unknown;
  return turn.speedup > threshold ? Known::yes : Known::no;
}

Known both(Known a, Known b) {
  if (a == Known::no || b == Known::no) return Known::no;
  return a == Known::yes && b == Known::yes ? Known::yes : Known::unknown;
}

void count(Share& share, Known known) {
  ++share.of;
  share.count += known == Known::yes;
  share.unknown += known == Known::unknown;
}

}  // namespace

std::optional<double> Share::value() const {
  if (of == 0 || unknown > 0) return std::nullopt;
  return static_cast<double>(count) / static_cast<double>(of);
}

std::string percent(const Share& share) {
  const auto value = share.value();
  // The share itself would round once before it is multiplied: 3 of 96 are 3.125 exactly.
  return value ? fmt::format("{:.2f}", 100.0 * static_cast<double>(share.count) / static_cast<double>(share.of)) : "";
}

void Sum::add(double value) {
  if (is_known(value)) {
    sum += value;
    ++known;
  } else {
    ++unknown;
  }
}

std::optional<double> Sum::whole() const {
  if (known == 0 || unknown > 0) return std::nullopt;
  return sum;
}

Random::Random(std::uint32_t seed) {
  for (std::uint32_t& word : state_) {
    seed += 0x9E3779B9;
    std::uint32_t z = seed;
    z = (z ^ (z >> 16)) * 0x85EBCA6B;
    z = (z ^ (z >> 13)) * 0xC2B2AE35;
    word = z ^ (z >> 16);
  }
}

std::uint32_t Random::next() {
  const std::uint32_t result = rotate(state_[1] * 5, 7) * 9, shifted = state_[1] << 9;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = rotate(state_[3], 11);
  return result;
}

std::vector<Interval> bootstrap(std::span<const Unit> units, unsigned replicates) {
  if (units.empty() || replicates == 0) return {};
  const std::size_t quantities = units.front().counts.size();
  std::vector<std::vector<std::uint32_t>> strata;
  std::map<std::uint32_t, std::size_t> known;
  for (std::uint32_t i = 0; i < units.size(); ++i) {
    const auto [at, fresh] = known.try_emplace(units[i].stratum, strata.size());
    if (fresh) strata.emplace_back();
    strata[at->second].push_back(i);
  }
  // One trajectory says nothing of how trajectories differ.
  if (std::any_of(strata.begin(), strata.end(), [](const auto& one) { return one.size() < 2; })) {
    std::vector<std::uint32_t> all(units.size());
    for (std::uint32_t i = 0; i < units.size(); ++i) all[i] = i;
    strata = {all};
  }
  Random random(kSeed);
  std::vector<std::vector<double>> shares(quantities, std::vector<double>(replicates));
  std::vector<std::uint64_t> counts(quantities), sizes(quantities);
  for (unsigned r = 0; r < replicates; ++r) {
    std::fill(counts.begin(), counts.end(), 0);
    std::fill(sizes.begin(), sizes.end(), 0);
    for (const auto& stratum : strata) {
      for (std::size_t draw = 0; draw < stratum.size(); ++draw) {
        const Unit& unit = units[stratum[random.below(static_cast<std::uint32_t>(stratum.size()))]];
        for (std::size_t q = 0; q < quantities; ++q) {
          counts[q] += unit.counts[q];
          sizes[q] += unit.sizes[q];
        }
      }
    }
    for (std::size_t q = 0; q < quantities; ++q) {
      shares[q][r] = sizes[q] == 0 ? 0 : static_cast<double>(counts[q]) / static_cast<double>(sizes[q]);
    }
  }
  std::vector<Interval> out(quantities);
  const auto low = static_cast<std::ptrdiff_t>(std::floor(kTail * (replicates - 1)));
  const auto high = static_cast<std::ptrdiff_t>(std::ceil((1 - kTail) * (replicates - 1)));
  for (std::size_t q = 0; q < quantities; ++q) {
    std::nth_element(shares[q].begin(), shares[q].begin() + low, shares[q].end());
    out[q].low = shares[q][low];
    std::nth_element(shares[q].begin(), shares[q].begin() + high, shares[q].end());
    out[q].high = shares[q][high];
  }
  return out;
}

Interval clopper_pearson(std::size_t count, std::size_t of) {
  if (of == 0) return {0, 1, true};
  const double n = static_cast<double>(of), k = static_cast<double>(count);
  // The probability of `from` .. `to` successes at rate p.
  const auto probability = [&](std::size_t from, std::size_t to, double p) {
    double sum = 0;
    for (std::size_t i = from; i <= to; ++i) {
      const double x = static_cast<double>(i);
      sum += std::exp(std::lgamma(n + 1) - std::lgamma(x + 1) - std::lgamma(n - x + 1) + x * std::log(p) +
                      (n - x) * std::log1p(-p));
    }
    return sum;
  };
  const auto solve = [&](auto too_big, double low, double high) {
    for (int i = 0; i < 60; ++i) {
      const double middle = (low + high) / 2;
      (too_big(middle) ? high : low) = middle;
    }
    return (low + high) / 2;
  };
  Interval out{0, 1, true};
  if (count > 0) {
    out.low = count == of ? std::pow(kTail, 1 / n)
                          : solve([&](double p) { return probability(count, of, p) > kTail; }, 0, k / n);
  }
  if (count < of) {
    out.high = count == 0 ? 1 - std::pow(kTail, 1 / n)
                          : solve([&](double p) { return probability(0, count, p) < kTail; }, k / n, 1);
  }
  return out;
}

std::vector<std::uint32_t> strata_of(const Table& table) {
  std::map<std::array<std::uint32_t, 7>, std::uint32_t> known;
  std::vector<std::uint32_t> out;
  out.reserve(table.trajectories.size());
  for (const TrajectoryRow& one : table.trajectories) {
    const std::array<std::uint32_t, 7> key = {one.run,      one.model,    one.arch, one.problem,
                                              one.workload, one.language, one.pack};
    out.push_back(known.try_emplace(key, static_cast<std::uint32_t>(known.size())).first->second);
  }
  return out;
}

namespace {

/// All shares of some metrics, in one order.
template <class M>
std::vector<decltype(&std::declval<M&>().fast_p.front())> shares_of(M& metrics) {
  std::vector<decltype(&metrics.fast_p.front())> out;
  for (auto& share : metrics.fast_p) out.push_back(&share);
  for (auto& share : metrics.fast_p_target) out.push_back(&share);
  for (auto& at : metrics.at) {
    out.push_back(&at.correct);
    out.push_back(&at.target);
  }
  return out;
}

void add_turns(const TrajectoryRow& trajectory, const MetricOptions& options, Metrics& out) {
  for (const TurnRow& turn : trajectory.turns) {
    for (std::size_t k = 0; k < options.thresholds.size(); ++k) {
      const Known fast = exceeds(turn, options.thresholds[k]);
      count(out.fast_p[k], fast);
      count(out.fast_p_target[k], both(fast, turn.correct ? turn.target : Known::no));
    }
  }
}

void add_limits(const TrajectoryRow& trajectory, const MetricOptions& options, Metrics& out) {
  for (std::size_t k = 0; k < options.turn_limits.size(); ++k) {
    AtTurns& at = out.at[k];
    Known correct = Known::no, target = Known::no;
    for (const TurnRow& turn : trajectory.turns) {
      if (turn.number >= options.turn_limits[k] || !turn.correct) continue;
      correct = Known::yes;
      if (target != Known::yes && turn.target != Known::no) target = turn.target;
      if (is_known(turn.speedup)) {
        at.best_speedup = std::max(at.best_speedup.value_or(turn.speedup), turn.speedup);
      } else {
        ++at.unmeasured;
      }
    }
    count(at.correct, correct);
    count(at.target, target);
  }
}

Metrics empty_metrics(const MetricOptions& options) {
  Metrics out;
  out.fast_p.resize(options.thresholds.size());
  out.fast_p_target.resize(options.thresholds.size());
  for (const unsigned limit : options.turn_limits) {
    out.at.emplace_back();
    out.at.back().turns = limit;
  }
  return out;
}

void add_intervals(const Table& table, std::span<const std::uint32_t> trajectories, const MetricOptions& options,
                   Metrics& out) {
  const auto strata = strata_of(table);
  std::vector<Unit> units;
  units.reserve(trajectories.size());
  for (const std::uint32_t index : trajectories) {
    Metrics one = empty_metrics(options);
    add_turns(table.trajectories[index], options, one);
    add_limits(table.trajectories[index], options, one);
    Unit unit;
    unit.stratum = strata[index];
    for (const Share* share : shares_of(one)) {
      unit.counts.push_back(static_cast<std::uint32_t>(share->count));
      unit.sizes.push_back(static_cast<std::uint32_t>(share->of));
    }
    units.push_back(std::move(unit));
  }
  const auto limits = bootstrap(units, options.replicates);
  const auto shares = shares_of(out);
  for (std::size_t q = 0; q < shares.size() && q < limits.size(); ++q) {
    Share& share = *shares[q];
    if (!share.value()) continue;
    if (limits[q].low < limits[q].high) {
      share.interval = limits[q];
    } else if (share.count == 0 || share.count == share.of) {
      // As if each trajectory were one trial: its share cannot exceed its chance of any success.
      share.interval = clopper_pearson(share.count == 0 ? 0 : units.size(), units.size());
    }
  }
}

}  // namespace

Metrics metrics_of(const Table& table, std::span<const std::uint32_t> trajectories, const MetricOptions& options) {
  Metrics out = empty_metrics(options);
  std::set<std::uint32_t> runs;
  std::vector<double> reasoning;
  out.trajectories = trajectories.size();
  for (const std::uint32_t index : trajectories) {
    const TrajectoryRow& one = table.trajectories[index];
    runs.insert(one.run);
    out.turns += one.turns.size();
    add_turns(one, options, out);
    add_limits(one, options, out);
    for (const TurnRow& turn : one.turns) {
      out.correct += turn.correct;
      out.passed += turn.passed == Known::yes;
      out.passed_unknown += turn.passed == Known::unknown;
      if (turn.correct) {
        if (is_known(turn.speedup)) {
          out.best_speedup = std::max(out.best_speedup.value_or(turn.speedup), turn.speedup);
        } else {
          ++out.unmeasured;
        }
      }
      out.reasoning_tokens.add(turn.reasoning_tokens);
      if (is_known(turn.reasoning_tokens)) reasoning.push_back(turn.reasoning_tokens);
      out.tokens.add(turn.tokens);
      out.cost.add(turn.cost);
      out.model_seconds.add(turn.model_seconds);
      out.judge_seconds.add(turn.judge_seconds);
      out.host_seconds.add(turn.host_seconds);
      out.cpu_seconds.add(turn.cpu_seconds);
      out.gpu_seconds.add(turn.gpu_seconds);
    }
  }
  out.runs = runs.size();
  if (!reasoning.empty()) {
    const std::size_t middle = reasoning.size() / 2;
    std::nth_element(reasoning.begin(), reasoning.begin() + middle, reasoning.end());
    double median = reasoning[middle];
    if (reasoning.size() % 2 == 0) {
      median = (median + *std::max_element(reasoning.begin(), reasoning.begin() + middle)) / 2;
    }
    out.median_reasoning_tokens = median;
  }
  if (options.replicates > 0 && trajectories.size() > 1) add_intervals(table, trajectories, options, out);
  return out;
}

Classes classes_of(const Table& table, std::span<const std::uint32_t> trajectories) {
  Classes out;
  const std::size_t labels = table.labels.size();
  out.by_label.resize(labels);
  out.next.assign(labels, std::vector<std::size_t>(labels));
  out.rules.resize(table.rules.size());
  for (const std::uint32_t index : trajectories) {
    const TurnRow* before = nullptr;
    for (const TurnRow& turn : table.trajectories[index].turns) {
      ++out.by_label[turn.label];
      if (turn.number < kMostTurnColumns) {
        if (out.by_turn.size() <= turn.number) out.by_turn.resize(turn.number + 1, std::vector<std::size_t>(labels));
        ++out.by_turn[turn.number][turn.label];
      }
      if (before != nullptr && before->number + 1 == turn.number) ++out.next[before->label][turn.label];
      before = &turn;
      for (const std::uint32_t rule : turn.rules) ++out.rules[rule];
    }
  }
  return out;
}

std::vector<std::uint32_t> all_trajectories(const Table& table) {
  std::vector<std::uint32_t> all(table.trajectories.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  return all;
}

}  // namespace ptxbench::report
