#include "timeline/schedule.h"

#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "timeline/chrome_trace.h"
#include "trace_checks.h"

namespace ptxbench::timeline {
namespace {

using emulator::AsyncKind;

/// Round figures, so that times can be worked out by hand.
CostModel plain() {
  CostModel model;
  model.instruction = 1;
  model.issue_slot = 1;
  model.global_latency = 500;
  model.global_bytes_per_cycle = 10;
  model.shared_latency = 20;
  model.shared_bytes_per_cycle = 100;
  model.tma_latency = 300;
  model.tma_alone = 20;
  model.tma_bytes_per_cycle = 10;
  model.wgmma_latency = 30;
  model.macs_per_cycle = 2048;
  model.wake = 5;
  model.remote = 100;
  return model;
}

/// Records written by hand.
struct Built {
  LaunchRecord launch;
  ClusterRecord& cluster;

  Built(const Built&) = delete;
  Built& operator=(const Built&) = delete;
  explicit Built(std::uint32_t warps, std::uint32_t ctas = 1) : cluster(launch.clusters.emplace_back()) {
    launch.kernel = "kernel";
    launch.warps_per_cta = warps;
    launch.ctas_per_cluster = ctas;
    cluster.finished = true;
  }
  std::uint32_t gate(Gate::Kind kind, std::uint32_t parts, std::uint32_t previous = kNone) {
    Gate gate;
    gate.kind = kind;
    gate.parts = parts;
    gate.previous = previous;
    cluster.gates.push_back(gate);
    return static_cast<std::uint32_t>(cluster.gates.size() - 1);
  }
  std::uint32_t copy(std::uint64_t bytes, std::vector<std::uint32_t> gates, bool store = false) {
    Operation operation;
    operation.kind = AsyncKind::tensor_copy;
    operation.bytes = bytes;
    operation.store = store;
    operation.gates = std::move(gates);
    cluster.operations.push_back(std::move(operation));
    return static_cast<std::uint32_t>(cluster.operations.size() - 1);
  }
  std::uint32_t product(std::uint32_t n, std::vector<std::uint32_t> gates) {
    Operation operation;
    operation.kind = AsyncKind::wgmma;
    operation.n = n;
    operation.k = 16;
    operation.element_bytes = 2;
    operation.gates = std::move(gates);
    cluster.operations.push_back(std::move(operation));
    return static_cast<std::uint32_t>(cluster.operations.size() - 1);
  }
  Step& step(std::uint32_t warp, Step::Kind kind, std::uint32_t target = kNone, std::uint64_t instructions = 0) {
    Step step;
    step.kind = kind;
    step.warp = warp;
    step.target = target;
    step.before.instructions = instructions;
    if (kind == Step::Kind::issue) cluster.operations[target].cta = warp / launch.warps_per_cta;
    return cluster.steps.emplace_back(step);
  }
  ClusterSchedule run() const {
    ClusterSchedule result = schedule(launch, cluster, plain());
    EXPECT_EQ(fault_of(launch, result), "");
    EXPECT_EQ(fault_of_trace(chrome_trace({launch}, {}, plain())), "");
    return result;
  }
};

const Span& last_wait(const ClusterSchedule& schedule, std::uint32_t warp) {
  for (auto span = schedule.of_warp[warp].rbegin(); span != schedule.of_warp[warp].rend(); ++span) {
    if (span->kind == Span::Kind::wait) return *span;
  }
  ADD_FAILURE() << "warp " << warp << " does not wait";
  static const Span kNothing;
  return kNothing;
}

TEST(Schedule, AWaitEndsWhenTheOtherWarpArrives) {
  Built built(2);
  const auto gate = built.gate(Gate::Kind::mbarrier, 1);
  built.step(0, Step::Kind::arrive, gate, 40);
  built.step(1, Step::Kind::wait, gate, 10);
  const ClusterSchedule result = built.run();
  const Span& wait = last_wait(result, 1);
  EXPECT_DOUBLE_EQ(wait.begin, 10);
  EXPECT_DOUBLE_EQ(wait.end, 45);
  ASSERT_EQ(result.releases.size(), 1);
  EXPECT_FALSE(result.releases[0].by_operation);
  EXPECT_EQ(result.releases[0].source, 0);
}

TEST(Schedule, WhatIsOpenAlreadyIsNotWaitedFor) {
  Built built(2);
  const auto gate = built.gate(Gate::Kind::mbarrier, 1);
  built.step(0, Step::Kind::arrive, gate, 10);
  built.step(1, Step::Kind::wait, gate, 40);
  const ClusterSchedule result = built.run();
  EXPECT_EQ(result.releases.size(), 0);
  EXPECT_DOUBLE_EQ(result.of_warp[1].back().end, 40);
}

TEST(Schedule, CopiesShareTheirEngineAndHideTheirLatency) {
  Built built(1);
  const auto first = built.gate(Gate::Kind::mbarrier, 1), second = built.gate(Gate::Kind::mbarrier, 1);
  built.step(0, Step::Kind::issue, built.copy(1000, {first}));
  built.step(0, Step::Kind::issue, built.copy(6000, {second}));
  built.step(0, Step::Kind::wait, first);
  built.step(0, Step::Kind::wait, second);
  const ClusterSchedule result = built.run();
  EXPECT_DOUBLE_EQ(result.of_operation[0].end, 300 + 50) << "nothing is ahead of it";
  EXPECT_DOUBLE_EQ(result.of_operation[1].end, 100 + 600) << "in the queue behind the first";
  EXPECT_DOUBLE_EQ(last_wait(result, 0).end, 705);
  EXPECT_DOUBLE_EQ(result.copy_bytes, 7000);
}

TEST(Schedule, SourcesAreFreeBeforeAStoreIsComplete) {
  for (const bool reads_only : {false, true}) {
    Built built(1);
    const auto group = built.gate(Gate::Kind::group, 1);
    built.step(0, Step::Kind::issue, built.copy(1000, {group}, true));
    built.step(0, Step::Kind::wait, group).reads_only = reads_only;
    EXPECT_DOUBLE_EQ(last_wait(built.run(), 0).end, reads_only ? 105 : 355);
  }
}

TEST(Schedule, GroupsCompleteInOrder) {
  Built built(1);
  const auto first = built.gate(Gate::Kind::group, 1);
  const auto second = built.gate(Gate::Kind::group, 0, first);
  built.step(0, Step::Kind::issue, built.copy(1000, {first}));
  built.step(0, Step::Kind::wait, second);
  EXPECT_DOUBLE_EQ(last_wait(built.run(), 0).end, 355) << "an empty group is complete when the one before it is";
}

TEST(Schedule, WarpgroupsShareTheTensorCores) {
  Built built(8);
  for (std::uint32_t warp = 0; warp < 8; ++warp) {
    const auto group = built.gate(Gate::Kind::group, 1);
    built.step(warp, Step::Kind::issue, built.product(256, {group}));
    built.step(warp, Step::Kind::wait, group);
  }
  const ClusterSchedule result = built.run();
  // 64 x 256 x 16 products at 2048 a cycle: 128 cycles each.
  EXPECT_DOUBLE_EQ(result.product_cycles, 256);
  for (std::uint32_t warp = 0; warp < 4; ++warp) EXPECT_DOUBLE_EQ(last_wait(result, warp).end, 128 + 30 + 5);
  for (std::uint32_t warp = 4; warp < 8; ++warp) EXPECT_DOUBLE_EQ(last_wait(result, warp).end, 256 + 30 + 5);
}

TEST(Schedule, WhoComesFirstByTheClockIsServedFirst) {
  // In the emulated run warp 0 issued everything before warp 4 began.
  Built built(8);
  for (int round = 0; round < 4; ++round) {
    for (std::uint32_t warp = 0; warp < 4; ++warp) built.step(warp, Step::Kind::issue, built.product(256, {}), 100);
  }
  std::vector<std::uint32_t> late;
  for (std::uint32_t warp = 4; warp < 8; ++warp) {
    late.push_back(built.product(256, {}));
    built.step(warp, Step::Kind::issue, late.back(), 150);
  }
  const ClusterSchedule result = built.run();
  EXPECT_LT(result.of_operation[late[0]].begin, result.of_operation[12].begin);
}

TEST(Schedule, WarpsOfOneSchedulerShareIt) {
  Built alone(1);
  alone.step(0, Step::Kind::exit, kNone, 100);
  EXPECT_DOUBLE_EQ(alone.run().cycles, 100);
  Built four(4);
  for (std::uint32_t warp = 0; warp < 4; ++warp) four.step(warp, Step::Kind::exit, kNone, 100);
  EXPECT_DOUBLE_EQ(four.run().cycles, 100);
  Built five(5);
  for (std::uint32_t warp = 0; warp < 5; ++warp) five.step(warp, Step::Kind::exit, kNone, 100);
  EXPECT_DOUBLE_EQ(five.run().cycles, 200);
}

TEST(Schedule, LoadsCostTheirLatencyOnceAndTheirBytes) {
  Built built(1);
  Step& step = built.step(0, Step::Kind::exit, kNone, 10);
  step.before.global_loads = 4;
  step.before.global_bytes = 512;
  EXPECT_DOUBLE_EQ(built.run().cycles, 51.2 + 500);
}

TEST(Schedule, ArrivalsAtAnotherCtaTakeTheirTime) {
  for (const std::uint32_t cta : {0U, 1U}) {
    Built built(1, 2);
    const auto gate = built.gate(Gate::Kind::mbarrier, 1);
    built.cluster.gates[gate].cta = cta;
    built.step(0, Step::Kind::arrive, gate, 10);
    built.step(1, Step::Kind::wait, gate);
    EXPECT_DOUBLE_EQ(last_wait(built.run(), 1).end, cta == 0 ? 15 : 115);
  }
}

TEST(Schedule, WhatNothingEndsLastsToTheEnd) {
  Built built(2);
  built.cluster.finished = false;
  const auto gate = built.gate(Gate::Kind::mbarrier, 0);
  Step& wait = built.step(0, Step::Kind::wait, gate, 10);
  wait.stays = true;
  built.step(1, Step::Kind::exit, kNone, 500);
  const ClusterSchedule result = schedule(built.launch, built.cluster, plain());
  const Span& span = last_wait(result, 0);
  EXPECT_TRUE(span.unended);
  EXPECT_DOUBLE_EQ(span.end, 500);
  const std::string trace = chrome_trace({built.launch}, {}, plain());
  EXPECT_EQ(fault_of_trace(trace), "");
  EXPECT_NE(trace.find("waited at the end for mbarrier"), std::string::npos) << "it may have been let go later";
  built.launch.fault = emulator::Fault{"sync.deadlock", "nobody arrives", "", {}, {}, 0, 0, 0};
  EXPECT_NE(chrome_trace({built.launch}, {}, plain()).find("waits for ever: mbarrier"), std::string::npos);
}

/// Random records that some run could have left: each wait is for what comes before it.
void fill_randomly(Built& built, unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const std::uint32_t warps = built.launch.warps_per_cta, ctas = built.launch.ctas_per_cluster;
  std::vector<std::uint32_t> open;                         // gates that arrivals may still be added to
  std::vector<std::uint32_t> groups(warps * ctas, kNone);  // last group of each warp
  for (int i = 0; i < 60; ++i) {
    const std::uint32_t warp = below(warps * ctas), instructions = below(200);
    switch (below(4)) {
      case 0: {
        const std::uint32_t gate = built.gate(Gate::Kind::mbarrier, 0);
        built.cluster.gates[gate].cta = below(ctas);
        built.cluster.gates[gate].name = gate;
        open.push_back(gate);
        [[fallthrough]];
      }
      case 1: {
        if (open.empty()) break;
        const std::uint32_t gate = open[below(static_cast<std::uint32_t>(open.size()))];
        ++built.cluster.gates[gate].parts;
        if (below(2) == 0) {
          built.step(warp, Step::Kind::arrive, gate, instructions);
        } else {
          built.step(warp, Step::Kind::issue, built.copy(16 * (1 + below(2000)), {gate}), instructions);
        }
        break;
      }
      case 2: {
        if (open.empty()) break;
        const std::size_t which = below(static_cast<std::uint32_t>(open.size()));
        const std::uint32_t gate = open[which];
        if (built.cluster.gates[gate].parts == 0) break;
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(which));  // complete: nobody arrives any more
        for (std::uint32_t w = 0; w < warps * ctas; ++w) {
          if (below(2) == 0) built.step(w, Step::Kind::wait, gate, below(50));
        }
        break;
      }
      default: {
        const std::uint32_t group = built.gate(Gate::Kind::group, 1, groups[warp]);
        groups[warp] = group;
        built.step(warp, Step::Kind::issue,
                   below(2) == 0 ? built.product(8 * (1 + below(32)), {group}) : built.copy(4096, {group}, true),
                   instructions);
        if (below(2) == 0) built.step(warp, Step::Kind::wait, group, below(20)).reads_only = below(2) == 0;
      }
    }
  }
}

TEST(Schedule, RandomRecordsKeepTheRules) {
  for (unsigned seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    Built built(1 + seed % 6, 1 + seed % 2);
    fill_randomly(built, seed);
    const ClusterSchedule result = built.run();
    const ClusterSchedule again = schedule(built.launch, built.cluster, plain());
    EXPECT_DOUBLE_EQ(result.cycles, again.cycles);
    std::uint64_t instructions = 0;
    for (const Step& step : built.cluster.steps) {
      if (step.warp == 0) instructions += step.before.instructions;
    }
    EXPECT_GE(result.cycles, static_cast<double>(instructions));
    if (HasFailure()) return;
  }
}

TEST(ChromeTrace, BoundsItsEventsAndSaysSo) {
  Built built(4);
  fill_randomly(built, 7);
  TraceOptions options;
  options.most_events = 20;
  const std::string text = chrome_trace({built.launch}, options, plain());
  EXPECT_NE(text.find("events_left_out"), std::string::npos);
  EXPECT_TRUE(base::parse_json(text, "trace"));
}

TEST(ChromeTrace, NamesAreShownAsTheyAre) {
  Built built(1);
  built.launch.kernel = "_Z1kPKf";
  built.step(0, Step::Kind::exit, kNone, 10);
  TraceOptions options;
  options.subject = "a\"b\\c\n\xff";
  const auto json = base::parse_json(chrome_trace({built.launch}, options, plain()), "trace");
  ASSERT_TRUE(json) << json.error().message;
  EXPECT_EQ(json->at("otherData").at("subject").get<std::string>().substr(0, 6), "a\"b\\c\n");
  EXPECT_EQ(json->at("otherData").at("clusters").at(0).at("kernel"), "k");
}

}  // namespace
}  // namespace ptxbench::timeline
