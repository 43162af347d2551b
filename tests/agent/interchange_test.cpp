#include "agent/interchange.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/atif.h"
#include "agent/experiment.h"
#include "base/files.h"
#include "base/text.h"
#include "stand_ins.h"

namespace ptxbench::agent {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Interchange : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create("interchange");
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    ExperimentConfig config;
    config.name = "test";
    config.models = {"m"};
    config.problems = {{"gemm_n8_k16", {}, {}}};
    config.replicas = 3;
    config.rules.max_turns = 4;
    config.rules.stop = StopWhen::never;
    config.rules.target_speedup = 0.5;
    ExperimentParts parts;
    parts.models["m"] = std::make_unique<StandInModel>();
    parts.problems = {{stand_in_problem()}};
    parts.judge = std::make_unique<StandInJudge>(2);
    RunOptions options;
    options.folder = run();
    ASSERT_TRUE(run_experiment(config, parts, options));
  }
  fs::path run() const { return folder_->path() / "run"; }
  fs::path path(const char* name) const { return folder_->path() / name; }
  static base::Json json(const fs::path& file) {
    auto parsed = base::parse_json(base::read_file(file).value_or(""), file.string());
    EXPECT_TRUE(parsed) << file;
    return parsed ? *parsed : base::Json();
  }
  std::optional<base::TempDir> folder_;
};

TEST_F(Interchange, ExportsTheReferencesLayout) {
  const auto report = export_reference_run(run(), path("reference"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->trajectories, 3u);
  EXPECT_EQ(report->turns, 12u);
  const fs::path root = path("reference");
  EXPECT_EQ(json(root / "plan.json")["plan"].size(), 3u);
  EXPECT_EQ(json(root / "plan.json")["config"][0]["num_trajectories"], 3);
  for (const char* key : {"timestamp", "config", "extend_turns", "extend_info", "resume_info", "plan"}) {
    EXPECT_TRUE(json(root / "resume_plan.json").contains(key)) << key;
  }
  const auto summary = json(root / "summary.json");
  for (const char* key :
       {"total", "completed", "correct_trajectory", "correct_kernel_versions", "target_met", "success", "failed",
        "infra_failed", "api_failed", "timeout", "error", "by_prompt_tag", "results"}) {
    EXPECT_TRUE(summary.contains(key)) << key;
  }
  const auto trajectory = json(root / "trajectories" / "exp_000.json");
  EXPECT_EQ(trajectory["trajectory_format"], "mini-swe-agent-1.1");
  EXPECT_EQ(trajectory["messages"].size(), 2u + 2 * 4 + 1);
  std::size_t kernels = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root / "success")) {
    if (entry.path().extension() == ".cu") ++kernels;
    if (entry.path().filename() == "record.json") {
      for (const auto& one : json(entry.path())) {
        EXPECT_TRUE(fs::exists(entry.path().parent_path() / fmt::format("kernel_v{}.cu", one["version"].get<int>())));
      }
    }
  }
  EXPECT_EQ(kernels, summary["correct_kernel_versions"].get<std::size_t>());
  EXPECT_GT(kernels, 0u);
  const std::string table = *base::read_file(root / "figures" / "turn_correctness_arch.csv");
  EXPECT_EQ(base::split_lines(table).size(), 13u);
  EXPECT_THAT(table, HasSubstr("exp_000,0,"));
  EXPECT_TRUE(fs::exists(root / "logs" / "exp_002.log"));
}

TEST_F(Interchange, WhatWasExportedIsImportedAsItWas) {
  ASSERT_TRUE(export_reference_run(run(), path("reference")));
  const auto report = import_reference_run(path("reference"), path("back"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->turns, 12u);
  for (const char* name : {"exp_000.jsonl", "exp_001.jsonl", "exp_002.jsonl"}) {
    const auto before = read_trajectory(run() / "trajectories" / name);
    const auto after = read_trajectory(path("back") / "trajectories" / name);
    ASSERT_TRUE(before);
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(after->problem, before->problem);
    EXPECT_EQ(after->system_message, before->system_message);
    ASSERT_EQ(after->turns.size(), before->turns.size());
    for (std::size_t i = 0; i < before->turns.size(); ++i) {
      EXPECT_EQ(after->turns[i].answer, before->turns[i].answer);
      EXPECT_EQ(after->turns[i].feedback, before->turns[i].feedback);
      EXPECT_EQ(after->turns[i].source, before->turns[i].source);
      EXPECT_EQ(after->turns[i].passed(), before->turns[i].passed());
      EXPECT_EQ(after->turns[i].speedup(), before->turns[i].speedup());
      EXPECT_EQ(after->turns[i].usage.cost, before->turns[i].usage.cost);
    }
  }
  const auto summary = json(path("back") / "summary.json");
  const auto first = json(run() / "summary.json");
  for (const char* key :
       {"total", "completed", "correct_trajectory", "correct_kernel_versions", "target_met", "turns"}) {
    EXPECT_EQ(summary[key], first[key]) << key;
  }
}

TEST_F(Interchange, FoldersThatAreInUseOrAreNoneAreErrors) {
  EXPECT_THAT(export_reference_run(run(), run()).error().message, HasSubstr("not an empty folder"));
  EXPECT_FALSE(export_reference_run(path("missing"), path("a")));
  EXPECT_FALSE(import_reference_run(run(), path("b"))) << "has no .json trajectories";
  fs::create_directories(path("other") / "trajectories");
  EXPECT_FALSE(import_reference_run(path("other"), path("c")));
  ASSERT_TRUE(base::write_file_atomic(path("other") / "trajectories" / "exp_000.json", "{\"a\":1}"));
  const auto imported = import_reference_run(path("other"), path("d"));
  ASSERT_FALSE(imported);
  EXPECT_THAT(imported.error().message, HasSubstr("exp_000.json"));
}

TEST_F(Interchange, DamagedRunsAreErrorsOrImportsAndNeverCrash) {
  ASSERT_TRUE(export_reference_run(run(), path("reference")));
  const base::Json plan = json(path("reference") / "plan.json");
  const base::Json flat = plan.flatten();
  int number = 0;
  for (const auto& [pointer, value] : flat.items()) {
    for (const base::Json& other : {base::Json(nullptr), base::Json("x"), base::Json::array(), base::Json(1)}) {
      if (++number % 17 != 0) continue;
      base::Json changed = plan;
      changed[base::Json::json_pointer(pointer)] = other;
      ASSERT_TRUE(base::write_file_atomic(path("reference") / "plan.json", changed.dump()));
      static_cast<void>(import_reference_run(path("reference"), path("in") / std::to_string(number)));
      ASSERT_TRUE(base::write_file_atomic(run() / "plan.json", changed.dump()));
      static_cast<void>(export_reference_run(run(), path("out") / std::to_string(number)));
    }
  }
}

TEST(FailureLabels, AreTheReferences) {
  const auto label = [](const char* event, base::Json evaluation) {
    Turn turn;
    turn.event = event;
    turn.evaluation = std::move(evaluation);
    return std::string(failure_label(turn));
  };
  const auto staged = [](const char* compile, const char* execute, const char* correctness, const char* rule) {
    return base::Json{{"verdict", {{"status", "failed"}}},
                      {"findings", {{{"rule", rule}, {"severity", "error"}}}},
                      {"stages",
                       {{{"name", "compile"}, {"status", compile}},
                        {{"name", "execute"}, {"status", execute}},
                        {{"name", "correctness"}, {"status", correctness}}}}};
  };
  EXPECT_EQ(label("no_code", nullptr), "Extraction error");
  EXPECT_EQ(label("test_failed", staged("failed", "skipped", "skipped", "compile.error")), "Compilation error");
  EXPECT_EQ(label("evaluation", staged("passed", "failed", "skipped", "memory.out-of-bounds")), "Runtime error");
  EXPECT_EQ(label("evaluation", staged("passed", "failed", "skipped", "sync.deadlock")), "Kernel Execution Timeout");
  EXPECT_EQ(label("evaluation", staged("passed", "passed", "failed", "numeric.scale")), "Numerical error");
  EXPECT_EQ(label("evaluation", staged("passed", "unknown", "skipped", "x")), "Other error");
  EXPECT_EQ(label("evaluation", {{"verdict", {{"status", "passed"}}}}), "Correct");
  EXPECT_EQ(label("evaluation", {{"verdict", {{"status", "failed"}}},
                                 {"traces", {{{"evaluation", {{"status", "INCORRECT_SHAPE"}}}}}}}),
            "Numerical error");
}

/// The rules of Harbor's own models.
TEST_F(Interchange, AtifHasNumberedStepsAndLeavesOutWhatIsNotKnown) {
  const auto trajectory = read_trajectory(run() / "trajectories/exp_000.jsonl");
  ASSERT_TRUE(trajectory) << trajectory.error().message;
  const base::Json atif = to_atif(*trajectory, "exp_000", "0.1");
  EXPECT_EQ(atif["schema_version"], "ATIF-v1.7");
  ASSERT_EQ(atif["steps"].size(), 6u) << "system, task, four answers";
  for (std::size_t i = 0; i < atif["steps"].size(); ++i) {
    const base::Json& step = atif["steps"][i];
    EXPECT_EQ(step["step_id"], i + 1);
    EXPECT_EQ(step["source"], i == 0 ? "system" : i == 1 ? "user" : "agent");
    for (const char* only_agents : {"metrics", "reasoning_content", "model_name"}) {
      EXPECT_FALSE(i < 2 && step.contains(only_agents));
    }
    for (const auto& [key, value] : step.items()) EXPECT_FALSE(value.is_null()) << key;
  }
  EXPECT_EQ(atif["steps"][2]["message"], trajectory->turns[0].answer);
  EXPECT_EQ(atif["steps"][2]["observation"]["results"][0]["content"], trajectory->turns[0].feedback);
  EXPECT_EQ(atif["steps"][2]["metrics"],
            base::Json({{"prompt_tokens", 100}, {"completion_tokens", 50}, {"cost_usd", 0.001}}));
  EXPECT_EQ(atif["final_metrics"]["total_prompt_tokens"], 400);
  EXPECT_FALSE(atif["final_metrics"].contains("total_cached_tokens"));
  Trajectory unknown = *trajectory;
  unknown.turns[1].usage.prompt_tokens.reset();
  EXPECT_FALSE(to_atif(unknown, "x", "0.1")["final_metrics"].contains("total_prompt_tokens"));
}

}  // namespace
}  // namespace ptxbench::agent
