// A Harbor task: its files, and its verifier against a service on the loopback interface.
#include "agent/harbor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <cstdlib>
#include <thread>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "base/toml.h"

namespace ptxbench::agent {
namespace {

using base::Json;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kUuid = "94920358-01a8-4c5b-9209-3103fd490e94";

std::vector<problem::Problem> one_workload() {
  const auto dataset = problem::Dataset::load(*problem::dataset_roots({}));
  return *dataset->choose("gemm_n7168_k5120", {}, {kUuid});
}

class HarborTask : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create("harbor");
    ASSERT_TRUE(folder);
    folder_.emplace(std::move(*folder));
    task_ = folder_->path() / "task";
    options_.service_url = "http://host.docker.internal:8000";
    options_.knowledge = "All about wgmma.";
  }
  std::string text(const char* file) { return base::read_file(task_ / file).value_or(""); }

  std::optional<base::TempDir> folder_;
  std::filesystem::path task_;
  HarborOptions options_;
};

TEST_F(HarborTask, HasTheFilesThatHarborWants) {
  const auto written = write_harbor_task(task_, one_workload(), options_);
  ASSERT_TRUE(written) << written.error().message;
  const auto toml = base::read_toml(text("task.toml"), "task.toml");
  ASSERT_TRUE(toml) << toml.error().message;
  EXPECT_THAT(text("task.toml"), HasSubstr("schema_version = \"1.4\""));
  EXPECT_THAT(text("task.toml"), HasSubstr("name = \"ptxbench/gemm-n7168-k5120\""));
  EXPECT_THAT(text("instruction.md"), HasSubstr("/workspace/kernel.cu"));
  EXPECT_THAT(text("instruction.md"), Not(HasSubstr("All about wgmma")));
  EXPECT_EQ(text("environment/reference/README.md"), "All about wgmma.");
  const auto task = base::parse_json(text("tests/task.json"), "task");
  ASSERT_TRUE(task);
  EXPECT_EQ(*task, Json({{"task_id", "gemm-n7168-k5120"},
                         {"definition", "gemm_n7168_k5120"},
                         {"workload_uuids", {kUuid}},
                         {"target_hardware", {"H100"}},
                         {"nvcc_gencode", "arch=compute_90a,code=sm_90a"},
                         {"tvm_ffi_dir", "/opt/tvm_ffi"},
                         {"max_check_runs", 2},
                         {"queue_timeout_sec", 240},
                         {"sanitizer_timeout_sec", 120},
                         {"target_speedup", 1.0}}));
  EXPECT_EQ(text("environment/task.json"), text("tests/task.json"));
  EXPECT_FALSE(write_harbor_task(task_, one_workload(), options_)) << "nothing is overwritten";
}

TEST_F(HarborTask, WhatCannotBeATaskIsRefused) {
  for (const char* name : {"gemm", "a/b/c", "../x", "a/", "/b", "a b/c", "a/..", "a/.b"}) {
    options_.name = name;
    EXPECT_FALSE(write_harbor_task(task_, one_workload(), options_)) << name;
  }
  options_.name = "mine/gemm_1.2";
  auto ad_hoc = one_workload();
  ad_hoc[0].workload.ad_hoc = true;
  const auto refused = write_harbor_task(task_, ad_hoc, options_);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("stored workloads"));
  EXPECT_FALSE(std::filesystem::exists(task_));
  EXPECT_TRUE(write_harbor_task(task_, one_workload(), options_));
}

/// What the verifier makes of a service's traces.
class Verifier : public HarborTask {
 protected:
  struct Outcome {
    int exit_code = -1;
    std::string reward;
    Json evaluation;
  };
  Outcome verify(const Json& task_state, bool with_kernel = true) {
    EXPECT_TRUE(write_harbor_task(task_, one_workload(), options_));
    httplib::Server server;
    server.set_keep_alive_max_count(1);
    server.Post("/evaluate", [&](const httplib::Request& request, httplib::Response& response) {
      asked_ = *base::parse_json(request.body, "request");
      token_ = request.get_header_value("Authorization");
      response.set_content(R"({"task_id":"0123","normalized_solution_name":"x"})", "application/json");
    });
    server.Get("/tasks/0123", [&](const httplib::Request&, httplib::Response& response) {
      response.set_content(task_state.dump(), "application/json");
    });
    const int port = server.bind_to_any_port("127.0.0.1");
    std::thread thread([&] { server.listen_after_bind(); });
    while (!server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto kernel = folder_->path() / "kernel.cu";
    if (with_kernel) {
      EXPECT_TRUE(base::write_file_atomic(kernel, "// kernel\n"));
    }
    base::ProcessOptions run;
    run.argv = {"bash", (task_ / "tests/test.sh").string()};
    const auto logs = folder_->path() / "logs";
    run.environment = {{"PTXBENCH_SERVICE_URL", "http://127.0.0.1:" + std::to_string(port)},
                       {"PTXBENCH_SERVICE_TOKEN", "abc"},
                       {"PTXBENCH_KERNEL", kernel.string()},
                       {"PTXBENCH_VERIFIER_LOGS", logs.string()}};
    const auto result = base::run_process(run);
    server.stop();
    thread.join();
    Outcome outcome;
    if (!result) return outcome;
    outcome.exit_code = result->exit_code;
    outcome.reward = base::read_file(logs / "reward.txt").value_or("");
    if (auto json = base::parse_json(base::read_file(logs / "final-evaluation.json").value_or(""), "final")) {
      outcome.evaluation = *json;
    }
    return outcome;
  }
  static Json trace(const char* status, const Json& speedup) {
    return {{"definition", "gemm_n7168_k5120"},
            {"workload", {{"uuid", kUuid}, {"axes", {{"M", 8192}}}}},
            {"evaluation", {{"status", status}, {"performance", {{"speedup_factor", speedup}}}}}};
  }
  Json asked_;
  std::string token_;
};

TEST_F(Verifier, RewardsWhatPassed) {
  const auto outcome = verify({{"status", "completed"}, {"traces", {trace("PASSED", 1.25)}}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.reward, "1\n");
  EXPECT_EQ(outcome.evaluation["schema"], "ptxbench.eval.v1");
  EXPECT_EQ(outcome.evaluation["all_passed"], true);
  EXPECT_EQ(outcome.evaluation["min_speedup"], 1.25);
  EXPECT_EQ(outcome.evaluation["target_met"], true);
  EXPECT_EQ(asked_["workload_uuids"], Json({kUuid}));
  EXPECT_EQ(asked_["solution"]["sources"][0]["content"], "// kernel\n");
  EXPECT_EQ(token_, "Bearer abc");
}

TEST_F(Verifier, UnmeasuredIsNotAMetTarget) {
  const auto outcome = verify({{"status", "completed"}, {"traces", {trace("PASSED", nullptr)}}});
  EXPECT_EQ(outcome.reward, "1\n");
  EXPECT_EQ(outcome.evaluation["min_speedup"], nullptr);
  EXPECT_EQ(outcome.evaluation["target_met"], false);
}

TEST_F(Verifier, RewardsNothingElse) {
  const Json cases[] = {{{"status", "completed"}, {"traces", {trace("INCORRECT_NUMERICAL", nullptr)}}},
                        {{"status", "completed"}, {"traces", Json::array()}},
                        {{"status", "completed"}, {"traces", {trace("PASSED", 1), trace("TIMEOUT", nullptr)}}}};
  for (const Json& state : cases) {
    std::filesystem::remove_all(task_);
    const auto outcome = verify(state);
    EXPECT_EQ(outcome.exit_code, 0) << state.dump();
    EXPECT_EQ(outcome.reward, "0\n") << state.dump();
    EXPECT_EQ(outcome.evaluation["all_passed"], false) << state.dump();
  }
}

/// Harbor takes a trial without a reward for broken, and it can be run again.
TEST_F(Verifier, AFailureOfTheMachineIsNoReward) {
  const auto outcome = verify({{"status", "failed"}, {"error", "GPU lost"}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.reward, "");
  EXPECT_EQ(outcome.evaluation["status"], "INFRA_ERROR");
}

TEST_F(Verifier, AMissingKernelIsSaidAndNotRewarded) {
  const auto outcome = verify({{"status", "completed"}, {"traces", {trace("PASSED", 1)}}}, false);
  EXPECT_EQ(outcome.reward, "0\n");
  EXPECT_EQ(outcome.evaluation["status"], "INFRA_ERROR");
  EXPECT_THAT(outcome.evaluation["error"].get<std::string>(), HasSubstr("kernel.cu"));
}

}  // namespace
}  // namespace ptxbench::agent
