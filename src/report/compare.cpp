#include "report/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace ptxbench::report {
namespace {

constexpr std::uint32_t kSeed = 2;
constexpr double kSignificance = 0.05;
constexpr double kEqual = 1e-12;  ///< differences this close are equal but for rounding

/// What one trajectory gives for each quantity.
struct Sample {
  std::vector<double> counts, sizes;
};

struct Problem {
  std::vector<std::string> key;
  std::vector<Sample> samples;  ///< those of A first
  std::size_t of_a = 0;
  std::size_t turns_a = 0, turns_b = 0;
  std::vector<bool> known;  ///< per quantity
};

double share_of(const std::vector<Sample>& samples, const std::vector<std::uint32_t>& order, std::size_t from,
                std::size_t to, std::size_t quantity) {
  double count = 0, size = 0;
  for (std::size_t i = from; i < to; ++i) {
    count += samples[order[i]].counts[quantity];
    size += samples[order[i]].sizes[quantity];
  }
  return size > 0 ? count / size : 0;
}

struct Quantities {
  std::vector<std::string> names, denominators;
};

Quantities quantities_of(const CompareOptions& options, unsigned limit) {
  Quantities out;
  for (const double p : options.thresholds) {
    out.names.push_back(fmt::format("Fast_p, p = {:g}", p));
    out.denominators.emplace_back("turns");
  }
  out.names.emplace_back("Fast_p, p = 0, target instruction");
  out.denominators.emplace_back("turns");
  out.names.push_back(fmt::format("correct within {} turns", limit));
  out.denominators.emplace_back("trajectories");
  out.names.push_back(fmt::format("target instruction within {} turns", limit));
  out.denominators.emplace_back("trajectories");
  return out;
}

void add_sample(const Table& table, std::uint32_t index, const CompareOptions& options, unsigned limit,
                Problem& problem) {
  MetricOptions one;
  one.thresholds = options.thresholds;
  one.thresholds.push_back(0);
  one.turn_limits = {limit};
  one.replicates = 0;
  const std::uint32_t list[] = {index};
  const Metrics metrics = metrics_of(table, list, one);
  Sample sample;
  std::vector<const Share*> shares;
  for (std::size_t k = 0; k < options.thresholds.size(); ++k) shares.push_back(&metrics.fast_p[k]);
  shares.push_back(&metrics.fast_p_target.back());
  shares.push_back(&metrics.at.front().correct);
  shares.push_back(&metrics.at.front().target);
  problem.known.resize(shares.size(), true);
  for (std::size_t q = 0; q < shares.size(); ++q) {
    sample.counts.push_back(static_cast<double>(shares[q]->count));
    sample.sizes.push_back(static_cast<double>(shares[q]->of));
    if (shares[q]->unknown > 0) problem.known[q] = false;
  }
  problem.samples.push_back(std::move(sample));
}

std::string verdict_of(const Difference& one) {
  if (!one.difference || !one.p_value) return "not measured";
  if (*one.p_value >= kSignificance) return "no significant difference";
  return *one.difference > 0 ? "better" : "worse";
}

/// Holm: the smallest of m is multiplied by m, the next by m - 1, and so on; never less than the one before.
void adjust(std::vector<Difference*> list) {
  std::erase_if(list, [](const Difference* one) { return !one->p_value; });
  std::sort(list.begin(), list.end(),
            [](const Difference* a, const Difference* b) { return *a->p_value < *b->p_value; });
  double least = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    least = std::max(least, std::min(1.0, *list[i]->p_value * static_cast<double>(list.size() - i)));
    list[i]->p_value = least;
  }
}

}  // namespace

Result<Comparison> compare(const Table& table, const Group& a, const Group& b, const CompareOptions& options) {
  Comparison out;
  out.a = fmt::format("{}", fmt::join(a.values, " "));
  out.b = fmt::format("{}", fmt::join(b.values, " "));
  const std::set<std::uint32_t> in_a(a.trajectories.begin(), a.trajectories.end());
  for (const std::uint32_t index : b.trajectories) {
    if (in_a.contains(index)) {
      return input_error("{} of run '{}' is on both sides of the comparison", table.trajectories[index].name,
                         table.runs[table.trajectories[index].run].name);
    }
  }
  unsigned limit = options.turn_limit;
  if (limit == 0) {
    const auto longest = [&](const Group& side) {
      std::size_t most = 0;
      for (const std::uint32_t i : side.trajectories) {
        most = std::max<std::size_t>(most, table.trajectories[i].turns.back().number + 1);
      }
      return static_cast<unsigned>(most);
    };
    limit = std::max(1U, std::min(longest(a), longest(b)));
  }
  const Quantities quantities = quantities_of(options, limit);
  const std::size_t count = quantities.names.size();

  // Problems are told apart by language too, unless the language is what is compared.
  const auto languages = [&](const Group& side) {
    std::set<std::uint32_t> found;
    for (const std::uint32_t i : side.trajectories) found.insert(table.trajectories[i].language);
    return found;
  };
  const bool between_languages = languages(a).size() == 1 && languages(b).size() == 1 && languages(a) != languages(b);
  const std::vector<Dimension> by = {Dimension::arch, Dimension::problem, Dimension::workload, Dimension::language};
  std::map<std::vector<std::string>, std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>> sides;
  std::vector<std::vector<std::string>> order;
  const auto sort_in = [&](const Group& group, bool is_b) {
    for (const std::uint32_t index : group.trajectories) {
      std::vector<std::string> key;
      key.reserve(by.size());
      for (const Dimension dimension : by) key.push_back(value_of(table, table.trajectories[index], dimension));
      if (between_languages) key.back() = "A and B differ";
      const auto [at, fresh] = sides.try_emplace(key);
      if (fresh) order.push_back(key);
      (is_b ? at->second.second : at->second.first).push_back(index);
    }
  };
  sort_in(a, false);
  sort_in(b, true);
  std::vector<Problem> problems;
  for (const auto& key : order) {
    const auto& [of_a, of_b] = sides[key];
    if (of_a.empty() || of_b.empty()) {
      (of_a.empty() ? out.only_b : out.only_a).push_back(fmt::format("{}", fmt::join(key, " ")));
      continue;
    }
    Problem problem;
    problem.key = key;
    problem.of_a = of_a.size();
    for (const std::uint32_t i : of_a) {
      add_sample(table, i, options, limit, problem);
      problem.turns_a += table.trajectories[i].turns.size();
    }
    for (const std::uint32_t i : of_b) {
      add_sample(table, i, options, limit, problem);
      problem.turns_b += table.trajectories[i].turns.size();
    }
    problems.push_back(std::move(problem));
  }
  if (problems.empty()) {
    return input_error(
        "'{}' and '{}' have no problem in common (same architecture, problem, workload and language): there is "
        "nothing to compare",
        out.a, out.b);
  }

  // [quantity][problem]
  const double parts = static_cast<double>(problems.size());
  std::vector<std::vector<double>> observed_a(count), observed_b(count);
  std::vector<std::vector<std::size_t>> extreme(count, std::vector<std::size_t>(problems.size()));
  std::vector<std::size_t> extreme_overall(count);
  std::vector<double> observed(count);
  std::vector<std::vector<std::uint32_t>> orders(problems.size());
  for (std::size_t k = 0; k < problems.size(); ++k) {
    orders[k].resize(problems[k].samples.size());
    for (std::uint32_t i = 0; i < orders[k].size(); ++i) orders[k][i] = i;
    for (std::size_t q = 0; q < count; ++q) {
      observed_a[q].push_back(share_of(problems[k].samples, orders[k], 0, problems[k].of_a, q));
      observed_b[q].push_back(share_of(problems[k].samples, orders[k], problems[k].of_a, orders[k].size(), q));
      observed[q] += (observed_b[q][k] - observed_a[q][k]) / parts;
    }
  }
  Random random(kSeed);
  for (unsigned n = 0; n < options.permutations; ++n) {
    std::vector<double> overall(count);
    for (std::size_t k = 0; k < problems.size(); ++k) {
      std::vector<std::uint32_t>& shuffled = orders[k];
      for (std::size_t i = shuffled.size(); i > 1; --i) {
        std::swap(shuffled[i - 1], shuffled[random.below(static_cast<std::uint32_t>(i))]);
      }
      for (std::size_t q = 0; q < count; ++q) {
        const double difference = share_of(problems[k].samples, shuffled, problems[k].of_a, shuffled.size(), q) -
                                  share_of(problems[k].samples, shuffled, 0, problems[k].of_a, q);
        overall[q] += difference / parts;
        extreme[q][k] += std::abs(difference) >= std::abs(observed_b[q][k] - observed_a[q][k]) - kEqual;
      }
    }
    for (std::size_t q = 0; q < count; ++q)
      extreme_overall[q] += std::abs(overall[q]) >= std::abs(observed[q]) - kEqual;
  }
  // Limits of the difference: each side is resampled within each problem. Its own numbers, as the page has.
  Random resampling(kSeed);
  std::vector<std::vector<double>> resampled(count);
  std::vector<std::vector<std::vector<double>>> resampled_parts(count,
                                                                std::vector<std::vector<double>>(problems.size()));
  for (unsigned r = 0; r < options.replicates; ++r) {
    std::vector<double> overall(count);
    for (std::size_t k = 0; k < problems.size(); ++k) {
      const std::size_t of_a = problems[k].of_a, of_b = problems[k].samples.size() - of_a;
      for (std::size_t i = 0; i < of_a + of_b; ++i) {
        orders[k][i] = i < of_a ? resampling.below(static_cast<std::uint32_t>(of_a))
                                : static_cast<std::uint32_t>(of_a) + resampling.below(static_cast<std::uint32_t>(of_b));
      }
      for (std::size_t q = 0; q < count; ++q) {
        const double difference = share_of(problems[k].samples, orders[k], of_a, of_a + of_b, q) -
                                  share_of(problems[k].samples, orders[k], 0, of_a, q);
        overall[q] += difference / parts;
        resampled_parts[q][k].push_back(difference);
      }
    }
    for (std::size_t q = 0; q < count; ++q) resampled[q].push_back(overall[q]);
  }
  const auto limits = [](std::vector<double>& values, Difference& into) {
    if (values.empty()) return;
    std::sort(values.begin(), values.end());
    into.low = values[static_cast<std::size_t>(std::floor(0.025 * static_cast<double>(values.size() - 1)))];
    into.high = values[static_cast<std::size_t>(std::ceil(0.975 * static_cast<double>(values.size() - 1)))];
  };
  const auto chance = [&](std::size_t hits) {
    return (1.0 + static_cast<double>(hits)) / (1.0 + static_cast<double>(options.permutations));
  };
  for (const Problem& problem : problems) {
    out.problems.push_back(
        {problem.key, problem.of_a, problem.samples.size() - problem.of_a, problem.turns_a, problem.turns_b, {}});
  }
  for (std::size_t q = 0; q < count; ++q) {
    Difference overall{quantities.names[q], quantities.denominators[q], {}, {}, {}, {}, {}, {}, {}};
    const bool known = std::all_of(problems.begin(), problems.end(), [&](const Problem& one) { return one.known[q]; });
    if (known) {
      overall.a = overall.b = 0;
      for (std::size_t k = 0; k < problems.size(); ++k) {
        *overall.a += observed_a[q][k] / parts;
        *overall.b += observed_b[q][k] / parts;
      }
      overall.difference = observed[q];
      overall.p_value = chance(extreme_overall[q]);
      limits(resampled[q], overall);
    }
    overall.verdict = verdict_of(overall);
    out.overall.push_back(std::move(overall));
    for (std::size_t k = 0; k < problems.size(); ++k) {
      Difference one{quantities.names[q], quantities.denominators[q], {}, {}, {}, {}, {}, {}, {}};
      if (problems[k].known[q]) {
        one.a = observed_a[q][k];
        one.b = observed_b[q][k];
        one.difference = *one.b - *one.a;
        one.p_value = chance(extreme[q][k]);
        limits(resampled_parts[q][k], one);
      }
      out.problems[k].differences.push_back(std::move(one));
    }
  }
  for (std::size_t q = 0; q < count; ++q) {
    std::vector<Difference*> family;
    for (ProblemComparison& one : out.problems) family.push_back(&one.differences[q]);
    adjust(family);
    for (Difference* one : family) one->verdict = verdict_of(*one);
  }
  return out;
}

}  // namespace ptxbench::report
