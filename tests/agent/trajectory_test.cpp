#include "agent/trajectory.h"

#include "agent/mini_swe.h"

#include <gtest/gtest.h>

#include <fstream>

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
    for (const Turn& one : {turn(1, false), turn(2, true)}) {
      ASSERT_TRUE(writer->answer(one));
      ASSERT_TRUE(writer->judged(one));
    }
    Trajectory ended;
    ended.exit_status = "Submitted";
    ended.stop_reason = "passed";
    ASSERT_TRUE(writer->finish(ended));
  }
  void record_again() {
    std::filesystem::remove(path_);
    record_two_turns();
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
    EXPECT_TRUE(trajectory->turns.size() >= 1u || trajectory->pending);
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
  ASSERT_TRUE(writer->answer(turn(1, false)));
  ASSERT_TRUE(writer->judged(turn(1, false)));
  ASSERT_TRUE(writer->answer(turn(3, true)));
  EXPECT_FALSE(read_trajectory(path_));
}

TEST_F(TrajectoryFile, AnAnswerThatWasNotJudgedIsPending) {
  auto writer = TrajectoryWriter::create(path_, start());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->answer(turn(1, false)));
  auto trajectory = read_trajectory(path_);
  ASSERT_TRUE(trajectory) << trajectory.error().message;
  EXPECT_TRUE(trajectory->turns.empty());
  ASSERT_TRUE(trajectory->pending);
  EXPECT_EQ(trajectory->pending->answer, "answer 1");
  ASSERT_TRUE(writer->answer(turn(1, false)));
  EXPECT_FALSE(read_trajectory(path_)) << "two answers to one question";
}

TEST_F(TrajectoryFile, ATornTailIsCutOffBeforeItGoesOn) {
  record_two_turns();
  const std::string whole = text();
  const std::size_t second = whole.find('\n') + 1;
  for (std::size_t length = second; length < whole.size(); length += 13) {
    write(whole.substr(0, length));
    std::uint64_t bytes = 0;
    auto trajectory = read_trajectory(path_, &bytes);
    ASSERT_TRUE(trajectory) << trajectory.error().message;
    auto writer = TrajectoryWriter::reopen(path_, bytes);
    ASSERT_TRUE(writer);
    EXPECT_EQ(text(), whole.substr(0, whole.rfind('\n', length - 1) + 1));
  }
}

TEST_F(TrajectoryFile, GoesOnAfterAResume) {
  record_two_turns();
  auto writer = TrajectoryWriter::reopen(path_, text().size());
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->answer(turn(3, false)));
  EXPECT_FALSE(read_trajectory(path_)) << "an answer after the end";
  record_again();
  writer = TrajectoryWriter::reopen(path_, text().size());
  ASSERT_TRUE(writer->resume());
  ASSERT_TRUE(writer->answer(turn(3, false)));
  auto trajectory = read_trajectory(path_);
  ASSERT_TRUE(trajectory) << trajectory.error().message;
  EXPECT_FALSE(trajectory->ended());
  EXPECT_TRUE(trajectory->pending);
}

TEST_F(TrajectoryFile, TheFirstVersionIsReadToo) {
  write(
      R"({"record":"start","schema":"ptxbench.trajectory/1","problem":"p","system":"s","task":"t"})"
      "\n"
      R"({"record":"turn","turn":1,"answer":"a","usage":{"prompt_tokens":3,"completion_tokens":4},"event":"no_code","source":null,"evaluation":null,"feedback":"f"})"
      "\n"
      R"({"record":"end","exit_status":"LimitsExceeded"})"
      "\n");
  auto trajectory = read_trajectory(path_);
  ASSERT_TRUE(trajectory) << trajectory.error().message;
  EXPECT_EQ(trajectory->turns.at(0).answer, "a");
  EXPECT_EQ(trajectory->tokens(), 7u);
  EXPECT_FALSE(trajectory->cost());
}

TEST_F(TrajectoryFile, AnyDamageIsAnErrorOrATrajectoryAndNeverACrash) {
  record_two_turns();
  const std::string whole = text();
  for (std::size_t at = 0; at < whole.size(); at += 3) {
    for (const char c : {'"', '{', '9', '\n', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = c;
      std::ofstream(path_, std::ios::binary | std::ios::trunc) << damaged;
      static_cast<void>(read_trajectory(path_));
    }
  }
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
  EXPECT_EQ(json["info"]["model_stats"]["instance_cost"], nullptr) << "unknown is not zero";
}

TEST(MiniSweFormat, IsReadBack) {
  Trajectory trajectory = start();
  trajectory.turns = {turn(1, false), turn(2, true)};
  trajectory.turns[1].evaluation["performance"] = {{{"speedup", {{"value", 1.5}}}}};
  trajectory.turns[1].usage.cost = 0.5;
  trajectory.exit_status = "Submitted";
  const auto back = from_mini_swe(to_mini_swe(trajectory), "t.json");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->system_message, "system");
  EXPECT_EQ(back->task_message, "task");
  ASSERT_EQ(back->turns.size(), 2u);
  EXPECT_EQ(back->turns[0].answer, "answer 1");
  EXPECT_EQ(back->turns[0].feedback, "wrong");
  EXPECT_FALSE(back->turns[0].passed());
  EXPECT_TRUE(back->turns[1].passed());
  EXPECT_EQ(back->turns[1].speedup(), 1.5);
  EXPECT_EQ(back->turns[1].usage.cost, 0.5);
  EXPECT_FALSE(back->turns[0].usage.cost);
  EXPECT_EQ(back->exit_status, "Submitted");
}

TEST(MiniSweFormat, KeysAreLeftOutWhereverTheyStand) {
  Trajectory trajectory = start();
  trajectory.turns = {turn(1, false)};
  trajectory.turns[0].feedback = "Authorization failed for sk-very-secret";
  base::Json json = to_mini_swe(trajectory);
  json["info"]["config"]["model"] = {{"model_kwargs", {{"api_key", "sk-very-secret"}, {"max_tokens", 5}}},
                                     {"extra_headers", {{"Authorization", "Bearer other-secret-9"}}}};
  json["messages"][2]["content"] = "my key is other-secret-9";
  const auto back = from_mini_swe(json, "t.json");
  ASSERT_TRUE(back) << back.error().message;
  const std::string all = to_mini_swe(*back).dump();
  EXPECT_EQ(all.find("secret"), std::string::npos) << all;
  EXPECT_EQ(back->model["model_kwargs"]["max_tokens"], 5);
}

TEST(MiniSweFormat, AnyDamageIsAnErrorOrATrajectoryAndNeverACrash) {
  Trajectory trajectory = start();
  trajectory.turns = {turn(1, false), turn(2, true)};
  const base::Json json = to_mini_swe(trajectory);
  const base::Json flat = json.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (const base::Json& other : {base::Json(nullptr), base::Json(1), base::Json("x"), base::Json::array(),
                                    base::Json::object(), base::Json(true)}) {
      base::Json changed = json;
      changed[base::Json::json_pointer(pointer)] = other;
      static_cast<void>(from_mini_swe(changed, "t.json"));
    }
  }
  for (const base::Json& other : {base::Json(), base::Json::array(), base::Json("x")}) {
    EXPECT_FALSE(from_mini_swe(other, "t.json"));
  }
}

}  // namespace
}  // namespace ptxbench::agent
