#include "report/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <set>

#include "base/files.h"
#include "base/text.h"
#include "report/loader.h"
#include "report/summary.h"
#include "synthetic.h"

namespace ptxbench::report {
namespace {

/// The published file read and counted in the plainest way, by code that shares nothing with the room.
struct Naive {
  struct Turn {
    std::string model, arch, problem, run, trajectory, label;
    int number = 0;
    double speedup = 0;
    bool target = false;
  };
  std::vector<Turn> turns;

  explicit Naive(const std::string& text) {
    bool header = true;
    for (const std::string_view line : base::split_lines(text)) {
      const auto f = base::split(line, ',');
      if (!header) {
        turns.push_back({std::string(f[0]), std::string(f[1]), std::string(f[5]), std::string(f[6]), std::string(f[7]),
                         std::string(f[11]), std::stoi(std::string(f[8])), std::stod(std::string(f[12])),
                         f[14] == "1"});
      }
      header = false;
    }
  }
};

Table load(const std::filesystem::path& folder) {
  Loader loader({folder});
  auto table = loader.load();
  EXPECT_TRUE(table) << table.error().message;
  return table ? std::move(*table) : Table();
}

TEST(Metrics, EqualPlainCounting) {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    auto folder = base::TempDir::create();
    ASSERT_TRUE(folder);
    SyntheticOptions options;
    options.seed = seed;
    options.runs = 11;
    options.trajectories = 3 + seed;
    write_published_shape(folder->path(), options);
    const Naive naive(*base::read_file(folder->path() / "reasoning_tokens_vs_performance.csv"));
    const Table table = load(folder->path());
    ASSERT_EQ(table.turn_count(), naive.turns.size());
    MetricOptions how;
    how.thresholds = {0, 0.1, 0.35, 0.8};
    how.turn_limits = {1, 3, 8};
    how.replicates = 0;
    for (const Group& group : group_by(table, {Dimension::model, Dimension::arch, Dimension::problem})) {
      const Metrics metrics = metrics_of(table, group.trajectories, how);
      const auto in = [&](const Naive::Turn& turn) {
        return turn.model == group.values[0] && turn.arch == group.values[1] && turn.problem == group.values[2];
      };
      for (std::size_t k = 0; k < how.thresholds.size(); ++k) {
        std::size_t count = 0, target = 0, of = 0;
        for (const auto& turn : naive.turns) {
          if (!in(turn)) continue;
          ++of;
          if (turn.label == "Correct" && turn.speedup > how.thresholds[k]) {
            ++count;
            target += turn.target;
          }
        }
        EXPECT_EQ(metrics.fast_p[k].count, count);
        EXPECT_EQ(metrics.fast_p[k].of, of);
        EXPECT_EQ(metrics.fast_p_target[k].count, target);
      }
      for (std::size_t k = 0; k < how.turn_limits.size(); ++k) {
        std::set<std::string> all, correct, target;
        double best = 0;
        for (const auto& turn : naive.turns) {
          if (!in(turn)) continue;
          const std::string key = turn.run + "/" + turn.trajectory;
          all.insert(key);
          if (turn.number >= static_cast<int>(how.turn_limits[k]) || turn.label != "Correct") continue;
          correct.insert(key);
          if (turn.target) target.insert(key);
          best = std::max(best, turn.speedup);
        }
        EXPECT_EQ(metrics.at[k].correct.of, all.size());
        EXPECT_EQ(metrics.at[k].correct.count, correct.size());
        EXPECT_EQ(metrics.at[k].target.count, target.size());
        EXPECT_DOUBLE_EQ(metrics.at[k].best_speedup.value_or(0), best);
      }
    }
    // Pairs of consecutive turns.
    std::map<std::pair<std::string, std::string>, std::size_t> pairs;
    for (const auto& a : naive.turns) {
      for (const auto& b : naive.turns) {
        if (a.run == b.run && a.trajectory == b.trajectory && b.number == a.number + 1) ++pairs[{a.label, b.label}];
      }
    }
    const Classes classes = classes_of(table, all_trajectories(table));
    for (std::uint32_t from = 0; from < table.labels.size(); ++from) {
      for (std::uint32_t to = 0; to < table.labels.size(); ++to) {
        const auto found = pairs.find({table.labels[from], table.labels[to]});
        EXPECT_EQ(classes.next[from][to], found == pairs.end() ? 0 : found->second);
      }
    }
  }
}

/// A table with one run; each inner list is a trajectory of speed-ups, NaN being a turn that is not correct.
Table table_of(const std::vector<std::vector<double>>& trajectories) {
  Table table;
  const std::uint32_t wrong = table.labels.id("Runtime error");
  table.runs.push_back({});
  table.runs[0].name = "run";
  for (const auto& speedups : trajectories) {
    TrajectoryRow row;
    row.name = fmt::format("exp_{:03}", table.trajectories.size());
    for (Names* names :
         {&table.models, &table.archs, &table.problems, &table.workloads, &table.languages, &table.packs})
      names->id("x");
    for (const double speedup : speedups) {
      TurnRow turn;
      turn.number = static_cast<std::uint32_t>(row.turns.size());
      turn.correct = is_known(speedup);
      turn.label = turn.correct ? 0 : wrong;
      turn.speedup = speedup;
      turn.target = turn.correct ? Known::yes : Known::unknown;
      row.turns.push_back(turn);
    }
    table.trajectories.push_back(std::move(row));
  }
  return table;
}

TEST(Metrics, TheThresholdIsStrict) {
  const Table table = table_of({{0.5, 0.5, 0.8, kUnknown}});
  const Metrics metrics = metrics_of(table, all_trajectories(table), {});
  EXPECT_EQ(metrics.fast_p[0].count, 3U);
  EXPECT_EQ(metrics.fast_p[1].count, 1U);
  EXPECT_EQ(metrics.fast_p[2].count, 0U);
  EXPECT_EQ(percent(metrics.fast_p[0]), "75.00");
}

TEST(Metrics, WhatIsNotMeasuredIsNoNumber) {
  Table table = table_of({{0.9, 0.7}, {kUnknown, 0.6}});
  table.trajectories[0].turns[1].speedup = kUnknown;  // correct, and not timed
  table.trajectories[1].turns[1].target = Known::unknown;
  const Metrics metrics = metrics_of(table, all_trajectories(table), {});
  EXPECT_EQ(metrics.fast_p[0].value(), 0.75);  // correct is correct
  EXPECT_EQ(metrics.fast_p[1].value(), std::nullopt);
  EXPECT_EQ(metrics.fast_p[1].count, 2U);
  EXPECT_EQ(metrics.fast_p[1].unknown, 1U);
  EXPECT_EQ(metrics.fast_p_target[0].value(), std::nullopt);
  EXPECT_FALSE(metrics.fast_p[1].interval);
  EXPECT_EQ(metrics.unmeasured, 1U);
  EXPECT_EQ(metrics.cost.whole(), std::nullopt);
  EXPECT_EQ(metrics.at[2].target.value(), std::nullopt);  // the second one perhaps
  // A target that surely did not execute decides, whatever the time.
  table.trajectories[0].turns[1].target = Known::no;
  table.trajectories[1].turns[1].target = Known::no;
  const Metrics sure = metrics_of(table, all_trajectories(table), {});
  EXPECT_EQ(sure.fast_p_target[1].value(), 0.25);
  Summary summary = summarise(table, {Dimension::model}, {});
  const std::string text = summary_text(table, summary, base::Style(false));
  EXPECT_NE(text.find("2+ of 4"), std::string::npos) << text;
  EXPECT_EQ(summary_json(table, summary)["groups"][0]["fast_p"][1]["plain"]["percent"], nullptr);
}

TEST(Metrics, LimitsOfProportions) {
  // Tabulated exact limits.
  EXPECT_NEAR(clopper_pearson(0, 10).high, 0.3085, 1e-4);
  EXPECT_NEAR(clopper_pearson(5, 10).low, 0.1871, 1e-4);
  EXPECT_NEAR(clopper_pearson(5, 10).high, 0.8129, 1e-4);
  EXPECT_NEAR(clopper_pearson(10, 10).low, 0.6915, 1e-4);
  EXPECT_NEAR(clopper_pearson(3, 96).low, 0.0065, 1e-4);
}

TEST(Metrics, LimitsCoverTheTruthAboutAsOftenAsTheySay) {
  // Trajectories differ in how good they are: limits that took turns for independent would be too narrow.
  std::mt19937 random(7);
  const auto share = [&] { return static_cast<double>(random()) / 4294967296.0; };
  int covered = 0, naive_covered = 0;
  constexpr int kTrials = 200;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<std::vector<double>> trajectories;
    for (int t = 0; t < 40; ++t) {
      const double chance = share() < 0.5 ? 0.1 : 0.7;  // 0.4 on average
      trajectories.emplace_back();
      for (int turn = 0; turn < 8; ++turn) trajectories.back().push_back(share() < chance ? 0.5 : kUnknown);
    }
    const Table table = table_of(trajectories);
    MetricOptions options;
    options.replicates = 400;
    const Share fast = metrics_of(table, all_trajectories(table), options).fast_p[0];
    ASSERT_TRUE(fast.interval);
    covered += fast.interval->low <= 0.4 && 0.4 <= fast.interval->high;
    const double p = *fast.value(), half = 1.96 * std::sqrt(p * (1 - p) / static_cast<double>(fast.of));
    naive_covered += std::abs(p - 0.4) <= half;
  }
  EXPECT_GE(covered, 178);  // 95 % of 200 less four standard deviations
  EXPECT_LT(naive_covered, 165);
}

TEST(Metrics, WhereAllAgreeTheLimitsAreExact) {
  const Table none = table_of(std::vector<std::vector<double>>(12, std::vector<double>(8, kUnknown)));
  const Share share = metrics_of(none, all_trajectories(none), {}).fast_p[0];
  ASSERT_TRUE(share.interval);
  EXPECT_TRUE(share.interval->exact);
  EXPECT_EQ(share.interval->low, 0);
  EXPECT_NEAR(share.interval->high, 0.2646, 1e-4);
  // One trajectory says nothing of others; nor do some that are all alike in between.
  const Table one = table_of({{0.5, kUnknown}});
  EXPECT_FALSE(metrics_of(one, all_trajectories(one), {}).fast_p[0].interval);
  const Table alike = table_of({{0.5, kUnknown}, {0.5, kUnknown}, {0.5, kUnknown}});
  EXPECT_FALSE(metrics_of(alike, all_trajectories(alike), {}).fast_p[0].interval);
}

TEST(Metrics, RunsKeepTheirWeightWhenTrajectoriesAreResampled) {
  // Two runs, each without any variation: resampled within runs, the share cannot vary.
  Table table = table_of({{0.5}, {0.5}, {0.5}, {kUnknown}, {kUnknown}, {kUnknown}});
  table.runs.push_back(table.runs[0]);
  for (std::size_t i = 3; i < 6; ++i) table.trajectories[i].run = 1;
  EXPECT_FALSE(metrics_of(table, all_trajectories(table), {}).fast_p[0].interval);
  for (TrajectoryRow& row : table.trajectories) row.run = 0;
  const Share pooled = metrics_of(table, all_trajectories(table), {}).fast_p[0];
  ASSERT_TRUE(pooled.interval);
  EXPECT_LT(pooled.interval->low, 0.3);
}

TEST(Metrics, TheSameEachTime) {
  const Table table = table_of({{0.5, kUnknown}, {0.5, 0.9}, {kUnknown, kUnknown}, {0.2, kUnknown}});
  const auto first = metrics_of(table, all_trajectories(table), {}),
             second = metrics_of(table, all_trajectories(table), {});
  EXPECT_EQ(first.fast_p[0].interval->low, second.fast_p[0].interval->low);
  EXPECT_EQ(first.fast_p[1].interval->high, second.fast_p[1].interval->high);
}

TEST(Groups, PoolsTakeRunsTogether) {
  auto folder = base::TempDir::create();
  SyntheticOptions options;
  options.runs = 10;
  write_published_shape(folder->path(), options);
  Table table = load(folder->path());
  ASSERT_TRUE(add_pool(table, "first=run-0,run-1"));
  ASSERT_TRUE(add_pool(table, "all=run-*"));
  EXPECT_FALSE(add_pool(table, "all=run-1"));
  EXPECT_FALSE(add_pool(table, "nothing"));
  const auto bad = add_pool(table, "typo=run-11");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("did you mean 'run-1'"), std::string::npos) << bad.error().message;
  const auto groups = group_by(table, {Dimension::pool});
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].trajectories.size(), 12U);
  EXPECT_EQ(groups[1].trajectories.size(), 60U);
  ASSERT_TRUE(keep_where(table, {{Dimension::problem, {"mha_*"}}}));
  EXPECT_EQ(table.problems.size(), 5U);
  EXPECT_EQ(group_by(table, {Dimension::problem}).size(), 4U);
  EXPECT_FALSE(keep_where(table, {{Dimension::model, {"Model 77"}}}));
}

}  // namespace
}  // namespace ptxbench::report
