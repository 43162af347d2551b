// A service as judge: what it says reaches the model in the same words as what was judged here.
#include "agent/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <thread>

#include "agent/feedback.h"
#include "stand_ins.h"

namespace ptxbench::agent {
namespace {

using base::Json;
using ::testing::HasSubstr;

/// Accepts every task, and ends it as it is told.
class TaskServer {
 public:
  explicit TaskServer(Json task) : task_(std::move(task)) {
    server_.set_keep_alive_max_count(1);
    server_.Post("/v1/evaluate", [this](const httplib::Request& request, httplib::Response& response) {
      asked = *base::parse_json(request.body, "request");
      authorization = request.get_header_value("Authorization");
      response.set_content(R"({"schema":"ptxbench.accepted/1","task_id":"00112233445566778899aabbccddeeff"})",
                           "application/json");
    });
    server_.Get("/v1/tasks/.*", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(task_.dump(), "application/json");
    });
    server_.Delete("/v1/tasks/.*", [this](const httplib::Request&, httplib::Response& response) {
      ++cancelled;
      response.set_content("{}", "application/json");
    });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~TaskServer() {
    server_.stop();
    thread_.join();
  }
  std::unique_ptr<ServiceJudge> judge() const {
    const std::string url = "http://127.0.0.1:" + std::to_string(port_);
    return std::make_unique<ServiceJudge>(*service::Client::connect_to(url, "token"), url, "emulator",
                                          Json{{"require", {"target"}}});
  }
  Json asked;
  std::string authorization;
  std::atomic<int> cancelled{0};

 private:
  Json task_;
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST(Judgement, TellsTritonAgainstTheRulesFromWhatDoesNotCompile) {
  evaluation::Evaluation evaluation;
  evaluation.verdict = evaluation::Status::failed;
  evaluation.language = "triton";
  evaluation::Finding finding;
  finding.severity = evaluation::Severity::error;
  finding.stage = evaluation::StageName::compile;
  for (const auto& [rule, event] : {std::pair{"triton.compile", "test_failed"},
                                    {"triton.not-provided", "triton_validation_failed"},
                                    {"candidate.banned_library", "triton_validation_failed"}}) {
    finding.rule = rule;
    evaluation.findings = {finding};
    const auto judgement = judgement_of(evaluation::to_json(evaluation), "", "test", {});
    ASSERT_TRUE(judgement) << judgement.error().message;
    EXPECT_EQ(judgement->event, event) << rule;
    EXPECT_EQ(judgement->evaluation.at("language"), "triton");
  }
}

TEST(ServiceJudge, AsksForAllWorkloadsTogetherAndTellsWhatItWasTold) {
  evaluation::Evaluation evaluation;
  evaluation.verdict = evaluation::Status::failed;
  evaluation.compile.status = candidate::CompileStatus::succeeded;
  evaluation::Finding finding;
  finding.rule = "sync.deadlock";
  finding.message = "nobody arrives";
  evaluation.findings.push_back(finding);
  TaskServer server({{"status", "completed"}, {"error", nullptr}, {"evaluations", {evaluation::to_json(evaluation)}}});
  const auto judgement = server.judge()->judge("code", {stand_in_problem()}, {});
  ASSERT_TRUE(judgement) << judgement.error().message;
  EXPECT_EQ(judgement->feedback, feedback_text(evaluation, "code"));
  EXPECT_EQ(judgement->event, "evaluation");
  EXPECT_EQ(server.asked["source"], "code");
  EXPECT_EQ(server.asked["together"], true);
  EXPECT_EQ(server.asked["options"]["require"][0], "target");
  EXPECT_EQ(server.asked["workloads"].size(), 1u);
  EXPECT_EQ(server.authorization, "Bearer token");
  auto ad_hoc = stand_in_problem();
  ad_hoc.workload.ad_hoc = true;
  ad_hoc.workload.axes = {{"M", 4}};
  ASSERT_TRUE(server.judge()->judge("code", {ad_hoc}, {}));
  EXPECT_EQ(server.asked["axes"], Json({{"M", 4}}));
  EXPECT_FALSE(server.asked.contains("workloads"));
}

TEST(ServiceJudge, FailuresOfTheServiceAreNotTheCandidates) {
  const std::pair<Json, ErrorKind> cases[] = {
      {{{"status", "failed"}, {"error", {{"kind", "infrastructure"}, {"message", "GPU lost"}}}},
       ErrorKind::infrastructure},
      {{{"status", "failed"}, {"error", {{"kind", "input"}, {"message", "GPU lost"}}}}, ErrorKind::input},
      {{{"status", "failed"}, {"error", "GPU lost"}}, ErrorKind::infrastructure},
      {{{"status", "completed"}}, ErrorKind::infrastructure},
      {{{"status", "completed"}, {"evaluations", Json::array()}}, ErrorKind::infrastructure},
      {{{"status", "completed"}, {"evaluations", {1}}}, ErrorKind::infrastructure},
      {{{"status", "completed"}, {"evaluations", {{{"schema", "other/1"}}}}}, ErrorKind::infrastructure},
      {Json::array(), ErrorKind::infrastructure},
      {1, ErrorKind::infrastructure},
      {{{"status", 7}}, ErrorKind::infrastructure},
      {{{"status", "thinking"}}, ErrorKind::infrastructure},
  };
  for (const auto& [task, kind] : cases) {
    TaskServer server(task);
    const auto judgement = server.judge()->judge("code", {stand_in_problem()}, {});
    ASSERT_FALSE(judgement) << task.dump();
    EXPECT_EQ(judgement.error().kind, kind) << task.dump();
    EXPECT_THAT(judgement.error().message, HasSubstr("http://127.0.0.1"));
  }
}

TEST(ServiceJudge, CancellingEndsTheWaitAndTheTask) {
  TaskServer server(Json{{"status", "running"}});
  JudgeOptions options;
  std::stop_source stop;
  options.cancel = stop.get_token();
  int told = 0;
  options.progress = [&](std::string_view state) {
    if (state == "running" && ++told == 2) stop.request_stop();
  };
  const auto started = std::chrono::steady_clock::now();
  const auto judgement = server.judge()->judge("code", {stand_in_problem()}, options);
  ASSERT_FALSE(judgement);
  EXPECT_EQ(judgement.error().kind, ErrorKind::infrastructure);
  EXPECT_THAT(judgement.error().message, HasSubstr("cancelled"));
  EXPECT_EQ(server.cancelled.load(), 1);
  // A service that answers at once is not asked without a pause.
  EXPECT_GE(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(400));
}

}  // namespace
}  // namespace ptxbench::agent
