#include <array>
#include <chrono>
#include <thread>

#include "emulator/tensor/tensor_map.h"
#include "isa/async/kernel_fixture.h"
#include "ptx/module.h"

/// Modules and kernels that try to leave the emulated machine, to exhaust the host or to keep it busy for ever.
namespace ptxbench::emulator {
namespace {

constexpr const char* kOutOfBounds = "memory.out-of-bounds";

class Hostile : public KernelTest {
 protected:
  void refused(const std::string& ptx, const std::string& reason) {
    auto module = device->load_ptx(ptx, "test");
    ASSERT_FALSE(module.has_value());
    EXPECT_THAT(module.error().message, testing::HasSubstr(reason));
  }
};

TEST_P(Hostile, SharedAddressesThatWrapDoNotHideTheLanesBetween) {
  // Lane 0 is inside, lane 31 so high that adding the access size wraps, the others are anywhere.
  fault(kernel(R"(
  cvt.u64.u32 %rd4, %r1;
  mul.lo.u64 %rd4, %rd4, 0x123456780;
  setp.eq.u32 %p0, %r1, 0;
  selp.u64 %rd4, 1024, %rd4, %p0;
  setp.eq.u32 %p1, %r1, 31;
  selp.u64 %rd4, -4, %rd4, %p1;
  st.shared.u32 [%rd4], %r1;
)"),
        {.dynamic_shared = 4096}, kOutOfBounds);
}

TEST_P(Hostile, StridedSharedAddressesThatWrap) {
  const std::string address = "mul.wide.u32 %rd4, %r1, 4096;\n  add.u64 %rd4, %rd4, -65536;\n";
  fault(kernel(address + "st.shared.u32 [%rd4], %r1;"), {.dynamic_shared = 65536}, kOutOfBounds);
  fault(kernel(address + "ld.shared.u32 %r2, [%rd4];"), {.dynamic_shared = 65536}, kOutOfBounds);
}

TEST_P(Hostile, UniformSharedAddressBelowTheWindow) {
  fault(kernel("mov.u64 %rd4, -8; ld.shared.u64 %rd5, [%rd4];"), {.dynamic_shared = 4096}, kOutOfBounds);
}

TEST_P(Hostile, GlobalAddressesThatWrap) {
  const uint64_t buffer = zeros<uint32_t>(32);
  // The first access makes the look-up known, so that the second finds it in the cache.
  fault(kernel(R"(
  ld.global.u32 %r2, [%rd0];
  setp.eq.u32 %p0, %r1, 31;
  selp.u64 %rd4, -4, %rd0, %p0;
  st.global.u32 [%rd4], %r2;
)"),
        {}, kOutOfBounds, {buffer});
  fault(kernel("mov.u64 %rd4, -8; st.global.u64 [%rd4], %rd0;"), {}, kOutOfBounds, {buffer});
}

TEST_P(Hostile, ParametersAndConstantsAreReadOnly) {
  for (const char* body : {"mov.u64 %rd4, p1; cvta.param.u64 %rd5, %rd4; st.u32 [%rd5], %r1;",
                           "mov.u64 %rd4, table; cvta.const.u64 %rd5, %rd4; st.u32 [%rd5], %r1;",
                           "mov.u64 %rd4, table; cvta.const.u64 %rd5, %rd4; atom.add.u32 %r2, [%rd5], 1;"}) {
    const std::string message = fault(kernel(body, ".const .align 8 .u64 table = 5;"), {}, kOutOfBounds);
    EXPECT_THAT(message, testing::HasSubstr("read-only")) << body;
  }
  run(kernel("mov.u64 %rd4, table; cvta.const.u64 %rd5, %rd4; ld.u64 %rd6, [%rd5]; ld.const.u64 %rd7, [table];",
             ".const .align 8 .u64 table = 5;"),
      {});
}

TEST_P(Hostile, SharedBlocksMayNotOverlap) {
  AddressSpace& memory = device->memory();
  ASSERT_TRUE(memory.adopt(kHostSharedBase + 8192, 4096, "pinned").has_value());
  EXPECT_FALSE(memory.adopt(kHostSharedBase + 8192, 4096, "again").has_value());
  EXPECT_FALSE(memory.adopt(kHostSharedBase + 4096, 8192, "into it").has_value());
  EXPECT_FALSE(memory.adopt(kHostSharedBase + 9000, 16, "inside").has_value());
  EXPECT_TRUE(memory.adopt(kHostSharedBase + 4096, 4096, "before").has_value());
}

TEST_P(Hostile, AFreedBlockIsNotAtOnceSomebodyElses) {
  AddressSpace& memory = device->memory();
  const uint64_t stale = *memory.allocate(4096, AllocationKind::device, "stale");
  ASSERT_TRUE(memory.free(stale).has_value());
  const uint64_t next = *memory.allocate(4096, AllocationKind::device, "next");
  EXPECT_NE(stale, next);
  fault(kernel("st.global.u32 [%rd0], %r1;"), {}, "memory.use-after-free", {stale});
  // Addresses come back in the end: they do not run out.
  for (int i = 0; i < 20; ++i) {
    const auto big = memory.allocate(uint64_t{70} << 30, AllocationKind::device, "big");
    ASSERT_TRUE(big.has_value()) << big.error().message;
    ASSERT_TRUE(memory.free(*big).has_value());
  }
}

TEST_P(Hostile, LocalAddressesThatWrap) {
  for (const char* access : {"st.local.u64 [%rd4], %rd5;", "ld.local.u64 %rd5, [%rd4];"}) {
    fault(kernel(std::string(".local .align 8 .b8 mine[64];\n  mov.u64 %rd4, -8;\n  cvt.u64.u32 %rd5, %r1;\n  ") +
                 access),
          {}, kOutOfBounds);
  }
}

TEST_P(Hostile, OneLocalAddressIsAnotherPlaceForEveryThread) {
  const uint64_t out = zeros<uint32_t>(64);
  run(kernel(R"(
  .local .align 4 .b8 mine[16];
  mov.u64 %rd4, mine;
  cvta.local.u64 %rd5, %rd4;
  add.u32 %r2, %r1, 100;
  st.local.u32 [%rd4+4], %r1;
  st.u32 [%rd5+8], %r2;
  ld.local.u32 %r3, [mine+4];
  ld.u32 %r4, [%rd5+8];
  mul.wide.u32 %rd6, %r1, 8;
  add.u64 %rd6, %rd6, %rd0;
  st.global.v2.u32 [%rd6], {%r3, %r4};
)"),
      {}, {out});
  const auto values = download<uint32_t>(out, 64);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(values[lane * 2], lane);
    EXPECT_EQ(values[lane * 2 + 1], lane + 100);
  }
}

TEST_P(Hostile, RecursionWithoutLocalsEnds) {
  fault(kernel("call down, ();", ".func down() { call down, (); ret; }"), {}, "launch.stack-overflow");
}

TEST_P(Hostile, CallThroughAPointerCopiesOnlyWhatBothSidesHave) {
  const uint64_t out = zeros<uint32_t>(32);
  run(kernel(R"(
  .param .align 4 .b8 big[100000];
  add.u32 %r2, %r1, 5;
  st.param.b32 [big], %r2;
  mov.u64 %rd4, small;
  proto: .callprototype _ (.param .align 4 .b8 _[100000]);
  call %rd4, (big), proto;
)",
             R"(
.global .u64 target = )" +
                 std::to_string(out) + R"(;
.func small(.param .b32 value) {
  .reg .b32 %a<3>;
  .reg .b64 %b<3>;
  ld.param.b32 %a1, [value];
  ld.global.u64 %b1, [target];
  mov.u32 %a2, %laneid;
  mul.wide.u32 %b2, %a2, 4;
  add.u64 %b1, %b1, %b2;
  st.global.u32 [%b1], %a1;
  ret;
}
)"),
      {});
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane + 5);
}

TEST_P(Hostile, PointerToAKernelIsNoFunction) {
  const std::string ptx = kernel(R"(
  mov.u64 %rd4, 0x0f0000000000;
  proto: .callprototype _ ();
  call %rd4, (), proto;
)");
  fault(ptx, {}, kOutOfBounds);
}

TEST_P(Hostile, LocalArrayOfFourGigabytes) {
  refused(kernel(".local .align 16 .b8 mine[4294967312];\n  mov.u64 %rd4, mine;"), "local variables");
}

TEST_P(Hostile, SharedArrayOfFourGigabytes) {
  auto module = device->load_ptx(kernel("mov.u64 %rd4, mine;", ".shared .align 16 .b8 mine[4294967312];"), "test");
  ASSERT_TRUE(module.has_value()) << module.error().message;
  LaunchRequest request;
  request.function = *device->find_kernel(*module, "k");
  request.grid[0] = 1;
  request.block[0] = 32;
  request.parameters.resize(32);
  request.dynamic_shared_bytes = 65536;  // the sum must not wrap either
  request.max_dynamic_shared_bytes = DeviceLimits::kSharedPerBlockOptIn;
  EXPECT_FALSE(device->launch(request).has_value());
}

TEST_P(Hostile, RegistersBeyondAllBounds) {
  std::string body = ".reg .b64 %big<300000>;\n";
  for (int i = 0; i < 300000; ++i) body += "cvt.u64.u32 %big" + std::to_string(i) + ", %r1;\n";
  // All of them are still needed here, so that none can take another's place.
  for (int i = 1; i < 300000; ++i) body += "xor.b64 %big0, %big0, %big" + std::to_string(i) + ";\n";
  refused(kernel(body), "registers per warp");
}

TEST_P(Hostile, LaunchBoundsWhoseProductWraps) {
  for (const char* directives : {".maxntid 32, 1, 1 .minnctapersm 134217728", ".maxntid 2147483647, 1, 1",
                                 ".maxntid 65536, 65536, 1 .minnctapersm 1"}) {
    auto module = device->load_ptx(kernel("", "", directives), "test");
    ASSERT_TRUE(module.has_value()) << module.error().message;
    EXPECT_TRUE(device->attributes(*device->find_kernel(*module, "k")).has_value());
    LaunchRequest request;
    request.function = *device->find_kernel(*module, "k");
    request.grid[0] = 1;
    request.block[0] = 32;
    request.parameters.resize(32);
    (void)device->launch(request);  // may be refused, must return
  }
}

TEST_P(Hostile, MatrixRowsThatWrap) {
  fault(kernel("mov.u64 %rd4, -16; stmatrix.sync.aligned.m8n8.x1.shared.b16 [%rd4], {%r1};"), {.dynamic_shared = 4096},
        kOutOfBounds);
}

TEST_P(Hostile, DeadlockIsFoundAlthoughTheHostSharesMemory) {
  if (GetParam() != CompletionPolicy::eager) GTEST_SKIP() << "takes ten seconds";
  ASSERT_TRUE(device->memory().adopt(kHostSharedBase, 4096, "pinned").has_value());
  fault(kernel("bar.sync 1, 64;"), {}, "sync.deadlock");
}

TEST_P(Hostile, AnEndlessLaunchEndsWhenAsked) {
  std::stop_source source;
  std::jthread asks([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    source.request_stop();
  });
  stop = source.get_token();
  // One that computes and one that waits for memory nobody writes.
  for (const char* body : {"again: add.u32 %r2, %r2, 1; bra again;",
                           "again: ld.volatile.global.u32 %r2, [%rd0]; setp.eq.u32 %p0, %r2, 0; @%p0 bra again;"}) {
    if (GetParam() != CompletionPolicy::eager && body[7] == 'l') continue;
    fault(kernel(body), {.grid = 3, .block = 128}, "launch.cancelled", {zeros<uint32_t>(1)});
  }
}

TEST_P(Hostile, EndlessDivergentLoopMeetsTheBudget) {
  // The halves meet in every iteration: no part of the warp ever runs for long on its own.
  fault(kernel(R"(
  setp.lt.u32 %p0, %r1, 16;
again:
  @%p0 bra low;
  add.u32 %r2, %r2, 1;
  bra meet;
low:
  add.u32 %r3, %r3, 1;
meet:
  bra again;
)"),
        {}, "sync.budget");
}

TEST_P(Hostile, BlocksThatDoNothingCostToo) {
  // A grid of two billion blocks that return at once would keep the host busy for hours.
  device.reset();
  DeviceOptions options;
  options.threads = 1;
  options.completion = GetParam();
  options.instruction_budget = 1'000'000;
  auto created = Device::create(std::move(options));
  ASSERT_TRUE(created.has_value());
  device = std::move(*created);
  const std::string empty = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";
  const LaunchReport endless = launch(empty, {.grid = 0x7fffffff, .block = 32}, {});
  ASSERT_TRUE(endless.fault.has_value());
  EXPECT_EQ(endless.fault->rule, "sync.budget");
  EXPECT_LT(endless.clusters_run, 10'000u);
  const LaunchReport small = launch(empty, {.grid = 2000, .block = 32}, {});
  EXPECT_FALSE(small.fault.has_value());
  EXPECT_EQ(small.clusters_run, 2000u);
}

TEST_P(Hostile, GuardedWarpBarriersAreCounted) {
  // Lanes 0-7 and 16-31 meet at two barriers, whoever comes first; the guards keep lanes 8-15 away.
  const LaunchReport report = run(kernel(R"(
  mov.u32 %r4, 0;
  setp.lt.u32 %p0, %r1, 16;
  setp.lt.u32 %p1, %r1, 8;
  setp.ge.u32 %p2, %r1, 16;
again:
  @%p0 bra low;
  @%p2 bar.warp.sync 0xffff00ff;
  bra next;
low:
  @%p1 bar.warp.sync 0xffff00ff;
next:
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p3, %r4, 3;
  @%p3 bra again;
)"),
                                  {});
  std::vector<uint64_t> lanes;
  for (const InstructionCount& count : report.counts) {
    const ptx::Function& function = report.module->functions[count.function];
    if (function.instructions[count.instruction].op != ptx::Op::bar_warp_sync) continue;
    EXPECT_EQ(count.warps, 3u);
    lanes.push_back(count.lanes);
  }
  EXPECT_EQ(lanes, (std::vector<uint64_t>{3 * 16, 3 * 8}));
}

TEST_P(Hostile, DivergentLoopLeavesOtherWarpsTheirTurn) {
  // Warp 0 counts in a divergent loop until warp 1 has set the flag; the counting does not poll.
  const uint64_t flag = zeros<uint32_t>(1);
  run(kernel(R"(
  setp.lt.u32 %p0, %r1, 16;
  setp.ge.u32 %p1, %r0, 32;
  @%p1 bra second;
again:
  @%p0 bra low;
  add.u32 %r2, %r2, 1;
  bra meet;
low:
  add.u32 %r2, %r2, 1;
meet:
  ld.global.u32 %r4, [%rd0];
  setp.eq.u32 %p2, %r4, 0;
  @%p2 bra again;
  bra done;
second:
  st.global.u32 [%rd0], 1;
done:
)"),
      {.block = 64}, {flag});
}

TEST_P(Hostile, LanesThatMeetInACalledFunctionReturnToTheirCaller) {
  // Two nested branches inside the callee bring the lanes to one vote under different joins.
  const uint64_t out = zeros<uint32_t>(32);
  run(kernel(R"(
  .param .b32 result;
  call (result), meet, ();
  ld.param.b32 %r2, [result];
  mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd4, %rd4, %rd0;
  st.global.u32 [%rd4], %r2;
)",
             R"(
.func (.param .b32 result) meet() {
  .reg .b32 %a<8>;
  .reg .pred %q<4>;
  mov.u32 %a1, %laneid;
  setp.lt.u32 %q1, %a1, 8;
  setp.lt.u32 %q2, %a1, 16;
  @%q1 bra vote;
  @!%q2 bra vote;
  and.b32 %a3, %a1, 1;
  setp.eq.u32 %q3, %a3, 1;
  @%q3 bra odd;
  bra vote;
odd:
  add.u32 %a1, %a1, 0;
  bra vote;
vote:
  vote.sync.ballot.b32 %a4, 1, 0xffffffff;
  setp.eq.u32 %q3, %a1, 40;
  @%q3 bra vote;
  st.param.b32 [result], %a4;
  ret;
}
)"),
      {}, {out});
  for (const uint32_t value : download<uint32_t>(out, 32)) EXPECT_EQ(value, 0xffffffffu);
}

TEST_P(Hostile, WakingOneFragmentLeavesABlockedNeighbourAsleep) {
  // Lanes 0-15 wait for lanes 16-23, which exit; lanes 24-31 wait at barrier 1 for warp 1, which is slow.
  const uint64_t out = zeros<uint32_t>(32);
  run(kernel(R"(
  .shared .align 4 .b32 flags[2];
  mov.u32 %r10, flags;
  setp.lt.u32 %p0, %r1, 16;
  setp.ge.u32 %p1, %r1, 24;
  setp.ge.u32 %p2, %r0, 32;
  @%p2 bra slow;
  @%p0 bra first;
  @%p1 bra last;
spin:
  ld.volatile.shared.u32 %r3, [%r10];
  setp.eq.u32 %p3, %r3, 0;
  @%p3 bra spin;
  exit;
first:
  bar.warp.sync 0x00ffffff;
  barrier.sync 1, 64;
  exit;
last:
  barrier.sync 1, 64;
  ld.shared.u32 %r3, [%r10+4];
  mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd4, %rd4, %rd0;
  st.global.u32 [%rd4], %r3;
  exit;
slow:
  st.volatile.shared.u32 [%r10], 1;
  mov.u32 %r4, 0;
delay:
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p3, %r4, 400000;
  @%p3 bra delay;
  st.volatile.shared.u32 [%r10+4], 7;
  barrier.sync 1, 64;
)"),
      {.block = 64}, {out});
  const auto values = download<uint32_t>(out, 32);
  for (uint32_t lane = 24; lane < 32; ++lane) EXPECT_EQ(values[lane], 7u) << lane;
}

TEST_P(Hostile, MaskedSymbolsStoreSingleBytes) {
  const uint64_t out = zeros<uint64_t>(1);
  std::string bytes;
  for (int i = 0; i < 4088; ++i) bytes += "0, ";
  for (int i = 0; i < 8; ++i) {
    bytes += (i == 0 ? "" : ", ") + std::string("0x") + "ff" + std::string(static_cast<size_t>(i) * 2, '0') + "(x)";
  }
  run(kernel(R"(
  mov.u64 %rd4, table;
  ld.global.u64 %rd5, [%rd4+4088];
  mov.u64 %rd6, x;
  sub.u64 %rd5, %rd5, %rd6;
  add.u64 %rd5, %rd5, 1;
  st.global.u64 [%rd0], %rd5;
)",
             ".global .u32 x;\n.global .align 8 .b8 table[4096] = {" + bytes + "};\n"),
      {}, {out});
  EXPECT_EQ(download<uint64_t>(out, 1)[0], 1u);
}

TEST_P(Hostile, BoxWhoseElementStridesExceedItsExtent) {
  alignas(64) std::array<std::byte, 128> map{};
  const uint64_t dims[5] = {256, 256, 256, 256, 256}, strides[4] = {2048, 4096, 8192, 16384};
  const uint32_t box[5] = {256, 256, 256, 256, 1}, steps[5] = {1, 1, 1, 1, 2};
  constexpr uint32_t kU64 = 4;
  EXPECT_FALSE(encode_tiled(map.data(), kU64, 5, 0x200000, dims, strides, box, steps, 0, 0, 0, 0).has_value());
}

INSTANTIATE_TEST_SUITE_P(Policies, Hostile, testing::Values(CompletionPolicy::eager, CompletionPolicy::lazy),
                         policy_name);

}  // namespace
}  // namespace ptxbench::emulator
