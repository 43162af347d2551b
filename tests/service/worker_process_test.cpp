#include "service/worker_process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "programs.h"

namespace ptxbench::service {
namespace {

using base::Json;
using namespace std::chrono_literals;
using Outcome = WorkerProcess::Outcome;

std::unique_ptr<WorkerProcess> start() {
  auto worker = WorkerProcess::start({{fake_worker()}, {}});
  EXPECT_TRUE(worker) << worker.error().message;
  return worker ? std::move(*worker) : nullptr;
}

Json evaluate(const std::string& source) { return Json{{"kind", "evaluate"}, {"source", source}}; }

TEST(WorkerProcess, AnswersOneAfterAnother) {
  const auto worker = start();
  for (const char* verdict : {"pass", "fail", "pass"}) {
    const auto answer = worker->call(evaluate(verdict), {});
    ASSERT_EQ(answer.outcome, Outcome::answered) << answer.detail;
    EXPECT_EQ(answer.json.at("evaluation").at("verdict").at("status"),
              std::string(verdict) == "pass" ? "passed" : "failed");
  }
  EXPECT_TRUE(worker->is_alive());
}

TEST(WorkerProcess, LargeRequestsPass) {
  const auto worker = start();
  const auto answer = worker->call(evaluate("pass " + std::string(8 << 20, 'x')), {});
  EXPECT_EQ(answer.outcome, Outcome::answered) << answer.detail;
}

TEST(WorkerProcess, DeathIsNoticed) {
  const auto worker = start();
  const auto answer = worker->call(evaluate("crash"), {});
  EXPECT_EQ(answer.outcome, Outcome::died);
  EXPECT_NE(answer.detail.find("42"), std::string::npos) << answer.detail;
  EXPECT_FALSE(worker->is_alive());
}

TEST(WorkerProcess, KillIsNoticed) {
  const auto worker = start();
  std::jthread killer([&] {
    std::this_thread::sleep_for(100ms);
    ::kill(worker->pid(), SIGKILL);
  });
  const auto answer = worker->call(evaluate("hang"), {});
  EXPECT_EQ(answer.outcome, Outcome::died);
  EXPECT_NE(answer.detail.find("signal 9"), std::string::npos) << answer.detail;
}

TEST(WorkerProcess, HangEndsAtTheDeadline) {
  const auto worker = start();
  const auto answer = worker->call(evaluate("hang"), {200ms, std::nullopt});
  EXPECT_EQ(answer.outcome, Outcome::hung);
  EXPECT_FALSE(worker->is_alive());
}

TEST(WorkerProcess, TheRequestsTimeCountsFromExecution) {
  auto worker = start();
  auto answer = worker->call(evaluate("sleep 0.4"), {10s, 200ms});
  EXPECT_EQ(answer.outcome, Outcome::answered) << "it never said that the candidate runs";
  answer = worker->call(evaluate("run 5"), {10s, 200ms});
  EXPECT_EQ(answer.outcome, Outcome::out_of_time);
}

TEST(WorkerProcess, WaitingForOthersIsNotTheRequestsTime) {
  auto worker = start();
  auto answer = worker->call(evaluate("wait 0.05"), {10s, 400ms});
  EXPECT_EQ(answer.outcome, Outcome::answered) << answer.detail;
  // But what it has run before counts.
  answer = worker->call(evaluate("wait 5"), {10s, 400ms});
  EXPECT_EQ(answer.outcome, Outcome::out_of_time);
  // And all of it together has an end.
  worker = start();
  answer = worker->call(evaluate("wait 0.05"), {300ms, 10s});
  EXPECT_EQ(answer.outcome, Outcome::hung);
}

TEST(WorkerProcess, GarbageIsDeath) {
  const auto worker = start();
  const auto answer = worker->call(evaluate("garbage"), {});
  EXPECT_EQ(answer.outcome, Outcome::died);
  EXPECT_FALSE(worker->is_alive());
}

TEST(WorkerProcess, CancelEndsIt) {
  const auto worker = start();
  std::stop_source stop;
  std::jthread canceller([&] {
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  EXPECT_EQ(worker->call(evaluate("hang"), {}, stop.get_token()).outcome, Outcome::cancelled);
}

TEST(WorkerProcess, AProgramThatDoesNotExistIsAnError) {
  const auto worker = WorkerProcess::start({{"/no/such/worker"}, {}});
  ASSERT_FALSE(worker);
  EXPECT_EQ(worker.error().kind, ErrorKind::infrastructure);
}

}  // namespace
}  // namespace ptxbench::service
