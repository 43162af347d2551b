// Broken and hostile inputs: an error or a note, never a silent wrong number.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/files.h"
#include "base/text.h"
#include "report/csv.h"
#include "report/loader.h"
#include "report/metrics.h"
#include "report/published.h"
#include "synthetic.h"

namespace ptxbench::report {
namespace {

constexpr std::string_view kHeader =
    "model,arch,definition,exp_dir,trajectory_id,turn,reasoning_tokens,correctness,speedup,correct_with_arch\n";

class Input : public ::testing::Test {
 protected:
  Input() : folder_(std::move(*base::TempDir::create())) {}
  Result<Table> load(std::string_view turns, std::string_view header = kHeader) {
    std::ofstream(folder_.path() / kPublishedTurns, std::ios::binary) << header << turns;
    Loader loader({folder_.path()});
    return loader.load();
  }
  static bool has_note(const Table& table, std::string_view part) {
    for (const Note& note : table.notes) {
      if (note.text.find(part) != std::string::npos) return true;
    }
    return false;
  }
  void expect_error(const Result<Table>& table, std::string_view part) {
    ASSERT_FALSE(table) << "no error about " << part;
    EXPECT_NE(table.error().message.find(part), std::string::npos) << table.error().message;
    EXPECT_EQ(table.error().kind, ErrorKind::input);
  }
  base::TempDir folder_;
};

TEST_F(Input, PlainLines) {
  const auto table =
      load("M,hopper,p,/r/a,exp_000,0,5,Correct,0.5,1\nM,hopper,p,/r/a,exp_000,1,5,Runtime error,0.0,0\n");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->turn_count(), 2U);
  EXPECT_TRUE(table->notes.empty());
  EXPECT_EQ(table->trajectories[0].turns[1].target, Known::unknown);  // nobody looked
}

TEST_F(Input, MissingColumnsAreNamed) {
  expect_error(load("M,hopper\n", "model,arch\n"),
               "no column definition, exp_dir, trajectory_id, turn, correctness, speedup");
  // Optional ones are noted.
  const auto table = load("M,hopper,p,/r/a,exp_000,0,Correct,0.5\n",
                          "model,arch,definition,exp_dir,trajectory_id,turn,correctness,speedup\n");
  ASSERT_TRUE(table);
  EXPECT_TRUE(has_note(*table, "target instructions are unknown"));
  const Metrics metrics = metrics_of(*table, all_trajectories(*table), {});
  EXPECT_EQ(metrics.fast_p_target[0].value(), std::nullopt);
  EXPECT_EQ(metrics.median_reasoning_tokens, std::nullopt);
}

TEST_F(Input, EmptyFiles) {
  expect_error(load("", ""), "is empty");
  expect_error(load(""), "has no turns");
  Loader nowhere({folder_.path() / "missing"});
  expect_error(nowhere.load(), "does not exist");
  auto empty = base::TempDir::create();
  Loader nothing({empty->path()});
  expect_error(nothing.load(), "holds no results");
}

TEST_F(Input, SpeedupsThatAreNone) {
  for (const char* bad : {"nan", "NaN", "inf", "-inf", "-0.5", "0", "0.0", "1e999", "-1e999", ""}) {
    const auto table =
        load(fmt::format("M,h,p,/r/a,exp_000,0,5,Correct,{},1\nM,h,p,/r/a,exp_000,1,5,Correct,0.9,1\n", bad));
    ASSERT_TRUE(table) << bad;
    EXPECT_TRUE(has_note(*table, "no positive finite number")) << bad;
    const Metrics metrics = metrics_of(*table, all_trajectories(*table), {});
    EXPECT_EQ(metrics.correct, 2U);
    EXPECT_EQ(metrics.fast_p[1].value(), std::nullopt) << bad;
    EXPECT_EQ(metrics.best_speedup, 0.9) << bad;
    EXPECT_EQ(metrics.unmeasured, 1U);
  }
  for (const char* bad : {"fast", "0.5x", "1,", "0x1p3 ", "--1"})
    EXPECT_FALSE(load(fmt::format("M,h,p,/r/a,exp_000,0,5,Correct,{},1\n", bad))) << bad;
  EXPECT_TRUE(has_note(*load("M,h,p,/r/a,exp_000,0,5,Runtime error,0.7,0\n"), "not correct have a speed-up"));
}

TEST_F(Input, Duplicates) {
  const std::string line = "M,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n";
  const auto same = load(line + line);
  ASSERT_TRUE(same);
  EXPECT_EQ(same->turn_count(), 1U);
  EXPECT_TRUE(has_note(*same, "repeat a turn word for word"));
  expect_error(load(line + "M,h,p,/r/a,exp_000,0,5,Correct,0.6,1\n"), "turn 0 is there a second time and differs");
}

TEST_F(Input, TurnsOutOfOrderAndMissing) {
  const auto table = load("M,h,p,/r/a,exp_000,3,5,Correct,0.5,1\nM,h,p,/r/a,exp_000,0,5,Runtime error,0,0\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->trajectories[0].turns.front().number, 0U);
  EXPECT_TRUE(has_note(*table, "lack turns between others"));
  const Classes classes = classes_of(*table, all_trajectories(*table));
  for (const auto& row : classes.next) {
    for (const std::size_t count : row) EXPECT_EQ(count, 0U);  // turn 3 does not follow turn 0
  }
  expect_error(load("M,h,p,/r/a,exp_000,-1,5,Correct,0.5,1\n"), "the turn is '-1'");
  expect_error(load("M,h,p,/r/a,exp_000,1.5,5,Correct,0.5,1\n"), "the turn is '1.5'");
  expect_error(load("M,h,p,/r/a,exp_000,99999999999999999999,5,Correct,0.5,1\n"), "a whole number from 0");
}

TEST_F(Input, Encodings) {
  const std::string line = "M,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n";
  EXPECT_TRUE(load(line, "\xEF\xBB\xBF" + std::string(kHeader)));
  const auto crlf = load(base::replace_all(line, "\n", "\r\n"), base::replace_all(kHeader, "\n", "\r\n"));
  ASSERT_TRUE(crlf) << crlf.error().message;
  EXPECT_EQ(crlf->trajectories[0].turns[0].target, Known::yes);
  expect_error(load("Mod\xE8le,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n"), ":2: byte 0xe8 is not UTF-8");
  expect_error(load(std::string("M\0,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n", 37)), "zero byte");
  EXPECT_TRUE(load("Modèle 模型,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n"));
  expect_error(load("a\rb,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n"), "carriage return");
}

TEST_F(Input, TornAndMixedLines) {
  const std::string line = "M,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n";
  expect_error(load(line + "M,h,p,/r/a,exp_0"), "5 fields, the header has 10");
  expect_error(load(line + "M,h,p,/r/a,exp_001,0,5,Correct,0.5,1,extra\n"), "11 fields");
  expect_error(load("\"M,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n"), "does not end");
  expect_error(load("\"M\"x,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n"), "after the closing quote");
  const auto quoted = load("\"M, \"\"big\"\"\",h,p,/r/a,exp_000,0,5,Correct,0.5,1\n\n");
  ASSERT_TRUE(quoted) << quoted.error().message;
  EXPECT_EQ(quoted->models[0], "M, \"big\"");
  expect_error(
      load(line, "model,model,definition,exp_dir,trajectory_id,turn,reasoning_tokens,correctness,speedup,arch\n"),
      "two columns are called 'model'");
  expect_error(load(line + "N,h,p,/r/a,exp_000,1,5,Correct,0.5,1\n"), "another model");
  expect_error(load("M,,p,/r/a,exp_000,0,5,Correct,0.5,1\n"), "empty field");
}

TEST_F(Input, HugeNumbers) {
  const auto table = load(
      "M,h,p,/r/a,exp_000,0,18446744073709551615,Correct,1e300,1\nM,h,p,/r/"
      "a,exp_000,1,99999999999999999999999,Correct,5e-324,1\n");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_TRUE(has_note(*table, "reasoning token counts are no whole numbers"));
  EXPECT_EQ(metrics_of(*table, all_trajectories(*table), {}).best_speedup, 1e300);
}

TEST_F(Input, OtherFilesOfThePublishedResults) {
  ASSERT_TRUE(base::write_file_atomic(folder_.path() / "experiments.csv", "model,exp_dir\nM,/r/b\nM,/r/a\nM,/r/c\n"));
  const auto table = load(
      "M,h,p,/r/a,exp_000,0,5,Correct,0.5,1\nM,h,p,/r/b,exp_000,0,5,Correct,0.5,1\nM,h,p,/r/"
      "d,exp_000,0,5,Correct,0.5,1\n");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->runs[table->trajectories[0].run].name, "b");  // the order of experiments.csv
  EXPECT_TRUE(has_note(*table, "1 runs of experiments.csv have no turns (such as c)"));
  EXPECT_TRUE(has_note(*table, "runs are not in experiments.csv"));
  ASSERT_TRUE(base::write_file_atomic(folder_.path() / "correctness_rate_by_release_date.csv",
                                      "exp_dir,turn_limit,n_trajectories,correct\n/r/a,1,1,1\n/r/b,1,1,0\n"));
  EXPECT_TRUE(has_note(*load("M,h,p,/r/a,exp_000,0,5,Correct,0.5,1\nM,h,p,/r/b,exp_000,0,5,Correct,0.5,1\n"),
                       "1 of 2 rows of correctness_rate"));
  ASSERT_TRUE(base::write_file_atomic(folder_.path() / "experiments.csv", "model,exp_dir\nM,/r/b\nM,/r/b\n"));
  expect_error(load("M,h,p,/r/a,exp_000,0,5,Correct,0.5,1\n"), "a second line for run");
}

TEST_F(Input, RunsOfOneNameStayApart) {
  const auto table = load("M,h,p,/x/a,exp_000,0,5,Correct,0.5,1\nM,h,p,/y/a,exp_000,0,5,Runtime error,0,0\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->trajectories.size(), 2U);
  EXPECT_TRUE(has_note(*table, "two runs are called 'a'"));
}

/// Changes some bytes, in the ways in which files really break.
std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t n = 1 + below(3); n > 0; --n) {
    const std::size_t at = below(text.size());
    switch (below(8)) {
      case 0:
        text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, 1 + below(20));
        break;
      case 2:
        text.insert(at, 1, "\",\n\r\0-.9{}[]:\\"[below(14)]);
        break;
      case 3:
        text.resize(at);
        break;
      case 4:
        text.insert(at, text.substr(below(text.size()), below(200)));
        break;
      case 5:
        text.insert(at, "1e308");
        break;
      case 6:
        text.insert(at, "\xC3\x28");
        break;
      default:
        std::swap(text[at], text[below(text.size())]);
    }
    if (text.empty()) text = "x";
  }
  return text;
}

TEST_F(Input, MutatedTablesNeverCrashAndNeverGrow) {
  SyntheticOptions options;
  options.runs = 2;
  options.trajectories = 3;
  options.turns = 4;
  auto source = base::TempDir::create();
  write_published_shape(source->path(), options);
  const std::string whole = *base::read_file(source->path() / kPublishedTurns);
  std::mt19937 random(11);
  int errors = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string text = mutated(whole, random);
    const auto table = load(text, "");
    if (!table) {
      ++errors;
      EXPECT_FALSE(table.error().message.empty());
      EXPECT_NE(table.error().message.find(".csv"), std::string::npos);
      continue;
    }
    // No more turns than lines, and nothing counted twice.
    EXPECT_LE(table->turn_count(), base::split_lines(text).size());
    const Metrics metrics = metrics_of(*table, all_trajectories(*table), {});
    EXPECT_LE(metrics.fast_p[0].count, metrics.turns);
    EXPECT_TRUE(!metrics.best_speedup || (*metrics.best_speedup > 0 && std::isfinite(*metrics.best_speedup)));
  }
  EXPECT_GT(errors, 50);
  EXPECT_LT(errors, 400);
}

TEST_F(Input, MutatedRecordsNeverCrash) {
  SyntheticOptions options;
  options.runs = 1;
  options.trajectories = 1;
  options.turns = 3;
  options.kernel_lines = 3;
  auto source = base::TempDir::create();
  write_experiment_shape(source->path(), options);
  const std::string whole = *base::read_file(source->path() / "trajectories" / "exp_000.jsonl");
  std::mt19937 random(13);
  int errors = 0;
  for (int i = 0; i < 400; ++i) {
    std::ofstream(folder_.path() / "one.jsonl", std::ios::binary) << mutated(whole, random);
    Loader loader({folder_.path() / "one.jsonl"});
    const auto table = loader.load();
    if (!table) {
      ++errors;
      continue;
    }
    EXPECT_LE(table->turn_count(), 3U);
  }
  EXPECT_GT(errors, 50);
  EXPECT_LT(errors, 400);
}

}  // namespace
}  // namespace ptxbench::report
