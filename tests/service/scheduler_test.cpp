#include "service/scheduler.h"

#include <gtest/gtest.h>

namespace ptxbench::service {
namespace {

std::string order(Scheduler& scheduler, double now, Lane lane = Lane::cpu) {
  std::string out;
  while (const auto entry = scheduler.take(lane, now)) out += fmt::format("{}{} ", entry->task, entry->unit);
  return out;
}

TEST(Scheduler, ShortUnitsGoFirstAndEqualOnesInOrder) {
  Scheduler scheduler;
  scheduler.add({"long", 0, Lane::cpu, 50, 0});
  scheduler.add({"b", 0, Lane::cpu, 2, 0});
  scheduler.add({"c", 0, Lane::cpu, 2, 0});
  scheduler.add({"short", 0, Lane::cpu, 1, 0});
  EXPECT_EQ(order(scheduler, 0), "short0 b0 c0 long0 ");
}

TEST(Scheduler, ATaskOfManyUnitsSharesWithLaterOnes) {
  Scheduler scheduler;
  for (int i = 0; i < 4; ++i) scheduler.add({"many", i, Lane::cpu, 10, 0});
  scheduler.add({"one", 0, Lane::cpu, 10, 1});
  // Its first unit comes first; then it has been given 10 seconds and the other task none.
  EXPECT_EQ(order(scheduler, 1), "many0 one0 many1 many2 many3 ");
}

TEST(Scheduler, NothingStarves) {
  Scheduler scheduler;
  scheduler.add({"long", 0, Lane::cpu, 100, 0});
  for (int second = 0; second < 200; ++second) {
    scheduler.add({fmt::format("s{}", second), 0, Lane::cpu, 1, static_cast<double>(second)});
    const auto next = scheduler.take(Lane::cpu, second);
    ASSERT_TRUE(next);
    if (next->task == "long") {
      EXPECT_GT(second, 90);
      EXPECT_LT(second, 105);
      return;
    }
  }
  FAIL() << "the long unit never ran";
}

TEST(Scheduler, LanesAreApart) {
  Scheduler scheduler;
  scheduler.add({"a", 0, Lane::cpu, 1, 0});
  scheduler.add({"a", 1, Lane::gpu, 3, 0});
  EXPECT_EQ(scheduler.size(Lane::gpu), 1U);
  EXPECT_EQ(scheduler.backlog(Lane::gpu), 3);
  EXPECT_EQ(order(scheduler, 0, Lane::gpu), "a1 ");
  EXPECT_FALSE(scheduler.take(Lane::gpu, 0));
  EXPECT_EQ(order(scheduler, 0), "a0 ");
}

TEST(Scheduler, RemovedTasksLeaveNothing) {
  Scheduler scheduler;
  scheduler.add({"a", 0, Lane::cpu, 1, 0});
  scheduler.add({"b", 0, Lane::cpu, 1, 0});
  scheduler.add({"a", 1, Lane::cpu, 1, 0});
  scheduler.remove("a");
  EXPECT_EQ(scheduler.size(), 1U);
  EXPECT_EQ(order(scheduler, 0), "b0 ");
}

}  // namespace
}  // namespace ptxbench::service
