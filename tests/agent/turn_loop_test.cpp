#include "agent/turn_loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/files.h"
#include "stand_ins.h"

namespace ptxbench::agent {
namespace {

using ::testing::HasSubstr;

/// Gives these answers, or errors, one after the other, and keeps what it was asked.
class ScriptedModel : public models::Model {
 public:
  explicit ScriptedModel(std::deque<Result<std::string>> answers) : answers_(std::move(answers)) {}
  void start(std::vector<models::Message> messages, models::CompletionOptions, Done done) override {
    asked.push_back(std::move(messages));
    if (answers_.empty()) return done(input_error("nothing left to say"));
    auto next = std::move(answers_.front());
    answers_.pop_front();
    if (!next) return done(tl::unexpected<Error>(next.error()));
    models::Completion completion;
    completion.text = *next;
    completion.usage = usage;
    done(std::move(completion));
  }
  std::string name() const override { return "scripted"; }
  base::Json describe() const override { return {{"provider", "scripted"}}; }
  std::vector<std::vector<models::Message>> asked;
  models::Usage usage;

 private:
  std::deque<Result<std::string>> answers_;
};

/// Passes what says "good"; its first `failures` calls fail.
class ScriptedJudge : public Judge {
 public:
  explicit ScriptedJudge(int failures = 0) : failures_(failures) {}
  Result<Judgement> judge(std::string_view source, const std::vector<problem::Problem>&, const JudgeOptions&) override {
    ++calls;
    if (failures_-- > 0) return infrastructure_error("the disk is on fire");
    const bool good = source.find("good") != std::string_view::npos;
    const bool fast = source.find("fast") != std::string_view::npos;
    Judgement judgement;
    judgement.event = "evaluation";
    judgement.feedback = good ? "fine" : "wrong at line 3";
    judgement.evaluation = {{"verdict", {{"status", good ? "passed" : "failed"}}},
                            {"performance", {{{"speedup", {{"value", fast ? 2.0 : 0.5}}}}}}};
    return judgement;
  }
  base::Json describe() const override { return {{"where", "script"}}; }
  int calls = 0;

 private:
  int failures_;
};

class TurnLoop : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create("turns");
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    options_.trajectory = folder_->path() / "t.jsonl";
    options_.rules.max_turns = 4;
  }
  Result<Trajectory> run(ScriptedModel& model, Judge& judge) {
    return run_turns(model, judge, {stand_in_problem()}, options_);
  }
  std::optional<base::TempDir> folder_;
  TurnLoopOptions options_;
};

TEST_F(TurnLoop, EndsWithTheFirstTurnThatPasses) {
  ScriptedModel model({answer_text("bad"), "no code here", answer_text("good"), answer_text("more")});
  ScriptedJudge judge;
  const auto trajectory = run(model, judge);
  ASSERT_TRUE(trajectory) << trajectory.error().message;
  EXPECT_EQ(trajectory->exit_status, "Submitted");
  EXPECT_EQ(trajectory->stop_reason, "passed");
  ASSERT_EQ(trajectory->turns.size(), 3u);
  EXPECT_EQ(trajectory->turns[1].event, "no_code");
  EXPECT_THAT(trajectory->turns[1].feedback, HasSubstr("no_block"));
  EXPECT_EQ(judge.calls, 2) << "an answer without a candidate is a turn that nobody judges";
  const auto stored = read_trajectory(options_.trajectory);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->turns.size(), 3u);
  EXPECT_EQ(stored->settings["tell_shape"], true);
}

TEST_F(TurnLoop, ContextPoliciesChooseWhatIsShownAndEverythingIsStored) {
  const auto asked_with = [&](ContextPolicy policy) {
    options_.rules.context = policy;
    options_.trajectory = folder_->path() / (std::string(to_string(policy)) + ".jsonl");
    options_.rules.max_turns = 3;
    ScriptedModel model({answer_text("one"), answer_text("two"), answer_text("three")});
    ScriptedJudge judge;
    const auto trajectory = run(model, judge);
    EXPECT_TRUE(trajectory);
    EXPECT_EQ(read_trajectory(options_.trajectory)->turns.size(), 3u);
    return model.asked;
  };
  auto asked = asked_with(ContextPolicy::full);
  ASSERT_EQ(asked[2].size(), 6u);
  EXPECT_THAT(asked[2][2].content, HasSubstr("one"));
  EXPECT_THAT(asked[2][5].content, HasSubstr("line 3"));
  asked = asked_with(ContextPolicy::latest_pair);
  ASSERT_EQ(asked[2].size(), 4u);
  EXPECT_THAT(asked[2][2].content, HasSubstr("two"));
  asked = asked_with(ContextPolicy::single_user);
  ASSERT_EQ(asked[2].size(), 2u);
  EXPECT_THAT(asked[2][1].content, HasSubstr("Problem gemm_n8_k16"));
  EXPECT_THAT(asked[2][1].content, HasSubstr("// two"));
  EXPECT_THAT(asked[2][1].content, HasSubstr("line 3"));
  EXPECT_EQ(asked[2][1].content.find("// one"), std::string::npos);
}

TEST_F(TurnLoop, ATargetSpeedUpIsPursuedBeyondThePass) {
  options_.rules.stop = StopWhen::target;
  options_.rules.target_speedup = 1.2;
  ScriptedModel model({answer_text("good"), answer_text("good fast"), answer_text("x")});
  ScriptedJudge judge;
  const auto trajectory = run(model, judge);
  ASSERT_TRUE(trajectory);
  EXPECT_EQ(trajectory->turns.size(), 2u);
  EXPECT_EQ(trajectory->stop_reason, "target");
  EXPECT_EQ(trajectory->best_speedup(), 2.0);
}

TEST_F(TurnLoop, OtherRulesThatEndIt) {
  const auto reason_with = [&](const std::string& name, LoopRules rules, models::Usage usage) {
    options_.rules = std::move(rules);
    options_.trajectory = folder_->path() / (name + ".jsonl");
    ScriptedModel model({answer_text("same"), answer_text("same"), answer_text("same"), answer_text("good")});
    model.usage = usage;
    ScriptedJudge judge;
    const auto trajectory = run(model, judge);
    return trajectory ? fmt::format("{} after {}", trajectory->stop_reason, trajectory->turns.size())
                      : trajectory.error().message;
  };
  models::Usage usage;
  usage.prompt_tokens = 100;
  usage.completion_tokens = 100;
  usage.cost = 0.5;
  LoopRules rules;
  rules.max_turns = 2;
  EXPECT_EQ(reason_with("turns", rules, {}), "turns after 2");
  rules.max_turns = 4;
  rules.repeated_answers = 3;
  EXPECT_EQ(reason_with("repeated", rules, {}), "repeated after 3");
  rules.repeated_answers = 0;
  rules.max_tokens = 300;
  EXPECT_EQ(reason_with("tokens", rules, usage), "tokens after 2");
  EXPECT_THAT(reason_with("unknown tokens", rules, {}), HasSubstr("does not tell how many tokens"));
  rules.max_tokens.reset();
  rules.max_cost = 1.4;
  EXPECT_EQ(reason_with("cost", rules, usage), "cost after 3");
  usage.cost.reset();
  EXPECT_THAT(reason_with("unknown cost", rules, usage), HasSubstr("configure its prices"));
  rules.max_cost.reset();
  rules.stop = StopWhen::never;
  EXPECT_EQ(reason_with("never", rules, {}), "turns after 4") << "the last one passes";
}

TEST_F(TurnLoop, FailuresOfTheMachineAreNoTurnsAndNeverReachTheModel) {
  ScriptedModel model({answer_text("bad"), answer_text("good")});
  ScriptedJudge judge(2);
  const auto trajectory = run(model, judge);
  ASSERT_TRUE(trajectory) << trajectory.error().message;
  EXPECT_EQ(trajectory->turns.size(), 2u);
  for (const auto& messages : model.asked) {
    for (const auto& message : messages) EXPECT_EQ(message.content.find("fire"), std::string::npos);
  }
}

TEST_F(TurnLoop, OneThatFailedGoesOnWithoutAskingAgain) {
  {
    ScriptedModel model({answer_text("good")});
    ScriptedJudge judge(99);
    const auto trajectory = run(model, judge);
    ASSERT_FALSE(trajectory);
    EXPECT_EQ(judge.calls, static_cast<int>(kJudgeAttempts));
  }
  const auto stored = read_trajectory(options_.trajectory);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->exit_status, "Error");
  EXPECT_THAT(stored->error, HasSubstr("on fire"));
  ASSERT_TRUE(stored->pending) << "the answer was paid for";
  auto closed = OpenTrajectory::resume(options_.trajectory, options_.rules, false);
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->next(), OpenTrajectory::Step::ended);
  auto open = OpenTrajectory::resume(options_.trajectory, options_.rules, true);
  ASSERT_TRUE(open);
  EXPECT_EQ(open->next(), OpenTrajectory::Step::judge);
  ScriptedJudge judge;
  ASSERT_NE(open->candidate(), nullptr);
  auto judgement = judge.judge(*open->candidate(), {stand_in_problem()}, {});
  ASSERT_TRUE(open->add_judgement(*judgement, 0));
  EXPECT_EQ(open->next(), OpenTrajectory::Step::ended);
  EXPECT_EQ(read_trajectory(options_.trajectory)->exit_status, "Submitted");
}

TEST_F(TurnLoop, ABrokenEndpointEndsItWithAnErrorThatCanBeRetried) {
  ScriptedModel model({answer_text("bad"), infrastructure_error("the endpoint is gone")});
  ScriptedJudge judge;
  ASSERT_FALSE(run(model, judge));
  const auto stored = read_trajectory(options_.trajectory);
  EXPECT_EQ(stored->exit_status, "Error");
  EXPECT_EQ(stored->turns.size(), 1u);
}

TEST_F(TurnLoop, TurnsAreExtended) {
  options_.rules.max_turns = 2;
  ScriptedModel model({answer_text("a"), answer_text("b")});
  ScriptedJudge judge;
  ASSERT_TRUE(run(model, judge));
  auto same = OpenTrajectory::resume(options_.trajectory, options_.rules, false);
  EXPECT_EQ(same->next(), OpenTrajectory::Step::ended);
  options_.rules.max_turns = 3;
  auto more = OpenTrajectory::resume(options_.trajectory, options_.rules, false);
  EXPECT_EQ(more->next(), OpenTrajectory::Step::ask);
  EXPECT_EQ(more->turn(), 3u);
}

TEST(ContextPolicies, HaveNames) {
  for (const auto policy : {ContextPolicy::full, ContextPolicy::latest_pair, ContextPolicy::single_user}) {
    EXPECT_EQ(parse_context_policy(to_string(policy)), policy);
  }
  EXPECT_THAT(parse_context_policy("latest-pairs").error().message, HasSubstr("did you mean 'latest-pair'?"));
  EXPECT_THAT(parse_stop_when("passes").error().message, HasSubstr("did you mean 'passed'?"));
}

}  // namespace
}  // namespace ptxbench::agent
