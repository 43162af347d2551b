// The rules by which undefined bits travel, against all values the undefined bits could have had.
#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "emulator/undefined_bits.h"
#include "ptx/parser.h"

namespace ptxbench::emulator {
namespace {

ptx::Module parse(const std::string& instruction) {
  const std::string text =
      ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<8>;\n.reg .b64 %rd<8>;\n"
      ".reg .b16 %h<8>;\n.reg .pred %p<8>;\n" +
      instruction + "\nret;\n}\n";
  auto module = ptx::parse_module(text, "test");
  if (!module) throw std::runtime_error(module.error().message + "\n" + text);
  return std::move(*module);
}

struct Case {
  const char* instruction;
  std::vector<uint8_t> source_widths;
  uint8_t result_width;
  std::function<uint64_t(const std::vector<uint64_t>&)> compute;
  bool exact;  ///< no bit is called undefined that is not
};

uint64_t prmt(uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t both = b << 32 | a;
  uint64_t result = 0;
  for (int i = 0; i < 4; ++i) {
    const uint64_t s = c >> (4 * i) & 0xf;
    uint64_t byte = both >> (8 * (s & 7)) & 0xff;
    if (s & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * i);
  }
  return result;
}

int64_t as_signed(uint64_t v) { return static_cast<int32_t>(static_cast<uint32_t>(v)); }

uint64_t bfe(uint64_t a, uint64_t position, uint64_t length, bool is_signed) {
  position &= 0xff;
  length &= 0xff;
  const uint64_t top = std::min<uint64_t>(position + length - 1, 31);
  const uint64_t sign = is_signed && length != 0 ? a >> top & 1 : 0;
  uint64_t result = 0;
  for (uint64_t i = 0; i < 32; ++i) result |= (i < length && position + i <= 31 ? a >> (position + i) & 1 : sign) << i;
  return result;
}

const std::vector<Case>& cases() {
  using V = const std::vector<uint64_t>&;
  static const std::vector<Case> list{
      {"and.b32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[0] & v[1]; }, true},
      {"or.b32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[0] | v[1]; }, true},
      {"xor.b32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[0] ^ v[1]; }, true},
      {"xor.b32 %r0, %r1, %r1;", {32}, 32, [](V) { return 0; }, true},
      {"not.b32 %r0, %r1;", {32}, 32, [](V v) { return ~v[0]; }, true},
      {"lop3.b32 %r0, %r1, %r2, %r3, 0x96;", {32, 32, 32}, 32, [](V v) { return v[0] ^ v[1] ^ v[2]; }, true},
      {"lop3.b32 %r0, %r1, %r2, %r3, 0xca;",
       {32, 32, 32},
       32,
       [](V v) { return (v[0] & v[1]) | (~v[0] & v[2]); },
       true},
      {"lop3.b32 %r0, %r1, %r2, %r3, 0xe8;",
       {32, 32, 32},
       32,
       [](V v) { return (v[0] & v[1]) | (v[0] & v[2]) | (v[1] & v[2]); },
       true},
      {"mov.b32 %r0, %r1;", {32}, 32, [](V v) { return v[0]; }, true},
      {"mov.b32 %r0, {%h1, %h2};", {16, 16}, 32, [](V v) { return v[0] | v[1] << 16; }, true},
      {"mov.b64 %rd0, {%r1, %r2};", {32, 32}, 64, [](V v) { return v[0] | v[1] << 32; }, true},
      {"selp.b32 %r0, %r1, %r2, %p1;", {32, 32, 1}, 32, [](V v) { return v[2] != 0 ? v[0] : v[1]; }, true},
      {"shl.b32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[1] >= 32 ? 0 : v[0] << v[1]; }, false},
      {"shr.u32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[1] >= 32 ? 0 : v[0] >> v[1]; }, false},
      {"shr.s32 %r0, %r1, 5;", {32, 64}, 32, [](V v) { return static_cast<uint64_t>(as_signed(v[0]) >> 5); }, true},
      {"shl.b32 %r0, %r1, 7;", {32, 64}, 32, [](V v) { return v[0] << 7; }, true},
      {"shf.l.wrap.b32 %r0, %r1, %r2, 9;", {32, 32, 64}, 32, [](V v) { return v[1] << 9 | v[0] >> 23; }, true},
      {"shf.r.clamp.b32 %r0, %r1, %r2, 40;", {32, 32, 64}, 32, [](V v) { return v[1]; }, true},
      {"bfe.u32 %r0, %r1, 6, 9;", {32, 64, 64}, 32, [](V v) { return bfe(v[0], 6, 9, false); }, true},
      {"bfe.s32 %r0, %r1, 6, 9;", {32, 64, 64}, 32, [](V v) { return bfe(v[0], 6, 9, true); }, true},
      {"bfe.s32 %r0, %r1, 28, 9;", {32, 64, 64}, 32, [](V v) { return bfe(v[0], 28, 9, true); }, true},
      {"bfi.b32 %r0, %r1, %r2, 3, 6;",
       {32, 32, 64, 64},
       32,
       [](V v) { return (v[1] & ~(0x3full << 3)) | ((v[0] & 0x3f) << 3); },
       true},
      {"prmt.b32 %r0, %r1, %r2, 0x7610;", {32, 32, 64}, 32, [](V v) { return prmt(v[0], v[1], 0x7610); }, true},
      {"prmt.b32 %r0, %r1, %r2, 0xb980;", {32, 32, 64}, 32, [](V v) { return prmt(v[0], v[1], 0xb980); }, true},
      {"brev.b32 %r0, %r1;",
       {32},
       32,
       [](V v) {
         uint64_t r = 0;
         for (int i = 0; i < 32; ++i) r |= (v[0] >> i & 1) << (31 - i);
         return r;
       },
       true},
      {"cnot.b32 %r0, %r1;", {32}, 32, [](V v) { return v[0] == 0 ? 1 : 0; }, true},
      {"cvt.u16.u32 %h0, %r1;", {32}, 16, [](V v) { return v[0] & 0xffff; }, true},
      {"cvt.s64.s32 %rd0, %r1;", {32}, 64, [](V v) { return static_cast<uint64_t>(as_signed(v[0])); }, true},
      {"cvt.u64.u32 %rd0, %r1;", {32}, 64, [](V v) { return v[0]; }, true},
      {"cvt.s32.s8 %r0, %r1;", {32}, 32, [](V v) { return static_cast<uint64_t>(static_cast<int8_t>(v[0])); }, true},
      {"cvt.u32.u8 %r0, %r1;", {32}, 32, [](V v) { return v[0] & 0xff; }, true},
      {"add.u32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[0] + v[1]; }, false},
      {"sub.s32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[0] - v[1]; }, false},
      {"sub.s32 %r0, %r1, %r1;", {32}, 32, [](V) { return 0; }, true},
      {"mul.lo.u32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[0] * v[1]; }, false},
      {"mul.wide.u32 %rd0, %r1, %r2;", {32, 32}, 64, [](V v) { return v[0] * v[1]; }, false},
      {"mul.wide.s32 %rd0, %r1, %r2;",
       {32, 32},
       64,
       [](V v) { return static_cast<uint64_t>(as_signed(v[0]) * as_signed(v[1])); },
       false},
      {"mad.lo.u32 %r0, %r1, %r2, %r3;", {32, 32, 32}, 32, [](V v) { return v[0] * v[1] + v[2]; }, false},
      {"mul.hi.u32 %r0, %r1, %r2;", {32, 32}, 32, [](V v) { return v[0] * v[1] >> 32; }, false},
      {"popc.b32 %r0, %r1;", {32}, 32, [](V v) { return static_cast<uint64_t>(std::popcount(v[0])); }, false},
      {"setp.lt.u32 %p0, %r1, %r2;", {32, 32}, 1, [](V v) { return v[0] < v[1] ? 1 : 0; }, true},
      {"setp.ge.s32 %p0, %r1, %r2;", {32, 32}, 1, [](V v) { return as_signed(v[0]) >= as_signed(v[1]) ? 1 : 0; }, true},
      {"setp.gt.s32 %p0, %r1, %r2;", {32, 32}, 1, [](V v) { return as_signed(v[0]) > as_signed(v[1]) ? 1 : 0; }, true},
      {"setp.ne.b32 %p0, %r1, %r2;", {32, 32}, 1, [](V v) { return v[0] != v[1] ? 1 : 0; }, true},
      {"setp.eq.and.u32 %p0, %r1, %r2, %p1;", {32, 32, 1}, 1, [](V v) { return v[0] == v[1] && v[2] ? 1 : 0; }, true},
      {"setp.le.or.u32 %p0, %r1, %r2, %p1;", {32, 32, 1}, 1, [](V v) { return v[0] <= v[1] || v[2] ? 1 : 0; }, true},
      {"and.pred %p0, %p1, %p2;", {1, 1}, 1, [](V v) { return v[0] & v[1]; }, true},
  };
  return list;
}

/// Immediates are the sources that the instruction's text gives.
std::vector<std::pair<size_t, uint64_t>> immediates(const ptx::Instruction& instruction) {
  std::vector<std::pair<size_t, uint64_t>> found;
  for (size_t o = 1; o < instruction.operands.size(); ++o) {
    if (instruction.operands[o].kind == ptx::OperandKind::integer)
      found.emplace_back(o - 1, instruction.operands[o].bits);
  }
  return found;
}

TEST(UndefinedBits, CoverEveryBitThatCanChangeAndExactRulesNoOther) {
  std::mt19937_64 random(5);
  for (const Case& one : cases()) {
    const ptx::Module module = parse(one.instruction);
    const ptx::Instruction& instruction = module.functions.at(0).instructions.at(0);
    const FlowRule rule = flow_of(instruction);
    for (int round = 0; round < 600; ++round) {
      std::vector<Bits> sources(one.source_widths.size());
      std::vector<std::pair<size_t, unsigned>> open;
      for (size_t s = 0; s < sources.size(); ++s) {
        sources[s].value = random() & low_bits(one.source_widths[s]);
        // Small and equal values too: comparisons and zeros are where the rules have to think.
        if (random() % 3 == 0) sources[s].value &= 0x3f;
        if (s != 0 && random() % 4 == 0) sources[s].value = sources[0].value & low_bits(one.source_widths[s]);
      }
      for (const auto& [s, bits] : immediates(instruction)) {
        if (s < sources.size()) sources[s].value = bits;
      }
      const unsigned count = static_cast<unsigned>(random() % 7);
      for (unsigned i = 0; i < count; ++i) {
        const size_t s = random() % sources.size();
        bool immediate = false;
        for (const auto& [position, bits] : immediates(instruction)) immediate = immediate || position == s;
        if (immediate) continue;
        const auto bit = static_cast<unsigned>(random() % one.source_widths[s]);
        if ((sources[s].undefined >> bit & 1) != 0) continue;
        sources[s].undefined |= 1ull << bit;
        open.emplace_back(s, bit);
      }
      const uint64_t mask = low_bits(one.result_width);
      uint64_t zeros = 0, ones = 0;
      for (uint64_t choice = 0; choice < 1ull << open.size(); ++choice) {
        std::vector<uint64_t> values;
        for (const Bits& bits : sources) values.push_back(bits.value & ~bits.undefined);
        for (size_t i = 0; i < open.size(); ++i) values[open[i].first] |= (choice >> i & 1) << open[i].second;
        const uint64_t result = one.compute(values) & mask;
        ones |= result;
        zeros |= ~result & mask;
      }
      std::vector<uint64_t> results(1);
      const std::vector<uint8_t> widths{one.result_width};
      propagate(rule, sources, one.source_widths, results, widths);
      const uint64_t changing = zeros & ones;
      EXPECT_EQ(changing & ~results[0], 0u) << one.instruction << " misses bits";
      if (one.exact || open.empty()) {
        EXPECT_EQ(results[0], changing) << one.instruction;
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
}

TEST(UndefinedBits, SumsAndProductsKeepTheBitsBelow) {
  const auto result = [](const char* text, Bits a, Bits b) {
    const ptx::Module module = parse(text);
    const std::vector<Bits> sources{a, b};
    const std::vector<uint8_t> widths{32, 32}, out{32};
    std::vector<uint64_t> results(1);
    propagate(flow_of(module.functions.at(0).instructions.at(0)), sources, widths, results, out);
    return results[0];
  };
  EXPECT_EQ(result("add.u32 %r0, %r1, %r2;", {0, 0x100}, {5, 0}), 0xffffff00u);
  EXPECT_EQ(result("mul.lo.u32 %r0, %r1, %r2;", {0, 0x10}, {4, 0}), 0xffffffc0u);
  EXPECT_EQ(result("mul.lo.u32 %r0, %r1, %r2;", {0, ~0ull}, {0, 0}), 0u);
}

TEST(UndefinedBits, PackedAndConvertedHalvesAreApart) {
  const auto result = [](const char* text, std::vector<Bits> sources, std::vector<uint8_t> widths, uint8_t out) {
    const ptx::Module module = parse(text);
    std::vector<uint64_t> results(1);
    const std::vector<uint8_t> result_widths{out};
    propagate(flow_of(module.functions.at(0).instructions.at(0)), sources, widths, results, result_widths);
    return results[0];
  };
  EXPECT_EQ(result("add.f16x2 %r0, %r1, %r2;", {{0, 0x1}, {0, 0}}, {32, 32}, 32), 0xffffu);
  EXPECT_EQ(result("fma.rn.bf16x2 %r0, %r1, %r2, %r3;", {{0, 0}, {0, 0}, {0, 0x80000000}}, {32, 32, 32}, 32),
            0xffff0000u);
  EXPECT_EQ(result("cvt.rn.f16x2.f32 %r0, %r1, %r2;", {{0, 1}, {0, 0}}, {32, 32}, 32), 0xffff0000u);
  EXPECT_EQ(result("cvt.rn.f16x2.f32 %r0, %r1, %r2;", {{0, 0}, {0, 1}}, {32, 32}, 32), 0xffffu);
  EXPECT_EQ(result("add.f32 %r0, %r1, %r2;", {{0, 0}, {0, 1}}, {32, 32}, 32), 0xffffffffu);
}

}  // namespace
}  // namespace ptxbench::emulator
