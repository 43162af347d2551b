// Executors that are not there, do not start, die, or say nothing: a stand-in shell script plays them.

#include "gpu/executor_process.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/files.h"
#include "gpu/lane.h"

namespace ptxbench::gpu {
namespace {

using namespace std::chrono_literals;

class Executors : public testing::Test {
 protected:
  void SetUp() override {
    auto folder = base::TempDir::create("executor-test");
    ASSERT_TRUE(folder.has_value());
    folder_ = std::make_unique<base::TempDir>(std::move(*folder));
  }
  void TearDown() override { ::unsetenv("PTXBENCH_EXECUTOR"); }

  /// A program that runs `script` in Python with the channel as `channel`.
  void play(const std::string& script) {
    const auto path = folder_->path() / "executor";
    std::ofstream(path) << "#!/usr/bin/env python3\nimport json, os, socket, sys, time\n"
                           "channel = socket.socket(fileno=int(sys.argv[2]))\n"
                        << script;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    ::setenv("PTXBENCH_EXECUTOR", path.c_str(), 1);
  }
  static constexpr const char* kReady =
      "channel.send(json.dumps({'ready': True, 'socket': '/x', 'device': {'name': 'stand-in'}}).encode())\n";

  std::unique_ptr<base::TempDir> folder_;
};

TEST_F(Executors, AnswersRequests) {
  play(std::string(kReady) +
       "while True:\n"
       "  request = json.loads(channel.recv(100000))\n"
       "  channel.send(json.dumps({'ok': request['op'] == 'good', 'error': 'bad request', 'input': True}).encode())\n");
  auto executor = ExecutorProcess::start({0, nullptr, {}});
  ASSERT_TRUE(executor.has_value()) << executor.error().message;
  EXPECT_TRUE((*executor)->request({{"op", "good"}}, 10s).has_value());
  EXPECT_EQ((*executor)->device().at("name"), "stand-in");
  EXPECT_EQ((*executor)->socket(), "/x");
  const auto bad = (*executor)->request({{"op", "bad"}}, 10s);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().kind, ErrorKind::input);
  EXPECT_EQ(bad.error().message, "bad request");
}

TEST_F(Executors, SaysWhyItDoesNotStart) {
  play("channel.send(json.dumps({'ready': False, 'error': 'no CUDA driver on this machine'}).encode())\n");
  auto executor = ExecutorProcess::start({0, nullptr, {}});
  ASSERT_TRUE(executor.has_value());
  const auto ready = (*executor)->await_ready();
  ASSERT_FALSE(ready.has_value());
  EXPECT_EQ(ready.error().kind, ErrorKind::infrastructure);
  EXPECT_EQ(ready.error().message, "no CUDA driver on this machine");
}

TEST_F(Executors, DeathAtTheStartIsAnInfrastructureErrorWithItsLastWords) {
  play("sys.exit('out of luck')\n");
  auto executor = ExecutorProcess::start({3, nullptr, {}});
  ASSERT_TRUE(executor.has_value());
  const auto ready = (*executor)->await_ready();
  ASSERT_FALSE(ready.has_value());
  EXPECT_EQ(ready.error().kind, ErrorKind::infrastructure);
  EXPECT_NE(ready.error().message.find("GPU 3"), std::string::npos) << ready.error().message;
  EXPECT_NE(ready.error().message.find("out of luck"), std::string::npos) << ready.error().message;
}

TEST_F(Executors, DeathAmidARequestIsNoticedAtOnce) {
  play(std::string(kReady) + "channel.recv(100000)\nos.kill(os.getpid(), 9)\n");
  auto executor = ExecutorProcess::start({0, nullptr, {}});
  ASSERT_TRUE(executor.has_value());
  const auto started = std::chrono::steady_clock::now();
  const auto reply = (*executor)->request({{"op", "x"}}, 60s);
  ASSERT_FALSE(reply.has_value());
  EXPECT_EQ(reply.error().kind, ErrorKind::infrastructure);
  EXPECT_NE(reply.error().message.find("signal 9"), std::string::npos) << reply.error().message;
  EXPECT_LT(std::chrono::steady_clock::now() - started, 30s);
}

TEST_F(Executors, SilenceEndsIt) {
  play(std::string(kReady) + "time.sleep(1000)\n");
  auto executor = ExecutorProcess::start({0, nullptr, {}});
  ASSERT_TRUE(executor.has_value());
  const auto reply = (*executor)->request({{"op", "x"}}, 300ms);
  ASSERT_FALSE(reply.has_value());
  EXPECT_NE(reply.error().message.find("no answer"), std::string::npos) << reply.error().message;
}

TEST_F(Executors, APlanIsAskedForAheadAndAnsweredBeforeTheFirstRequest) {
  play(std::string(kReady) +
       "plan = json.loads(channel.recv(100000))\n"
       "channel.send(json.dumps({'ok': False, 'error': 'no such library'}).encode())\n"
       "request = json.loads(channel.recv(100000))\n"
       "channel.send(json.dumps({'ok': True, 'asked': [plan['op'], plan['baseline'], request['op']]}).encode())\n"
       "channel.recv(100000)\n");
  auto executor = ExecutorProcess::start({0, {{"kind", "gemm"}}, {}});
  ASSERT_TRUE(executor.has_value());
  const auto reply = (*executor)->request({{"op", "prepare"}}, 10s);
  ASSERT_TRUE(reply.has_value()) << reply.error().message;
  EXPECT_EQ(reply->at("asked").dump(), R"(["plan",{"kind":"gemm"},"prepare"])");
}

TEST_F(Executors, RunsUnderATool) {
  const auto mark = folder_->path() / "mark";
  play(std::string(kReady) + "channel.recv(100000)\n");
  auto executor = ExecutorProcess::start(
      {0, nullptr, {"/usr/bin/env", "-S", "/bin/sh -c 'echo under >" + mark.string() + "; exec \"$@\"' sh"}});
  ASSERT_TRUE(executor.has_value());
  ASSERT_TRUE((*executor)->await_ready().has_value());
  (*executor)->finish(10s);
  EXPECT_EQ(base::read_file(mark).value_or(""), "under\n");
}

TEST_F(Executors, ARetiredOneEndsWithoutAnybodyWaiting) {
  play(std::string(kReady) + "time.sleep(60)\n");
  const auto started = std::chrono::steady_clock::now();
  {
    Lane lane(0);
    for (int i = 0; i < 12; ++i) {
      auto taken = lane.take(false, nullptr);
      ASSERT_TRUE(taken.has_value());
      ASSERT_TRUE((*taken)->await_ready().has_value());
      lane.retire(std::move(*taken));
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, 30s);
}

TEST_F(Executors, ALaneStartsTheNextAhead) {
  const auto marks = folder_->path() / "marks";
  play("open('" + marks.string() + "', 'a').write('x')\n" + kReady + "channel.recv(100000)\n");
  const auto count = [&] {
    const auto text = base::read_file(marks);
    return text ? text->size() : 0;
  };
  Lane lane(0);
  auto first = lane.take(true, nullptr);
  ASSERT_TRUE(first.has_value());
  ASSERT_TRUE((*first)->await_ready().has_value());
  for (int i = 0; i < 500 && count() < 2; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(count(), 2u);
  auto second = lane.take(false, nullptr);
  ASSERT_TRUE(second.has_value());
  ASSERT_TRUE((*second)->await_ready().has_value());
  EXPECT_EQ(count(), 2u);
  // One that has seen no candidate serves the next.
  lane.put_back(std::move(*second));
  auto third = lane.take(false, nullptr);
  ASSERT_TRUE(third.has_value());
  ASSERT_TRUE((*third)->await_ready().has_value());
  EXPECT_EQ(count(), 2u);
}

TEST(GpuLane, MemoryThatFitsIsUsedAgain) {
  Lane lane(0);
  auto first = lane.take_memory(1 << 20);
  ASSERT_TRUE(first.has_value());
  const auto* where = (*first)->view().data();
  (*first)->view()[5] = std::byte{1};
  lane.return_memory(std::move(*first));
  auto larger = lane.take_memory(3 << 20);
  ASSERT_TRUE(larger.has_value());
  EXPECT_NE((*larger)->view().data(), where);
  auto small = lane.take_memory(1 << 10);  // not what is a thousand times too big
  ASSERT_TRUE(small.has_value());
  EXPECT_NE((*small)->view().data(), where);
  auto again = lane.take_memory((1 << 20) - 100);
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ((*again)->view().data(), where);
}

TEST(GpuTurn, IsOneForAllProcesses) {
  auto folder = base::TempDir::create("turn-test");
  ASSERT_TRUE(folder.has_value());
  ::setenv("PTXBENCH_CACHE", folder->path().c_str(), 1);
  Turn mine(0), theirs(0), another(1);
  ::unsetenv("PTXBENCH_CACHE");
  ASSERT_TRUE(mine.is_shared());
  // Two descriptors of one file stand for two processes: the lock belongs to the open file.
  const std::unique_lock held(mine);
  const std::unique_lock elsewhere(another);
  std::atomic<bool> got = false;
  std::jthread waits([&] {
    const std::unique_lock waiting(theirs);
    got = true;
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_FALSE(got);
  mine.unlock();
  waits.join();
  EXPECT_TRUE(got);
  mine.lock();
}

TEST(Executor, WithoutADriverTheRealOneSaysSo) {
  if (has_gpu()) GTEST_SKIP() << "this machine has a GPU";
  if (!find_executor()) GTEST_SKIP() << find_executor().error().message;
  // Also when a request for it lies in the channel already.
  for (const base::Json& baseline : {base::Json(), base::Json{{"kind", "gemm"}}}) {
    auto executor = ExecutorProcess::start({0, baseline, {}});
    ASSERT_TRUE(executor.has_value());
    const auto ready = (*executor)->await_ready();
    ASSERT_FALSE(ready.has_value());
    EXPECT_NE(ready.error().message.find("no CUDA driver"), std::string::npos) << ready.error().message;
  }
}

}  // namespace
}  // namespace ptxbench::gpu
