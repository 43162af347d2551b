// Episodes: reset and step as a trainer uses them, over restarts and with clumsy requests.
#include "agent/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/files.h"
#include "stand_ins.h"

namespace ptxbench::agent {
namespace {

using base::Json;
using ::testing::HasSubstr;

class EnvironmentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create("environment");
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    const auto roots = problem::dataset_roots({});
    ASSERT_TRUE(roots) << roots.error().message;
    auto dataset = problem::Dataset::load(*roots);
    ASSERT_TRUE(dataset) << dataset.error().message;
    dataset_ = std::make_shared<problem::Dataset>(std::move(*dataset));
    open();
  }
  /// A new process with the same folder, as it were.
  void open() {
    Environment::Parts parts;
    parts.dataset = dataset_;
    parts.folder = folder_->path() / "episodes";
    parts.most_open = 2;
    parts.pack_text = [](std::string_view tag, candidate::Language) -> Result<std::string> {
      if (tag == "none" || tag == "known") return std::string(tag == "none" ? "" : "wgmma needs a fence");
      return input_error("no pack '{}'", tag);
    };
    parts.judge = [this](const Json& evaluation) -> Result<std::unique_ptr<Judge>> {
      options_ = evaluation;
      if (broken_) return std::unique_ptr<Judge>(std::make_unique<Broken>());
      return std::unique_ptr<Judge>(std::make_unique<StandInJudge>(1));
    };
    environment_.emplace(std::move(parts));
  }
  static Json with_message(const std::string& id, const std::string& words) {
    return {{"episode_id", id}, {"action", {{"message", answer_text(words)}}}};
  }
  Json reset(Json request) {
    request["problem"] = "gemm_n7168_k5120";
    auto answer = environment_->reset(request);
    EXPECT_EQ(answer.status, 200) << answer.body.dump();
    return answer.body;
  }
  class Broken : public StandInJudge {
    Result<Judgement> judge(std::string_view, const std::vector<problem::Problem>&, const JudgeOptions&) override {
      return infrastructure_error("no disk");
    }
  };

  std::optional<base::TempDir> folder_;
  std::shared_ptr<problem::Dataset> dataset_;
  std::optional<Environment> environment_;
  Json options_;
  bool broken_ = false;
};

TEST_F(EnvironmentTest, AnEpisodeIsATrajectoryWhoseAnswersComeFromOutside) {
  const Json begun = reset({{"pack", "known"}, {"turns", 3}, {"stop", "never"}, {"evaluation", {{"seed", 7}}}});
  const std::string id = begun["observation"]["episode_id"];
  EXPECT_EQ(options_, Json({{"seed", 7}, {"hazards", "always"}}));
  EXPECT_EQ(begun["done"], false);
  EXPECT_EQ(begun["reward"], nullptr);
  ASSERT_EQ(begun["observation"]["messages"].size(), 2u);
  EXPECT_THAT(begun["observation"]["messages"][0]["content"].get<std::string>(), HasSubstr("wgmma needs a fence"));
  for (int turn = 1; turn <= 3; ++turn) {
    const auto stepped = environment_->step(with_message(id, std::to_string(turn)), "");
    ASSERT_EQ(stepped.status, 200) << stepped.body.dump();
    EXPECT_EQ(stepped.body["observation"]["turn"], turn);
    EXPECT_EQ(stepped.body["observation"]["turns_left"], 3 - turn);
    EXPECT_EQ(stepped.body["observation"]["passed"], true);
    EXPECT_EQ(stepped.body["reward"], 1.0);
    EXPECT_EQ(stepped.body["done"], turn == 3);
    EXPECT_EQ(stepped.body["observation"]["messages"].size(), turn == 3 ? 0u : 2u + 2u * turn);
  }
  const auto after = environment_->step(with_message(id, "4"), "");
  EXPECT_EQ(after.status, 409);
  EXPECT_THAT(after.body["detail"].get<std::string>(), HasSubstr("has ended (turns)"));
  const auto state = environment_->state(id);
  EXPECT_EQ(state.body["step_count"], 3);
  EXPECT_EQ(state.body["stop_reason"], "turns");
  const auto record = read_trajectory(folder_->path() / "episodes" / (id + ".jsonl"));
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->turns.size(), 3u);
  EXPECT_EQ(record->exit_status, "LimitsExceeded");
}

TEST_F(EnvironmentTest, ASourceAloneWillDoAndAnAnswerWithoutOneIsATurn) {
  const std::string id = reset({{"stop", "never"}})["observation"]["episode_id"];
  const auto source = environment_->step({{"episode_id", id}, {"action", {{"source", kernel_text("x")}}}}, "");
  EXPECT_EQ(source.body["observation"]["event"], "evaluation") << source.body.dump();
  const auto words = environment_->step({{"action", {{"message", "Let me think."}}}}, id);
  EXPECT_EQ(words.status, 200) << "the cookie names the episode";
  EXPECT_EQ(words.body["observation"]["event"], "no_code");
  EXPECT_EQ(words.body["reward"], 0.0);
}

/// What stands in a source must not decide whether it is taken for one.
TEST_F(EnvironmentTest, AnySourceIsTakenAsItIs) {
  const std::string kernel = kernel_text("x");
  for (const std::string& source : {"struct A {};\n" + kernel, "/* ``` */\n" + kernel, "// ````\n" + kernel}) {
    const std::string id = reset({{"stop", "never"}})["observation"]["episode_id"];
    const auto answer = environment_->step({{"episode_id", id}, {"action", {{"source", source}}}}, "");
    EXPECT_EQ(answer.body["observation"]["event"], "evaluation") << answer.body.dump();
  }
}

TEST_F(EnvironmentTest, EpisodesSurviveARestartAndLeaveMemory) {
  std::vector<std::string> ids;
  for (int i = 0; i < 5; ++i)
    ids.push_back(reset({{"turns", 2}, {"stop", "never"}, {"reward", "speedup"}})["observation"]["episode_id"]);
  for (const std::string& id : ids) ASSERT_EQ(environment_->step(with_message(id, "1"), "").status, 200);
  open();
  for (const std::string& id : ids) {
    const auto second = environment_->step(with_message(id, "2"), "");
    ASSERT_EQ(second.status, 200) << second.body.dump();
    EXPECT_EQ(second.body["done"], true);
    EXPECT_EQ(second.body["reward"], second.body["observation"]["speedup"]) << "the rule of reset stays";
  }
}

TEST_F(EnvironmentTest, TheMachinesFailureIsNoTurnAndTheAnswerIsNotLost) {
  broken_ = true;
  const std::string id = reset({{"turns", 2}, {"stop", "never"}})["observation"]["episode_id"];
  const auto failed = environment_->step(with_message(id, "1"), "");
  EXPECT_EQ(failed.status, 503);
  EXPECT_THAT(failed.body["detail"].get<std::string>(), HasSubstr("no disk"));
  broken_ = false;
  open();
  EXPECT_EQ(environment_->step(with_message(id, "other"), "").status, 409) << "an answer waits to be judged";
  const auto again = environment_->step(with_message(id, "1"), "");
  EXPECT_EQ(again.status, 200) << again.body.dump();
  EXPECT_EQ(again.body["observation"]["turn"], 1);
}

TEST_F(EnvironmentTest, ARequestThatIsRepeatedIsNotAnotherStep) {
  const std::string id = reset({{"stop", "never"}})["observation"]["episode_id"];
  Json request = with_message(id, "1");
  request["request_id"] = "r1";
  const auto first = environment_->step(request, ""), second = environment_->step(request, "");
  EXPECT_EQ(first.body, second.body);
  EXPECT_EQ(environment_->state(id).body["step_count"], 1);
}

TEST_F(EnvironmentTest, StepsOfOneEpisodeAtTheSameTimeComeOneAfterAnother) {
  const std::string id = reset({{"turns", 100}, {"stop", "never"}})["observation"]["episode_id"];
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 5; ++i) {
          // Others push it out of memory meanwhile.
          reset({});
          EXPECT_EQ(environment_->step(with_message(id, fmt::format("{} {}", t, i)), "").status, 200);
        }
      });
    }
  }
  EXPECT_EQ(environment_->state(id).body["step_count"], 20);
  const auto record = read_trajectory(folder_->path() / "episodes" / (id + ".jsonl"));
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->turns.size(), 20u);
}

TEST_F(EnvironmentTest, ClumsyRequestsAreToldWhatIsWrong) {
  const std::pair<Json, const char*> resets[] = {
      {Json::array(), "must be an object"},
      {Json::object(), "problem: the name of a definition"},
      {{{"problem", 7}}, "problem: a text"},
      {{{"problem", "gemm_n7168_k512"}}, "did you mean"},
      {{{"problem", "gemm_n7168_k5120"}, {"pack", "unknown"}}, "no pack 'unknown'"},
      {{{"problem", "gemm_n7168_k5120"}, {"turns", 0}}, "turns: a number between 1 and"},
      {{{"problem", "gemm_n7168_k5120"}, {"turns", "many"}}, "turns"},
      {{{"problem", "gemm_n7168_k5120"}, {"stop", "soon"}}, "passed, target or never"},
      {{{"problem", "gemm_n7168_k5120"}, {"context", "all"}}, "context"},
      {{{"problem", "gemm_n7168_k5120"}, {"language", "fortran"}}, "fortran"},
      {{{"problem", "gemm_n7168_k5120"}, {"feedback", "loud"}}, "loud"},
      {{{"problem", "gemm_n7168_k5120"}, {"reward", "money"}}, "passed, stages, speedup"},
      {{{"problem", "gemm_n7168_k5120"}, {"workloads", {"ffffffff"}}}, "ffffffff"},
      {{{"problem", "gemm_n7168_k5120"}, {"axes", {{"M", "x"}}}}, "axes"},
      {{{"problem", "gemm_n7168_k5120"}, {"episode_id", "../../etc/passwd"}}, "episode_id"},
      {{{"problem", "gemm_n7168_k5120"}, {"evaluation", 1}}, "evaluation"},
      {{{"problem", "gemm_n7168_k5120"}, {"evaluation", {{"seeed", 1}}}}, "seeed"},
  };
  for (const auto& [request, words] : resets) {
    const auto answer = environment_->reset(request);
    EXPECT_GE(answer.status, 400) << request.dump();
    EXPECT_THAT(answer.body["detail"].get<std::string>(), HasSubstr(words)) << request.dump();
  }
  const std::string id = reset({{"episode_id", "mine"}})["observation"]["episode_id"];
  EXPECT_EQ(id, "mine");
  EXPECT_EQ(environment_->reset({{"problem", "gemm_n7168_k5120"}, {"episode_id", "mine"}}).status, 409);
  const std::pair<Json, const char*> steps[] = {
      {1, "must be an object"},
      {Json::object(), "action: an object"},
      {{{"action", "text"}}, "action: an object"},
      {{{"action", Json::object()}, {"episode_id", "mine"}}, "action.message: either that or a source"},
      {{{"action", {{"message", "a"}, {"source", "b"}}}, {"episode_id", "mine"}}, "action.message"},
      {{{"action", {{"message", 1}}}, {"episode_id", "mine"}}, "action.message: a text"},
      {{{"action", {{"message", "a"}}}}, "episode_id"},
      {{{"action", {{"message", "a"}}}, {"episode_id", "nobody"}}, "no episode 'nobody'"},
      {{{"action", {{"message", "a"}}}, {"episode_id", "../x"}}, "no episode"},
  };
  for (const auto& [request, words] : steps) {
    const auto answer = environment_->step(request, "");
    EXPECT_GE(answer.status, 400) << request.dump();
    EXPECT_THAT(answer.body["detail"].get<std::string>(), HasSubstr(words)) << request.dump();
  }
  EXPECT_EQ(environment_->state("mine").body["step_count"], 0) << "no step was taken by all that";
  EXPECT_EQ(environment_->state("").status, 422);
}

}  // namespace
}  // namespace ptxbench::agent
