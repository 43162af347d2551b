#include "timeline/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "emulator/device.h"
#include "timeline/chrome_trace.h"
#include "timeline/schedule.h"
#include "trace_checks.h"

namespace ptxbench::timeline {
namespace {

using emulator::CompletionPolicy;

struct Recorded {
  std::vector<LaunchRecord> launches;
  emulator::LaunchReport report;
  std::uint64_t left_out = 0;
  std::optional<std::uint32_t> missed_fault;
};

/// Waits of a warp that took time, by the kind of what was waited for.
std::vector<Span> waits_of(const LaunchRecord& launch, std::uint32_t warp, Gate::Kind kind) {
  static std::vector<ClusterSchedule> kept;  // spans point into it
  kept.push_back(schedule(launch, launch.clusters.at(0)));
  std::vector<Span> waits;
  for (const Span& span : kept.back().of_warp.at(warp)) {
    if (span.kind == Span::Kind::wait && span.target != kNone && launch.clusters[0].gates[span.target].kind == kind) {
      waits.push_back(span);
    }
  }
  return waits;
}

struct How {
  CompletionPolicy policy = CompletionPolicy::eager;
  std::uint32_t grid = 1, block = 64, cluster = 0;
  unsigned threads = 1, launches = 1;
  RecorderOptions recorder;
};

/// Runs entry `k(.param .u64 p)`, p a buffer of 64 KiB.
Recorded record(const std::string& body, const How& how = {}) {
  const std::string ptx =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
      "  .reg .b64 %rd<16>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .pred %q<8>;\n"
      "  .shared .align 1024 .b8 tile[4096];\n  .shared .align 8 .b64 full;\n"
      "  ld.param.u64 %rd0, [p];\n  mov.u32 %r1, %tid.x;\n  setp.ne.u32 %q0, %r1, 0;\n" +
      body + "  ret;\n}\n";
  Recorded result;
  emulator::DeviceOptions options;
  options.threads = how.threads;
  options.completion = how.policy;
  options.instruction_budget = 10'000'000;
  auto recording = Recording::start(std::move(options), how.recorder);
  EXPECT_TRUE(recording) << recording.error().message;
  emulator::Device& device = (*recording)->device();
  const auto module = device.load_ptx(ptx, "test.ptx");
  EXPECT_TRUE(module) << (module ? "" : module.error().message);
  if (!module) return result;
  const auto buffer = device.memory().allocate(1 << 16, emulator::AllocationKind::device, "p");
  emulator::LaunchRequest request;
  request.function = *device.find_kernel(*module, "k");
  request.grid[0] = how.grid;
  request.block[0] = how.block;
  if (how.cluster != 0) {
    request.cluster[0] = how.cluster;
    request.cluster[1] = request.cluster[2] = 1;
  }
  request.parameters.resize(8);
  std::memcpy(request.parameters.data(), &*buffer, 8);
  for (unsigned i = 0; i < how.launches; ++i) {
    auto report = device.launch(request);
    EXPECT_TRUE(report) << (report ? "" : report.error().message);
    if (!report) break;
    (*recording)->recorder().add(*report);
    result.report = std::move(*report);
  }
  result.left_out = (*recording)->recorder().launches_left_out();
  result.missed_fault = (*recording)->recorder().missed_fault();
  result.launches = (*recording)->recorder().take();
  for (const LaunchRecord& launch : result.launches) {
    for (const ClusterRecord& cluster : launch.clusters) EXPECT_EQ(fault_of(launch, schedule(launch, cluster)), "");
  }
  EXPECT_EQ(fault_of_trace(chrome_trace(result.launches)), "");
  return result;
}

std::uint64_t instructions_of(const ClusterRecord& cluster) {
  std::uint64_t sum = 0;
  for (const Step& step : cluster.steps) sum += step.before.instructions;
  return sum;
}

/// Thread 0 has 4096 bytes copied to shared memory; all threads wait for them.
const std::string kCopy =
    "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 1;\n  fence.proxy.async.shared::cta;\n"
    "MET:\n  bar.sync 0;\n  @%q0 bra WAIT;\n"
    "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 4096;\n"
    "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], 4096, [full];\n"
    "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT;\n";

TEST(Recorder, CountsEveryInstructionOfStraightCode) {
  const Recorded result = record("  add.u32 %r2, %r1, 1;\n  add.u32 %r3, %r2, 1;\n  st.global.u32 [%rd0], %r3;\n");
  ASSERT_EQ(result.launches.size(), 1);
  ASSERT_EQ(result.launches[0].clusters.size(), 1);
  const ClusterRecord& cluster = result.launches[0].clusters[0];
  EXPECT_TRUE(cluster.finished);
  EXPECT_EQ(instructions_of(cluster), result.report.warp_instructions);
  EXPECT_EQ(cluster.steps.back().before.global_bytes, 128);
  EXPECT_EQ(cluster.steps.back().before.global_loads, 0);
}

TEST(Recorder, WaitsForACopyUnderEveryPolicy) {
  std::vector<double> cycles;
  for (const auto policy : {CompletionPolicy::eager, CompletionPolicy::lazy, CompletionPolicy::random}) {
    How how;
    how.policy = policy;
    const Recorded result = record(kCopy, how);
    ASSERT_EQ(result.launches.size(), 1);
    const LaunchRecord& launch = result.launches[0];
    ASSERT_EQ(launch.clusters.size(), 1);
    const ClusterRecord& cluster = launch.clusters[0];
    ASSERT_EQ(cluster.operations.size(), 1);
    EXPECT_EQ(cluster.operations[0].bytes, 4096);
    EXPECT_EQ(cluster.operations[0].kind, emulator::AsyncKind::bulk_copy);
    ASSERT_EQ(cluster.operations[0].gates.size(), 1);
    const Gate& gate = cluster.gates[cluster.operations[0].gates[0]];
    EXPECT_EQ(gate.kind, Gate::Kind::mbarrier);
    EXPECT_EQ(gate.bytes, 4096);
    EXPECT_EQ(gate.arrivals, 1);
    const ClusterSchedule timed = schedule(launch, cluster);
    for (std::uint32_t warp = 0; warp < 2; ++warp) {
      const auto waits = std::count_if(timed.of_warp[warp].begin(), timed.of_warp[warp].end(), [&](const Span& span) {
        return span.kind == Span::Kind::wait && span.target == cluster.operations[0].gates[0];
      });
      EXPECT_EQ(waits, 1) << "warp " << warp;
    }
    cycles.push_back(timed.cycles);
  }
  // How the emulator completed the copy is no matter: what the warps executed while they waited does not count.
  EXPECT_DOUBLE_EQ(cycles[0], cycles[1]);
  EXPECT_DOUBLE_EQ(cycles[0], cycles[2]);
}

TEST(Recorder, TellsTheLineOfEachPlace) {
  const Recorded result = record(kCopy);
  ASSERT_EQ(result.launches.size(), 1);
  const auto& places = result.launches[0].places;
  const auto& operation = result.launches[0].clusters[0].operations[0];
  ASSERT_TRUE(places.contains(operation.site));
  EXPECT_NE(places.at(operation.site).instruction.find("cp.async.bulk"), std::string::npos);
  EXPECT_EQ(places.at(operation.site).kernel, "k");
}

TEST(Recorder, GroupsOfProducts) {
  const Recorded result = record(
      // Descriptor: the tile, 128 and 256 bytes between its matrices of 8 by 8.
      "  mov.u32 %r2, tile;\n  shr.u32 %r2, %r2, 4;\n  cvt.u64.u32 %rd1, %r2;\n  or.b64 %rd1, %rd1, 0x1000080000;\n"
      "  wgmma.fence.sync.aligned;\n"
      "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0,%f1,%f2,%f3}, %rd1, %rd1, 0, 1, 1, 0, 0;\n"
      "  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 0;\n",
      {.block = 128, .recorder = {}});
  ASSERT_EQ(result.launches.size(), 1);
  ASSERT_FALSE(result.report.fault) << result.report.fault->message;
  const LaunchRecord& launch = result.launches[0];
  const ClusterRecord& cluster = launch.clusters[0];
  ASSERT_EQ(cluster.operations.size(), 4);
  EXPECT_EQ(cluster.operations[0].n, 8);
  EXPECT_EQ(cluster.operations[0].k, 16);
  EXPECT_EQ(cluster.operations[0].element_bytes, 2);
  const ClusterSchedule timed = schedule(launch, cluster);
  // Reading the operands, 64 x 16 and 8 x 16 of two bytes, takes longer than the products.
  EXPECT_DOUBLE_EQ(timed.product_cycles, (64 + 8) * 32 / 128.0);
}

TEST(Recorder, KeepsTheClustersAskedFor) {
  How how;
  how.grid = 12;
  how.recorder.clusters = {3, 7};
  for (const unsigned threads : {1U, 3U}) {
    how.threads = threads;
    const Recorded result = record(kCopy, how);
    ASSERT_EQ(result.launches.size(), 1);
    ASSERT_EQ(result.launches[0].clusters.size(), 2);
    EXPECT_EQ(result.launches[0].clusters[0].index, 3);
    EXPECT_EQ(result.launches[0].clusters[1].index, 7);
    EXPECT_EQ(result.launches[0].clusters_run, 12);
  }
}

TEST(Recorder, NamesTheClusterThatFaultedUnseen) {
  // Block 5 stores far outside of the buffer.
  const std::string body =
      "  mov.u32 %r4, %ctaid.x;\n  setp.ne.u32 %q2, %r4, 5;\n  @%q2 bra DONE;\n  add.u64 %rd1, %rd0, 1000000;\n"
      "  st.global.u32 [%rd1], %r4;\nDONE:\n";
  How how;
  how.grid = 8;
  const Recorded unseen = record(body, how);
  ASSERT_TRUE(unseen.report.fault);
  EXPECT_EQ(unseen.missed_fault, 5);
  EXPECT_EQ(chrome_trace(unseen.launches).find("memory.out-of-bounds"), std::string::npos)
      << "cluster 0 has no fault to show";
  how.recorder.clusters = {0, 5};
  const Recorded result = record(body, how);
  EXPECT_FALSE(result.missed_fault);
  ASSERT_EQ(result.launches.size(), 1);
  ASSERT_EQ(result.launches[0].clusters.size(), 2);
  EXPECT_EQ(result.launches[0].faulted_cluster, 5);
  EXPECT_TRUE(result.launches[0].clusters[0].finished);
  EXPECT_FALSE(result.launches[0].clusters[1].finished);
  const std::string trace = chrome_trace(result.launches);
  const std::size_t mark = trace.find("memory.out-of-bounds");
  ASSERT_NE(mark, std::string::npos);
  EXPECT_EQ(trace.find("memory.out-of-bounds", mark + 1), std::string::npos) << "one mark, where it happened";
}

TEST(Recorder, AFaultElsewhereIsNoDeadlock) {
  // Warp 1 stores out of bounds while warp 0 waits at a barrier that both have reached.
  const Recorded result = record(
      "  st.global.u32 [%rd0], %r1;\n  bar.sync 0;\n  setp.lt.u32 %q2, %r1, 32;\n  @%q2 bra DONE;\n"
      "  add.u64 %rd1, %rd0, 1000000;\n  st.global.u32 [%rd1], %r1;\nDONE:\n  bar.sync 1;\n");
  ASSERT_TRUE(result.report.fault);
  const std::string trace = chrome_trace(result.launches);
  EXPECT_EQ(trace.find("waits for ever"), std::string::npos);
  EXPECT_NE(trace.find("memory.out-of-bounds"), std::string::npos);
  // What the warp executed up to its fault is there.
  const LaunchRecord& launch = result.launches.at(0);
  const ClusterSchedule timed = schedule(launch, launch.clusters.at(0));
  EXPECT_FALSE(timed.of_warp[1].empty());
  EXPECT_GT(timed.cycles, 0);
}

TEST(Recorder, ShowsWhoWaitsForEver) {
  // Nobody arrives.
  const std::string body =
      "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 1;\nMET:\n  bar.sync 0;\n"
      "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT;\n";
  const Recorded result = record(body);
  ASSERT_TRUE(result.report.fault);
  ASSERT_EQ(result.launches.size(), 1);
  ASSERT_EQ(result.launches[0].clusters.size(), 1);
  const LaunchRecord& launch = result.launches[0];
  EXPECT_FALSE(launch.clusters[0].finished);
  const ClusterSchedule timed = schedule(launch, launch.clusters[0]);
  for (std::uint32_t warp = 0; warp < 2; ++warp) {
    ASSERT_FALSE(timed.of_warp[warp].empty());
    EXPECT_TRUE(timed.of_warp[warp].back().unended) << "warp " << warp;
  }
  // A barrier that one warp never reaches.
  const Recorded barrier =
      record("  setp.lt.u32 %q2, %r1, 32;\n  @%q2 bra DONE;\n  bar.sync 1, 64;\nDONE:\n  bar.sync 2;\n");
  ASSERT_TRUE(barrier.report.fault);
  const std::string trace = chrome_trace(barrier.launches);
  EXPECT_NE(trace.find("waits for ever: barrier 1"), std::string::npos);
}

TEST(Recorder, ClustersOfSeveralCtas) {
  const std::string body =
      "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 2;\n  fence.mbarrier_init.release.cluster;\n"
      "MET:\n  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n  @%q0 bra WAIT;\n"
      "  mov.u32 %r5, full;\n  mapa.shared::cluster.u32 %r6, %r5, 0;\n"
      "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n"
      "  mapa.shared::cluster.u32 %r6, %r5, 1;\n"
      "  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n"
      "WAIT:\n  mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT;\n"
      "  barrier.cluster.arrive.release.aligned;\n  barrier.cluster.wait.acquire.aligned;\n";
  How how;
  how.grid = 2;
  how.cluster = 2;
  const Recorded result = record(body, how);
  ASSERT_FALSE(result.report.fault) << result.report.fault->message;
  ASSERT_EQ(result.launches.size(), 1);
  const LaunchRecord& launch = result.launches[0];
  EXPECT_EQ(launch.ctas_per_cluster, 2);
  ASSERT_EQ(launch.clusters.size(), 1);
  EXPECT_TRUE(launch.clusters[0].finished);
  const std::string trace = chrome_trace(result.launches);
  EXPECT_NE(trace.find("CTA 1 warp 0"), std::string::npos);
  EXPECT_NE(trace.find("wait cluster barrier"), std::string::npos);
}

TEST(Recorder, BoundsWhatItKeeps) {
  How how;
  how.launches = 5;
  how.recorder.launches = 2;
  how.recorder.most_of_cluster = 4;
  const Recorded result = record(kCopy, how);
  EXPECT_EQ(result.launches.size(), 2);
  EXPECT_EQ(result.left_out, 3);
  const ClusterRecord& cluster = result.launches[0].clusters[0];
  EXPECT_TRUE(cluster.truncated);
  EXPECT_LE(cluster.steps.size() + cluster.gates.size() + cluster.operations.size(), 6);
  const std::string trace = chrome_trace(result.launches);
  EXPECT_NE(trace.find("(its beginning)"), std::string::npos);
}

/// Each thread copies 16 bytes of its own.
const std::string kSmallCopies =
    "  mul.wide.u32 %rd1, %r1, 16;\n  add.u64 %rd1, %rd1, %rd0;\n  shl.b32 %r2, %r1, 4;\n  mov.u32 %r3, tile;\n"
    "  add.u32 %r2, %r2, %r3;\n";

TEST(Recorder, GroupsOfCopiesThatOnlySomeLanesMake) {
  // Lanes 16 to 31 copy, all commit and wait.
  for (const bool all : {true, false}) {
    const Recorded result = record(kSmallCopies + "  and.b32 %r4, %r1, 16;\n  setp.ne.u32 %q1, %r4, 0;\n" +
                                   (all ? "" : "  @%q1 ") + "  cp.async.cg.shared.global [%r2], [%rd1], 16;\n" +
                                   "  cp.async.commit_group;\n  cp.async.wait_group 0;\n");
    ASSERT_FALSE(result.report.fault) << result.report.fault->message;
    const auto waits = waits_of(result.launches.at(0), 0, Gate::Kind::group);
    ASSERT_EQ(waits.size(), 1) << all;
    EXPECT_GT(waits[0].end - waits[0].begin, CostModel().tma_latency / 2);
  }
}

TEST(Recorder, WaitAllWaitsForWhatIsNotCommitted) {
  for (const auto policy : {CompletionPolicy::eager, CompletionPolicy::lazy}) {
    How how;
    how.policy = policy;
    const Recorded result =
        record(kSmallCopies + "  cp.async.cg.shared.global [%r2], [%rd1], 16;\n  cp.async.wait_all;\n", how);
    EXPECT_EQ(waits_of(result.launches.at(0), 0, Gate::Kind::group).size(), 1);
  }
}

TEST(Recorder, EachWaitAllWaitsForItsOwnCopies) {
  std::string body = kSmallCopies;
  for (int i = 0; i < 3; ++i) body += "  cp.async.cg.shared.global [%r2], [%rd1], 16;\n  cp.async.wait_all;\n";
  const Recorded result = record(body);
  const auto waits = waits_of(result.launches.at(0), 0, Gate::Kind::group);
  ASSERT_EQ(waits.size(), 3);
  for (const Span& wait : waits) EXPECT_GT(wait.end - wait.begin, CostModel().tma_latency / 2);
  // A group that is open is not waited for by wait_group.
  const Recorded open = record(kSmallCopies +
                               "  cp.async.commit_group;\n  cp.async.cg.shared.global [%r2], [%rd1], 16;\n"
                               "  cp.async.wait_group 0;\n");
  EXPECT_EQ(waits_of(open.launches.at(0), 0, Gate::Kind::group).size(), 0);
}

TEST(Recorder, ArrivalsAfterCopiesAreBounded) {
  How how;
  how.block = 32;
  how.recorder.most_of_cluster = 1000;
  const Recorded result =
      record("  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 32;\nMET:\n  bar.sync 0;\n" + kSmallCopies +
                 "  cp.async.cg.shared.global [%r2], [%rd1], 16;\n  mov.u32 %r2, 0;\nAGAIN:\n"
                 "  cp.async.mbarrier.arrive.noinc.shared.b64 [full];\n  add.u32 %r2, %r2, 1;\n"
                 "  setp.lt.u32 %q1, %r2, 5000;\n  @%q1 bra AGAIN;\n",
             how);
  const ClusterRecord& cluster = result.launches.at(0).clusters.at(0);
  EXPECT_TRUE(cluster.truncated);
  EXPECT_LE(cluster.gates.size(), 1001);
}

TEST(Recorder, WorkBeforeAFaultIsShownWhereItStopped) {
  const std::string work = [] {
    std::string text = "  ld.global.u32 %r4, [%rd0];\n";
    for (int i = 0; i < 4000; ++i) text += "  add.u32 %r2, %r2, %r4;\n";
    return text + "  st.global.u32 [%rd0], %r2;\n  add.u64 %rd1, %rd0, 1000000;\n  st.global.u32 [%rd1], %r2;\n";
  }();
  const std::string init = "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 1;\nMET:\n  bar.sync 0;\n";
  const std::string bodies[] = {
      // A question in passing, some lanes gone, other lanes at a barrier.
      init + "  mbarrier.test_wait.parity.shared::cta.b64 %q1, [full], 0;\n" + work,
      init + "  @%q0 ret;\n" + work,
      init + "  @!%q0 bra WORK;\n  bar.sync 1, 64;\n  ret;\nWORK:\n" + work,
  };
  for (const std::string& body : bodies) {
    const Recorded result = record(body);
    ASSERT_TRUE(result.report.fault);
    ASSERT_EQ(result.report.fault->rule, "memory.out-of-bounds");
    const LaunchRecord& launch = result.launches.at(0);
    const ClusterSchedule timed = schedule(launch, launch.clusters.at(0));
    EXPECT_GT(timed.cycles, 4000);
    const std::string trace = chrome_trace(result.launches);
    EXPECT_EQ(trace.find("waited at the end for mbarrier"), std::string::npos);
    EXPECT_EQ(trace.find("waits for ever"), std::string::npos);
  }
}

TEST(Recorder, APhaseThatDoesNotCompleteIsNotDrawnAsComplete) {
  // Two arrivals are expected, one comes.
  const Recorded result = record(
      "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 2;\nMET:\n  bar.sync 0;\n  @%q0 bra WAIT;\n"
      "  mbarrier.arrive.shared::cta.b64 _, [full];\n"
      "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT;\n");
  ASSERT_TRUE(result.report.fault);
  EXPECT_NE(chrome_trace(result.launches).find("phase 0 does not complete"), std::string::npos);
}

TEST(Recorder, SourcesOfAStoreAreFreeBeforeItIsComplete) {
  const Recorded result = record(
      "  @%q0 bra DONE;\n  cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 4096;\n"
      "  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group.read 0;\nDONE:\n");
  ASSERT_FALSE(result.report.fault) << result.report.fault->message;
  const auto waits = waits_of(result.launches.at(0), 0, Gate::Kind::group);
  ASSERT_EQ(waits.size(), 1);
  EXPECT_LT(waits[0].end - waits[0].begin, CostModel().tma_latency);
}

TEST(Recorder, AnArrivalAfterCopiesComesAfterThem) {
  std::vector<double> ends;
  for (const auto policy : {CompletionPolicy::eager, CompletionPolicy::lazy}) {
    How how;
    how.policy = policy;
    const Recorded result = record(
        "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 64;\nMET:\n  bar.sync 0;\n" + kSmallCopies +
            "  cp.async.cg.shared.global [%r2], [%rd1], 16;\n  cp.async.mbarrier.arrive.noinc.shared.b64 [full];\n"
            "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT;\n",
        how);
    ASSERT_FALSE(result.report.fault) << result.report.fault->message;
    const auto waits = waits_of(result.launches.at(0), 0, Gate::Kind::mbarrier);
    ASSERT_EQ(waits.size(), 1);
    EXPECT_GT(waits[0].end - waits[0].begin, CostModel().tma_latency / 2);
    ends.push_back(waits[0].end);
  }
  EXPECT_NEAR(ends[0], ends[1], 30);
}

TEST(Recorder, AskingInPassingIsNoWaiting) {
  // 4,000 instructions, with or without a question in between whose answer is not waited for.
  std::string work;
  for (int i = 0; i < 4000; ++i) work += "  add.u32 %r2, %r2, %r1;\n";
  const std::string init = "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 1;\nMET:\n  bar.sync 0;\n";
  const Recorded plain = record(init + work + "  bar.sync 0;\n");
  const Recorded asked =
      record(init + work + "  mbarrier.test_wait.parity.shared::cta.b64 %q1, [full], 0;\n  bar.sync 0;\n");
  const auto cycles = [](const Recorded& one) {
    return schedule(one.launches.at(0), one.launches[0].clusters.at(0)).cycles;
  };
  EXPECT_GT(cycles(plain), 4000);
  EXPECT_NEAR(cycles(asked), cycles(plain), 50);
}

TEST(Recorder, EmptyGroupsTakeNoMemory) {
  const Recorded result = record(
      "  mov.u32 %r2, 0;\nAGAIN:\n  cp.async.commit_group;\n  add.u32 %r2, %r2, 1;\n  setp.lt.u32 %q1, %r2, 20000;\n"
      "  @%q1 bra AGAIN;\n");
  EXPECT_EQ(result.launches.at(0).clusters.at(0).gates.size(), 0);
}

TEST(Recorder, WhatIsCutOffIsNotCalledWaiting) {
  // Warps 0 and 1 meet 100 times; warp 0 then waits for a warp that does not come.
  How how;
  how.recorder.most_of_cluster = 60;
  const Recorded result = record(
      "  mov.u32 %r2, 0;\nAGAIN:\n  bar.sync 0;\n  add.u32 %r2, %r2, 1;\n  setp.lt.u32 %q1, %r2, 100;\n"
      "  @%q1 bra AGAIN;\n  setp.ge.u32 %q2, %r1, 32;\n  @%q2 bra DONE;\n  bar.sync 3, 64;\nDONE:\n  bar.sync 4;\n",
      how);
  ASSERT_TRUE(result.report.fault);
  EXPECT_TRUE(result.launches.at(0).clusters.at(0).truncated);
  EXPECT_EQ(chrome_trace(result.launches).find("waits for ever"), std::string::npos);
}

TEST(Recorder, ForgetsARunThatBeginsAgain) {
  Recorder recorder;
  recorder.on_launch_begin({});
  recorder.on_launch_end({});
  recorder.add({});
  recorder.clear();
  EXPECT_TRUE(recorder.take().empty());
}

TEST(Recorder, AnMbarrierThatIsMadeAgainStartsAnew) {
  const std::string body =
      kCopy +
      "  bar.sync 0;\n  @%q0 bra OVER;\n  mbarrier.inval.shared::cta.b64 [full];\n"
      "  mbarrier.init.shared::cta.b64 [full], 1;\n  fence.proxy.async.shared::cta;\nOVER:\n  bar.sync 0;\n"
      "  @%q0 bra WAIT2;\n  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 2048;\n"
      "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd0], 2048, [full];\n"
      "WAIT2:\n  mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT2;\n";
  const Recorded result = record(body);
  ASSERT_FALSE(result.report.fault) << result.report.fault->message;
  const ClusterRecord& cluster = result.launches[0].clusters[0];
  ASSERT_EQ(cluster.operations.size(), 2);
  ASSERT_EQ(cluster.operations[1].gates.size(), 1);
  EXPECT_NE(cluster.operations[0].gates[0], cluster.operations[1].gates[0]);
  EXPECT_EQ(cluster.gates[cluster.operations[1].gates[0]].bytes, 2048);
}

}  // namespace
}  // namespace ptxbench::timeline
