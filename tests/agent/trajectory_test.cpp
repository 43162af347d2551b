#include "agent/trajectory.h"

#include <gtest/gtest.h>

#include "base/files.h"

namespace ptxbench::agent {
namespace {

Trajectory start() {
  Trajectory trajectory;
  trajectory.problem = "gemm_n7168_k5120";
  trajectory.model = {{"provider", "replay"}};
  trajectory.settings = {{"turns", 2}};
  trajectory.system_message = "system";
  trajectory.task_message = "task";
  return trajectory;
}

Turn turn(unsigned number, bool passed) {
  Turn t;
  t.number = number;
  t.answer = "answer " + std::to_string(number);
  t.feedback = passed ? "fine" : "wrong";
  t.event = "evaluation";
  t.source = "code";
  t.evaluation = {{"schema", "ptxbench.evaluation/1"}, {"verdict", {{"status", passed ? "passed" : "failed"}}}};
  t.usage.completion_tokens = 5;
  t.timestamp = "2026-01-01T00:00:00Z";
  return t;
}

class TrajectoryFile : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create("trajectory");
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    path_ = folder_->path() / "trajectory.jsonl";
  }
  std::string text() { return *base::read_file(path_); }
  void write(const std::string& bytes) { ASSERT_TRUE(base::write_file_atomic(path_, bytes)); }
  void record_two_turns() {
    auto writer = TrajectoryWriter::create(path_, start());
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(writer->append(turn(1, false)));
    ASSERT_TRUE(writer->append(turn(2, true)));
    ASSERT_TRUE(writer->finish("Submitted"));
  }
  std::optional<base::TempDir> folder_;
  std::filesystem::path path_;
};

TEST_F(TrajectoryFile, IsReadAsWritten) {
  record_two_turns();
  auto trajectory = read_trajectory(path_);
  ASSERT_TRUE(trajectory) << trajectory.error().message;
  EXPECT_EQ(trajectory->problem, "gemm_n7168_k5120");
  ASSERT_EQ(trajectory->turns.size(), 2u);
  EXPECT_FALSE(trajectory->turns[0].passed());
  EXPECT_TRUE(trajectory->turns[1].passed());
  EXPECT_EQ(trajectory->turns[1].answer, "answer 2");
  EXPECT_EQ(trajectory->turns[1].usage.completion_tokens, 5u);
  EXPECT_EQ(trajectory->exit_status, "Submitted");
}

TEST_F(TrajectoryFile, IsNeverOverwritten) {
  record_two_turns();
  const std::string before = text();
  auto again = TrajectoryWriter::create(path_, start());
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().message.find("exists already"), std::string::npos);
  EXPECT_EQ(text(), before);
}

TEST_F(TrajectoryFile, LosesAtMostTheRecordThatACrashTore) {
  record_two_turns();
  const std::string whole = text();
  const std::size_t third_line = whole.find('\n', whole.find('\n') + 1) + 1;
  for (std::size_t length = third_line; length < whole.size(); length += 7) {
    write(whole.substr(0, length));
    auto trajectory = read_trajectory(path_);
    ASSERT_TRUE(trajectory) << length << ": " << trajectory.error().message;
    EXPECT_GE(trajectory->turns.size(), 1u);
  }
}

TEST_F(TrajectoryFile, DamageInTheMiddleIsAnErrorWithItsLine) {
  record_two_turns();
  std::string bytes = text();
  const std::size_t second = bytes.find('\n') + 1;
  bytes[second] = '#';
  write(bytes);
  auto trajectory = read_trajectory(path_);
  ASSERT_FALSE(trajectory);
  EXPECT_NE(trajectory.error().message.find("trajectory.jsonl:2"), std::string::npos) << trajectory.error().message;
}

TEST_F(TrajectoryFile, RefusesWhatIsNone) {
  for (const char* bytes : {"", "\n\n", "[]\n", "{\"record\":\"turn\",\"turn\":1}\n",
                            "{\"record\":\"start\",\"schema\":\"other/1\"}\n", "{\"record\":7}\n"}) {
    write(bytes);
    EXPECT_FALSE(read_trajectory(path_)) << bytes;
  }
  EXPECT_FALSE(read_trajectory(path_ / "missing"));
}

TEST_F(TrajectoryFile, AMissingTurnIsNoticed) {
  auto writer = TrajectoryWriter::create(path_, start());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->append(turn(1, false)));
  ASSERT_TRUE(writer->append(turn(3, true)));
  EXPECT_FALSE(read_trajectory(path_));
}

TEST(MiniSweFormat, HasTheMessagesInTheirPlaces) {
  Trajectory trajectory = start();
  trajectory.turns = {turn(1, false), turn(2, true)};
  trajectory.exit_status = "Submitted";
  const base::Json json = to_mini_swe(trajectory);
  EXPECT_EQ(json["trajectory_format"], "mini-swe-agent-1.1");
  const auto& messages = json["messages"];
  ASSERT_EQ(messages.size(), 7u);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[2]["role"], "assistant");  // turn t at 2 + 2 (t - 1)
  EXPECT_EQ(messages[3]["extra"]["returncode"], 1);
  EXPECT_EQ(messages[5]["extra"]["returncode"], 0);
  EXPECT_EQ(messages[6]["role"], "exit");
  EXPECT_EQ(json["info"]["submission"], "code");
}

}  // namespace
}  // namespace ptxbench::agent
