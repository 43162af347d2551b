#include "report/table.h"

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ptxbench::report {
namespace {

constexpr std::array<std::string_view, 8> kDimensions = {"model",    "arch", "problem", "workload",
                                                         "language", "pack", "run",     "pool"};

bool matches(std::string_view pattern, std::string_view text) {
  // Greedy with one place to come back to: linear in practice, and no recursion.
  std::size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

std::uint32_t Names::id(std::string_view text) {
  const auto [at, fresh] = ids_.try_emplace(std::string(text), static_cast<std::uint32_t>(texts_.size()));
  if (fresh) texts_.emplace_back(text);
  return at->second;
}

Table::Table() { labels.id(kCorrect); }

std::size_t Table::turn_count() const {
  std::size_t sum = 0;
  for (const TrajectoryRow& one : trajectories) sum += one.turns.size();
  return sum;
}

std::string_view to_string(Dimension dimension) { return kDimensions[static_cast<std::size_t>(dimension)]; }

Result<Dimension> dimension_of(std::string_view name) {
  if (name == "architecture") return Dimension::arch;
  if (name == "definition") return Dimension::problem;
  const auto at = std::find(kDimensions.begin(), kDimensions.end(), name);
  if (at == kDimensions.end()) {
    return input_error("nothing is called '{}'{}; there are: {}", name, base::did_you_mean(name, kDimensions),
                       fmt::join(kDimensions, ", "));
  }
  return static_cast<Dimension>(at - kDimensions.begin());
}

const std::string& value_of(const Table& table, const TrajectoryRow& trajectory, Dimension dimension) {
  static const std::string kNone;
  switch (dimension) {
    case Dimension::model:
      return table.models[trajectory.model];
    case Dimension::arch:
      return table.archs[trajectory.arch];
    case Dimension::problem:
      return table.problems[trajectory.problem];
    case Dimension::workload:
      return table.workloads[trajectory.workload];
    case Dimension::language:
      return table.languages[trajectory.language];
    case Dimension::pack:
      return table.packs[trajectory.pack];
    case Dimension::run:
      return table.runs[trajectory.run].name;
    case Dimension::pool:
      break;
  }
  return kNone;
}

std::vector<Group> group_by(const Table& table, const std::vector<Dimension>& dimensions) {
  std::vector<Group> groups;
  std::map<std::vector<std::string>, std::size_t> known;
  const auto pool_at = std::find(dimensions.begin(), dimensions.end(), Dimension::pool);
  const auto add = [&](std::uint32_t index, const std::string& pool) {
    std::vector<std::string> values;
    values.reserve(dimensions.size());
    for (const Dimension dimension : dimensions) {
      values.push_back(dimension == Dimension::pool ? pool : value_of(table, table.trajectories[index], dimension));
    }
    const auto [at, fresh] = known.try_emplace(values, groups.size());
    if (fresh) groups.push_back({std::move(values), {}});
    groups[at->second].trajectories.push_back(index);
  };
  if (pool_at == dimensions.end()) {
    for (std::uint32_t i = 0; i < table.trajectories.size(); ++i) add(i, "");
    return groups;
  }
  for (const Pool& pool : table.pools) {
    for (const std::uint32_t run : pool.runs) {
      for (std::uint32_t i = 0; i < table.trajectories.size(); ++i) {
        if (table.trajectories[i].run == run) add(i, pool.name);
      }
    }
  }
  return groups;
}

Result<void> keep_where(Table& table, const std::map<Dimension, std::vector<std::string>>& wanted) {
  for (const auto& [dimension, values] : wanted) {
    for (const std::string& value : values) {
      const bool found = std::any_of(
          table.trajectories.begin(), table.trajectories.end(),
          [&, &by = dimension](const TrajectoryRow& one) { return matches(value, value_of(table, one, by)); });
      if (found) continue;
      std::vector<std::string> all;
      for (const TrajectoryRow& one : table.trajectories) {
        const std::string& text = value_of(table, one, dimension);
        if (std::find(all.begin(), all.end(), text) == all.end()) all.push_back(text);
      }
      return input_error("no trajectory has the {} '{}'{}; there are: {}", to_string(dimension), value,
                         base::did_you_mean(value, all), fmt::join(all, ", "));
    }
    std::erase_if(table.trajectories, [&, &by = dimension, &any = values](const TrajectoryRow& one) {
      return std::none_of(any.begin(), any.end(),
                          [&](const std::string& value) { return matches(value, value_of(table, one, by)); });
    });
  }
  if (table.trajectories.empty()) return input_error("no trajectory has all the values asked for");
  return {};
}

Result<void> add_pool(Table& table, std::string_view description) {
  const std::size_t equals = description.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return input_error("'{}' is no pool: write NAME=run1,run2,... (`*` stands for anything)", description);
  }
  Pool pool{std::string(base::trim(description.substr(0, equals))), {}};
  for (const Pool& one : table.pools) {
    if (one.name == pool.name) return input_error("two pools are called '{}'", pool.name);
  }
  for (const std::string_view part : base::split(description.substr(equals + 1), ',')) {
    const std::string_view pattern = base::trim(part);
    bool found = false;
    for (std::uint32_t i = 0; i < table.runs.size(); ++i) {
      if (!matches(pattern, table.runs[i].name)) continue;
      found = true;
      if (std::find(pool.runs.begin(), pool.runs.end(), i) == pool.runs.end()) pool.runs.push_back(i);
    }
    if (!found) {
      std::vector<std::string> names;
      for (const Run& run : table.runs) names.push_back(run.name);
      return input_error("pool '{}': no run is called '{}'{}", pool.name, pattern, base::did_you_mean(pattern, names));
    }
  }
  table.pools.push_back(std::move(pool));
  return {};
}

}  // namespace ptxbench::report
