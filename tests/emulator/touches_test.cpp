#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <random>
#include <set>

#include "emulator/device.h"
#include "emulator/touches.h"
#include "spy.h"

/// Proofs that a launch has no race (touches.h), and launches that several threads watch: against simple models, and
/// whole random kernels against the checker that watches every access on one thread.
namespace ptxbench::emulator {
namespace {

// --- shared memory against a list of all accesses

struct SharedAccess {
  unsigned warp, lane;
  uint32_t offset, bytes;
  TouchKind kind;
  unsigned met;  ///< times the warp had met before
};

bool overlap(const SharedAccess& a, const SharedAccess& b, uint32_t granule) {
  return a.offset / granule < (b.offset + b.bytes + granule - 1) / granule &&
         b.offset / granule < (a.offset + a.bytes + granule - 1) / granule;
}

/// Whether two accesses between two barriers of the CTA conflict, in units of `granule` bytes.
bool conflict(const SharedAccess& a, const SharedAccess& b, uint32_t granule) {
  if (!overlap(a, b, granule)) return false;
  if (a.kind == TouchKind::read && b.kind == TouchKind::read) return false;
  if (a.kind == TouchKind::atomic && b.kind == TouchKind::atomic) return false;
  if (a.warp != b.warp) return true;
  return a.lane != b.lane && a.met == b.met;
}

TEST(SharedTouches, NeverMissAConflict) {
  constexpr unsigned kWarps = 3;
  constexpr uint32_t kBytes = 1024;
  size_t proved = 0, refuted = 0;
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    SharedTouches touches;
    touches.start(kBytes, kWarps);
    std::vector<SharedAccess> interval;
    unsigned met[kWarps] = {};
    bool fine = true, expected = true;
    const uint32_t kinds = 1 + below(3);
    for (unsigned step = 0; step < 14; ++step) {
      const unsigned warp = below(kWarps);
      const auto kind = static_cast<TouchKind>(below(kinds));
      // What threads touch is mostly their warp's own.
      const uint32_t space = below(4) == 0 ? 0 : warp * 256;
      switch (below(9)) {
        case 8: {
          const unsigned shift = below(3);
          std::array<uint64_t, 32> hosts{};
          for (unsigned l = 0; l < 32; ++l) {
            const uint32_t offset = (space + below(256)) >> shift << shift;
            hosts[l] = 4096 + offset;
            interval.push_back({warp, l, offset, 1u << shift, TouchKind::read, met[warp]});
          }
          fine = touches.gather(warp, hosts.data(), 4096, shift) && fine;
          break;
        }
        case 0:
          touches.warp_met(warp);
          ++met[warp];
          break;
        case 1:
          fine = touches.close(0) && fine;
          for (const SharedAccess& a : interval) {
            for (const SharedAccess& b : interval) expected = expected && (&a == &b || !conflict(a, b, 1));
          }
          interval.clear();
          break;
        case 2:
        case 3: {
          const unsigned shift = below(4);
          const uint32_t bytes = 1u << shift;
          const uint32_t offset = (space + below(4) * bytes) / bytes * bytes;
          fine = touches.row(warp, offset, shift, kind) && fine;
          for (unsigned l = 0; l < 32; ++l) interval.push_back({warp, l, offset + l * bytes, bytes, kind, met[warp]});
          break;
        }
        case 4: {
          const uint32_t offset = space + below(32) * 8;
          fine = touches.broadcast(warp, offset, 8, TouchKind::read) && fine;
          for (unsigned l = 0; l < 32; ++l) interval.push_back({warp, l, offset, 8, TouchKind::read, met[warp]});
          break;
        }
        case 5: {
          std::vector<uint32_t> rows{0, 128};
          const uint32_t offset = below(2) * 128 + below(2) * 4;
          fine = touches.read_rows(warp, offset, rows) && fine;
          for (const uint32_t row : rows) {
            for (unsigned l = 0; l < 32; ++l)
              interval.push_back({warp, l, offset + row + l * 4, 4, TouchKind::read, met[warp]});
          }
          break;
        }
        default: {
          const unsigned lane = below(32);
          const uint32_t bytes = 1u << below(5), offset = (space + below(256)) / bytes * bytes;
          fine = touches.lane(warp, lane, offset, bytes, kind) && fine;
          interval.push_back({warp, lane, offset, bytes, kind, met[warp]});
          break;
        }
      }
    }
    fine = touches.close(0) && fine;
    for (const SharedAccess& a : interval) {
      for (const SharedAccess& b : interval) expected = expected && (&a == &b || !conflict(a, b, 1));
    }
    EXPECT_TRUE(expected || !fine) << "seed " << seed;
    ++(fine ? proved : refuted);
  }
  // Both happen often, or the test shows nothing.
  EXPECT_GT(proved, 400u);
  EXPECT_GT(refuted, 400u);
}

TEST(SharedTouches, AccessesOfExitedWarpsStay) {
  SharedTouches touches;
  touches.start(512, 2);
  EXPECT_TRUE(touches.row(0, 0, 2, TouchKind::write));
  EXPECT_TRUE(touches.close(1));  // warp 0 has exited: the barrier does not order what it did
  EXPECT_TRUE(touches.row(1, 0, 2, TouchKind::read));
  EXPECT_FALSE(touches.close(1));
}

TEST(SharedTouches, LanesThatLeaveMustHaveDoneNothing) {
  SharedTouches touches;
  touches.start(512, 2);
  EXPECT_TRUE(touches.lanes_leave(0));
  EXPECT_TRUE(touches.row(0, 0, 2, TouchKind::read));
  EXPECT_FALSE(touches.lanes_leave(0));
  EXPECT_TRUE(touches.lanes_leave(1));
  EXPECT_TRUE(touches.close(0));
  EXPECT_TRUE(touches.lanes_leave(0));
}

// --- global memory against a list of all accesses

TEST(GlobalTouches, NeverMissAConflict) {
  alignas(4096) static std::byte memory[4 * 4096];
  const auto base = reinterpret_cast<uint64_t>(memory);
  struct GlobalAccess {
    uint32_t thread;
    uint64_t address;
    uint32_t bytes;
    TouchKind kind;
    bool many;
  };
  size_t proved = 0, refuted = 0;
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
    UndoLog undo;
    GlobalTouches workers[2] = {GlobalTouches(undo), GlobalTouches(undo)};
    std::vector<GlobalAccess> all;
    bool fine = true;
    const uint32_t kinds = 1 + below(3), many_in = 1 + below(6);
    for (unsigned step = 0; step < 8; ++step) {
      const uint32_t worker = below(2);
      const uint32_t bytes = 1u << below(5);
      const auto kind = static_cast<TouchKind>(below(kinds));
      const uint32_t warp = worker * 4 + below(4), thread = warp * 32 + 1;
      const uint64_t own = below(5) == 0 ? 0 : warp * 1024;
      const uint64_t address = base + (3500 + own + below(3) * bytes) / bytes * bytes;
      const bool row = below(2) == 0, many = kind != TouchKind::atomic && below(many_in) != 0;
      const uint32_t threads = row ? 32 : 1, lane = row ? 0 : below(32);
      const uint32_t first = kind == TouchKind::atomic ? GlobalTouches::kAtomics
                             : many                    ? GlobalTouches::kMany
                                                       : thread + lane;
      fine = workers[worker].range(address, bytes, threads, first, kind) && fine;
      for (uint32_t t = 0; t < threads; ++t) all.push_back({thread + lane + t, address + t * bytes, bytes, kind, many});
    }
    fine = workers[0].absorb(workers[1]) && fine;
    bool expected = true;
    for (const GlobalAccess& a : all) {
      for (const GlobalAccess& b : all) {
        if (&a == &b || a.address >= b.address + b.bytes || b.address >= a.address + a.bytes) continue;
        if (a.kind == TouchKind::read && b.kind == TouchKind::read) continue;
        if (a.kind == TouchKind::atomic && b.kind == TouchKind::atomic) continue;
        expected = expected && a.thread == b.thread && !a.many && !b.many;
      }
    }
    EXPECT_TRUE(expected || !fine) << "seed " << seed;
    ++(fine ? proved : refuted);
  }
  EXPECT_GT(proved, 400u);
  EXPECT_GT(refuted, 400u);
}

TEST(GlobalTouches, SaysWhatWasWritten) {
  alignas(4096) static std::byte memory[2 * 4096];
  const auto base = reinterpret_cast<uint64_t>(memory);
  UndoLog undo;
  GlobalTouches touches(undo);
  EXPECT_TRUE(touches.range(base + 4096 - 64, 4, 32, 1, TouchKind::write));
  EXPECT_TRUE(touches.range(base + 2, 2, 1, 1, TouchKind::write));
  EXPECT_TRUE(touches.range(base + 512, 4, 32, 1, TouchKind::read));
  alignas(4096) static std::byte more[4096];
  const auto other = reinterpret_cast<uint64_t>(more);
  EXPECT_TRUE(touches.range(other + 240, 16, 8, GlobalTouches::kMany, TouchKind::write));
  EXPECT_TRUE(touches.range(other, 16, 8, GlobalTouches::kMany, TouchKind::read));
  std::set<std::pair<uint64_t, uint64_t>> written;
  const auto add = [&](uint64_t address, uint64_t bytes) {
    written.emplace(address >= other && address < other + 4096 ? address - other + 100000 : address - base, bytes);
  };
  touches.for_each_written(add);
  EXPECT_EQ(written, (std::set<std::pair<uint64_t, uint64_t>>{{2, 2}, {4096 - 64, 64}, {4096, 64}, {100240, 128}}));
  // The same when owners have to be named.
  EXPECT_TRUE(touches.range(other + 1024, 4, 1, 7, TouchKind::write));
  EXPECT_FALSE(touches.range(other + 4, 4, 1, 7, TouchKind::write)) << "others have read it";
  written.clear();
  touches.for_each_written(add);
  EXPECT_EQ(written, (std::set<std::pair<uint64_t, uint64_t>>{
                         {2, 2}, {4096 - 64, 64}, {4096, 64}, {100004, 4}, {100240, 128}, {101024, 4}}));
}

TEST(UndoLog, TakesBackToTheFirstSave) {
  alignas(4096) static std::byte memory[4096];
  UndoLog undo;
  const uint64_t page = reinterpret_cast<uint64_t>(memory) / UndoLog::kPageBytes;
  memory[7] = std::byte{1};
  undo.save(page);
  memory[7] = std::byte{2};
  undo.save(page);
  memory[7] = std::byte{3};
  undo.restore();
  EXPECT_EQ(memory[7], std::byte{1});
}

// --- whole kernels

std::string kernel(const std::string& body) {
  return ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
         "  .reg .b64 %rd<64>; .reg .b32 %r<64>; .reg .b16 %h<8>; .reg .pred %q<8>;\n"
         "  .shared .align 16 .b8 tile[2048];\n"
         "  ld.param.u64 %rd0, [p];\n  mov.u32 %r0, tile;\n  mov.u32 %r1, %laneid;\n  mov.u32 %r2, %tid.x;\n"
         "  mov.u32 %r3, %ctaid.x;\n  shr.u32 %r4, %r2, 5;\n  mov.u32 %r5, %ntid.x;\n"
         "  mad.lo.u32 %r6, %r3, %r5, %r2;\n" +
         body + "  ret;\n}\n";
}

/// What the checker is content with.
struct Way {
  bool proofs = false, workers = false;
};

checker::CheckerOptions options_of(const Way& way) {
  checker::CheckerOptions options;
  options.accept_proofs = way.proofs;
  options.accept_workers = way.workers;
  return options;
}

struct Outcome {
  unsigned proved = 0, shared = 0;
  std::multiset<std::string> rules;
  std::vector<std::byte> memory;
  std::string fault;
};

constexpr uint32_t kGlobalBytes = 16384;

constexpr Way kProofs{true, false}, kWorkers{false, true}, kAlone{false, false};

Outcome run(const std::string& ptx, const Way& way, uint32_t ctas = 2, uint32_t threads = 64, unsigned workers = 2) {
  Outcome outcome;
  Spy spy(options_of(way));
  DeviceOptions options;
  options.observer = &spy;
  options.threads = workers;
  auto device = Device::create(options);
  EXPECT_TRUE(device);
  auto module = (*device)->load_ptx(ptx, "k.ptx");
  EXPECT_TRUE(module) << module.error().message << "\n" << ptx;
  if (!module) return outcome;
  const uint64_t data = *(*device)->memory().allocate(kGlobalBytes, AllocationKind::device, "data");
  (void)(*device)->fill(data, 5, 4, kGlobalBytes / 4);
  spy.checker().watch_output("data", data, kGlobalBytes, 1);
  LaunchRequest request;
  request.function = *(*device)->find_kernel(*module, "k");
  request.grid[0] = ctas;
  request.block[0] = threads;
  request.parameters.resize(8);
  std::memcpy(request.parameters.data(), &data, 8);
  auto report = (*device)->launch(request);
  EXPECT_TRUE(report) << report.error().message;
  if (report && report->fault) outcome.fault = report->fault->rule;
  spy.checker().finish_outputs();
  outcome.proved = spy.proved;
  outcome.shared = spy.shared;
  for (const auto& finding : spy.checker().findings())
    outcome.rules.insert(finding.rule + " " + std::to_string(finding.party.site.instruction) +
                         (finding.rule == "memory.unwritten" ? finding.message : ""));
  outcome.memory.resize(kGlobalBytes);
  (void)(*device)->read(data, outcome.memory);
  return outcome;
}

struct Case {
  const char* name;
  const char* body;
  bool proved;
  bool hazard;
};

// The address of the thread's own word of global and of shared memory.
#define OWN_GLOBAL "  mul.wide.u32 %rd1, %r6, 4;\n  add.u64 %rd1, %rd0, %rd1;\n"
#define OWN_SHARED "  shl.b32 %r7, %r2, 2;\n  add.u32 %r7, %r7, %r0;\n"

constexpr Case kCases[] = {
    {"in place", OWN_GLOBAL "  ld.global.u32 %r8, [%rd1];\n  add.u32 %r8, %r8, 1;\n  st.global.u32 [%rd1], %r8;\n",
     true, false},
    {"all read one word", "  ld.global.u32 %r8, [%rd0+8192];\n" OWN_GLOBAL "  st.global.u32 [%rd1], %r8;\n", true,
     false},
    {"all write one word", "  st.global.u32 [%rd0], %r2;\n", false, true},
    {"neighbours in global memory", OWN_GLOBAL "  st.global.u32 [%rd1], %r2;\n  ld.global.u32 %r8, [%rd1+4];\n", false,
     true},
    {"halves of a word",
     "  mul.wide.u32 %rd1, %r6, 2;\n  add.u64 %rd1, %rd0, %rd1;\n  cvt.u16.u32 %h0, %r2;\n"
     "  st.global.u16 [%rd1], %h0;\n",
     true, false},
    {"words, then their halves by others",
     OWN_GLOBAL "  st.global.u32 [%rd1], %r2;\n  xor.b32 %r8, %r6, 1;\n  mul.wide.u32 %rd2, %r8, 4;\n"
                "  add.u64 %rd2, %rd0, %rd2;\n  ld.global.u16 %h0, [%rd2];\n",
     false, true},
    {"read through the non-coherent path what the thread writes",
     OWN_GLOBAL "  ld.global.nc.u32 %r8, [%rd1];\n  st.global.u32 [%rd1], %r8;\n", false, false},
    {"exchange with a barrier",
     OWN_SHARED "  st.shared.u32 [%r7], %r2;\n  bar.sync 0;\n  xor.b32 %r8, %r2, 33;\n  shl.b32 %r8, %r8, 2;\n"
                "  add.u32 %r8, %r8, %r0;\n  ld.shared.u32 %r9, [%r8];\n",
     true, false},
    {"exchange without a barrier",
     OWN_SHARED "  st.shared.u32 [%r7], %r2;\n  xor.b32 %r8, %r2, 33;\n  shl.b32 %r8, %r8, 2;\n"
                "  add.u32 %r8, %r8, %r0;\n  ld.shared.u32 %r9, [%r8];\n",
     false, true},
    {"exchange in the warp",
     OWN_SHARED "  st.shared.u32 [%r7], %r2;\n  bar.warp.sync -1;\n  xor.b32 %r8, %r2, 1;\n  shl.b32 %r8, %r8, 2;\n"
                "  add.u32 %r8, %r8, %r0;\n  ld.shared.u32 %r9, [%r8];\n",
     true, false},
    {"exchange in the warp without a barrier",
     OWN_SHARED "  st.shared.u32 [%r7], %r2;\n  xor.b32 %r8, %r2, 1;\n  shl.b32 %r8, %r8, 2;\n"
                "  add.u32 %r8, %r8, %r0;\n  ld.shared.u32 %r9, [%r8];\n",
     false, true},
    {"a barrier of another warp's does not help",
     OWN_SHARED "  st.shared.u32 [%r7], %r2;\n  bar.warp.sync -1;\n  xor.b32 %r8, %r2, 32;\n  shl.b32 %r8, %r8, 2;\n"
                "  add.u32 %r8, %r8, %r0;\n  ld.shared.u32 %r9, [%r8];\n",
     false, true},
    {"a barrier of one warp only",
     OWN_SHARED "  st.shared.u32 [%r7], %r2;\n  add.u32 %r10, %r4, 1;\n  bar.sync %r10, 32;\n  xor.b32 %r8, %r2, 33;\n"
                "  shl.b32 %r8, %r8, 2;\n  add.u32 %r8, %r8, %r0;\n  ld.shared.u32 %r9, [%r8];\n",
     false, true},
    {"own words again and again",
     OWN_SHARED "  st.shared.u32 [%r7], %r2;\n  ld.shared.u32 %r9, [%r7];\n  st.shared.u32 [%r7], %r9;\n", true, false},
    {"counting in shared memory", "  red.shared.add.u32 [tile], 1;\n", true, false},
    {"counting in global memory", "  red.global.add.u32 [%rd0], 1;\n", true, false},
    {"counting with two sizes", "  red.global.add.u32 [%rd0], 1;\n  red.global.add.u64 [%rd0], 1;\n", false, true},
    {"counting with the scope of a CTA", "  red.relaxed.cta.global.add.u32 [%rd0], 1;\n", false, true},
    {"reading what others count", "  red.global.add.u32 [%rd0], 1;\n  ld.global.u32 %r8, [%rd0];\n", false, true},
    {"a warp that has exited",
     OWN_SHARED "  setp.ge.u32 %q0, %r2, 32;\n  st.shared.u32 [%r7], %r2;\n  @%q0 exit;\n  bar.sync 0;\n"
                "  ld.shared.u32 %r9, [%r7+128];\n",
     false, true},
    {"lanes that have exited",
     OWN_SHARED "  and.b32 %r8, %r2, 1;\n  setp.eq.u32 %q0, %r8, 1;\n  st.shared.u32 [%r7], %r2;\n  @%q0 exit;\n"
                "  bar.sync 0;\n  ld.shared.u32 %r9, [%r7+4];\n",
     false, true},
    {"lanes in two spaces",
     OWN_GLOBAL OWN_SHARED "  and.b32 %r8, %r2, 1;\n  setp.eq.u32 %q0, %r8, 1;\n  cvt.u64.u32 %rd2, %r7;\n"
                           "  cvta.shared.u64 %rd2, %rd2;\n  selp.u64 %rd3, %rd2, %rd1, %q0;\n  st.u32 [%rd3], %r2;\n",
     true, false},
    {"one word in global memory, the others in shared",
     OWN_SHARED "  and.b32 %r8, %r2, 1;\n  setp.eq.u32 %q0, %r8, 1;\n  cvt.u64.u32 %rd2, %r7;\n"
                "  cvta.shared.u64 %rd2, %rd2;\n  mul.wide.u32 %rd1, %r2, 4;\n  add.u64 %rd1, %rd1, %rd0;\n"
                "  selp.u64 %rd3, %rd2, %rd1, %q0;\n  st.u32 [%rd3], %r6;\n",
     false, true},
    {"tail guard", OWN_GLOBAL "  setp.ge.u32 %q0, %r6, 77;\n  @%q0 exit;\n  st.global.u32 [%rd1], %r2;\n", true, false},
};

TEST(Proof, IsFoundWhereThereIsOne) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const std::string ptx = kernel(one.body);
    const Outcome fast = run(ptx, kProofs), slow = run(ptx, kAlone);
    EXPECT_EQ(fast.proved, one.proved ? 1u : 0u);
    EXPECT_EQ(slow.proved, 0u);
    EXPECT_EQ(fast.rules, slow.rules);
    EXPECT_EQ(fast.memory, slow.memory);
    EXPECT_EQ(fast.fault, "");
    const bool hazard = std::any_of(fast.rules.begin(), fast.rules.end(),
                                    [](const std::string& rule) { return rule.starts_with("race."); });
    EXPECT_EQ(hazard, one.hazard);
  }
}

TEST(Proof, AFailedOneLeavesNothingBehind) {
  // Every thread counts its own word up before the race, and once more after it.
  const std::string ptx =
      kernel(OWN_GLOBAL
             "  ld.global.u32 %r8, [%rd1];\n  add.u32 %r8, %r8, 1;\n  st.global.u32 [%rd1], %r8;\n"
             "  st.global.u32 [%rd0+12288], %r3;\n"
             "  ld.global.u32 %r8, [%rd1];\n  add.u32 %r8, %r8, 1;\n  st.global.u32 [%rd1], %r8;\n");
  const Outcome outcome = run(ptx, kProofs, 64, 32);
  EXPECT_EQ(outcome.proved, 0u);
  for (uint32_t i = 0; i < 64 * 32; ++i) {
    uint32_t word = 0;
    std::memcpy(&word, outcome.memory.data() + i * 4, 4);
    ASSERT_EQ(word, 7u) << i;
  }
}

TEST(Proof, AFaultIsReportedOnce) {
  const Outcome outcome = run(
      kernel(OWN_GLOBAL "  st.global.u32 [%rd1], %r2;\n  mov.u64 %rd2, 0;\n  st.global.u32 [%rd2], %r2;\n"), kProofs);
  EXPECT_EQ(outcome.proved, 0u);
  EXPECT_EQ(outcome.fault, "memory.out-of-bounds");
}

TEST(Proof, ClustersThatNeedEachOtherAreNotForIt) {
  // The first CTA waits for the second one's flag.
  const Outcome outcome = run(kernel("  setp.ne.u32 %q0, %r3, 0;\n  @%q0 bra set;\nwait:\n"
                                     "  ld.acquire.gpu.global.u32 %r8, [%rd0];\n  setp.ne.u32 %q1, %r8, 9;\n"
                                     "  @%q1 bra wait;\n  ret;\nset:\n  st.release.gpu.global.u32 [%rd0], 9;\n"),
                              kProofs, 2, 32);
  EXPECT_EQ(outcome.fault, "");
  EXPECT_EQ(outcome.proved, 0u);
  EXPECT_TRUE(std::none_of(outcome.rules.begin(), outcome.rules.end(),
                           [](const std::string& rule) { return rule.starts_with("race."); }));
}

/// Accesses with all kinds of addresses, mostly to places of the threads' own.
std::string random_body(std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  std::string text;
  const bool atomics = below(3) == 0;
  for (unsigned step = 0, steps = 2 + below(7); step < steps; ++step) {
    if (const uint32_t what = below(10); what < 2) {
      text += what == 0 ? "  bar.sync 0;\n" : "  bar.warp.sync -1;\n";
      continue;
    }
    const bool global = below(3) == 0;
    const uint32_t size = below(4) == 0 ? 1u << below(4) : 4;
    const std::string id = std::to_string(step), guard = below(4) == 0 ? "  @%q7 " : "  ";
    // index = thread * a + b, sometimes turned round inside the warp, sometimes only of the warp or of the lane
    const uint32_t source = below(12);
    text += source == 0   ? "  mov.u32 %r20, %r4;\n"
            : source == 1 ? "  mov.u32 %r20, %r1;\n"
            : global      ? "  mov.u32 %r20, %r6;\n"
                          : "  mov.u32 %r20, %r2;\n";
    if (below(5) == 0) text += "  xor.b32 %r20, %r20, " + std::to_string(below(40)) + ";\n";
    text += "  mad.lo.u32 %r20, %r20, " + std::to_string(below(6) == 0 ? below(3) : 1) + ", " +
            std::to_string(below(6) == 0 ? below(3) : below(3) * 128) + ";\n";
    text += "  mul.lo.u32 %r20, %r20, " + std::to_string(size) + ";\n  and.b32 %r20, %r20, " +
            std::to_string(global ? 8191 : 2047) + ";\n";
    text += "  and.b32 %r21, %r2, " + std::to_string(1 + below(62)) + ";\n  setp.ne.u32 %q7, %r21, 0;\n";
    const std::string space = global ? "global" : "shared", type = ".u" + std::to_string(size * 8);
    if (global) {
      text += "  cvt.u64.u32 %rd20, %r20;\n  add.u64 %rd20, %rd20, %rd0;\n";
    } else {
      text += "  add.u32 %r20, %r20, %r0;\n";
    }
    const std::string address = global ? "[%rd20]" : "[%r20]";
    const std::string reg = size == 8 ? "%rd21" : size == 4 ? "%r22" : "%h1";
    if (atomics && size >= 4 && below(3) == 0) {
      text += guard + "red." + space + ".add" + type + " " + address + ", 1;\n";
    } else if (below(2) == 0) {
      text += guard + "ld." + space + type + " " + reg + ", " + address + ";\n";
    } else {
      text += (size == 8   ? "  cvt.u64.u32 %rd21, %r2;\n"
               : size == 4 ? "  mov.u32 %r22, %r2;\n"
                           : "  cvt.u16.u32 %h1, %r2;\n") +
              guard + "st." + space + type + " " + address + ", " + reg + ";\n";
    }
  }
  return text;
}

TEST(Proof, SaysNothingElseThanTheFullCheck) {
  unsigned proved = 0, hazardous = 0;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    std::mt19937 random(seed);
    const std::string ptx = kernel(random_body(random));
    const Outcome fast = run(ptx, kProofs, 2, 96), slow = run(ptx, kAlone, 2, 96);
    EXPECT_EQ(fast.rules, slow.rules) << "seed " << seed << "\n" << ptx;
    if (slow.rules.empty() || std::none_of(slow.rules.begin(), slow.rules.end(),
                                           [](const std::string& rule) { return rule.starts_with("race."); })) {
      EXPECT_EQ(fast.memory, slow.memory) << "seed " << seed << "\n" << ptx;
    } else {
      ++hazardous;
    }
    proved += fast.proved;
    if (HasFailure()) return;
  }
  EXPECT_GT(proved, 300u);
  EXPECT_GT(hazardous, 300u);
}

// --- launches that several threads watch

TEST(Workers, SayNothingElseThanOneThread) {
  unsigned shared = 0, hazardous = 0;
  for (unsigned seed = 1; seed <= 1500; ++seed) {
    std::mt19937 random(seed);
    // Half of the kernels have asynchronous copies as well.
    std::string body = random_body(random);
    if (seed % 2 == 0) {
      body =
          "  mul.wide.u32 %rd30, %r6, 4;\n  add.u64 %rd30, %rd30, %rd0;\n  shl.b32 %r30, %r2, 2;\n"
          "  add.u32 %r30, %r30, %r0;\n  cp.async.ca.shared.global [%r30+1024], [%rd30+4096], 4;\n"
          "  cp.async.commit_group;\n" +
          body + (random() % 4 != 0 ? "  cp.async.wait_group 0;\n" : "");
    }
    const std::string ptx = kernel(body);
    const uint32_t ctas = 2 + seed % 5;
    const Outcome fast = run(ptx, kWorkers, ctas, 64), slow = run(ptx, kAlone, ctas, 64);
    EXPECT_EQ(fast.rules, slow.rules) << "seed " << seed << "\n" << ptx;
    EXPECT_EQ(fast.memory, slow.memory) << "seed " << seed << "\n" << ptx;
    EXPECT_EQ(slow.shared, 0u);
    shared += fast.shared;
    hazardous += slow.rules.size() > 1 ? 1 : 0;
    if (HasFailure()) return;
  }
  EXPECT_GT(shared, 200u);
  EXPECT_GT(hazardous, 300u);
}

TEST(Workers, ConflictsBetweenThemAreFound) {
  // Each CTA writes a word of its own and the one that the next CTA reads.
  const std::string ptx = kernel(
      "  setp.ne.u32 %q0, %r2, 0;\n  @%q0 exit;\n  mul.wide.u32 %rd1, %r3, 4;\n"
      "  add.u64 %rd1, %rd0, %rd1;\n  st.global.u32 [%rd1+4], %r3;\n"
      "  ld.global.u32 %r8, [%rd1+4096];\n  ld.global.u32 %r9, [%rd1];\n");
  const Outcome outcome = run(ptx, kWorkers, 64, 32);
  EXPECT_EQ(outcome.shared, 0u);
  EXPECT_EQ(outcome.rules, run(ptx, kAlone, 64, 32).rules);
  EXPECT_TRUE(std::any_of(outcome.rules.begin(), outcome.rules.end(),
                          [](const std::string& rule) { return rule.starts_with("race.global"); }));
}

TEST(Workers, DoNotShareWhatGlobalAtomicsOrder) {
  const Outcome atomics = run(kernel("  red.global.add.u32 [%rd0], 1;\n"), kWorkers);
  EXPECT_EQ(atomics.shared, 0u);
  const Outcome shared_atomics = run(kernel("  red.shared.add.u32 [tile], 1;\n"), kWorkers);
  EXPECT_EQ(shared_atomics.shared, 1u);
}

}  // namespace
}  // namespace ptxbench::emulator
