#include "report/compare.h"

#include <gtest/gtest.h>

#include <random>

#include "report/summary.h"

namespace ptxbench::report {
namespace {

struct Maker {
  Table table;
  std::mt19937 random{5};

  /// Trajectories of 8 turns, each correct by chance, on one problem.
  std::vector<std::uint32_t> add(const std::string& run, const std::string& problem, int count, double chance) {
    std::uint32_t number = 0;
    while (number < table.runs.size() && table.runs[number].name != run) ++number;
    if (number == table.runs.size()) {
      table.runs.push_back({});
      table.runs.back().name = run;
    }
    const std::uint32_t wrong = table.labels.id("Runtime error");
    std::vector<std::uint32_t> out;
    for (int i = 0; i < count; ++i) {
      TrajectoryRow row;
      row.run = number;
      row.name = fmt::format("exp_{:03}", i);
      row.problem = table.problems.id(problem);
      row.workload = table.workloads.id(problem);
      for (Names* names : {&table.models, &table.archs, &table.languages, &table.packs}) names->id("x");
      for (std::uint32_t t = 0; t < 8; ++t) {
        TurnRow turn;
        turn.number = t;
        turn.correct = static_cast<double>(random()) / 4294967296.0 < chance;
        turn.label = turn.correct ? 0 : wrong;
        if (turn.correct) turn.speedup = 0.6;
        turn.target = Known::yes;
        row.turns.push_back(turn);
      }
      out.push_back(static_cast<std::uint32_t>(table.trajectories.size()));
      table.trajectories.push_back(std::move(row));
    }
    return out;
  }
  Group group(const std::string& run) const {
    for (const Group& one : group_by(table, {Dimension::run})) {
      if (one.values[0] == run) return one;
    }
    return {};
  }
};

TEST(Compare, FindsARegressionAndWhereItIs) {
  Maker maker;
  maker.add("old", "p", 20, 0.6);
  maker.add("old", "q", 20, 0.5);
  maker.add("old", "only old", 5, 0.5);
  maker.add("new", "p", 20, 0.2);
  maker.add("new", "q", 20, 0.5);
  const auto result = compare(maker.table, maker.group("old"), maker.group("new"), {});
  ASSERT_TRUE(result);
  ASSERT_EQ(result->problems.size(), 2U);
  EXPECT_EQ(result->only_a.size(), 1U);
  const Difference& all = result->overall[0];
  EXPECT_EQ(all.verdict, "worse");
  EXPECT_LT(*all.p_value, 0.05);
  EXPECT_LT(*result->problems[0].differences[0].p_value, 0.001);
  EXPECT_LT(*all.high, 0);
  EXPECT_LE(*all.low, *all.difference);
  EXPECT_EQ(result->problems[0].differences[0].verdict, "worse");
  EXPECT_EQ(result->problems[1].differences[0].verdict, "no significant difference");
  EXPECT_EQ(result->overall[3].verdict, "no significant difference");  // nothing is faster than the library
  const std::string text = comparison_text(*result, base::Style(false));
  EXPECT_NE(text.find("1 problems are on side A only"), std::string::npos) << text;
  EXPECT_EQ(comparison_json(*result)["overall"][0]["verdict"], "worse");
}

TEST(Compare, FalseAlarmsAreAsRareAsTheyShouldBe) {
  int alarms = 0;
  constexpr int kTrials = 120;
  CompareOptions options;
  options.permutations = 300;
  options.replicates = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    Maker maker;
    maker.random.seed(static_cast<unsigned>(trial) + 100);
    maker.add("a", "p", 12, 0.4);
    maker.add("b", "p", 12, 0.4);
    const auto result = compare(maker.table, maker.group("a"), maker.group("b"), options);
    ASSERT_TRUE(result);
    alarms += *result->overall[0].p_value < 0.05;
  }
  EXPECT_LE(alarms, 16);  // 5 % of 120 and four standard deviations
}

TEST(Compare, ExactlyForAFewTrajectories) {
  // Two against two, all correct against none: of the six ways to part them two are as extreme.
  Maker maker;
  maker.add("a", "p", 2, 0);
  maker.add("b", "p", 2, 1.1);
  const auto result = compare(maker.table, maker.group("a"), maker.group("b"), {});
  ASSERT_TRUE(result);
  EXPECT_EQ(*result->overall[0].difference, 1);
  EXPECT_NEAR(*result->overall[0].p_value, 1.0 / 3, 0.02);
  EXPECT_EQ(result->overall[0].verdict, "no significant difference");
}

TEST(Compare, WhatCannotBeComparedIsAnError) {
  Maker maker;
  maker.add("a", "p", 2, 0.5);
  maker.add("b", "q", 2, 0.5);
  const auto apart = compare(maker.table, maker.group("a"), maker.group("b"), {});
  ASSERT_FALSE(apart);
  EXPECT_NE(apart.error().message.find("no problem in common"), std::string::npos);
  EXPECT_FALSE(compare(maker.table, maker.group("a"), maker.group("a"), {}));
}

TEST(Compare, LanguagesAgainstEachOther) {
  Maker maker;
  maker.add("cuda", "p", 4, 0.5);
  for (const std::uint32_t i : maker.add("triton", "p", 4, 0.5))
    maker.table.trajectories[i].language = maker.table.languages.id("Triton");
  const auto result = compare(maker.table, maker.group("cuda"), maker.group("triton"), {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->problems.size(), 1U);
  // Where a side has both, they stay apart.
  for (const std::uint32_t i : maker.add("cuda", "p", 1, 0.5))
    maker.table.trajectories[i].language = maker.table.languages.id("Triton");
  const auto apart = compare(maker.table, maker.group("cuda"), maker.group("triton"), {});
  ASSERT_TRUE(apart);
  EXPECT_EQ(apart->problems.size(), 1U);
  EXPECT_EQ(apart->only_a.size(), 1U);
}

TEST(Compare, WhatWasNotTimedIsNotMeasured) {
  Maker maker;
  maker.add("a", "p", 3, 0.9);
  maker.add("b", "p", 3, 0.9);
  maker.table.trajectories[0].turns[0].correct = true;
  maker.table.trajectories[0].turns[0].label = 0;
  maker.table.trajectories[0].turns[0].speedup = kUnknown;
  const auto result = compare(maker.table, maker.group("a"), maker.group("b"), {});
  ASSERT_TRUE(result);
  EXPECT_NE(result->overall[0].verdict, "not measured");
  EXPECT_EQ(result->overall[1].verdict, "not measured");
  EXPECT_FALSE(result->overall[1].difference);
}

}  // namespace
}  // namespace ptxbench::report
