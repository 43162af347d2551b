#include "service/dispatcher.h"

#include <gtest/gtest.h>

#include "base/files.h"
#include "programs.h"
#include "service/requests.h"
#include "service/task_factory.h"
#include "service/task_json.h"

namespace ptxbench::service {
namespace {

using base::Json;
using namespace std::chrono_literals;

constexpr const char* kData = "tests/service/data";

/// A dispatcher with fake workers over a folder that outlives it.
class DispatcherTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = base::TempDir::create("dispatcher-test");
    ASSERT_TRUE(made);
    folder_ = std::make_unique<base::TempDir>(std::move(*made));
    auto dataset = problem::Dataset::load({kData});
    ASSERT_TRUE(dataset) << dataset.error().message;
    dataset_ = std::move(*dataset);
    auto log = EventLog::create("off");
    ASSERT_TRUE(log);
    log_ = std::move(*log);
    options_.worker = {{fake_worker()}, {}};
    options_.lanes = {{Lane::cpu, "emulator", "emulator:0", 1}};
  }

  void open(bool start = true) {
    dispatcher_.reset();
    store_.reset();
    auto store = TaskStore::open(folder_->path());
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
    dispatcher_ = std::make_unique<Dispatcher>(*store_, costs_, metrics_, *log_, options_);
    if (!start) return;
    const auto started = dispatcher_->start();
    ASSERT_TRUE(started) << started.error().message;
  }

  Task make(const std::string& words, std::vector<std::string> workloads = {}, bool together = false) {
    NativeRequest request;
    request.source = words;
    request.problem = "gemm_small";
    request.workloads = std::move(workloads);
    request.together = together;
    if (request.workloads.empty()) request.axes = {{"M", 16}};
    bool gpu = false;
    for (const WorkerLane& lane : options_.lanes) gpu = gpu || lane.lane == Lane::gpu;
    auto task = TaskFactory(dataset_, costs_, {gpu, true, "strict"}).make(request);
    EXPECT_TRUE(task) << task.error().message;
    return task ? *task : Task();
  }

  std::string submit(Task task) {
    const std::string id = task.id;
    const auto admitted = dispatcher_->submit(std::move(task));
    EXPECT_TRUE(admitted && *admitted == Dispatcher::Admission::accepted);
    return id;
  }

  Task finished(const std::string& id, std::chrono::seconds patience = 20s) {
    dispatcher_->wait(id, std::chrono::steady_clock::now() + patience);
    const auto task = dispatcher_->find(id);
    EXPECT_TRUE(task && *task);
    EXPECT_TRUE((*task)->is_final()) << to_string((*task)->status);
    return **task;
  }

  std::unique_ptr<base::TempDir> folder_;
  problem::Dataset dataset_;
  Metrics metrics_;
  CostModel costs_;
  std::unique_ptr<EventLog> log_;
  DispatcherOptions options_;
  std::unique_ptr<TaskStore> store_;
  std::unique_ptr<Dispatcher> dispatcher_;
};

TEST_F(DispatcherTest, UnitsOfATaskRunOnAllWorkers) {
  options_.lanes = {{Lane::cpu, "emulator", "emulator:0", 1}, {Lane::cpu, "emulator", "emulator:1", 1}};
  open();
  const Task task = finished(submit(make("sleep 0.3", {"5e0c5c5e-0007", "5e0c5c5e-0037"})));
  EXPECT_EQ(task.status, TaskStatus::completed);
  const Json json = native_task(task);
  ASSERT_EQ(json.at("evaluations").size(), 2U);
  EXPECT_NE(json.at("evaluations")[0].at("device"), json.at("evaluations")[1].at("device"));
}

TEST_F(DispatcherTest, OneCrashIsInvisible) {
  open();
  const Task task = finished(submit(make("crash_once " + (folder_->path() / "seen").string())));
  EXPECT_EQ(task.status, TaskStatus::completed);
  EXPECT_EQ(task.units[0].attempts, 2U);
  EXPECT_EQ(metrics_.value("ptxbench_worker_restarts_total", {{"reason", "died"}}), 1);
}

TEST_F(DispatcherTest, AHangIsEndedAndTriedAgain) {
  options_.unit_limit = 300ms;
  open();
  const Task task = finished(submit(make("hang_once " + (folder_->path() / "seen").string())));
  EXPECT_EQ(task.status, TaskStatus::completed);
  EXPECT_EQ(task.units[0].attempts, 2U);
}

TEST_F(DispatcherTest, ThreeCrashesAreAnInfrastructureErrorAndOthersGoOn) {
  open();
  const std::string bad = submit(make("crash")), good = submit(make("pass"));
  const Task failed = finished(bad);
  EXPECT_EQ(failed.status, TaskStatus::failed);
  EXPECT_EQ(failed.error_kind, ErrorKind::infrastructure);
  EXPECT_NE(failed.error.find("3 attempts"), std::string::npos) << failed.error;
  EXPECT_EQ(finished(good).status, TaskStatus::completed);
}

TEST_F(DispatcherTest, AFailingWorkloadLeavesTheOthersTheirResults) {
  open();
  const std::string uuid = "5e0c5c5e-0008-4000-8000-000000000008";
  const Task task = finished(submit(make("crash_on " + uuid, {"5e0c5c5e-0007", "5e0c5c5e-0008", "5e0c5c5e-0037"})));
  EXPECT_EQ(task.status, TaskStatus::failed);
  const Json json = fib_task(task);
  ASSERT_EQ(json.at("traces").size(), 2U);
  EXPECT_EQ(json.at("traces")[0].at("workload").at("axes").at("M"), 7);
  EXPECT_EQ(json.at("traces")[1].at("workload").at("axes").at("M"), 37);
  EXPECT_TRUE(json.contains("error"));
}

TEST_F(DispatcherTest, InputErrorsAreNotTriedAgain) {
  open();
  const Task task = finished(submit(make("input")));
  EXPECT_EQ(task.status, TaskStatus::failed);
  EXPECT_EQ(task.error_kind, ErrorKind::input);
  EXPECT_EQ(task.units[0].attempts, 1U);
}

TEST_F(DispatcherTest, TheRequestsTimeIsAVerdict) {
  open();
  Task task = make("run 30");
  task.run_seconds = 0.2;
  const Task ended = finished(submit(std::move(task)));
  EXPECT_EQ(ended.status, TaskStatus::completed);
  EXPECT_EQ(fib_task(ended).at("traces")[0].at("evaluation").at("status"), "TIMEOUT");
}

TEST_F(DispatcherTest, WhatWaitsOutlivesTheService) {
  open(false);
  const std::string id = submit(make("pass", {"5e0c5c5e-0007", "5e0c5c5e-0008"}));
  open();
  EXPECT_EQ(finished(id).status, TaskStatus::completed);
}

TEST_F(DispatcherTest, ARestartRepeatsOnlyWhatIsMissing) {
  open(false);
  Task task = make("pass", {"5e0c5c5e-0007", "5e0c5c5e-0008"});
  const std::string id = submit(task);
  // The service died when one unit was done and the other ran for the first time.
  task.status = TaskStatus::running;
  task.units[0].state = UnitState::done;
  task.units[0].attempts = 1;
  task.units[0].result = R"({"timed_out":1.0,"timestamp":5.0})";
  task.units[1].state = UnitState::running;
  task.units[1].attempts = 1;
  ASSERT_TRUE(store_->update(task, {&task.units[0], &task.units[1]}));
  open();
  const Task ended = finished(id);
  EXPECT_EQ(ended.status, TaskStatus::completed);
  EXPECT_EQ(ended.units[0].result, task.units[0].result);
  EXPECT_EQ(ended.units[1].attempts, 2U);
}

TEST_F(DispatcherTest, WhatEndsTheServiceThreeTimesIsGivenUp) {
  open(false);
  Task task = make("pass");
  const std::string id = submit(task);
  task.units[0].state = UnitState::running;
  task.units[0].attempts = 3;
  ASSERT_TRUE(store_->update(task, {&task.units[0]}));
  open();
  const Task ended = finished(id);
  EXPECT_EQ(ended.status, TaskStatus::failed);
  EXPECT_EQ(ended.error_kind, ErrorKind::infrastructure);
  EXPECT_NE(ended.error.find("the service ended while it ran"), std::string::npos) << ended.error;
}

TEST_F(DispatcherTest, DrainingFinishesWhatRunsAndKeepsWhatWaits) {
  open();
  const std::string runs = submit(make("sleep 0.5")), waits = submit(make("sleep 0.5"));
  while (dispatcher_->find(runs).value()->status != TaskStatus::running) std::this_thread::sleep_for(5ms);
  dispatcher_->drain();
  EXPECT_EQ(dispatcher_->find(runs).value()->status, TaskStatus::completed);
  EXPECT_EQ(dispatcher_->find(waits).value()->status, TaskStatus::pending);
  const auto refused = dispatcher_->submit(make("pass"));
  ASSERT_TRUE(refused);
  EXPECT_EQ(*refused, Dispatcher::Admission::closing);
  open();
  EXPECT_EQ(finished(waits).status, TaskStatus::completed);
}

TEST_F(DispatcherTest, CancelKillsWhatRunsAndDropsWhatWaits) {
  open();
  const std::string runs = submit(make("hang")), waits = submit(make("pass"));
  while (dispatcher_->find(runs).value()->status != TaskStatus::running) std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(dispatcher_->cancel(waits));
  EXPECT_EQ(finished(waits, 1s).error, "cancelled");
  EXPECT_TRUE(dispatcher_->cancel(runs));
  EXPECT_EQ(finished(runs, 5s).error, "cancelled");
  EXPECT_FALSE(dispatcher_->cancel(runs));
  EXPECT_FALSE(dispatcher_->cancel("nobody"));
  EXPECT_EQ(finished(submit(make("pass"))).status, TaskStatus::completed);
}

TEST_F(DispatcherTest, AFullQueueRefuses) {
  options_.max_queue = 2;
  open(false);
  submit(make("pass"));
  submit(make("pass"));
  const auto refused = dispatcher_->submit(make("pass"));
  ASSERT_TRUE(refused);
  EXPECT_EQ(*refused, Dispatcher::Admission::full);
  EXPECT_GE(dispatcher_->retry_after(), 1U);
}

TEST_F(DispatcherTest, SourcesThatFillTheMemoryAreAFullQueueToo) {
  options_.max_source_bytes = 100;
  open(false);
  submit(make("pass " + std::string(200, 'x')));
  const auto refused = dispatcher_->submit(make("pass"));
  ASSERT_TRUE(refused);
  EXPECT_EQ(*refused, Dispatcher::Admission::full);
}

TEST_F(DispatcherTest, AStoreThatFailsForAWhileLosesNothing) {
  open();
  const std::string id = submit(make("sleep 0.3"));
  while (dispatcher_->find(id).value()->status != TaskStatus::running) std::this_thread::sleep_for(5ms);
  auto other = Database::open(folder_->path() / "tasks.sqlite");
  ASSERT_TRUE(other) << other.error().message;
  ASSERT_TRUE(other->execute("ALTER TABLE units RENAME TO hidden"));
  // Its end is answered from memory meanwhile, and what is new is refused.
  EXPECT_EQ(finished(id).status, TaskStatus::completed);
  EXPECT_FALSE(dispatcher_->submit(make("pass")));
  ASSERT_TRUE(other->execute("ALTER TABLE hidden RENAME TO units"));
  const auto written = [&] {
    const auto task = store_->find(id);
    return task && *task && (*task)->status == TaskStatus::completed && (*task)->units[0].state == UnitState::done;
  };
  for (int i = 0; i < 500 && !written(); ++i) std::this_thread::sleep_for(10ms);
  EXPECT_TRUE(written());
  EXPECT_EQ(finished(submit(make("pass"))).status, TaskStatus::completed);
}

TEST_F(DispatcherTest, GpuUnitsArePreparedOnACpu) {
  options_.lanes = {{Lane::cpu, "emulator", "emulator:0", 1}, {Lane::gpu, "gpu", "cuda:0", 0}};
  open();
  const Task task = finished(submit(make("pass", {"5e0c5c5e-0007", "5e0c5c5e-0008"})));
  EXPECT_EQ(task.status, TaskStatus::completed);
  const Json json = native_task(task);
  ASSERT_EQ(json.at("evaluations").size(), 2U);
  EXPECT_EQ(json.at("evaluations")[0].at("device"), "cuda:0");
  EXPECT_EQ(json.at("evaluations")[0].at("backend").at("name"), "gpu");
  EXPECT_EQ(metrics_.value("ptxbench_screened_total", {{"outcome", "let_through"}}), 1);
}

TEST_F(DispatcherTest, WhatFailsOnTheEmulatorNeverReachesAGpu) {
  options_.lanes = {{Lane::cpu, "emulator", "emulator:0", 1}, {Lane::gpu, "gpu", "cuda:0", 0}};
  open();
  const Task task = finished(submit(make("stop", {"5e0c5c5e-0007", "5e0c5c5e-0008"})));
  EXPECT_EQ(task.status, TaskStatus::completed);
  const Json json = native_task(task);
  ASSERT_EQ(json.at("evaluations").size(), 2U);
  EXPECT_EQ(json.at("evaluations")[1].at("device"), "emulator:0");
  EXPECT_TRUE(json.at("units")[1].at("screened").get<bool>());
  EXPECT_EQ(metrics_.value("ptxbench_screened_total", {{"outcome", "stopped"}}), 1);
  EXPECT_EQ(metrics_.value("ptxbench_units_finished_total", {{"lane", "gpu"}, {"outcome", "done"}}), 0);
}

TEST_F(DispatcherTest, ALostGpuLosesNoTask) {
  options_.worker.environment["FAKE_LOST_GPU"] = (folder_->path() / "lost").string();
  options_.lanes = {
      {Lane::cpu, "emulator", "emulator:0", 1}, {Lane::gpu, "gpu", "cuda:0", 0}, {Lane::gpu, "gpu", "cuda:1", 0}};
  open();
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) ids.push_back(submit(make("sleep 0.1")));
  for (const std::string& id : ids) {
    const Task task = finished(id);
    EXPECT_EQ(task.status, TaskStatus::completed) << task.error;
    EXPECT_EQ(native_task(task).at("evaluations")[0].at("device"), "cuda:0");
  }
  // It is not given a second unit.
  EXPECT_EQ(metrics_.value("ptxbench_unit_retries_total", {{"reason", "error"}}), 1);
  const auto health = dispatcher_->health();
  EXPECT_TRUE(health[1].healthy);
  EXPECT_FALSE(health[2].healthy);
}

TEST_F(DispatcherTest, ADeviceWithSeveralWorkersIsOneDevice) {
  options_.lanes = {{Lane::cpu, "emulator", "emulator:0", 1},
                    {Lane::gpu, "gpu", "cuda:0", 0},
                    {Lane::gpu, "gpu", "cuda:0", 0},
                    {Lane::gpu, "gpu", "cuda:0", 0}};
  open();
  const auto health = dispatcher_->health();
  ASSERT_EQ(health.size(), 2u);
  EXPECT_EQ(health[1].device, "cuda:0");
  EXPECT_TRUE(health[1].healthy);
  // They work at the same time.
  const auto started = std::chrono::steady_clock::now();
  std::vector<std::string> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(submit(make("sleep 1")));
  for (const std::string& id : ids) EXPECT_EQ(finished(id).status, TaskStatus::completed);
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::milliseconds(2900));
}

TEST_F(DispatcherTest, AWorkerThatDiesIdleIsReplaced) {
  open();
  EXPECT_EQ(finished(submit(make("pass"))).status, TaskStatus::completed);
  // The next unit finds a dead worker; that is not the unit's attempt.
  EXPECT_EQ(finished(submit(make("crash_once " + (folder_->path() / "seen").string()))).units[0].attempts, 2U);
  EXPECT_EQ(finished(submit(make("pass"))).units[0].attempts, 1U);
}

TEST_F(DispatcherTest, AWorkerThatCannotStartIsAnErrorAtOnce) {
  options_.worker = {{"/no/such/worker"}, {}};
  open(false);
  const auto started = dispatcher_->start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().kind, ErrorKind::infrastructure);
}

}  // namespace
}  // namespace ptxbench::service
