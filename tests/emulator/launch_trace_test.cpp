#include "emulator/launch_trace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <tuple>

#include "emulator/device.h"
#include "spy.h"

/// Runs under a second policy that are compared with the first one instead of being watched.
namespace ptxbench::emulator {
namespace {

TEST(WrittenBytes, AreWhatWasAdded) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    WrittenBytes parts[2];
    std::set<uint64_t> expected;
    for (int i = 0; i < 60; ++i) {
      const uint64_t address = 0x7f0000000000 + random() % 12000, bytes = 1 + random() % 300;
      parts[random() % 2].add(address, bytes);
      for (uint64_t b = 0; b < bytes; ++b) expected.insert(address + b);
    }
    parts[0].absorb(std::move(parts[1]));
    std::set<uint64_t> found;
    uint64_t last = 0;
    for (const ByteRange& range : parts[0].ranges()) {
      EXPECT_GT(range.address, last) << "neighbours are joined";
      last = range.address + range.bytes;
      for (uint64_t b = 0; b < range.bytes; ++b) found.insert(range.address + b);
    }
    EXPECT_EQ(found, expected);
  }
}

/// A kernel in which each block of one warp loads 128 bytes by a bulk copy; %r9 is then its word of them, %rd2 the
/// address of the thread's own word of the output.
std::string kernel(const std::string& while_copying, const std::string& afterwards) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
         "  .reg .b64 %rd<16>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .pred %q<8>;\n"
         "  .shared .align 128 .b8 tile[128];\n  .shared .align 8 .b64 full;\n"
         "  ld.param.u64 %rd0, [p];\n  mov.u32 %r1, %laneid;\n  mov.u32 %r3, %ctaid.x;\n"
         "  setp.ne.u32 %q0, %r1, 0;\n  mul.wide.u32 %rd1, %r3, 128;\n  add.u64 %rd1, %rd0, %rd1;\n"
         "  mul.wide.u32 %rd2, %r1, 4;\n  add.u64 %rd2, %rd2, %rd1;\n  add.u64 %rd2, %rd2, 32768;\n"
         "  @%q0 bra MET;\n  mbarrier.init.shared::cta.b64 [full], 1;\n  fence.proxy.async.shared::cta;\n"
         "MET:\n  bar.sync 0;\n  @%q0 bra WAIT;\n"
         "  mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 128;\n"
         "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 128, [full];\n" +
         while_copying +
         "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT;\n"
         "  shl.b32 %r7, %r1, 2;\n  mov.u32 %r8, tile;\n  add.u32 %r8, %r8, %r7;\n  ld.shared.u32 %r9, [%r8];\n" +
         afterwards + "  ret;\n}\n";
}

constexpr uint32_t kBytes = 65536, kCtas = 64;

struct Outcome {
  unsigned proved = 0, shared = 0, accesses = 0;
  std::multiset<std::string> rules;
  std::vector<std::byte> memory;
  LaunchEvent launch;
};

Outcome run(const std::string& ptx, CompletionPolicy policy, const std::shared_ptr<TraceStore>& traces,
            uint32_t value = 5, unsigned threads = 2, uint32_t ctas = kCtas, uint32_t block = 32) {
  Outcome outcome;
  Spy spy;
  DeviceOptions options;
  options.observer = &spy;
  options.threads = threads;
  options.completion = policy;
  options.definedness = DefinednessMode::watch;
  options.traces = traces;
  auto device = Device::create(options);
  EXPECT_TRUE(device);
  auto module = (*device)->load_ptx(ptx, "k.ptx");
  EXPECT_TRUE(module) << module.error().message << "\n" << ptx;
  if (!module) return outcome;
  const uint64_t data = *(*device)->memory().allocate(kBytes, AllocationKind::device, "data");
  (void)(*device)->fill(data, value, 4, kBytes / 8);
  spy.checker().watch_output("out", data + 32768, uint64_t{ctas} * 128, 4);
  LaunchRequest request;
  request.function = *(*device)->find_kernel(*module, "k");
  request.grid[0] = ctas;
  request.block[0] = block;
  request.parameters.resize(8);
  std::memcpy(request.parameters.data(), &data, 8);
  auto report = (*device)->launch(request);
  EXPECT_TRUE(report) << report.error().message;
  if (report && report->fault) ADD_FAILURE() << report->fault->message;
  spy.checker().finish_outputs();
  EXPECT_FALSE((*device)->met_undefined());
  outcome.proved = spy.proved;
  outcome.shared = spy.shared;
  outcome.accesses = spy.accesses;
  for (const auto& finding : spy.checker().findings()) outcome.rules.insert(finding.rule);
  outcome.memory.resize(kBytes);
  (void)(*device)->read(data, outcome.memory);
  outcome.launch = spy.launch;
  return outcome;
}

constexpr const char* kStore = "  st.global.u32 [%rd2], %r9;\n";

TEST(LaunchTrace, AnotherPolicyIsComparedNotWatched) {
  const auto traces = std::make_shared<TraceStore>();
  const std::string ptx = kernel("", kStore);
  const Outcome first = run(ptx, CompletionPolicy::eager, traces);
  EXPECT_EQ(first.shared, 1u);
  for (const CompletionPolicy policy : {CompletionPolicy::lazy, CompletionPolicy::random}) {
    const Outcome again = run(ptx, policy, traces);
    EXPECT_EQ(again.proved, 1u);
    EXPECT_EQ(again.shared, 0u);
    // Outputs count as written, too.
    EXPECT_EQ(again.rules, first.rules);
    EXPECT_EQ(again.memory, first.memory);
  }
  EXPECT_TRUE(first.rules.empty());
}

TEST(LaunchTrace, WhatDependsOnThePolicyIsWatched) {
  // Another word is written if the copy was complete at once.
  const std::string ptx = kernel(
      "  mbarrier.test_wait.parity.shared::cta.b64 %q2, [full], 0;\n  selp.u64 %rd3, 16384, 16388, %q2;\n"
      "  add.u64 %rd3, %rd3, %rd2;\n  st.global.u32 [%rd3], %r3;\n",
      kStore);
  const auto traces = std::make_shared<TraceStore>();
  (void)run(ptx, CompletionPolicy::eager, traces);
  const Outcome lazy = run(ptx, CompletionPolicy::lazy, traces), alone = run(ptx, CompletionPolicy::lazy, nullptr);
  EXPECT_EQ(lazy.proved, 0u);
  EXPECT_EQ(lazy.shared, 1u);
  EXPECT_EQ(lazy.memory, alone.memory);
  EXPECT_EQ(run(ptx, CompletionPolicy::eager, traces).proved, 1u);
}

TEST(LaunchTrace, AValueThatDependsOnThePolicyIsSeen) {
  // What the thread stores tells whether the copy was complete; its accesses do not.
  const std::string ptx = kernel(
      "  mbarrier.test_wait.parity.shared::cta.b64 %q2, [full], 0;\n  selp.u32 %r10, 1, 2, %q2;\n"
      "  st.global.u32 [%rd2+16384], %r10;\n",
      kStore);
  const auto traces = std::make_shared<TraceStore>();
  const Outcome first = run(ptx, CompletionPolicy::eager, traces);
  const Outcome lazy = run(ptx, CompletionPolicy::lazy, traces);
  EXPECT_EQ(lazy.proved, 0u);
  EXPECT_NE(lazy.memory, first.memory);
  EXPECT_EQ(lazy.memory, run(ptx, CompletionPolicy::lazy, nullptr).memory);
}

TEST(LaunchTrace, OfALaunchWithFindingsNothingIsKept) {
  // All blocks write one word.
  const std::string ptx = kernel("", std::string(kStore) + "  st.global.u32 [%rd0+49152], %r3;\n");
  const auto traces = std::make_shared<TraceStore>();
  const Outcome first = run(ptx, CompletionPolicy::eager, traces);
  EXPECT_EQ(first.rules.count("race.global"), 1u);
  const Outcome lazy = run(ptx, CompletionPolicy::lazy, traces);
  EXPECT_EQ(lazy.proved, 0u);
  EXPECT_EQ(lazy.rules, first.rules);
}

TEST(LaunchTrace, StrongAccessesAreWatched) {
  const std::string ptx = kernel("", std::string(kStore) + "  ld.volatile.shared.u32 %r10, [tile];\n");
  const auto traces = std::make_shared<TraceStore>();
  (void)run(ptx, CompletionPolicy::eager, traces);
  EXPECT_EQ(run(ptx, CompletionPolicy::lazy, traces).proved, 0u);
}

/// Enough products that it is worth not to form them again; %f0 holds one of their sums.
std::string products(const std::string& afterwards) {
  return kernel("",
                "  mov.u32 %r20, 32;\n  mov.b32 %f0, 0;\n  mov.b32 %f1, 0;\n  mov.b32 %f2, 0;\n"
                "  mov.b32 %f3, 0;\nAGAIN:\n"
                "  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f0,%f1,%f2,%f3}, {%r9,%r9,%r9,%r9}, "
                "{%r9,%r9}, {%f0,%f1,%f2,%f3};\n"
                "  sub.u32 %r20, %r20, 1;\n  setp.ne.u32 %q3, %r20, 0;\n  @%q3 bra AGAIN;\n" +
                    afterwards);
}

std::shared_ptr<const LaunchTrace> trace_of(const TraceStore& traces, const LaunchEvent& launch) {
  return traces.find(launch.launch, digest_shape(launch, 0, {}));
}

TEST(LaunchTrace, ProductsThatAreOnlyStoredAreNotFormedAgain) {
  const std::string ptx = products("  mul.f32 %f0, %f0, 0f3f000000;\n  st.global.f32 [%rd2], %f0;\n");
  const uint32_t ones = 0x3f803f80;
  const auto traces = std::make_shared<TraceStore>(size_t{1} << 20, 1'000'000);
  const Outcome first = run(ptx, CompletionPolicy::eager, traces, ones);
  const auto trace = trace_of(*traces, first.launch);
  ASSERT_NE(trace, nullptr);
  EXPECT_TRUE(trace->has_results);
  const Outcome again = run(ptx, CompletionPolicy::lazy, traces, ones);
  EXPECT_EQ(again.proved, 1u);
  EXPECT_EQ(again.memory, first.memory);
  // With other inputs they are.
  const Outcome other = run(ptx, CompletionPolicy::lazy, traces, 0x40004000);
  EXPECT_EQ(other.proved, 1u);
  EXPECT_EQ(other.memory, run(ptx, CompletionPolicy::lazy, nullptr, 0x40004000).memory);
  EXPECT_NE(other.memory, first.memory);
}

TEST(LaunchTrace, ProductsThatDecideSomethingAreFormedAgain) {
  const char* decisions[] = {
      "  setp.gt.f32 %q4, %f0, 0f00000000;\n  @%q4 st.global.f32 [%rd2], %f0;\n",
      "  cvt.rzi.u32.f32 %r21, %f0;\n  and.b32 %r21, %r21, 31;\n  mul.wide.u32 %rd4, %r21, 0;\n"
      "  add.u64 %rd4, %rd4, %rd2;\n  st.global.f32 [%rd4], %f0;\n",
      "  st.shared.f32 [%r8], %f0;\n  bar.sync 0;\n  ld.shared.u32 %r21, [%r8];\n  setp.eq.u32 %q4, %r21, 77;\n"
      "  @%q4 bra WAIT;\n  st.global.f32 [%rd2], %f0;\n",
  };
  for (const char* decision : decisions) {
    SCOPED_TRACE(decision);
    const std::string ptx = products(decision);
    const auto traces = std::make_shared<TraceStore>(size_t{1} << 20, 1'000'000);
    const Outcome first = run(ptx, CompletionPolicy::eager, traces, 0x3f803f80);
    const auto trace = trace_of(*traces, first.launch);
    ASSERT_NE(trace, nullptr);
    EXPECT_FALSE(trace->stores_products_only);
    const Outcome again = run(ptx, CompletionPolicy::lazy, traces, 0x3f803f80);
    EXPECT_EQ(again.proved, 1u);
    EXPECT_EQ(again.memory, first.memory);
  }
}

// --- clusters of one kind

TEST(Kinds, OneOfEachIsWatched) {
  // Every eighth block does something else, and everything is right.
  const std::string ptx = kernel("", std::string(kStore) +
                                         "  and.b32 %r10, %r3, 7;\n  setp.ne.u32 %q2, %r10, 3;\n  @%q2 exit;\n"
                                         "  bar.sync 0;\n  st.shared.u32 [%r8], %r1;\n");
  const Outcome all = run(ptx, CompletionPolicy::eager, nullptr);
  EXPECT_EQ(all.proved, 1u);
  EXPECT_EQ(all.shared, 1u);
  EXPECT_TRUE(all.rules.empty());
  EXPECT_EQ(all.accesses, 2u * 2 + 1) << "two blocks of 64 are watched";
  uint32_t word = 0;
  for (uint32_t i = 0; i < kCtas * 32; ++i) {
    std::memcpy(&word, all.memory.data() + 32768 + size_t{i} * 4, 4);
    ASSERT_EQ(word, 5u) << i << ": what all blocks wrote is there";
  }
}

// Long enough that a copy of memory is worth it.
constexpr const char* kStoreAndLinger =
    "  st.global.u32 [%rd2], %r9;\n  mov.u32 %r10, 0;\nMORE:\n  add.u32 %r10, %r10, 1;\n"
    "  setp.ne.u32 %q2, %r10, 200;\n  @%q2 bra MORE;\n";
constexpr const char* kWait = "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n  @!%q1 bra WAIT;\n";

std::string kernel_that_waits(const std::string& wait) {
  std::string ptx = kernel("", kStoreAndLinger);
  return ptx.replace(ptx.find(kWait), std::strlen(kWait), wait);
}

TEST(Kinds, SomeOfEachStandForAllUnderAnotherPolicy) {
  constexpr uint32_t kMany = 200;
  const auto run_many = [](CompletionPolicy policy, const std::shared_ptr<TraceStore>& traces, uint32_t value = 5) {
    return run(kernel_that_waits(kWait), policy, traces, value, 2, kMany);
  };
  const auto traces = std::make_shared<TraceStore>();
  const Outcome first = run_many(CompletionPolicy::eager, traces);
  const auto trace = trace_of(*traces, first.launch);
  ASSERT_NE(trace, nullptr);
  ASSERT_TRUE(trace->has_results);
  ASSERT_EQ(trace->examples.size(), kMany / 8);
  EXPECT_EQ(trace->examples.front(), 0u);
  EXPECT_EQ(trace->examples.back(), kMany - 1);
  for (const CompletionPolicy policy : {CompletionPolicy::lazy, CompletionPolicy::random}) {
    const Outcome again = run_many(policy, traces);
    EXPECT_EQ(again.proved, 1u);
    EXPECT_EQ(again.rules, first.rules);
    EXPECT_EQ(again.memory, first.memory);
  }
  // What the others leave behind is what they left then: here something else, to see that.
  auto& contents = const_cast<LaunchTrace&>(*trace).contents;
  const auto is_example = [&](uint32_t cta) {
    return std::binary_search(trace->examples.begin(), trace->examples.end(), cta);
  };
  uint32_t other = 0;
  while (is_example(other)) ++other;
  contents[size_t{other} * 128] ^= std::byte{1};
  EXPECT_NE(run_many(CompletionPolicy::lazy, traces).memory, first.memory);
  // From other memory all of them run.
  EXPECT_EQ(run_many(CompletionPolicy::lazy, traces, 6).memory, run_many(CompletionPolicy::lazy, nullptr, 6).memory);
  // An example that stores something else takes it all back.
  contents[0] ^= std::byte{1};
  const Outcome watched = run_many(CompletionPolicy::lazy, traces);
  EXPECT_EQ(watched.memory, first.memory);
}

TEST(Kinds, WhatSeesHowLongItWaitedRunsInFull) {
  const std::string ask = "mbarrier.try_wait.parity.shared::cta.b64 %q1, [full], 0;\n";
  const std::string test = "mbarrier.test_wait.parity.shared::cta.b64 %q1, [full], 0;\n";
  const std::tuple<const char*, std::string, bool> waits[] = {
      {"as nvcc writes it", "WAIT:\n" + ask + "selp.u32 %r21, 1, 0, %q1;\nsetp.eq.s32 %q3, %r21, 0;\n@%q3 bra WAIT;\n",
       false},
      {"as people write it", "WAIT:\n" + ask + "@%q1 bra DONE;\nbra WAIT;\nDONE:\n", false},
      {"with a pause", "WAIT:\n" + ask + "@%q1 bra DONE;\nnanosleep.u32 20;\nbra.uni WAIT;\nDONE:\n", false},
      {"the address computed each time",
       "WAIT:\nmov.u32 %r20, full;\nadd.u32 %r20, %r20, 0;\n"
       "mbarrier.test_wait.parity.shared::cta.b64 %q1, [%r20], 0;\n@!%q1 bra WAIT;\n",
       false},
      {"once only", "WAIT:\n" + test, true},
      {"or something else", "WAIT:\n" + test + "setp.eq.u32 %q3, %r3, 77;\nor.pred %q1, %q1, %q3;\n@!%q1 bra WAIT;\n",
       true},
      {"counting", "WAIT:\n" + ask + "add.u32 %r3, %r3, 1;\n@!%q1 bra WAIT;\n", true},
      {"guarded", "WAIT:\n" + ask + "@!%q1 mov.u32 %r20, 1;\n@!%q1 bra WAIT;\n", true},
      {"leaving when it fails, here never", "WAIT:\n" + ask + "@!%q1 bra OUT;\nbra ON;\nOUT:\nexit;\nON:\n", true},
      {"a clock", "WAIT:\n" + ask + "@!%q1 bra WAIT;\nmov.u32 %r20, %clock;\n", true},
      {"a carry", "WAIT:\n" + ask + "addc.u32 %r20, %r3, 0;\n@!%q1 bra WAIT;\n", true},
      {"constants that only look different",
       "WAIT:\n" + ask + "selp.s32 %r21, -1, 0, %q1;\nsetp.eq.s32 %q3, %r21, 4294967295;\n@!%q3 bra WAIT;\n", true},
      {"the barrier's word", "WAIT:\n" + ask + "@!%q1 bra WAIT;\nld.shared.b64 %rd9, [full];\n", true},
      {"a mask of lanes", "WAIT:\n" + ask + "@!%q1 bra WAIT;\nactivemask.b32 %r20;\n", true},
  };
  for (const auto& [name, wait, leaves_trace] : waits) {
    SCOPED_TRACE(name);
    const std::string ptx = kernel_that_waits(wait);
    const auto traces = std::make_shared<TraceStore>();
    const Outcome first = run(ptx, CompletionPolicy::eager, traces);
    const auto trace = trace_of(*traces, first.launch);
    ASSERT_NE(trace, nullptr) << testing::PrintToString(first.rules);
    EXPECT_EQ(trace->examples.empty(), leaves_trace);
    for (const CompletionPolicy policy : {CompletionPolicy::lazy, CompletionPolicy::random}) {
      const Outcome together = run(ptx, policy, traces), alone = run(ptx, policy, nullptr);
      EXPECT_EQ(together.rules, alone.rules);
      EXPECT_EQ(together.memory, alone.memory);
    }
  }
}

TEST(Kinds, WarpsThatTakeOtherTurnsAreNotInLockstep) {
  // Warps 0 and 1 linger for more than a turn, block 7 the other way round than all others; warp 2 lingers longer than
  // both, and whatever happens afterwards happens at the same count of instructions.
  const std::string ptx =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
      "  .reg .b64 %rd<16>; .reg .b32 %r<32>; .reg .pred %q<8>;\n  .shared .align 8 .b64 met;\n"
      "  ld.param.u64 %rd0, [p];\n  mov.u32 %r1, %laneid;\n  mov.u32 %r3, %ctaid.x;\n  mov.u32 %r4, %tid.x;\n"
      "  shr.u32 %r4, %r4, 5;\n  setp.ne.u32 %q0, %r1, 0;\n  setp.ne.u32 %q1, %r4, 0;\n"
      "  or.pred %q2, %q0, %q1;\n  @%q2 bra BEGIN;\n  mbarrier.init.shared::cta.b64 [met], 1;\nBEGIN:\n"
      "  bar.sync 0;\n  setp.eq.u32 %q6, %r4, 2;\n  @%q6 bra LONGER;\n  bar.sync 2, 64;\n"
      "  mov.u32 %r10, 60000;\nBOTH:\n  sub.u32 %r10, %r10, 1;\n  setp.ne.u32 %q3, %r10, 0;\n  @%q3 bra BOTH;\n"
      "  setp.eq.u32 %q4, %r3, 7;\n  xor.pred %q4, %q4, %q1;\n  selp.u32 %r10, 100000, 1, %q4;\n"
      "LINGER:\n  sub.u32 %r10, %r10, 1;\n  setp.ne.u32 %q3, %r10, 0;\n  @%q3 bra LINGER;\n"
      "WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %q5, [met], 0;\n  @!%q5 bra WAIT;\n  @%q1 exit;\n"
      "  mad.lo.u32 %r6, %r3, 32, %r1;\n  mul.wide.u32 %rd1, %r6, 4;\n  add.u64 %rd1, %rd1, %rd0;\n"
      "  st.global.u32 [%rd1+32768], %r1;\n  exit;\n"
      "LONGER:\n  mov.u32 %r10, 500000;\nSPIN:\n  sub.u32 %r10, %r10, 1;\n  setp.ne.u32 %q3, %r10, 0;\n"
      "  @%q3 bra SPIN;\n  @%q0 exit;\n  mbarrier.arrive.shared::cta.b64 _, [met];\n  ret;\n}\n";
  const auto traces = std::make_shared<TraceStore>();
  const Outcome outcome = run(ptx, CompletionPolicy::eager, traces, 5, 2, 12, 96);
  EXPECT_TRUE(outcome.rules.empty()) << testing::PrintToString(outcome.rules);
  const auto trace = trace_of(*traces, outcome.launch);
  ASSERT_NE(trace, nullptr);
  EXPECT_EQ(trace->examples.size(), 4u + 1);
  EXPECT_TRUE(std::binary_search(trace->examples.begin(), trace->examples.end(), 7u));
}

struct Odd {
  const char* name;
  const char* body;
  const char* rule;
};

TEST(Kinds, TheOddOneIsFound) {
  // Block 37 of 64 does what the others do not.
  const Odd odd[] = {
      {"a race in shared memory", "  @%q2 st.shared.u32 [tile], %r1;\n", "race.warp"},
      {"another's global memory", "  @%q2 st.global.u32 [%rd2+4], %r1;\n", "race.global"},
      {"memory that another reads", "  add.u64 %rd4, %rd0, 12;\n  @%q2 st.global.u32 [%rd4], %r1;\n",
       "async.overwritten"},
      {"the source of its own copy", "  @%q2 st.global.u32 [%rd1], %r1;\n", "race.warp"},
      {"a wait for what nobody brings",
       "  @!%q2 bra DONE;\n  @%q0 bra DONE;\n  mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 16;\nDONE:\n",
       "mbarrier.tx-mismatch"},
  };
  for (const Odd& one : odd) {
    SCOPED_TRACE(one.name);
    const std::string ptx = kernel("", "  setp.eq.u32 %q2, %r3, 37;\n" + std::string(one.body) + kStore);
    const Outcome found = run(ptx, CompletionPolicy::eager, nullptr),
                  alone = run(ptx, CompletionPolicy::eager, nullptr, 5, 1);
    EXPECT_GE(found.rules.count(one.rule), 1u) << testing::PrintToString(found.rules);
    EXPECT_EQ(found.rules, alone.rules);
    EXPECT_EQ(found.proved, 0u);
  }
}

TEST(Kinds, TooManyAreWatchedOneByOne) {
  // Each block passes the barrier another number of times.
  const std::string ptx = kernel("", std::string(kStore) +
                                         "  add.u32 %r10, %r3, 1;\nMORE:\n  bar.sync 0;\n  sub.u32 %r10, %r10, 1;\n"
                                         "  setp.ne.u32 %q2, %r10, 0;\n  @%q2 bra MORE;\n");
  const Outcome outcome = run(ptx, CompletionPolicy::eager, nullptr);
  EXPECT_EQ(outcome.proved, 0u);
  EXPECT_EQ(outcome.shared, 1u);
  EXPECT_TRUE(outcome.rules.empty());
}

TEST(TraceObserver, GivesUpWhenItsShadowGrows) {
  auto memory = AddressSpace::create(uint64_t{1} << 30);
  ASSERT_TRUE(memory);
  constexpr uint64_t kPages = 16384;
  const uint64_t data = *(*memory)->allocate(kPages * 4096, AllocationKind::device, "data");
  LaunchEvent launch;
  for (auto* dimensions : {launch.grid, launch.block, launch.cluster}) std::fill_n(dimensions, 3, 1u);
  launch.block[0] = 32;
  for (const size_t bound : {size_t{1} << 30, size_t{16} << 20}) {
    UndoLog undo;
    std::atomic<bool> stop{false};
    TraceObserver tracer(nullptr, launch, 1, 1);
    tracer.watch_global(**memory, undo, stop, true, bound);
    tracer.on_worker(0);
    std::array<uint64_t, 32> addresses{};
    AccessEvent event;
    event.agent.lanes = 1;
    event.space = Space::global;
    event.bytes = 4;
    event.addresses = addresses.data();
    for (uint64_t page = 0; page < kPages; ++page) {
      addresses[0] = data + page * 4096;
      tracer.on_access(event);
    }
    EXPECT_EQ(stop.load(), bound < size_t{1} << 30);
  }
}

TEST(TraceStore, IsBounded) {
  TraceStore store(1000);
  LaunchTrace small, big;
  small.clusters.resize(50);
  big.clusters.resize(500);
  store.keep(1, big);
  EXPECT_EQ(store.find(1, 0), nullptr);
  store.keep(2, small);
  EXPECT_NE(store.find(2, 0), nullptr);
  EXPECT_EQ(store.find(2, 7), nullptr) << "another kernel";
  store.keep(3, small);
  EXPECT_NE(store.find(3, 0), nullptr);
  store.keep(4, small);
  EXPECT_EQ(store.find(4, 0), nullptr);
}

}  // namespace
}  // namespace ptxbench::emulator
