#include "kernel_fixture.h"

namespace ptxbench::emulator {
namespace {

using testing::HasSubstr;
using SystemTest = KernelTest;
PTXBENCH_ALL_POLICIES(SystemTest);

TEST_P(SystemTest, FencesAndHintsExecute) {
  const uint64_t data = zeros<uint64_t>(64);
  run(kernel(R"(
  membar.cta;
  membar.gl;
  membar.sys;
  fence.sc.cta;
  fence.acq_rel.cluster;
  fence.acquire.gpu;
  fence.release.sys;
  fence.proxy.alias;
  fence.proxy.async;
  fence.proxy.async.global;
  fence.proxy.async.shared::cta;
  fence.proxy.async.shared::cluster;
  fence.mbarrier_init.release.cluster;
  fence.proxy.tensormap::generic.release.gpu;
  fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;
  griddepcontrol.wait;
  griddepcontrol.launch_dependents;
  nanosleep.u32 50;
  prefetch.global.L2 [%rd1];
  prefetch.tensormap [%rd0];
  prefetchu.L1 [%rd0];
  applypriority.global.L2::evict_normal [%rd0], 128;
  discard.global.L2 [%rd0], 128;
  mov.u32 %r20, 4;
  st.global.u32 [%rd0+256], %r20;
)"),
      {}, {data});
  EXPECT_EQ(download<uint64_t>(data, 64)[32], 4u);
}

TEST_P(SystemTest, RegistersMoveThroughThePool) {
  // 256 threads at 128 registers: warps 0-3 give back 88 each, warps 4-7 take 88 more.
  const uint64_t out = zeros<uint32_t>(256);
  run(kernel(R"(
  setp.lt.u32 %p1, %r0, 128;
  mov.u32 %r20, 1;
  @%p1 bra give;
  setmaxnreg.inc.sync.aligned.u32 216;
  mov.u32 %r20, 2;
  bra done;
give:
  setmaxnreg.dec.sync.aligned.u32 40;
done:
  mad.wide.u32 %rd10, %r0, 4, %rd0;
  st.global.u32 [%rd10], %r20;
)",
             "", ".maxntid 256, 1, 1 .maxnreg 128"),
      {.block = 256}, {out});
  const auto values = download<uint32_t>(out, 256);
  for (uint32_t i = 0; i < 256; ++i) EXPECT_EQ(values[i], i < 128 ? 1u : 2u);
}

TEST_P(SystemTest, RegisterErrors) {
  fault(kernel("setmaxnreg.dec.sync.aligned.u32 160;", "", ".maxntid 128, 1, 1 .maxnreg 128"), {.block = 128},
        "launch.setmaxnreg");
  fault(kernel("setmaxnreg.inc.sync.aligned.u32 40;", "", ".maxntid 128, 1, 1 .maxnreg 128"), {.block = 128},
        "launch.setmaxnreg");
  EXPECT_THAT(fault(kernel("setmaxnreg.inc.sync.aligned.u32 240;", "", ".maxntid 128, 1, 1 .maxnreg 128"),
                    {.block = 128}, "sync.deadlock"),
              HasSubstr("setmaxnreg"));
  // Without a known count ptxas ignores the instruction.
  run(kernel("setmaxnreg.inc.sync.aligned.u32 240;"), {.block = 128});
}

TEST_P(SystemTest, FenceOfABadTensorMapAddress) {
  fault(kernel("fence.proxy.tensormap::generic.acquire.gpu [%rd0], 128;"), {}, "memory.out-of-bounds", {0x1000});
}

constexpr const char* kPrintDeclarations = R"(
.extern .func (.param .b32 result) vprintf (.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 text[40] = {116, 61, 37, 100, 32, 120, 61, 37, 46, 50, 102, 32, 108, 61, 37, 108, 108, 120, 32, 115, 61, 37, 45, 53, 115, 124, 37, 37, 32, 37, 99, 10, 0};
.global .align 1 .b8 word[4] = {97, 98, 99, 0};
)";

TEST_P(SystemTest, PrintfFormatsPerLane) {
  // "t=%d x=%.2f l=%llx s=%-5s|%% %c\n"
  const uint64_t out = zeros<uint32_t>(2);
  run(kernel(R"(
  .local .align 8 .b8 arguments_here[40];
  .param .b64 a0;
  .param .b64 a1;
  .param .b32 r;
  mov.u64 %rd20, arguments_here;
  cvta.local.u64 %rd21, %rd20;
  neg.s32 %r2, %r0;
  st.u32 [%rd21], %r2;
  mov.b64 %rd22, 0x4002000000000000;
  st.u64 [%rd21+8], %rd22;
  mov.u64 %rd23, 0xabcdef0123;
  st.u64 [%rd21+16], %rd23;
  mov.u64 %rd24, word;
  cvta.global.u64 %rd25, %rd24;
  st.u64 [%rd21+24], %rd25;
  mov.u32 %r3, 90;
  st.u32 [%rd21+32], %r3;
  mov.u64 %rd26, text;
  cvta.global.u64 %rd27, %rd26;
  st.param.b64 [a0], %rd27;
  st.param.b64 [a1], %rd21;
  call.uni (r), vprintf, (a0, a1);
  ld.param.b32 %r4, [r];
  mad.wide.u32 %rd10, %r0, 4, %rd0;
  st.global.u32 [%rd10], %r4;
)",
             kPrintDeclarations),
      {.block = 2}, {out});
  EXPECT_EQ(printed, "t=0 x=2.25 l=abcdef0123 s=abc  |% Z\nt=-1 x=2.25 l=abcdef0123 s=abc  |% Z\n");
  EXPECT_EQ(download<uint32_t>(out, 1)[0], 5u);
}

TEST_P(SystemTest, AssertFailIsAFaultWithItsMessage) {
  const std::string message =
      fault(kernel(R"(
  .param .b64 a0;
  .param .b64 a1;
  .param .b32 a2;
  .param .b64 a3;
  .param .b64 a4;
  mov.u64 %rd20, word;
  cvta.global.u64 %rd21, %rd20;
  st.param.b64 [a0], %rd21;
  st.param.b64 [a1], %rd21;
  mov.u32 %r2, 17;
  st.param.b32 [a2], %r2;
  st.param.b64 [a3], %rd21;
  mov.u64 %rd22, 1;
  st.param.b64 [a4], %rd22;
  setp.eq.u32 %p1, %r0, 5;
  @%p1 call.uni __assertfail, (a0, a1, a2, a3, a4);
)",
                   std::string(kPrintDeclarations) + ".extern .func __assertfail (.param .b64 m, .param .b64 f, .param "
                                                     ".b32 l, .param .b64 n, .param .b64 c);"),
            {}, "launch.assert");
  EXPECT_THAT(message, HasSubstr("abc:17: abc: block: [0,0,0], thread: [5,0,0] Assertion `abc` failed."));
}

}  // namespace
}  // namespace ptxbench::emulator
