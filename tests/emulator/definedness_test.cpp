// Values that nobody wrote, from where they are read to where they matter: whole kernels.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "isa/async/kernel_fixture.h"

namespace ptxbench::emulator {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Uses final : public Observer {
 public:
  explicit Uses(bool accept_proofs = false) : accept_proofs_(accept_proofs) {}
  bool accepts_proof(const LaunchEvent&) override { return accept_proofs_; }
  void on_undefined_use(const UndefinedEvent& event) override { events.push_back(event); }
  std::vector<UndefinedUse> kinds() const {
    std::vector<UndefinedUse> out;
    for (const UndefinedEvent& event : events) out.push_back(event.use);
    return out;
  }
  std::vector<UndefinedEvent> events;

 private:
  bool accept_proofs_;
};

struct Outcome {
  bool met = false;  ///< what watching says
  std::vector<UndefinedEvent> events;
  std::set<std::string> gaps;
  std::vector<UndefinedUse> kinds() const {
    std::vector<UndefinedUse> out;
    for (const UndefinedEvent& event : events) out.push_back(event.use);
    return out;
  }
};

/// Runs `body` with %rd0 an output of 64 words, %rd1 memory that holds the numbers 0 to 63, and %rd2 memory nobody
/// wrote; under watch, with and without the code that proves a launch free of races, then under track.
Outcome run(const std::string& body, const std::string& declarations = "", uint32_t block = 32,
            const std::string& functions = "") {
  Outcome outcome;
  for (const auto& [mode, accept_proofs] :
       {std::pair(DefinednessMode::watch, false), {DefinednessMode::watch, true}, {DefinednessMode::track, false}}) {
    Uses uses(accept_proofs);
    DeviceOptions options;
    options.threads = 1;
    options.observer = &uses;
    options.definedness = mode;
    auto created = Device::create(std::move(options));
    if (!created) throw std::runtime_error(created.error().message);
    Device& device = **created;
    const auto module = device.load_ptx(kernel(declarations + body, functions), "test");
    if (!module) throw std::runtime_error(module.error().message);
    LaunchRequest request;
    request.function = *device.find_kernel(*module, "k");
    request.block[0] = block;
    std::vector<uint64_t> parameters(4);
    for (size_t i = 0; i < 3; ++i) parameters[i] = *device.memory().allocate(256, AllocationKind::device, "");
    std::vector<uint32_t> numbers(64);
    for (uint32_t i = 0; i < 64; ++i) numbers[i] = i;
    EXPECT_TRUE(device.write(parameters[1], std::as_bytes(std::span(numbers))).has_value());
    request.parameters.resize(32);
    std::memcpy(request.parameters.data(), parameters.data(), 32);
    const auto report = device.launch(request);
    EXPECT_TRUE(report.has_value() && !report->fault)
        << (report.has_value() ? report->fault->message : report.error().message);
    if (mode == DefinednessMode::watch) {
      if (accept_proofs) {
        EXPECT_EQ(outcome.met, device.met_undefined()) << "with proofs: " << body;
      }
      outcome.met = device.met_undefined();
      EXPECT_TRUE(uses.events.empty());
      continue;
    }
    device.check_defined(parameters[0], 256, 4);
    outcome.events = uses.events;
    outcome.gaps = device.definedness_gaps();
  }
  // Watching must not miss what tracking reports.
  EXPECT_TRUE(outcome.met || outcome.events.empty());
  return outcome;
}

const std::string kShared =
    "  .shared .align 16 .b8 s[512];\n  mov.u32 %r2, s;\n  shl.b32 %r3, %r1, 2;\n"
    "  add.u32 %r4, %r2, %r3;\n  cvt.u64.u32 %rd4, %r3;\n  add.u64 %rd5, %rd0, %rd4;\n"
    "  add.u64 %rd6, %rd1, %rd4;\n  add.u64 %rd7, %rd2, %rd4;\n";

TEST(Definedness, NothingIsSaidAboutValuesThatWereWritten) {
  const Outcome outcome = run(R"(
  ld.global.u32 %r10, [%rd6];
  st.shared.u32 [%r4], %r10;
  bar.warp.sync -1;
  ld.shared.u32 %r11, [%r4];
  setp.lt.u32 %p1, %r11, 16;
  @%p1 add.u32 %r11, %r11, 1;
  st.global.u32 [%rd5], %r11;
)",
                              kShared);
  EXPECT_FALSE(outcome.met);
  EXPECT_THAT(outcome.kinds(), IsEmpty());
}

TEST(Definedness, EachUseIsReportedWithItsOrigin) {
  const struct {
    const char* body;
    UndefinedUse use;
  } cases[] = {
      {"setp.ne.u32 %p1, %r10, 0;\n@%p1 bra L;\nL:\n", UndefinedUse::branch},
      {"setp.ne.u32 %p1, %r10, 0;\n@%p1 st.global.u32 [%rd5], 1;\n", UndefinedUse::guard},
      {"and.b32 %r10, %r10, 63;\ncvt.u64.u32 %rd9, %r10;\nadd.u64 %rd9, %rd9, %rd1;\nand.b64 %rd9, %rd9, -4;\n"
       "ld.global.u32 %r11, [%rd9];\n",
       UndefinedUse::address},
      {"and.b32 %r10, %r10, 7;\nbarrier.sync %r10;\n", UndefinedUse::barrier},
      {"shfl.sync.idx.b32 %r11, %r1, %r10, 31, -1;\n", UndefinedUse::control},
      {"st.global.u32 [%rd5], %r10;\n", UndefinedUse::output},
  };
  for (const auto& one : cases) {
    const Outcome shared = run(std::string("ld.shared.u32 %r10, [%r4];\n") + one.body, kShared);
    EXPECT_THAT(shared.kinds(), testing::Contains(one.use)) << one.body;
    ASSERT_FALSE(shared.events.empty());
    EXPECT_TRUE(shared.events[0].has_origin);
    EXPECT_FALSE(shared.events[0].from_register);
    EXPECT_EQ(shared.events[0].space, Space::shared);
    EXPECT_EQ(shared.events[0].bytes, 4u);
    const Outcome global = run(std::string("ld.global.u32 %r10, [%rd7];\n") + one.body, kShared);
    EXPECT_THAT(global.kinds(), testing::Contains(one.use)) << one.body;
    const Outcome registers = run(std::string("mov.u32 %r10, %r40;\n") + one.body, kShared);
    EXPECT_THAT(registers.kinds(), testing::Contains(one.use)) << one.body;
    EXPECT_TRUE(registers.events.at(0).from_register);
    // The same with a value that was written.
    EXPECT_THAT(run(std::string("ld.global.u32 %r10, [%rd6];\nand.b32 %r10, %r10, 0;\n") + one.body, kShared).kinds(),
                IsEmpty())
        << one.body;
  }
}

TEST(Definedness, CopiesAreNoUses) {
  const Outcome outcome = run(R"(
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];
  st.shared.v4.u32 [%r2+16], {%r10, %r11, %r12, %r13};
  ld.global.u64 %rd9, [%rd2];
  st.global.u64 [%rd2+8], %rd9;
  shfl.sync.bfly.b32 %r14, %r10, 1, 31, -1;
  mov.b64 %rd10, {%r14, %r11};
  st.shared.u64 [%r2+32], %rd10;
  atom.shared.exch.b32 %r15, [%r2+40], %r14;
)",
                              kShared);
  EXPECT_TRUE(outcome.met);
  EXPECT_THAT(outcome.kinds(), IsEmpty());
}

TEST(Definedness, BitsOfOneWordAreApart) {
  // The upper half of each word is written.
  const std::string half =
      kShared + "  cvt.u16.u32 %h1, %r1;\n  st.shared.u16 [%r4+2], %h1;\n  ld.shared.u32 %r10, [%r4];\n";
  EXPECT_THAT(run("shr.u32 %r11, %r10, 16;\nst.global.u32 [%rd5], %r11;\n", half).kinds(), IsEmpty());
  EXPECT_THAT(run("mov.b32 {%h2, %h3}, %r10;\ncvt.u32.u16 %r11, %h3;\nst.global.u32 [%rd5], %r11;\n", half).kinds(),
              IsEmpty());
  EXPECT_THAT(run("and.b32 %r11, %r10, 0xffff0000;\nsetp.eq.u32 %p1, %r11, 0;\n@%p1 bra L;\nL:\n", half).kinds(),
              IsEmpty());
  EXPECT_THAT(run("prmt.b32 %r11, %r10, 0, 0x4432;\nst.global.u32 [%rd5], %r11;\n", half).kinds(), IsEmpty());
  EXPECT_THAT(run("bfi.b32 %r11, 7, %r10, 0, 16;\nst.global.u32 [%rd5], %r11;\n", half).kinds(), IsEmpty());
  EXPECT_THAT(run("st.global.u32 [%rd5], %r10;\n", half).kinds(), testing::Contains(UndefinedUse::output));
  EXPECT_THAT(run("shr.u32 %r11, %r10, 15;\nst.global.u32 [%rd5], %r11;\n", half).kinds(),
              testing::Contains(UndefinedUse::output));
}

TEST(Definedness, LanesAreApart) {
  // Half the lanes write the register; a vote is decided by a lane that knows.
  const std::string some = kShared + "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 mov.u32 %r10, 5;\n";
  EXPECT_THAT(run("@%p1 st.global.u32 [%rd5], %r10;\n", some).kinds(), IsEmpty());
  EXPECT_THAT(run("selp.u32 %r11, %r10, 0, %p1;\nst.global.u32 [%rd5], %r11;\n", some).kinds(), IsEmpty());
  EXPECT_THAT(run("st.global.u32 [%rd5], %r10;\n", some).kinds(), testing::Contains(UndefinedUse::output));
  EXPECT_THAT(run("setp.eq.u32 %p2, %r10, 5;\nvote.sync.any.pred %p3, %p2, -1;\n@%p3 bra L;\nL:\n", some).kinds(),
              IsEmpty());
  EXPECT_THAT(run("setp.eq.u32 %p2, %r10, 5;\nvote.sync.all.pred %p3, %p2, -1;\n@%p3 bra L;\nL:\n", some).kinds(),
              testing::Contains(UndefinedUse::branch));
  // From a lane that wrote it, the value is known; the other way it is not.
  EXPECT_THAT(run("shfl.sync.idx.b32 %r11, %r10, 3, 31, -1;\nst.global.u32 [%rd5], %r11;\n", some).kinds(), IsEmpty());
  EXPECT_THAT(run("shfl.sync.idx.b32 %r11, %r10, 20, 31, -1;\nst.global.u32 [%rd5], %r11;\n", some).kinds(),
              testing::Contains(UndefinedUse::output));
}

TEST(Definedness, ExtendedArithmeticCarriesIt) {
  const std::string low = kShared + "  ld.shared.u32 %r10, [%r4];\n";
  EXPECT_THAT(run("add.cc.u32 %r11, %r10, 1;\naddc.u32 %r12, 0, 0;\nst.global.u32 [%rd5], %r12;\n", low).kinds(),
              testing::Contains(UndefinedUse::output));
  EXPECT_THAT(run("add.cc.u32 %r11, %r1, 1;\naddc.u32 %r12, 0, 0;\nst.global.u32 [%rd5], %r12;\n", low).kinds(),
              IsEmpty());
}

TEST(Definedness, AtomicsOnUnwrittenMemoryKeepItUndefined) {
  EXPECT_THAT(
      run("red.shared.add.u32 [%r4], 1;\nld.shared.u32 %r10, [%r4];\nst.global.u32 [%rd5], %r10;\n", kShared).kinds(),
      testing::Contains(UndefinedUse::output));
  EXPECT_THAT(
      run("atom.shared.exch.b32 %r9, [%r4], 1;\nld.shared.u32 %r10, [%r4];\nst.global.u32 [%rd5], %r10;\n", kShared)
          .kinds(),
      IsEmpty());
}

TEST(Definedness, AsynchronousCopiesBringWhatTheirSourceHolds) {
  const std::string wait =
      "cp.async.commit_group;\ncp.async.wait_group 0;\nld.shared.u32 %r10, [%r4];\n"
      "st.global.u32 [%rd5], %r10;\n";
  EXPECT_THAT(run("cp.async.ca.shared.global [%r4], [%rd6], 4;\n" + wait, kShared).kinds(), IsEmpty());
  EXPECT_THAT(run("cp.async.ca.shared.global [%r4], [%rd7], 4;\n" + wait, kShared).kinds(),
              testing::Contains(UndefinedUse::output));
  // What is not read is filled with zeros.
  EXPECT_THAT(run("cp.async.ca.shared.global [%r4], [%rd7], 4, 0;\n" + wait, kShared).kinds(), IsEmpty());
  const Outcome bulk = run(R"(
  setp.eq.u32 %p1, %r1, 0;
  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd0], [%r2], 128;
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
)",
                           kShared);
  EXPECT_THAT(bulk.kinds(), ElementsAre(UndefinedUse::output));
}

TEST(Definedness, MatrixProductsSpoilRowsAndColumns) {
  // Registers of row l / 4 in the lanes below 16 are known: rows 0 to 3 and 8 to 11.
  const std::string product =
      kShared +
      "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 mov.u32 %r20, 0;\n  mov.u32 %r21, 0;\n  mov.f32 %f1, 0f00000000;\n"
      "  mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f10, %f11, %f12, %f13}, {%r20, %r21}, {%r21}, {%f1, %f1, "
      "%f1, %f1};\n";
  EXPECT_THAT(run("@%p1 st.global.f32 [%rd5], %f10;\n", product).kinds(), IsEmpty());
  EXPECT_THAT(run("st.global.f32 [%rd5], %f12;\n", product).kinds(), IsEmpty());
  EXPECT_THAT(run("@!%p1 st.global.f32 [%rd5], %f11;\n", product).kinds(), testing::Contains(UndefinedUse::output));
  // B: column l / 4, so columns 4 to 7 of D are spoiled, which lanes 2 and 3 of each row hold.
  const std::string columns =
      kShared +
      "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 mov.u32 %r20, 0;\n  mov.u32 %r21, 0;\n  mov.f32 %f1, 0f00000000;\n"
      "  and.b32 %r22, %r1, 3;\n  setp.lt.u32 %p2, %r22, 2;\n"
      "  mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%f10, %f11, %f12, %f13}, {%r21, %r21}, {%r20}, {%f1, %f1, "
      "%f1, %f1};\n";
  EXPECT_THAT(run("@%p2 st.global.f32 [%rd5], %f13;\n", columns).kinds(), IsEmpty());
  EXPECT_THAT(run("@!%p2 st.global.f32 [%rd5], %f13;\n", columns).kinds(), testing::Contains(UndefinedUse::output));
}

TEST(Definedness, MatrixLoadsFollowTheirRows) {
  // Rows 0 to 3 of the 8x8 matrix are written: lanes 0 to 15 load them.
  const std::string rows = kShared +
                           "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 st.shared.u32 [%r4], %r1;\n  bar.warp.sync -1;\n"
                           "  and.b32 %r20, %r1, 7;\n  shl.b32 %r20, %r20, 4;\n  add.u32 %r20, %r20, %r2;\n";
  EXPECT_THAT(
      run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r20];\n@%p1 st.global.u32 [%rd5], %r10;\n", rows).kinds(),
      IsEmpty());
  EXPECT_THAT(run("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r10}, [%r20];\n@!%p1 st.global.u32 [%rd5], %r10;\n", rows)
                  .kinds(),
              testing::Contains(UndefinedUse::output));
  // Transposed, every register has elements of rows 2 (l % 4) and the next.
  EXPECT_THAT(run("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r10}, [%r20];\nand.b32 %r22, %r1, 3;\n"
                  "setp.lt.u32 %p2, %r22, 2;\n@%p2 st.global.u32 [%rd5], %r10;\n",
                  rows)
                  .kinds(),
              IsEmpty());
}

TEST(Definedness, CallsPassItOnAndReturnIt) {
  const std::string function =
      ".func (.param .b32 r) twice(.param .b32 x) {\n.reg .b32 %a<4>;\nld.param.b32 %a1, [x];\nadd.u32 %a2, %a1, %a1;\n"
      "st.param.b32 [r], %a2;\nret;\n}\n";
  const auto call = [](const std::string& value) {
    return "{\n.param .b32 in;\n.param .b32 back;\nst.param.b32 [in], " + value +
           ";\ncall (back), twice, (in);\nld.param.b32 %r11, [back];\n}\nst.global.u32 [%rd5], %r11;\n";
  };
  EXPECT_THAT(run(call("%r1"), kShared, 32, function).kinds(), IsEmpty());
  EXPECT_FALSE(run(call("%r1"), kShared, 32, function).met);
  EXPECT_THAT(run(call("%r40"), kShared, 32, function).kinds(), testing::Contains(UndefinedUse::output));
}

TEST(Definedness, WhatTheHostWroteAndCopiedCounts) {
  Uses uses;
  DeviceOptions options;
  options.threads = 1;
  options.observer = &uses;
  options.definedness = DefinednessMode::watch;
  auto created = Device::create(std::move(options));
  ASSERT_TRUE(created.has_value()) << created.error().message;
  Device& device = **created;
  const auto module = device.load_ptx(kernel("  ld.global.u32 %r5, [%rd0];\n  st.global.u32 [%rd1], %r5;\n"), "test");
  ASSERT_TRUE(module.has_value()) << module.error().message;
  const auto launch = [&](uint64_t from, uint64_t to) {
    LaunchRequest request;
    request.function = *device.find_kernel(*module, "k");
    std::vector<uint64_t> parameters{from, to, 0, 0};
    request.parameters.resize(32);
    std::memcpy(request.parameters.data(), parameters.data(), 32);
    const auto report = device.launch(request);
    EXPECT_TRUE(report.has_value() && !report->fault);
    return device.met_undefined();
  };
  const uint64_t a = *device.memory().allocate(64, AllocationKind::device, "a");
  const uint64_t b = *device.memory().allocate(64, AllocationKind::device, "b");
  const uint64_t c = *device.memory().allocate(64, AllocationKind::device, "c");
  ASSERT_TRUE(device.fill(a, 1, 4, 16).has_value());
  EXPECT_FALSE(launch(a, b));  // the fill
  EXPECT_FALSE(launch(b, c));  // what a kernel wrote
  ASSERT_TRUE(device.copy(c + 32, a, 16).has_value());
  EXPECT_FALSE(launch(c + 32, b));
  ASSERT_TRUE(device.copy(c + 32, b + 32, 16).has_value());  // of bytes nobody wrote
  EXPECT_TRUE(launch(c + 32, b));
}

TEST(Definedness, FreedMemoryForgets) {
  Uses uses;
  DeviceOptions options;
  options.threads = 1;
  options.observer = &uses;
  options.definedness = DefinednessMode::watch;
  auto created = Device::create(std::move(options));
  ASSERT_TRUE(created.has_value()) << created.error().message;
  Device& device = **created;
  const auto module = device.load_ptx(kernel("  ld.global.u32 %r5, [%rd0];\n"), "test");
  ASSERT_TRUE(module.has_value()) << module.error().message;
  // More blocks than are held back after they are freed, so that an address comes again.
  std::set<uint64_t> seen;
  for (int i = 0; i < 400 && !device.met_undefined(); ++i) {
    const uint64_t block = *device.memory().allocate(4096, AllocationKind::device, "");
    if (!seen.insert(block).second) {
      LaunchRequest request;
      request.function = *device.find_kernel(*module, "k");
      std::vector<uint64_t> parameters{block, 0, 0, 0};
      request.parameters.resize(32);
      std::memcpy(request.parameters.data(), parameters.data(), 32);
      ASSERT_TRUE(device.launch(request).has_value());
      EXPECT_TRUE(device.met_undefined());
      return;
    }
    ASSERT_TRUE(device.fill(block, 7, 4, 1024).has_value());
    ASSERT_TRUE(device.memory().free(block).has_value());
  }
  FAIL() << "no address came twice";
}

}  // namespace
}  // namespace ptxbench::emulator
