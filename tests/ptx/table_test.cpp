#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/files.h"
#include "base/process.h"
#include "base/toolkit.h"
#include "ptx/instruction_samples.h"
#include "ptx/matcher.h"
#include "ptx/names.h"
#include "ptx/parser.h"

namespace ptxbench::ptx {
namespace {

/// Lines that parser and ptxas judge together: every form of the table this target has.
std::vector<std::string> all_samples() {
  std::vector<std::string> lines;
  for (const CompiledForm& form : compiled_forms()) {
    if (form.target_number > 90) continue;
    for (InstructionSample& sample : samples_of(form)) {
      const std::string& text = sample.text;
      // ptxas 13.0 crashes on a load from a parameter that no call has written, and on bf16 sums that nobody wants.
      const bool unwritten = text.find("ld.param::func") != std::string::npos;
      const bool unwanted =
          text.starts_with("atom.") && text.find(".bf16") != std::string::npos && text.find(" _,") != std::string::npos;
      if (!unwritten && !unwanted) lines.push_back(std::move(sample.text));
    }
  }
  return lines;
}

TEST(InstructionTable, EveryOpcodeButTexturesHasAForm) {
  const std::set<Op> without = {Op::tex, Op::tld4, Op::txq, Op::suld, Op::sust, Op::sured, Op::suq, Op::istypep};
  for (const OpcodeSpelling& spelling : opcode_spellings())
    EXPECT_NE(compiled_forms(spelling.op).empty(), without.contains(spelling.op) == false) << spelling.text;
}

TEST(InstructionTable, TheParserTakesEverySample) {
  const std::vector<std::string> lines = all_samples();
  EXPECT_GT(lines.size(), 6000u);
  const auto module = parse_module(sample_module(lines), "samples");
  ASSERT_TRUE(module.has_value()) << module.error().message;
  EXPECT_EQ(module->functions.size(), lines.size() + 2);
}

TEST(InstructionTable, PtxasTakesEverySample) {
  const auto toolkit = base::find_cuda_toolkit();
  const auto ptxas = base::find_cuda_tool("ptxas", toolkit ? &*toolkit : nullptr);
  if (!ptxas) GTEST_SKIP() << "ptxas not found";
  const std::vector<std::string> lines = all_samples();
  const auto folder = base::TempDir::create("ptx_table_test");
  ASSERT_TRUE(folder.has_value());
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "samples.ptx", sample_module(lines)).has_value());
  base::ProcessOptions options;
  options.argv = {ptxas->string(), "-arch=sm_90a", "-O0", "samples.ptx", "-o", "samples.cubin"};
  options.working_directory = folder->path();
  const auto ran = base::run_process(options);
  ASSERT_TRUE(ran.has_value()) << ran.error().message;
  std::string errors;
  std::istringstream output(ran->stderr_text + ran->stdout_text);
  for (std::string line; std::getline(output, line);)
    if (line.find("Advisory") == std::string::npos && errors.size() < 4000) errors += line + "\n";
  EXPECT_TRUE(ran->ok()) << errors;
}

TEST(InstructionTable, ModifiersHaveOneSpellingEach) {
  std::set<std::string_view> seen;
  for (uint16_t i = 1; i < static_cast<uint16_t>(Mod::count_); ++i) {
    const auto mod = static_cast<Mod>(i);
    // A byte selector of video operands shares its spelling with the one-bit type.
    if (mod == Mod::b1) continue;
    EXPECT_TRUE(seen.insert(modifier_text(mod)).second) << modifier_text(mod);
    EXPECT_EQ(find_modifier(modifier_text(mod)), mod) << modifier_text(mod);
  }
}

TEST(InstructionTable, FragmentSizes) {
  const auto count = [](Op op, Mod shape, char fragment, Type type) {
    return fragment_size(op, mod_shape(shape), fragment, type).count;
  };
  EXPECT_EQ(count(Op::wgmma_mma_async, Mod::m64n256k16, 'D', Type::f32), 128u);
  EXPECT_EQ(count(Op::wgmma_mma_async, Mod::m64n256k16, 'D', Type::f16), 64u);
  EXPECT_EQ(count(Op::wgmma_mma_async, Mod::m64n8k16, 'A', Type::bf16), 4u);
  EXPECT_EQ(count(Op::wgmma_mma_async, Mod::m64n8k32, 'A', Type::e4m3), 4u);
  EXPECT_EQ(count(Op::mma, Mod::m16n8k16, 'A', Type::f16), 4u);
  EXPECT_EQ(count(Op::mma, Mod::m16n8k16, 'B', Type::f16), 2u);
  EXPECT_EQ(count(Op::mma, Mod::m8n8k4, 'A', Type::f16), 2u);
  EXPECT_EQ(count(Op::mma, Mod::m8n8k4, 'D', Type::f32), 8u);
  EXPECT_EQ(count(Op::mma, Mod::m8n8k4, 'D', Type::f64), 2u);
  EXPECT_EQ(count(Op::mma_sp, Mod::m16n8k32, 'A', Type::f16), 4u);
  EXPECT_EQ(count(Op::wmma_mma, Mod::m16n16k16, 'A', Type::f16), 8u);
  EXPECT_EQ(count(Op::wmma_mma, Mod::m32n8k16, 'B', Type::s8), 1u);
}

}  // namespace
}  // namespace ptxbench::ptx
