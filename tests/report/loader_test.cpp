#include "report/loader.h"

#include <gtest/gtest.h>

#include <fstream>

#include "agent/interchange.h"
#include "agent/trajectory.h"
#include "report/metrics.h"
#include "synthetic.h"

namespace ptxbench::report {
namespace {

namespace fs = std::filesystem;

bool has_note(const Table& table, std::string_view part) {
  for (const Note& note : table.notes) {
    if (note.text.find(part) != std::string::npos) return true;
  }
  return false;
}

class Experiments : public ::testing::Test {
 protected:
  Experiments() : folder_(std::move(*base::TempDir::create())) {
    SyntheticOptions options;
    options.runs = 2;
    options.trajectories = 3;
    write_experiment_shape(folder_.path() / "run", options);
  }
  fs::path run() const { return folder_.path() / "run"; }
  fs::path file(int number) const { return run() / "trajectories" / fmt::format("exp_{:03}.jsonl", number); }
  Table load() const {
    Loader loader({run()});
    auto table = loader.load();
    EXPECT_TRUE(table) << table.error().message;
    return table ? std::move(*table) : Table();
  }
  base::TempDir folder_;
};

TEST_F(Experiments, TurnsAsTheyAreOnDisk) {
  const Table table = load();
  EXPECT_TRUE(table.notes.empty()) << table.notes[0].text;
  ASSERT_EQ(table.trajectories.size(), 6U);
  EXPECT_EQ(table.turn_count(), 48U);
  EXPECT_EQ(table.archs[0], "hopper");
  EXPECT_EQ(table.languages[0], "CUDA-PTX");
  EXPECT_EQ(table.workloads[table.trajectories[0].workload], "gemm_n7168_k5120_M8192");
  for (const TrajectoryRow& row : table.trajectories) {
    const auto trajectory = agent::read_trajectory(row.file);
    ASSERT_TRUE(trajectory);
    ASSERT_EQ(row.turns.size(), trajectory->turns.size());
    for (std::size_t t = 0; t < row.turns.size(); ++t) {
      const agent::Turn& turn = trajectory->turns[t];
      EXPECT_EQ(row.turns[t].number + 1, turn.number);
      EXPECT_EQ(table.labels[row.turns[t].label], agent::failure_label(turn));
      EXPECT_EQ(row.turns[t].passed == Known::yes, turn.passed());
      if (turn.speedup()) {
        EXPECT_EQ(row.turns[t].speedup, *turn.speedup());
      }
      EXPECT_EQ(row.turns[t].cost, *turn.usage.cost);
      EXPECT_EQ(row.turns[t].tokens, static_cast<double>(*turn.usage.total_tokens()));
      EXPECT_EQ(row.turns[t].judge_seconds, turn.judge_seconds);
      EXPECT_TRUE(is_known(row.turns[t].gpu_seconds));  // 0 where no GPU was asked
    }
  }
}

TEST_F(Experiments, OneThatRuns) {
  fs::remove(file(5));
  auto text = *base::read_file(file(0));
  text = text.substr(0, text.rfind("{\"record\":\"end\""));
  ASSERT_TRUE(base::write_file_atomic(file(0), text.substr(0, text.size() - 20)));  // within its last turn
  const std::string start = base::read_file(file(1))->substr(0, base::read_file(file(1))->find('\n') + 1);
  ASSERT_TRUE(base::write_file_atomic(file(1), start));
  const Table table = load();
  EXPECT_EQ(table.trajectories.size(), 4U);
  EXPECT_EQ(table.turn_count(), 31U);
  EXPECT_EQ(table.runs[0].without_turns, 2U);
  EXPECT_TRUE(has_note(table, "2 of 6 trajectories have no turn (1 not begun"));
  EXPECT_TRUE(has_note(table, "incomplete line"));
  EXPECT_TRUE(has_note(table, "2 of 6 trajectories have not ended"));
  EXPECT_EQ(table.trajectories[0].state, State::running);
  EXPECT_EQ(metrics_of(table, all_trajectories(table), {}).at[0].correct.of, 4U);
}

TEST_F(Experiments, DamageIsAnErrorOrANote) {
  const std::string text = *base::read_file(file(2));
  ASSERT_TRUE(base::write_file_atomic(file(2), "{\"record\":\"start\"}\n" + text));
  Loader strict({run()});
  const auto refused = strict.load();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("exp_002.jsonl:1"), std::string::npos) << refused.error().message;
  Loader lenient({run()}, Broken::note);
  const auto table = lenient.load();
  ASSERT_TRUE(table);
  EXPECT_EQ(table->trajectories.size(), 5U);
  EXPECT_TRUE(has_note(*table, "left out: "));
}

TEST_F(Experiments, OnlyWhatChangedIsReadAgain) {
  Loader loader({run()});
  Loader::Work work;
  ASSERT_TRUE(loader.load(&work));
  EXPECT_EQ(work.read, 6U);
  const std::string before = loader.state();
  const auto same = loader.load(&work);
  ASSERT_TRUE(same);
  EXPECT_EQ(work.read, 0U);
  EXPECT_EQ(work.reused, 6U);
  EXPECT_EQ(loader.state(), before);
  std::ofstream(file(3), std::ios::app) << "{\"record\":\"resume\",\"timestamp\":\"\"}\n";
  EXPECT_NE(loader.state(), before);
  const auto changed = loader.load(&work);
  ASSERT_TRUE(changed);
  EXPECT_EQ(work.read, 1U);
  EXPECT_EQ(changed->trajectories[3].state, State::running);
  EXPECT_EQ(changed->turn_count(), same->turn_count());
}

TEST_F(Experiments, ExportedAndReadAsARunOfThePublicBenchmark) {
  ASSERT_TRUE(agent::export_reference_run(run(), folder_.path() / "exported"));
  Loader loader({folder_.path() / "exported"});
  Loader::Work work;
  const auto table = loader.load(&work);
  ASSERT_TRUE(table) << table.error().message;
  const Table own = load();
  EXPECT_EQ(table->turn_count(), own.turn_count());
  EXPECT_EQ(table->models.all(), own.models.all());
  const Metrics a = metrics_of(own, all_trajectories(own), {}), b = metrics_of(*table, all_trajectories(*table), {});
  EXPECT_EQ(a.passed, b.passed);
  EXPECT_EQ(a.turns, b.turns);
  EXPECT_EQ(table->archs.all(), own.archs.all());
  ASSERT_TRUE(loader.load(&work));
  EXPECT_EQ(work.read, 0U);
}

TEST_F(Experiments, SeveralFoldersAndOneOfThem) {
  SyntheticOptions options;
  options.language = "triton";
  write_experiment_shape(folder_.path() / "other", options);
  Loader parent({folder_.path()});
  const auto both = parent.load();
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->runs.size(), 2U);
  EXPECT_EQ(both->languages.size(), 2U);
  Loader twice({run(), run()});
  const auto refused = twice.load();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("given twice"), std::string::npos);
  fs::create_directories(folder_.path() / "nest");
  fs::copy(run(), folder_.path() / "nest" / "run", fs::copy_options::recursive);
  Loader namesakes({run(), folder_.path() / "nest" / "run"});
  const auto named = namesakes.load();
  ASSERT_TRUE(named);
  EXPECT_EQ(named->runs[1].name, "run (2)");
  EXPECT_TRUE(has_note(*named, "two runs are called 'run'"));
  Loader one({file(0)});
  EXPECT_EQ(one.load()->turn_count(), 8U);
}

TEST_F(Experiments, EmulatedRunsHaveNoSpeedups) {
  SyntheticOptions options;
  options.speedups = false;
  options.strength = 3;
  write_experiment_shape(folder_.path() / "emulated", options);
  Loader loader({folder_.path() / "emulated"});
  const auto table = loader.load();
  ASSERT_TRUE(table);
  const Metrics metrics = metrics_of(*table, all_trajectories(*table), {});
  EXPECT_GT(metrics.correct, 0U);
  EXPECT_TRUE(metrics.fast_p[0].value());
  EXPECT_FALSE(metrics.fast_p[1].value());
  EXPECT_FALSE(metrics.best_speedup);
}

}  // namespace
}  // namespace ptxbench::report
