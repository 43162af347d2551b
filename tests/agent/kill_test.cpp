// An experiment that is killed again and again leaves the records of one that ran undisturbed.
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <random>
#include <set>

#include "agent/trajectory.h"
#include "base/files.h"
#include "base/process.h"
#include "base/text.h"

namespace ptxbench::agent {
namespace {

constexpr int kTrajectories = 40, kTurns = 8, kKills = 5;

/// What may differ between two runs: when something happened and how long it took.
bool is_time(const std::string& key) { return key == "timestamp" || key.ends_with("seconds"); }

void drop_times(base::Json& json) {
  if (json.is_object()) {
    for (auto at = json.begin(); at != json.end();) at = is_time(at.key()) ? json.erase(at) : std::next(at);
  }
  if (json.is_structured()) {
    for (auto& one : json) drop_times(one);
  }
}

using Records = std::map<std::string, std::vector<std::string>>;

/// The records of each trajectory, one text each, without times.
Records records_of(const std::filesystem::path& folder) {
  Records all;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "trajectories")) {
    const std::string text = *base::read_file(entry.path());
    EXPECT_TRUE(text.ends_with('\n')) << entry.path();
    for (const std::string_view line : base::split_lines(text)) {
      auto json = base::parse_json(line, entry.path().string());
      EXPECT_TRUE(json) << json.error().message;
      if (!json) continue;
      drop_times(*json);
      all[entry.path().filename()].push_back(json->dump());
    }
  }
  return all;
}

/// "exp_003 2" for every answer that is stored.
std::set<std::string> stored_answers(const std::filesystem::path& folder) {
  std::set<std::string> all;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "trajectories", error)) {
    if (entry.path().extension() != ".jsonl") continue;
    const auto trajectory = read_trajectory(entry.path());
    if (!trajectory) continue;
    const std::size_t answers = trajectory->turns.size() + (trajectory->pending ? 1 : 0);
    for (std::size_t i = 1; i <= answers; ++i) all.insert(fmt::format("{} {}", entry.path().stem().string(), i));
  }
  return all;
}

base::ProcessResult run(const std::filesystem::path& folder, std::optional<std::chrono::milliseconds> kill_after) {
  base::ProcessOptions options;
  options.argv = {(base::executable_path().value().parent_path() / "agent_loop_program").string(),
                  (folder / "out").string(),
                  std::to_string(kTrajectories),
                  std::to_string(kTurns),
                  "in_flight=16",
                  "bytes=4000",
                  "model_ms=5",
                  "judge_us=500",
                  "asked=" + (folder / "asked").string()};
  options.wall_limit = kill_after.value_or(std::chrono::milliseconds(60000));  // at which it is killed with SIGKILL
  auto result = base::run_process(options);
  EXPECT_TRUE(result) << result.error().message;
  return *result;
}

TEST(KilledExperiment, LeavesTheSameRecordsAndAsksNothingTwiceThatIsStored) {
  const auto folder = base::TempDir::create("kill");
  ASSERT_TRUE(folder);
  std::filesystem::create_directories(folder->path() / "whole");
  const auto whole = run(folder->path() / "whole", std::nullopt);
  ASSERT_EQ(whole.exit_code, 0) << whole.stderr_text;
  const auto expected = records_of(folder->path() / "whole" / "out");
  ASSERT_EQ(expected.size(), static_cast<std::size_t>(kTrajectories));

  const std::filesystem::path killed = folder->path() / "killed";
  std::filesystem::create_directories(killed);
  std::mt19937 random(7);
  int kills = 0;
  std::size_t asked_before = 0;
  const auto whole_time = static_cast<unsigned>(whole.elapsed_seconds * 1000);
  for (int attempt = 0; attempt < 100 && kills < kKills; ++attempt) {
    const auto stored = stored_answers(killed / "out");
    const std::chrono::milliseconds time(20 + random() % std::max(20U, whole_time / 4));
    const auto result = run(killed, time);
    const std::string asked = base::read_file(killed / "asked").value_or("");
    for (const std::string_view question : base::split_lines(std::string_view(asked).substr(asked_before))) {
      EXPECT_FALSE(stored.contains(std::string(question))) << question << " was stored and asked again";
    }
    asked_before = asked.size();
    if (!result.timed_out) {
      ASSERT_EQ(result.exit_code, 0) << result.stderr_text;
      break;  // it was quicker
    }
    ++kills;
  }
  EXPECT_GE(kills, 2) << "too quick to be killed: nothing was tested";
  ASSERT_EQ(run(killed, std::nullopt).exit_code, 0);
  const auto found = records_of(killed / "out");
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, records] : expected) EXPECT_EQ(found.at(name), records) << name;
}

}  // namespace
}  // namespace ptxbench::agent
