#include "agent/experiment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "base/files.h"
#include "stand_ins.h"

namespace ptxbench::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using namespace std::chrono_literals;

/// Fails for the first `failures` questions, then answers as the stand-in does.
class FailingModel : public StandInModel {
 public:
  explicit FailingModel(int failures) : failures_(failures) {}
  void start(std::vector<models::Message> messages, models::CompletionOptions options, Done done) override {
    if (failures_-- > 0) {
      ++asked;
      return done(infrastructure_error("the endpoint is gone"));
    }
    StandInModel::start(std::move(messages), std::move(options), std::move(done));
  }

 private:
  std::atomic<int> failures_;
};

class FailingJudge : public StandInJudge {
 public:
  explicit FailingJudge(int failures) : failures_(failures) {}
  Result<Judgement> judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                          const JudgeOptions& options) override {
    if (failures_-- > 0) {
      ++judged;
      return infrastructure_error("no disk");
    }
    return StandInJudge::judge(source, workloads, options);
  }

 private:
  std::atomic<int> failures_;
};

/// Counts how many prepare and judge at a time.
class CountingJudge : public StandInJudge {
 public:
  CountingJudge() : StandInJudge(12, 2000us) {}
  bool has_preparation() const override { return true; }
  void prepare(std::string_view, const std::vector<problem::Problem>&, const JudgeOptions&) override {
    const Count inside(preparing, most_preparing);
    std::this_thread::sleep_for(2ms);
  }
  Result<Judgement> judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                          const JudgeOptions& options) override {
    const Count inside(judging, most_judging);
    return StandInJudge::judge(source, workloads, options);
  }
  std::atomic<int> preparing{0}, judging{0}, most_preparing{0}, most_judging{0};

 private:
  struct Count {
    Count(std::atomic<int>& now, std::atomic<int>& most) : now_(now) {
      const int inside = ++now;
      for (int seen = most; inside > seen && !most.compare_exchange_weak(seen, inside);) {
      }
    }
    Count(const Count&) = delete;
    Count& operator=(const Count&) = delete;
    ~Count() { --now_; }
    std::atomic<int>& now_;
  };
};

class Experiment : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create("experiment");
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    options_.folder = folder_->path() / "out";
    options_.judge_pause = 1ms;
    options_.tick = 10ms;
    config_.name = "test";
    config_.models = {"m"};
    config_.problems = {{"gemm_n8_k16", {}, {}}};
    config_.replicas = 12;
    config_.rules.max_turns = 3;
    config_.rules.stop = StopWhen::never;
    config_.limits.generation = 4;
    use(std::make_unique<StandInModel>(), std::make_unique<StandInJudge>());
  }
  template <class M, class J>
  void use(std::unique_ptr<M> model, std::unique_ptr<J> judge) {
    parts_ = ExperimentParts();
    model_ = model.get();
    judge_ = judge.get();
    for (const std::string& name : config_.models) {
      if (parts_.models.empty()) {
        parts_.models[name] = std::move(model);
      } else {
        parts_.models[name] = std::make_unique<StandInModel>();
      }
    }
    parts_.judge = std::move(judge);
    parts_.problems.clear();
    for (const ProblemChoice& one : config_.problems) parts_.problems.push_back({stand_in_problem(one.definition)});
  }
  Result<ExperimentResult> run() { return run_experiment(config_, parts_, options_); }
  Result<Trajectory> trajectory(int number) {
    return read_trajectory(options_.folder / "trajectories" / fmt::format("exp_{:03}.jsonl", number));
  }

  std::optional<base::TempDir> folder_;
  ExperimentConfig config_;
  ExperimentParts parts_;
  RunOptions options_;
  StandInModel* model_ = nullptr;
  StandInJudge* judge_ = nullptr;
};

TEST_F(Experiment, AsksForATimelineOfEachJudgedTurn) {
  ASSERT_TRUE(run());
  EXPECT_TRUE(judge_->timelines.empty());
  config_.timelines = true;
  options_.folder = folder_->path() / "again";
  use(std::make_unique<StandInModel>(), std::make_unique<StandInJudge>());
  ASSERT_TRUE(run());
  std::size_t judged = 0;
  for (int i = 0; i < 12; ++i) {
    const auto one = trajectory(i);
    ASSERT_TRUE(one) << one.error().message;
    for (const Turn& turn : one->turns) {
      if (!turn.source) continue;
      ++judged;
      const auto file = fmt::format("timelines/exp_{:03}_turn_{}.json.gz", i, turn.number);
      EXPECT_TRUE(judge_->timelines.contains(options_.folder / "trajectories" / file)) << file;
    }
  }
  EXPECT_EQ(judge_->timelines.size(), judged);
}

TEST_F(Experiment, RunsTheWholeMatrix) {
  config_.models = {"m", "n"};
  config_.problems = {{"gemm_n8_k16", {}, {}}, {"gemm_n8_k32", {}, {}}};
  config_.packs = {"none", "all"};
  config_.replicas = 2;
  use(std::make_unique<StandInModel>(), std::make_unique<StandInJudge>());
  parts_.pack_text = [](std::string_view tag) -> Result<std::string> {
    return tag == "all" ? std::string("wgmma needs a fence") : std::string();
  };
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 16u);
  EXPECT_EQ(result->progress.turns, 48u);
  EXPECT_THAT(result->stops, IsEmpty());
  EXPECT_EQ(result->progress.tokens, 48u * 150);
  EXPECT_NEAR(result->progress.cost.value(), 0.048, 1e-9);
  std::set<std::string> cells;
  for (int i = 0; i < 16; ++i) {
    const auto one = trajectory(i);
    ASSERT_TRUE(one) << one.error().message;
    EXPECT_EQ(one->turns.size(), 3u);
    cells.insert(fmt::format("{} {} {} {}", one->settings["model_name"].dump(), one->problem,
                             one->settings["prompt_tag"].dump(), one->settings["replica"].dump()));
    const bool has_pack = one->settings["prompt_tag"] == "all";
    EXPECT_EQ(one->system_message.find("wgmma needs a fence") != std::string::npos, has_pack);
  }
  EXPECT_EQ(cells.size(), 16u);
  const auto summary = base::parse_json(*base::read_file(options_.folder / "summary.json"), "summary");
  ASSERT_TRUE(summary);
  EXPECT_EQ((*summary)["total"], 16);
  EXPECT_EQ((*summary)["by_model"]["n"]["total"], 8);
  EXPECT_EQ((*summary)["results"].size(), 16u);
}

TEST_F(Experiment, StagesOverlapWithinTheirLimits) {
  config_.limits.compile = 2;
  config_.limits.evaluate = 3;
  config_.limits.generation = 16;
  config_.replicas = 40;
  auto judge = std::make_unique<CountingJudge>();
  CountingJudge* counts = judge.get();
  use(std::make_unique<StandInModel>(), std::move(judge));
  ASSERT_TRUE(run());
  EXPECT_EQ(counts->most_preparing.load(), 2);
  EXPECT_EQ(counts->most_judging.load(), 3);
}

TEST_F(Experiment, AModelThatFailsNowAndThenCostsThatTrajectoryAndIsRetried) {
  use(std::make_unique<FailingModel>(2), std::make_unique<StandInJudge>());
  auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 10u);
  EXPECT_EQ(result->progress.failed, 2u);
  options_.resume = true;
  result = run();
  EXPECT_EQ(result->progress.failed, 2u) << "only what did not end goes on";
  options_.retry_failed = true;
  result = run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->progress.done, 12u);
  EXPECT_EQ(result->progress.failed, 0u);
  for (int i = 0; i < 12; ++i) EXPECT_EQ(trajectory(i)->turns.size(), 3u) << "failures are no turns";
}

TEST_F(Experiment, AModelThatIsGoneIsNotAskedThousandsOfTimes) {
  config_.models = {"m", "n"};
  config_.replicas = 100;
  use(std::make_unique<FailingModel>(1000000), std::make_unique<StandInJudge>());
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_LE(model_->asked.load(), 15);
  EXPECT_EQ(result->progress.done, 100u) << "the other model goes on";
  ASSERT_EQ(result->stops.size(), 1u);
  EXPECT_THAT(result->stops[0], HasSubstr("model 'm' failed 5 times in a row"));
  EXPECT_THAT(result->stops[0], HasSubstr("the endpoint is gone"));
}

TEST_F(Experiment, AJudgeThatFailsIsTriedAgainAndAnswersAreNotPaidForTwice) {
  use(std::make_unique<StandInModel>(), std::make_unique<FailingJudge>(1000000));
  auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 0u);
  EXPECT_THAT(result->stops, ElementsAre(HasSubstr("judging failed 5 times in a row: no disk")));
  const auto before = model_->questions();
  use(std::make_unique<StandInModel>(), std::make_unique<StandInJudge>());
  options_.retry_failed = true;
  result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 12u);
  const auto after = model_->questions();
  for (const auto& [question, times] : before) EXPECT_FALSE(after.contains(question)) << question;
  EXPECT_EQ(before.size() + after.size(), 36u);
}

TEST_F(Experiment, AShortFailureOfTheJudgeIsNotSeen) {
  use(std::make_unique<StandInModel>(), std::make_unique<FailingJudge>(2));
  const auto result = run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->progress.done, 12u);
}

TEST_F(Experiment, TurnsAreExtended) {
  ASSERT_TRUE(run());
  options_.extend_turns = 2;
  auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.turns, 60u);
  options_.extend_turns = 0;
  options_.resume = true;
  result = run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->progress.turns, 60u) << "an extension stays, and is not given twice";
  EXPECT_EQ(result->progress.done, 12u);
}

TEST_F(Experiment, ANumberOfTurnsInAllIsTheSameWhenItIsSaidTwice) {
  ASSERT_TRUE(run());
  options_.turns = 5;
  for (int times = 0; times < 2; ++times) {
    const auto result = run();
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_EQ(result->progress.turns, 60u);
  }
  options_.turns = 2;
  const auto result = run();
  ASSERT_TRUE(result);
  EXPECT_EQ(result->progress.turns, 60u) << "turns are not taken away";
}

/// What a plan's names stand for: changing it between two runs would mix two experiments.
TEST_F(Experiment, IsNotGoneOnWithWithOtherModelsPacksOrProblemsOfTheSameNames) {
  config_.packs = {"p"};
  use(std::make_unique<StandInModel>(), std::make_unique<StandInJudge>());
  const auto with_pack = [&](std::string text) {
    parts_.pack_text = [text = std::move(text)](std::string_view) -> Result<std::string> { return text; };
  };
  with_pack("one");
  ASSERT_TRUE(run());
  options_.resume = true;
  ASSERT_TRUE(run());
  with_pack("two");
  auto result = run();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::input);
  EXPECT_THAT(result.error().message, HasSubstr("inputs.packs.p is"));
  with_pack("one");
  parts_.problems[0][0].definition.reference += "# changed";
  result = run();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("inputs.definitions.gemm_n8_k16 is"));
  use(std::make_unique<StandInModel>(), std::make_unique<StandInJudge>());
  with_pack("one");
  model_->description["temperature"] = 0.5;
  result = run();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("inputs.models.m.temperature is new"));
  model_->description = {{"provider", "stand-in"}, {"base_url", "elsewhere"}};
  EXPECT_TRUE(run()) << "addresses may change";
}

TEST_F(Experiment, OneTrajectoryWhoseFileCannotBeUsedCostsNoOther) {
  ASSERT_TRUE(std::filesystem::create_directories(options_.folder / "trajectories" / "exp_003.jsonl"));
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 11u);
  EXPECT_EQ(result->progress.failed, 1u);
  EXPECT_THAT(result->summary["results"][3]["error"].get<std::string>(), HasSubstr("exp_003.jsonl"));
}

/// Refuses every question but the first few, as an endpoint does that finds them too long.
class RefusingModel : public StandInModel {
 public:
  explicit RefusingModel(int answers) : answers_(answers) {}
  void start(std::vector<models::Message> messages, models::CompletionOptions options, Done done) override {
    if (options.turn == 2 && answers_ > 0) return done(input_error("the prompt is too long"));
    if (answers_ == 0) return done(input_error("no such model"));
    StandInModel::start(std::move(messages), std::move(options), std::move(done));
  }

 private:
  int answers_;
};

TEST_F(Experiment, QuestionsThatAreRefusedDoNotSuspendAModelThatAnswersOthers) {
  use(std::make_unique<RefusingModel>(1), std::make_unique<StandInJudge>());
  auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.failed, 12u) << "each had its first turn, and its second was refused";
  EXPECT_EQ(result->progress.turns, 12u);
  EXPECT_THAT(result->stops, IsEmpty());
  options_.folder += "2";
  use(std::make_unique<RefusingModel>(0), std::make_unique<StandInJudge>());
  result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->stops, ElementsAre(HasSubstr("no such model"))) << "one that never answered is suspended";
}

TEST_F(Experiment, WhatWasAskedInVainCountsInBudgets) {
  class LosingModel : public StandInModel {
   public:
    models::Lost lost() const override { return {.attempts = 1, .tokens = 1000, .cost = 0.008}; }
  };
  config_.budget.cost = 0.0185;  // a turn costs 0.001
  config_.limits.generation = 1;
  use(std::make_unique<LosingModel>(), std::make_unique<StandInJudge>());
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_LE(result->progress.cost.value(), 0.0105 + 1e-9);
  EXPECT_THAT(result->stops, ElementsAre(HasSubstr("the budget of $0.02 is used up")));
  EXPECT_EQ(result->summary["lost"]["tokens"], 1000);
  // It is not forgotten when the experiment goes on, and is added to what is lost then.
  options_.resume = true;
  const auto more = run();
  ASSERT_TRUE(more);
  EXPECT_EQ(more->summary["lost"]["tokens"], 2000);
}

TEST_F(Experiment, BudgetsAreKeptAndRaised) {
  config_.budget.cost = 0.0105;  // a turn costs 0.001
  config_.limits.generation = 3;
  auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->stops, ElementsAre(HasSubstr("the budget of $0.01 is used up")));
  const auto spent = result->progress.cost.value();
  EXPECT_GE(spent, 0.0095);
  EXPECT_LE(spent, 0.0105 + 0.003) << "at most what was under way";
  options_.resume = true;
  config_.budget.cost = 1;
  result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 12u);
  EXPECT_NEAR(result->progress.cost.value(), 0.036, 1e-9);
}

TEST_F(Experiment, TokenBudgetsToo) {
  config_.budget.tokens = 1500;
  config_.rules.max_tokens = 300;
  config_.limits.generation = config_.limits.in_flight = 1;
  const auto result = run();
  ASSERT_TRUE(result);
  EXPECT_THAT(result->stops, ElementsAre(HasSubstr("budget of 1500 tokens")));
  const auto first = trajectory(0);
  ASSERT_TRUE(first);
  EXPECT_EQ(first->stop_reason, "tokens");
  EXPECT_EQ(first->turns.size(), 2u);
}

/// Does not tell what it took.
class SilentModel : public StandInModel {
 public:
  void start(std::vector<models::Message> messages, models::CompletionOptions options, Done done) override {
    StandInModel::start(std::move(messages), std::move(options), [done](Result<models::Completion> completion) {
      completion->usage = {};
      done(std::move(completion));
    });
  }
  bool knows_cost() const override { return knows; }
  bool knows = false;
};

TEST_F(Experiment, ABudgetThatCannotBeKeptStopsIt) {
  config_.budget.cost = 1;
  auto model = std::make_unique<SilentModel>();
  SilentModel* silent = model.get();
  use(std::move(model), std::make_unique<StandInJudge>());
  auto result = run();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("needs its prices"));
  silent->knows = true;
  result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_THAT(result->stops, ElementsAre(HasSubstr("not known what answers of model 'm' cost")));
  EXPECT_FALSE(result->progress.cost);
  EXPECT_EQ(result->summary["cost"], nullptr);
}

TEST_F(Experiment, AnInterruptFinishesWhatRunsAndItGoesOn) {
  config_.replicas = 60;
  std::atomic<unsigned> interrupts{0};
  options_.interrupts = [&] { return interrupts.load(); };
  options_.progress = [&](const ExperimentProgress& state) {
    if (state.turns >= 20) interrupts = 1;
  };
  use(std::make_unique<StandInModel>(0, 2ms), std::make_unique<StandInJudge>(12, 500us));
  auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->interrupted);
  EXPECT_LT(result->progress.done, 60u);
  const auto before = model_->questions();
  interrupts = 0;
  options_.progress = {};
  options_.resume = true;
  use(std::make_unique<StandInModel>(), std::make_unique<StandInJudge>());
  result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 60u);
  EXPECT_EQ(result->progress.turns, 180u);
  for (const auto& [question, times] : model_->questions()) EXPECT_FALSE(before.contains(question)) << question;
}

TEST_F(Experiment, AFolderHasOneWriter) {
  std::optional<Result<ExperimentResult>> second;
  options_.progress = [&](const ExperimentProgress&) {
    if (second) return;
    ExperimentParts parts;
    parts.models["m"] = std::make_unique<StandInModel>();
    parts.problems = {{stand_in_problem()}};
    parts.judge = std::make_unique<StandInJudge>();
    RunOptions options;
    options.folder = options_.folder;
    options.resume = true;
    second = run_experiment(config_, parts, options);
  };
  ASSERT_TRUE(run());
  ASSERT_TRUE(second);
  ASSERT_FALSE(*second);
  EXPECT_THAT(second->error().message, HasSubstr(fmt::format("is being written by process {}", ::getpid())));
}

TEST_F(Experiment, AnotherPlanIsRefusedWithTheDifference) {
  ASSERT_TRUE(run());
  const auto message = [&] {
    const auto result = run();
    return result ? std::string("accepted") : result.error().message;
  };
  EXPECT_THAT(message(), HasSubstr("go on with it with --resume"));
  options_.resume = true;
  EXPECT_EQ(message(), "accepted");
  config_.replicas = 13;
  EXPECT_THAT(message(), HasSubstr("config.replicas is 13, was 12"));
  config_.replicas = 12;
  config_.tell_shape = false;
  EXPECT_THAT(message(), HasSubstr("config.tell_shape is false, was true"));
  config_.tell_shape = true;
  config_.limits.generation = 9;
  config_.budget.tokens = 1000000;
  EXPECT_EQ(message(), "accepted") << "limits and budgets may change";
  options_.folder = folder_->path() / "empty";
  EXPECT_THAT(message(), HasSubstr("no plan.json"));
}

TEST_F(Experiment, ADamagedTrajectoryDoesNotStopTheOthers) {
  ASSERT_TRUE(run());
  const auto file = options_.folder / "trajectories" / "exp_003.jsonl";
  std::string bytes = *base::read_file(file);
  bytes[bytes.find('\n') + 5] = '#';
  ASSERT_TRUE(base::write_file_atomic(file, bytes));
  options_.retry_failed = true;
  const auto result = run();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_EQ(result->progress.done, 11u);
  EXPECT_EQ(result->progress.failed, 1u);
  EXPECT_THAT(result->summary["results"][3]["error"].get<std::string>(), HasSubstr("exp_003.jsonl:2"));
  EXPECT_EQ(*base::read_file(file), bytes) << "left as it is";
}

TEST_F(Experiment, AnUnknownPackIsAnError) {
  config_.packs = {"none", "hopper"};
  const auto result = run();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("no knowledge pack 'hopper'"));
}

Result<ExperimentConfig> parse(const std::string& text) { return parse_experiment(text, "e.toml", "/folder"); }

constexpr const char* kComplete = R"(
name = "full"
models_used = ["a", "b"]
models_files = ["m.toml"]
packs = ["none"]
replicas = 4
turns = 8
context = "latest-pair"
stop = "target"
target_speedup = 1.2
repeated_answers = 3
tell_shape = false
data = ["problems"]

[[problems]]
definition = "gemm_n7168_k5120"
axes = { M = 128 }

[[problems]]
definition = "mha_bwd_d64"
workloads = ["d3bcb902"]

[models.a]
provider = "replay"
answers = "answers"

[limits]
generation = 64
compile = 2
evaluate = 3
in_flight = 100

[budget]
tokens = 1000000
cost = 20.5
trajectory_tokens = 50000
trajectory_cost = 1

[evaluation]
service = "http://127.0.0.1:8000"
backend = "auto"
require = ["target"]
seeds = 2
)";

TEST(ExperimentConfig, ReadsEveryKey) {
  const auto config = parse(kComplete);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_THAT(config->models, ElementsAre("a", "b"));
  EXPECT_EQ(config->models_files[0], "/folder/m.toml");
  EXPECT_EQ(config->data[0], "/folder/problems");
  EXPECT_EQ(config->rules.max_turns, 8u);
  EXPECT_EQ(config->rules.context, ContextPolicy::latest_pair);
  EXPECT_EQ(config->rules.stop, StopWhen::target);
  EXPECT_EQ(config->rules.target_speedup, 1.2);
  EXPECT_EQ(config->rules.repeated_answers, 3u);
  EXPECT_FALSE(config->tell_shape);
  EXPECT_THAT(config->problems[0].axes, ElementsAre("M=128"));
  EXPECT_THAT(config->problems[1].workloads, ElementsAre("d3bcb902"));
  EXPECT_EQ(config->limits.evaluate, 3u);
  EXPECT_EQ(config->budget.cost, 20.5);
  EXPECT_EQ(config->rules.max_tokens, 50000u);
  EXPECT_EQ(config->service, "http://127.0.0.1:8000");
  EXPECT_EQ(config->evaluation, base::Json({{"require", {"target"}}, {"seeds", 2}, {"hazards", "always"}}));
  EXPECT_EQ(plan_of(*config).size(), 16u);
}

TEST(ExperimentConfig, TimelinesAreOffUnlessAskedFor) {
  const std::string text = "name = \"x\"\nproblems = [\"p\"]\n[models.a]\nprovider = \"replay\"\nanswers = \"y\"\n";
  EXPECT_FALSE(parse(text)->timelines);
  const auto asked = parse(text + "[evaluation]\ntimelines = true\n");
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_TRUE(asked->timelines);
  EXPECT_FALSE(asked->evaluation.contains("timelines"));
}

TEST(ExperimentConfig, ErrorsNameLineKeyAndRemedy) {
  const std::string start = "name = \"x\"\nproblems = [\"p\"]\n";
  const std::string model = "[models.a]\nprovider = \"replay\"\nanswers = \"y\"\n";
  const std::pair<std::string, const char*> cases[] = {
      {"name = \n", "e.toml:1: not an experiment"},
      {"problems = [\"p\"]\n" + model, "'name' is missing"},
      {"name = \"x\"\n" + model, "'problems' is missing"},
      {start, "'models_used' is missing: at least one model"},
      {start + "turn = 3\n" + model, "e.toml:3: unknown key 'turn'; did you mean 'turns'?"},
      {start + "turns = 0\n" + model, "e.toml:3: 'turns' is 0; it must be 1 to"},
      {start + "turns = \"8\"\n" + model, "e.toml:3: 'turns' is a string; it must be an integer"},
      {start + "context = \"ful\"\n" + model,
       "e.toml:3: 'context' is wrong: 'ful' is no context policy; did you mean 'full'?"},
      {start + "stop = \"target\"\n" + model, "e.toml:3: 'stop' is 'target', which needs 'target_speedup'"},
      {start + "packs = [\"none\", \"none\"]\n" + model, "names 'none' twice"},
      {start + "replicas = 1000000\nmodels_used = [\"a\", \"b\"]\n" + model, "makes 2000000 trajectories"},
      {start + model + "[limits]\ngeneration = 0\n", "e.toml:7: 'limits.generation' is 0"},
      {start + model + "[limits]\ncompiler = 1\n", "e.toml:7: unknown key 'limits.compiler'; did you mean 'compile'?"},
      {start + model + "[budget]\nmoney = 1\n", "e.toml:7: unknown key 'budget.money'"},
      {start + model + "[evaluation]\nseed = \"x\"\n", "evaluation.seed"},
      {start + model + "[evaluation]\ntoleranc = \"x\"\n", "did you mean"},
      {start + model + "[evaluation]\nbackend = \"tpu\"\n", "auto, emulator or gpu"},
      {start + model + "[evaluation]\ntimelines = 1\n", "'evaluation.timelines' must be true or false"},
      {start + model + "[evaluation]\ntimelines = true\nservice = \"http://x\"\n",
       "'evaluation.timelines' needs the emulator"},
      {"name = \"x\"\n[[problems]]\ndefinition = \"p\"\naxes = { M = -1 }\n" + model,
       "e.toml:4: 'problems.axes' must hold"},
      {"name = \"x\"\n[[problems]]\naxes = { M = 1 }\n" + model, "'problems.definition' is missing"},
      {start + "[models.a]\nprovider = \"x\"\n", "'models.a.provider' is 'x'"},
  };
  for (const auto& [text, says] : cases) {
    const auto config = parse(text);
    ASSERT_FALSE(config) << text;
    EXPECT_THAT(config.error().message, HasSubstr(says)) << text;
  }
}

TEST(ExperimentConfig, AnyDamageIsAnErrorOrAnExperimentAndNeverACrash) {
  const std::string text = kComplete;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'"', '[', '=', '\n', '\xff'}) {
      std::string damaged = text;
      damaged[at] = c;
      static_cast<void>(parse(damaged));
    }
    static_cast<void>(parse(text.substr(0, at)));
  }
}

}  // namespace
}  // namespace ptxbench::agent
