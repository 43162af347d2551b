#include <array>
#include <cmath>
#include <random>

#include "isa/async/kernel_fixture.h"

/// Runs of loads and multiply-adds that execute as one, and registers that share slots: straight-line programs chosen
/// at random against a lane-by-lane interpretation of the same program.
namespace ptxbench::emulator {
namespace {

constexpr uint32_t kRegisters = 12, kRows = 8, kSharedBytes = kRows * 128;

float shared_word(uint32_t word) { return static_cast<float>(word * 37 % 101) * 0.25f - 9; }

/// %f0 .. %f11 are set from lane and register number, shared memory from shared_word(), %r10 is its address, %r11 that
/// of the lane's word in the first row.
std::string prologue() {
  std::string text = ".shared .align 128 .b8 tile[" + std::to_string(kSharedBytes) +
                     "];\n  mov.u32 %r10, tile;\n  shl.b32 %r12, %r1, 2;\n  add.u32 %r11, %r10, %r12;\n";
  for (uint32_t row = 0; row < kRows; ++row) {
    const std::string word = std::to_string(row * 32), offset = std::to_string(row * 128);
    text += "  add.u32 %r2, %r1, " + word +
            ";\n  mul.lo.u32 %r2, %r2, 37;\n  rem.u32 %r2, %r2, 101;\n  cvt.rn.f32.u32 %f100, %r2;\n"
            "  fma.rn.f32 %f100, %f100, 0f3E800000, 0fC1100000;\n  st.shared.f32 [%r11+" +
            offset + "], %f100;\n";
  }
  for (uint32_t r = 0; r < kRegisters; ++r) {
    const std::string name = "%f" + std::to_string(r);
    text += "  add.u32 %r2, %r1, " + std::to_string(r) + ";\n  cvt.rn.f32.u32 " + name + ", %r2;\n";
  }
  return text + "  bar.warp.sync -1;\n";
}

std::string epilogue() {
  std::string text = "  mul.wide.u32 %rd4, %r1, " + std::to_string(kRegisters * 4) + ";\n  add.u64 %rd4, %rd4, %rd0;\n";
  for (uint32_t r = 0; r < kRegisters; ++r)
    text += "  st.global.f32 [%rd4+" + std::to_string(r * 4) + "], %f" + std::to_string(r) + ";\n";
  return text;
}

struct Program {
  std::string text;
  std::array<std::array<float, 32>, kRegisters> registers{};
};

/// Instructions for the first `lanes` lanes, and what they leave in the registers. `names` renames registers: with
/// fresh names for every result the program is in static single assignment form, as compilers write it.
Program random_program(std::mt19937& random, uint32_t lanes, bool single_assignment) {
  Program program;
  std::array<std::string, kRegisters> names;
  for (uint32_t r = 0; r < kRegisters; ++r) {
    names[r] = "%f" + std::to_string(r);
    for (uint32_t lane = 0; lane < 32; ++lane) program.registers[r][lane] = static_cast<float>(lane + r);
  }
  uint32_t fresh = 0;
  const auto pick = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  const auto result = [&](uint32_t r) {
    if (single_assignment) names[r] = "%g" + std::to_string(fresh++);
    return names[r];
  };
  const auto each = [&](uint32_t d, auto value) {
    for (uint32_t lane = 0; lane < lanes; ++lane) program.registers[d][lane] = value(lane);
  };
  const auto broadcast = [&](uint32_t d) {
    const uint32_t word = pick(kRows * 32);
    program.text += "  ld.shared.f32 " + result(d) + ", [%r10+" + std::to_string(word * 4) + "];\n";
    each(d, [&](uint32_t) { return shared_word(word); });
  };
  const auto row = [&](uint32_t d) {
    const uint32_t word = pick((kRows - 1) * 32);
    program.text += "  ld.shared.f32 " + result(d) + ", [%r11+" + std::to_string(word * 4) + "];\n";
    each(d, [&](uint32_t lane) { return shared_word(word + lane); });
  };
  const auto fma = [&](uint32_t d, uint32_t a, uint32_t b, uint32_t c) {
    const std::string sources = names[a] + ", " + names[b] + ", " + names[c];
    program.text += "  fma.rn.f32 " + result(d) + ", " + sources + ";\n";
    const auto before = program.registers;
    each(d, [&](uint32_t lane) { return std::fma(before[a][lane], before[b][lane], before[c][lane]); });
  };
  uint32_t sum = pick(kRegisters), one = pick(kRegisters), line = pick(kRegisters);
  for (int step = 0; step < 12; ++step) {
    if (pick(4) == 0) sum = pick(kRegisters);
    if (pick(3) == 0) one = pick(kRegisters);
    if (pick(3) == 0) line = pick(kRegisters);
    switch (pick(8)) {
      case 0:
        broadcast(pick(kRegisters));
        break;
      case 1:
        row(pick(kRegisters));
        break;
      case 2:
        fma(pick(kRegisters), pick(kRegisters), pick(kRegisters), pick(kRegisters));
        break;
      default:
        if (pick(2) == 0) {
          row(line);
          broadcast(one);
        } else {
          broadcast(one);
          row(line);
        }
        if (pick(2) == 0) {
          fma(pick(4) == 0 ? pick(kRegisters) : sum, one, line, sum);
        } else {
          fma(pick(4) == 0 ? pick(kRegisters) : sum, line, one, sum);
        }
        if (pick(3) == 0) {
          // Keeps the sums small: huge ones would hide a missing term.
          const std::string source = names[sum];
          program.text += "  min.f32 " + result(sum) + ", " + source + ", 0f44800000;\n";
          each(sum, [&](uint32_t lane) { return std::fmin(program.registers[sum][lane], 1024.0f); });
        }
    }
  }
  for (uint32_t r = 0; r < kRegisters; ++r) {
    const std::string name = "%f" + std::to_string(r);
    if (names[r] != name) program.text += "  mov.f32 " + name + ", " + names[r] + ";\n";
  }
  if (fresh != 0) program.text = "  .reg .f32 %g<" + std::to_string(fresh) + ">;\n" + program.text;
  return program;
}

class Fused : public KernelTest {};

TEST_P(Fused, RandomProgramsLeaveWhatTheyShould) {
  std::mt19937 random(20261130);
  const uint64_t out = zeros<float>(32 * kRegisters);
  for (int round = 0; round < 300; ++round) {
    const uint32_t lanes = round % 3 == 0 ? 1 + static_cast<uint32_t>(random() % 31) : 32;
    const Program program = random_program(random, lanes, round % 2 == 0);
    std::string body = prologue();
    if (lanes < 32) body += "  setp.ge.u32 %p0, %r1, " + std::to_string(lanes) + ";\n  @%p0 bra after;\n";
    body += program.text + "after:\n" + epilogue();
    run(kernel(body), {}, {out});
    const auto values = download<float>(out, 32 * kRegisters);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t r = 0; r < kRegisters; ++r) {
        const float got = values[lane * kRegisters + r], wanted = program.registers[r][lane];
        ASSERT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted)))
            << "round " << round << " lane " << lane << " %f" << r << ": " << got << " instead of " << wanted << "\n"
            << program.text;
      }
    }
  }
}

std::string triples(const std::string& last_row) {
  return prologue() + R"(
  ld.shared.f32 %f101, [%r10];
  ld.shared.f32 %f102, [%r11];
  fma.rn.f32 %f0, %f101, %f102, %f0;
  ld.shared.f32 %f103, [%r10+4];
  ld.shared.f32 %f104, [%r11+)" +
         last_row + R"(];
  fma.rn.f32 %f0, %f103, %f104, %f0;
)";
}

TEST_P(Fused, ARunThatLeavesSharedMemoryFaultsAtTheLoadThatDoes) {
  const LaunchReport report = launch(kernel(triples("1024")), {});
  ASSERT_TRUE(report.fault.has_value());
  EXPECT_EQ(report.fault->rule, "memory.out-of-bounds");
  EXPECT_THAT(report.fault->place.instruction, testing::HasSubstr("%f104"));
  run(kernel(triples("896")), {});
}

TEST_P(Fused, AMisalignedRowFaults) {
  const LaunchReport report = launch(kernel(triples("130")), {});
  ASSERT_TRUE(report.fault.has_value());
  EXPECT_EQ(report.fault->rule, "memory.misaligned");
  EXPECT_THAT(report.fault->place.instruction, testing::HasSubstr("%f104"));
}

TEST_P(Fused, AddressesWrapAsTheyDoOneByOne) {
  // The registers hold addresses far outside, the offsets bring them back.
  const uint64_t out = zeros<float>(32);
  run(kernel(prologue() + R"(
  sub.u32 %r20, %r10, 4096;
  sub.u32 %r21, %r11, 4096;
  ld.shared.f32 %f101, [%r20+4100];
  ld.shared.f32 %f102, [%r21+4224];
  fma.rn.f32 %f0, %f101, %f102, %f0;
  ld.shared.f32 %f103, [%r20+4104];
  ld.shared.f32 %f104, [%r21+4352];
  fma.rn.f32 %f0, %f103, %f104, %f0;
  mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd4, %rd4, %rd0;
  st.global.f32 [%rd4], %f0;
)"),
      {}, {out});
  const auto values = download<float>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    float sum = std::fma(shared_word(1), shared_word(32 + lane), static_cast<float>(lane));
    sum = std::fma(shared_word(2), shared_word(64 + lane), sum);
    EXPECT_EQ(values[lane], sum) << lane;
  }
}

TEST_P(Fused, NotANumberIsCanonical) {
  const uint64_t out = zeros<uint32_t>(32);
  run(kernel(prologue() + R"(
  mov.b32 %f0, 0xffc01234;
  ld.shared.f32 %f101, [%r10];
  ld.shared.f32 %f102, [%r11];
  fma.rn.f32 %f1, %f101, %f102, %f0;
  ld.shared.f32 %f103, [%r10+4];
  ld.shared.f32 %f104, [%r11+128];
  fma.rn.f32 %f2, %f103, %f104, %f1;
  mul.wide.u32 %rd4, %r1, 4;
  add.u64 %rd4, %rd4, %rd0;
  st.global.f32 [%rd4], %f2;
)"),
      {}, {out});
  for (const uint32_t bits : download<uint32_t>(out, 32)) EXPECT_EQ(bits, 0x7fffffffu);
}

PTXBENCH_ALL_POLICIES(Fused);

}  // namespace
}  // namespace ptxbench::emulator
