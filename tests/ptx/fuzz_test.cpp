#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "ptx/instruction_samples.h"
#include "ptx/parser.h"
#include "ptx/printer.h"

namespace ptxbench::ptx {
namespace {

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(PTX_SEED_DIR))) {
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    texts.push_back(text.str());
  }
  std::sort(texts.begin(), texts.end());
  std::vector<std::string> lines;
  for (const CompiledForm& form : compiled_forms())
    if (form.target_number <= 90) lines.push_back(samples_of(form).front().text);
  texts.push_back(sample_module(std::vector<std::string>(lines.begin(), lines.begin() + 40)));
  return texts;
}

/// A small deterministic relative of fuzz/ptx_parser_fuzz: mutated modules give an error or a module that prints and
/// parses again to the same text.
TEST(ParserFuzz, MutatedTextGivesAnErrorOrARoundTrip) {
  const std::vector<std::string> texts = seeds();
  std::vector<std::string> words;
  for (const std::string& text : texts) {
    std::stringstream stream(text);
    for (std::string word; stream >> word && words.size() < 4000;) words.push_back(word);
  }
  std::mt19937_64 random(20240607);
  size_t accepted = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int round = 0; round < 4000 && std::chrono::steady_clock::now() < deadline; ++round) {
    std::string text = texts[random() % texts.size()];
    for (size_t edits = random() % 4 + 1; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 6) {
        case 0:
          text[at] = static_cast<char>(random() & 0xff);
          break;
        case 1:
          text.erase(at, random() % 20 + 1);
          break;
        case 2:
          text.insert(at, " " + words[random() % words.size()] + " ");
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 40));
          break;
        case 4:
          text.resize(at);
          break;
        default:
          text.insert(at, std::string(1, "{}[]();,.:@!|<>+-*/%\"0123456789"[random() % 32]));
          break;
      }
    }
    const auto module = parse_module(text, "fuzz");
    if (!module) {
      ASSERT_FALSE(module.error().message.empty());
      ASSERT_LT(module.error().message.size(), 20000u);
      continue;
    }
    ++accepted;
    const std::string printed = print_module(*module);
    const auto again = parse_module(printed, "printed");
    ASSERT_TRUE(again.has_value()) << again.error().message << "\n" << text;
    ASSERT_EQ(print_module(*again), printed) << text;
  }
  EXPECT_GT(accepted, 0u);
}

/// Each text is big where a careless parser is quadratic; the bound is loose because machines are shared.
class ParserScaling : public ::testing::TestWithParam<std::string> {};

TEST_P(ParserScaling, StaysLinear) {
  const std::string& unit = GetParam();
  const auto seconds_for = [&](size_t count) {
    std::string text =
        ".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() { .reg .b32 %r<9>; .reg .pred %p; \n";
    for (size_t i = 0; i < count; ++i) {
      std::string line = unit;
      for (size_t at; (at = line.find('#')) != std::string::npos;) line.replace(at, 1, std::to_string(i));
      text += line;
    }
    // Processor time: others on the machine must not matter.
    const std::clock_t start = std::clock();
    (void)parse_module(text, "t");
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  seconds_for(1000);
  const double small = seconds_for(4000), big = seconds_for(64000);
  EXPECT_LT(big, small * 16 * 6 + 0.5) << "16 times the text took " << big / small << " times as long";
}

INSTANTIATE_TEST_SUITE_P(Units, ParserScaling,
                         ::testing::Values("mov.u32 %r1, 1;\n", ".reg .b32 x#; mov.u32 x#, 1;\n", "L#: bra L#;\n",
                                           "bra L;\n", "{ .reg .b32 x; M: bra M; }\n", "{ bra N#; }\n",
                                           ".reg .b32 y#<1000000>;\n", ".loc 1 # 3\n", "// comment #\n", "/* # */",
                                           "mov.u32 %r1,\n", "\"#\n", ".local .b8 v#[100000];\n", "add.foo# %r1;\n",
                                           "T#: .branchtargets T#, T0;\n"));

}  // namespace
}  // namespace ptxbench::ptx
