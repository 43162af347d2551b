// What the checker says of itself: where its answer is incomplete, and what is no fault of the kernel's.
#include "checker/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>

namespace ptxbench::checker {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
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

/// Launches and copies at places in streams. What a test says nothing of is unordered.
class Streams : public testing::Test {
 protected:
  explicit Streams(CheckerOptions options = {}) : checker_(std::move(options)) {}

  emulator::StreamOrder order(uint64_t stream, emulator::StreamPositions before = {}) {
    emulator::StreamOrder result;
    result.process = 1;
    result.stream = stream;
    result.position = ++positions_[stream];
    result.own_before = result.position - 1;
    result.before = std::move(before);
    result.single_stream = false;
    return result;
  }
  void access(emulator::AccessKind kind, uint64_t address, emulator::Semantics semantics = emulator::Semantics::weak,
              uint32_t lane = 0) {
    emulator::AccessEvent event;
    event.agent = {launch_.launch, 0, 0, 0, 1u << lane};
    event.site = {1, ++sites_};
    event.space = emulator::Space::global;
    event.kind = kind;
    event.semantics = semantics;
    event.scope = semantics == emulator::Semantics::weak ? emulator::Scope::none : emulator::Scope::gpu;
    event.bytes = 4;
    std::array<uint64_t, 32> addresses{};
    addresses[lane] = address;
    event.addresses = addresses.data();
    checker_.on_access(event);
  }
  void wait_for_dependencies() {
    emulator::BarrierEvent event;
    event.agent = {launch_.launch, 0, 0, 0, 1};
    event.kind = emulator::BarrierKind::grid_dependency;
    event.action = emulator::BarrierAction::wait_end;
    checker_.on_barrier(event);
  }
  template <class Body>
  void kernel(const emulator::StreamOrder& place, const Body& body) {
    launch_ = launch(1, place.stream);
    launch_.order = &place;
    checker_.on_launch_begin(launch_);
    body();
    checker_.on_launch_end(launch_);
  }
  void write(const emulator::StreamOrder& place, uint64_t address = kAddress) {
    kernel(place, [&] { access(emulator::AccessKind::write, address); });
  }
  void read(const emulator::StreamOrder& place, uint64_t address = kAddress) {
    kernel(place, [&] { access(emulator::AccessKind::read, address); });
  }
  void copy(const emulator::StreamOrder& place, uint64_t from, uint64_t to) {
    const emulator::StreamCopyEvent::Range source{from, 64}, destination{to, 64};
    emulator::StreamCopyEvent event;
    event.what = "a copy";
    event.order = &place;
    event.reads = {&source, 1};
    event.writes = {&destination, 1};
    checker_.on_stream_copy(event);
  }
  std::vector<std::string> rules() const {
    std::vector<std::string> result;
    for (const Finding& finding : checker_.findings()) result.push_back(finding.rule);
    return result;
  }

  static constexpr uint64_t kAddress = 1ull << 40;
  Checker checker_;
  emulator::LaunchEvent launch_;
  std::map<uint64_t, uint64_t> positions_;
  uint32_t sites_ = 0;
};

TEST_F(Streams, KernelsThatNothingOrdersRace) {
  write(order(1));
  read(order(1));
  EXPECT_THAT(rules(), IsEmpty());
  read(order(2, {{1, 1}}));
  EXPECT_THAT(rules(), IsEmpty());
  read(order(2), kAddress + 4);
  EXPECT_THAT(rules(), IsEmpty());
  read(order(3));
  EXPECT_THAT(rules(), ElementsAre("race.stream"));
  // The reads of streams 1 and 2 are not ordered before this write, the write and the read of stream 3 are.
  write(order(4, {{1, 1}, {3, 1}}));
  EXPECT_THAT(rules(), ElementsAre("race.stream", "race.stream", "race.stream"));
  EXPECT_THAT(checker_.unknown(), IsEmpty());
}

TEST_F(Streams, CopiesCount) {
  copy(order(1), kAddress, kAddress + 4096);
  read(order(2));
  EXPECT_THAT(rules(), IsEmpty());
  read(order(3), kAddress + 4096 + 60);
  EXPECT_THAT(rules(), ElementsAre("race.stream"));
  copy(order(4), kAddress + 8192, kAddress + 64);
  EXPECT_EQ(rules().size(), 1u);
  copy(order(5), kAddress + 4096, kAddress + 16384);
  EXPECT_EQ(rules().size(), 2u);
}

TEST_F(Streams, ProcessesHaveNothingInCommon) {
  write(order(1));
  emulator::StreamOrder other = order(2);
  other.process = 2;
  read(other);
  EXPECT_THAT(rules(), IsEmpty());
}

TEST_F(Streams, StrongAccessesHandOver) {
  using emulator::Semantics;
  kernel(order(1), [&] {
    access(emulator::AccessKind::write, kAddress);
    access(emulator::AccessKind::write, kAddress + 128, Semantics::release);
  });
  kernel(order(2), [&] {
    access(emulator::AccessKind::read, kAddress + 128, Semantics::acquire);
    access(emulator::AccessKind::read, kAddress);
  });
  EXPECT_THAT(rules(), IsEmpty());
  kernel(order(3), [&] { access(emulator::AccessKind::read, kAddress); });
  EXPECT_THAT(rules(), ElementsAre("race.stream"));
}

TEST_F(Streams, TheWaitOfADependentLaunchIsTheThreads) {
  write(order(1));
  emulator::StreamOrder dependent = order(1);
  dependent.programmatic = true;
  dependent.own_before = 0;
  kernel(dependent, [&] {
    wait_for_dependencies();
    access(emulator::AccessKind::read, kAddress);
  });
  EXPECT_THAT(rules(), IsEmpty());
  dependent = order(1);
  dependent.programmatic = true;
  dependent.own_before = 1;
  kernel(dependent, [&] { access(emulator::AccessKind::read, kAddress); });
  EXPECT_THAT(rules(), IsEmpty());
  dependent = order(1);
  dependent.programmatic = true;
  dependent.own_before = 0;
  kernel(dependent, [&] {
    wait_for_dependencies();
    access(emulator::AccessKind::read, kAddress, emulator::Semantics::weak, 1);
  });
  // Two kernels lie in between that had waited themselves.
  EXPECT_THAT(rules(), IsEmpty());
  write(order(1));
  dependent = order(1);
  dependent.programmatic = true;
  dependent.own_before = dependent.position - 2;
  kernel(dependent, [&] {
    wait_for_dependencies();
    access(emulator::AccessKind::read, kAddress, emulator::Semantics::weak, 1);
  });
  EXPECT_THAT(rules(), ElementsAre("race.dependent-launch"));
}

class ManyStreams : public Streams {
 protected:
  static CheckerOptions small() {
    CheckerOptions options;
    options.shadow_bytes = 1 << 20;
    return options;
  }
  ManyStreams() : Streams(small()) {}
  /// Touches 4 KiB of its own.
  void work(const emulator::StreamOrder& place, uint64_t number) {
    kernel(place, [&] {
      for (uint64_t at = 0; at < 4096; at += 32) access(emulator::AccessKind::write, kAddress + number * 4096 + at);
    });
  }
};

TEST_F(ManyStreams, WhatIsNoLongerComparedIsSaid) {
  // Everything comes after what was dropped.
  for (uint64_t i = 0; i < 200; ++i) work(order(1), i);
  EXPECT_THAT(checker_.unknown(), IsEmpty());
  for (uint64_t i = 0; i < 200; ++i) work(order(2 + i, {{1, 200}}), 200 + i);
  EXPECT_THAT(checker_.unknown(), Contains(HasSubstr("too much work was in flight")));
  EXPECT_THAT(rules(), IsEmpty());
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
