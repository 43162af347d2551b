// What the checker says of itself: where its answer is incomplete, and what is no fault of the kernel's.
#include "checker/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace ptxbench::checker {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

emulator::LaunchEvent launch(uint32_t grid, uint64_t stream = 0) {
  emulator::LaunchEvent event;
  event.launch = 1;
  event.stream = stream;
  for (int d = 0; d < 3; ++d) event.grid[d] = event.block[d] = event.cluster[d] = 1;
  event.grid[0] = grid;
  event.block[0] = 32;
  return event;
}

TEST(Checker, SaysThatStreamsAreNotCompared) {
  Checker checker;
  for (const uint64_t stream : {3, 3, 4}) {
    EXPECT_THAT(checker.unknown(), IsEmpty());
    checker.on_launch_begin(launch(1, stream));
    checker.on_launch_end(launch(1, stream));
  }
  EXPECT_THAT(checker.unknown(), Contains(HasSubstr("several streams")));
}

TEST(Checker, ACopyIsLeftBehindOnlyByThreadsThatExit) {
  for (const bool exits : {false, true}) {
    Checker checker;
    checker.on_launch_begin(launch(1));
    const std::array<emulator::ByteRange, 1> from{{{1 << 20, 64}}}, to{{{2048, 64}}};
    emulator::AsyncIssueEvent copy;
    copy.id = 1;
    copy.agent = {1, 0, 0, 0, 1};
    copy.site = {1, 9};
    copy.kind = emulator::AsyncKind::bulk_copy;
    copy.completion = emulator::Completion::mbarrier;
    copy.completion_target = 1024;
    copy.source_space = emulator::Space::global;
    copy.destination_space = emulator::Space::shared;
    copy.reads = from;
    copy.writes = to;
    checker.on_async_issue(copy);
    if (exits) checker.on_exit({1, 0, 0, 0, 0xffffffffu}, {1, 12});
    checker.on_launch_end(launch(1));
    ASSERT_EQ(checker.findings().size(), exits ? 1u : 0u);
    if (exits) {
      EXPECT_EQ(checker.findings()[0].rule, "async.unfinished");
    }
  }
}

TEST(Checker, ClustersThatAreOverTakeNoMemory) {
  constexpr uint32_t kClusters = 400, kBytes = 64 << 10;
  for (const bool exits : {false, true}) {
    CheckerOptions options;
    options.shadow_bytes = 16 << 20;
    Checker checker(options);
    checker.on_launch_begin(launch(kClusters));
    for (uint32_t cluster = 0; cluster < kClusters; ++cluster) {
      emulator::AccessEvent store;
      store.agent = {1, cluster, 0, 0, 0xffffffffu};
      store.space = emulator::Space::shared;
      store.kind = emulator::AccessKind::write;
      store.bytes = 16;
      std::array<uint64_t, 32> addresses{};
      store.addresses = addresses.data();
      for (uint32_t at = 0; at < kBytes; at += 512) {
        for (uint32_t lane = 0; lane < 32; ++lane) addresses[lane] = 1024 + at + 16 * lane;
        checker.on_access(store);
      }
      if (exits) checker.on_exit(store.agent, {1, 12});
    }
    checker.on_launch_end(launch(kClusters));
    EXPECT_EQ(checker.unknown().empty(), exits);
    EXPECT_THAT(checker.findings(), IsEmpty());
  }
}

}  // namespace
}  // namespace ptxbench::checker
