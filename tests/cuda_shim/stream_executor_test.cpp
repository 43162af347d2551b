#include "cuda_shim/stream_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

#include "cuda_shim/protocol.h"

namespace ptxbench::cuda_shim {
namespace {

using ::testing::ElementsAre;
using namespace std::chrono_literals;

/// A piece of work that holds its stream up until released.
class Gate {
 public:
  StreamExecutor::Work work() {
    return [this] { future_.wait(); };
  }
  void open() { promise_.set_value(); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
};

/// Names in the order in which work ran. Only the executing thread writes.
struct Log {
  std::vector<std::string> names;
  StreamExecutor::Work add(std::string name) {
    return [this, name = std::move(name)] { names.push_back(name); };
  }
};

TEST(StreamExecutor, RunsAStreamInOrder) {
  StreamExecutor executor;
  Log log;
  const uint64_t stream = executor.create_stream(false);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(executor.submit(stream, log.add(name)), 0);
  EXPECT_EQ(executor.synchronize(stream), 0);
  EXPECT_THAT(log.names, ElementsAre("a", "b", "c"));
}

TEST(StreamExecutor, LegacyStreamWaitsForBlockingStreamsAndHoldsThemUp) {
  StreamExecutor executor;
  Log log;
  const uint64_t blocking = executor.create_stream(false), free_running = executor.create_stream(true);
  const uint64_t never = executor.create_event(true);
  const uint64_t other = executor.create_stream(true);
  // A host function keeps the blocking stream busy without occupying the executing thread.
  EXPECT_EQ(executor.host_function(blocking, 1, false), 0);
  EXPECT_EQ(executor.submit(kLegacyStream, log.add("legacy")), 0);
  EXPECT_EQ(executor.submit(blocking, log.add("blocking after legacy")), 0);
  EXPECT_EQ(executor.submit(free_running, log.add("non-blocking")), 0);
  EXPECT_EQ(executor.synchronize(free_running), 0);
  EXPECT_THAT(log.names, ElementsAre("non-blocking"));
  EXPECT_EQ(executor.query(kLegacyStream), cuda_error::kNotReady);
  StreamExecutor::HostFunction function;
  ASSERT_TRUE(executor.next_host_function(function));
  EXPECT_EQ(function.token, 1u);
  EXPECT_EQ(executor.host_function_done(1), 0);
  EXPECT_EQ(executor.synchronize_all(), 0);
  EXPECT_THAT(log.names, ElementsAre("non-blocking", "legacy", "blocking after legacy"));
  EXPECT_EQ(executor.wait_event(other, never), 0);  // an event never recorded does not wait
  EXPECT_EQ(executor.synchronize(other), 0);
}

TEST(StreamExecutor, EventsOrderStreams) {
  StreamExecutor executor;
  Log log;
  const uint64_t first = executor.create_stream(true), second = executor.create_stream(true);
  const uint64_t event = executor.create_event(true);
  EXPECT_EQ(executor.query_event(event), 0);
  EXPECT_EQ(executor.host_function(first, 5, false), 0);
  EXPECT_EQ(executor.submit(first, log.add("producer")), 0);
  EXPECT_EQ(executor.record(event, first), 0);
  EXPECT_EQ(executor.wait_event(second, event), 0);
  EXPECT_EQ(executor.submit(second, log.add("consumer")), 0);
  EXPECT_EQ(executor.query_event(event), cuda_error::kNotReady);
  StreamExecutor::HostFunction function;
  ASSERT_TRUE(executor.next_host_function(function));
  EXPECT_EQ(executor.host_function_done(function.token), 0);
  EXPECT_EQ(executor.synchronize(second), 0);
  EXPECT_THAT(log.names, ElementsAre("producer", "consumer"));
  EXPECT_EQ(executor.synchronize_event(event), 0);
}

TEST(StreamExecutor, MeasuresTimeBetweenEvents) {
  StreamExecutor executor;
  const uint64_t start = executor.create_event(true), end = executor.create_event(true),
                 untimed = executor.create_event(false);
  double milliseconds = 0;
  EXPECT_EQ(executor.elapsed(start, end, milliseconds), cuda_error::kInvalidHandle);  // not recorded
  EXPECT_EQ(executor.record(start, kLegacyStream), 0);
  EXPECT_EQ(executor.submit(kLegacyStream, [] { std::this_thread::sleep_for(20ms); }), 0);
  EXPECT_EQ(executor.record(end, kLegacyStream), 0);
  EXPECT_EQ(executor.record(untimed, kLegacyStream), 0);
  EXPECT_EQ(executor.synchronize(kLegacyStream), 0);
  EXPECT_EQ(executor.elapsed(start, end, milliseconds), 0);
  EXPECT_GE(milliseconds, 20);
  EXPECT_EQ(executor.elapsed(start, untimed, milliseconds), cuda_error::kInvalidHandle);
}

TEST(StreamExecutor, LostContextSkipsWorkAndAnswersItsError) {
  StreamExecutor executor;
  Log log;
  Gate gate;
  EXPECT_EQ(executor.submit(kLegacyStream, gate.work()), 0);
  EXPECT_EQ(executor.submit(kLegacyStream, [&] { executor.lose(cuda_error::kIllegalAddress); }), 0);
  EXPECT_EQ(executor.submit(kLegacyStream, log.add("skipped")), 0);
  gate.open();
  EXPECT_EQ(executor.synchronize_all(), cuda_error::kIllegalAddress);
  EXPECT_EQ(executor.submit_and_wait(kLegacyStream, log.add("refused")), cuda_error::kIllegalAddress);
  executor.lose(cuda_error::kAssert);
  EXPECT_EQ(executor.lost(), cuda_error::kIllegalAddress);
  executor.close(true);
  EXPECT_TRUE(log.names.empty());
}

TEST(StreamExecutor, FinishesOrDropsWorkAtTheEnd) {
  for (const bool finish : {true, false}) {
    Log log;
    Gate gate;
    StreamExecutor executor;
    std::promise<void> started;
    EXPECT_EQ(executor.submit(kLegacyStream, [&] { started.set_value(); }), 0);
    started.get_future().wait();
    EXPECT_EQ(executor.submit(kLegacyStream, gate.work()), 0);
    EXPECT_EQ(executor.host_function(kLegacyStream, 3, false), 0);  // nobody will run it any more
    EXPECT_EQ(executor.submit(kLegacyStream, log.add("last")), 0);
    auto closing = std::async(std::launch::async, [&] { executor.close(finish); });
    std::this_thread::sleep_for(10ms);
    gate.open();
    closing.wait();
    EXPECT_EQ(log.names.size(), finish ? 1u : 0u);
  }
}

TEST(StreamExecutor, DestroyedStreamsFinishTheirWork) {
  StreamExecutor executor;
  Log log;
  Gate gate;
  const uint64_t stream = executor.create_stream(true);
  EXPECT_EQ(executor.submit(stream, gate.work()), 0);
  EXPECT_EQ(executor.submit(stream, log.add("late")), 0);
  EXPECT_EQ(executor.destroy_stream(stream), 0);
  EXPECT_EQ(executor.destroy_stream(stream), cuda_error::kInvalidHandle);
  EXPECT_EQ(executor.submit(stream, log.add("refused")), cuda_error::kInvalidHandle);
  gate.open();
  EXPECT_EQ(executor.synchronize_all(), 0);
  EXPECT_THAT(log.names, ElementsAre("late"));
}

TEST(StreamExecutor, RefusesUnknownHandles) {
  StreamExecutor executor;
  EXPECT_EQ(executor.submit(99, [] {}), cuda_error::kInvalidHandle);
  EXPECT_EQ(executor.synchronize(99), cuda_error::kInvalidHandle);
  EXPECT_EQ(executor.destroy_stream(kLegacyStream), cuda_error::kInvalidHandle);
  EXPECT_EQ(executor.record(99, kLegacyStream), cuda_error::kInvalidHandle);
  EXPECT_EQ(executor.wait_event(kLegacyStream, 99), cuda_error::kInvalidHandle);
  EXPECT_EQ(executor.host_function_done(7), cuda_error::kInvalidValue);
}

TEST(StreamExecutor, BoundsWhatQueuesHold) {
  StreamExecutor executor;
  Gate gate;
  EXPECT_EQ(executor.submit(kLegacyStream, gate.work()), 0);
  std::atomic<int> accepted{0};
  auto greedy = std::async(std::launch::async, [&] {
    for (int i = 0; i < 8; ++i) {
      if (executor.submit(
              kLegacyStream, [] {}, 100ull << 20) == 0)
        ++accepted;
    }
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_LE(accepted.load(), 3);
  gate.open();
  greedy.wait();
  EXPECT_EQ(accepted.load(), 8);
}

/// The place of a piece of work among the streams, seen from inside it.
struct Placed {
  std::shared_ptr<const emulator::StreamOrder> order;
  StreamExecutor::Work work(StreamExecutor& executor) {
    return [this, &executor] { order = executor.running(); };
  }
  bool after(const Placed& other) const { return order->after(other.order->stream, other.order->position); }
};

TEST(StreamExecutor, KnowsWhatWorkComesAfter) {
  StreamExecutor executor;
  const uint64_t one = executor.create_stream(true), two = executor.create_stream(true);
  const uint64_t event = executor.create_event(false);
  Placed before, recorded, later, apart, waiting;
  executor.submit(one, before.work(executor));
  executor.submit(one, recorded.work(executor));
  executor.record(event, one);
  executor.submit(one, later.work(executor));
  executor.submit(two, apart.work(executor));
  executor.wait_event(two, event);
  executor.submit(two, waiting.work(executor));
  executor.synchronize_all();
  EXPECT_TRUE(recorded.after(before));
  EXPECT_FALSE(before.after(recorded));
  EXPECT_FALSE(apart.after(before));
  EXPECT_TRUE(waiting.after(apart));
  EXPECT_TRUE(waiting.after(before));
  EXPECT_TRUE(waiting.after(recorded));
  EXPECT_FALSE(waiting.after(later));
  EXPECT_TRUE(before.order->single_stream);
  EXPECT_FALSE(waiting.order->single_stream);
}

TEST(StreamExecutor, TheHostHandsOnWhatItWaitedFor) {
  StreamExecutor executor;
  const uint64_t one = executor.create_stream(true), two = executor.create_stream(true);
  Placed first, second, third, after_destroyed;
  executor.submit(one, first.work(executor));
  executor.synchronize(one);
  executor.submit(two, second.work(executor));
  EXPECT_EQ(executor.submit_and_wait(one, third.work(executor)), 0);
  EXPECT_TRUE(second.after(first));
  EXPECT_FALSE(third.after(second));
  executor.destroy_stream(two);
  executor.synchronize_all();
  EXPECT_EQ(executor.submit_and_wait(one, after_destroyed.work(executor)), 0);
  EXPECT_TRUE(after_destroyed.after(second));
}

TEST(StreamExecutor, TheLegacyStreamOrdersBlockingStreams) {
  StreamExecutor executor;
  const uint64_t blocking = executor.create_stream(false), other = executor.create_stream(false),
                 apart = executor.create_stream(true);
  Placed first, legacy, second, free_running;
  executor.submit(blocking, first.work(executor));
  executor.submit(kLegacyStream, legacy.work(executor));
  executor.submit(other, second.work(executor));
  executor.submit(apart, free_running.work(executor));
  executor.synchronize_all();
  EXPECT_TRUE(legacy.after(first));
  EXPECT_TRUE(second.after(legacy));
  EXPECT_TRUE(second.after(first));
  EXPECT_FALSE(free_running.after(first));
  EXPECT_FALSE(free_running.after(legacy));
}

TEST(StreamExecutor, ProgrammaticKernelsOverlapTheOneBefore) {
  StreamExecutor executor;
  const uint64_t stream = executor.create_stream(true);
  Placed ancient, primary, dependent, second_dependent, copy, after_copy;
  executor.submit(stream, ancient.work(executor));
  executor.submit_kernel(stream, primary.work(executor), 0, false);
  executor.submit_kernel(stream, dependent.work(executor), 0, true);
  executor.submit_kernel(stream, second_dependent.work(executor), 0, true);
  executor.submit(stream, copy.work(executor));
  executor.submit_kernel(stream, after_copy.work(executor), 0, true);
  executor.synchronize_all();
  EXPECT_TRUE(primary.after(ancient));
  EXPECT_TRUE(dependent.order->programmatic);
  EXPECT_TRUE(dependent.after(ancient));
  EXPECT_FALSE(dependent.after(primary));
  EXPECT_FALSE(second_dependent.after(primary));
  EXPECT_TRUE(copy.after(second_dependent));
  EXPECT_FALSE(after_copy.order->programmatic);
  EXPECT_TRUE(after_copy.after(copy));
}

}  // namespace
}  // namespace ptxbench::cuda_shim
