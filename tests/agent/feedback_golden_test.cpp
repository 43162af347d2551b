// Evaluations of real faulty kernels (bench/feedback_table.py --fixtures) and the texts that a model gets of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "agent/feedback.h"
#include "base/files.h"
#include "candidate/extraction.h"
#include "evaluation/evaluation_reader.h"
#include "knowledge/tokens.h"

namespace ptxbench::agent {
namespace {

namespace fs = std::filesystem;
using evaluation::Evaluation;
using evaluation::StageName;
using evaluation::Status;

constexpr FeedbackLevel kLevels[] = {FeedbackLevel::terse, FeedbackLevel::standard, FeedbackLevel::rich};

struct Case {
  std::string name, source;
  Evaluation evaluation;
};

Case read_case(const fs::path& json_file) {
  Case one;
  one.name = json_file.stem().string();
  const auto text = base::read_file(json_file);
  const auto source = base::read_file(fs::path(json_file).replace_extension(".cu"));
  EXPECT_TRUE(text && source) << json_file;
  const auto json = base::parse_json(*text, one.name);
  EXPECT_TRUE(json) << json_file;
  auto evaluation = evaluation::evaluation_from_json(*json, one.name);
  EXPECT_TRUE(evaluation) << json_file;
  if (evaluation) one.evaluation = std::move(*evaluation);
  if (source) one.source = *source;
  return one;
}

/// A passing kernel, as if it had been timed: no machine of the tests has a GPU.
Case timed(Case one, const char* name, double milliseconds, double speedup) {
  one.name = name;
  evaluation::Performance performance;
  performance.axes = one.evaluation.runs.front().axes;
  performance.times.candidate = {milliseconds, 0.99 * milliseconds, 1.01 * milliseconds, 40};
  performance.times.baseline = gpu::Median{milliseconds * speedup, milliseconds * speedup, milliseconds * speedup, 40};
  performance.times.speedup = gpu::Median{speedup, 0.99 * speedup, 1.01 * speedup, 40};
  performance.baseline = "cuBLASLt";
  performance.baseline_version = "13.1.0";
  performance.floor = 0.25 * milliseconds;
  one.evaluation.performance = {performance};
  one.evaluation.stage(StageName::performance) = {Status::passed, "", 0, false};
  return one;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> found;
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(GOLDEN_DIR)) {
      if (entry.path().extension() == ".json") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const fs::path& file : files) {
      found.push_back(read_case(file));
      if (found.back().name == "passed") found.push_back(timed(found.back(), "slow", 0.8, 0.7));
    }
    return found;
  }();
  return all;
}

TEST(GoldenFeedback, AllKindsOfFailuresAreThere) {
  std::set<std::string> names;
  for (const Case& one : cases()) names.insert(one.name);
  for (const char* name : {"unknown-helper", "ptx-operands", "host-error", "arrival-count", "block-barrier",
                           "proxy-fence", "transaction-bytes", "parity", "swizzle", "coverage", "tail-bounds",
                           "online-rescale", "no-tensor-cores", "slow", "not-modelled", "passed"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(GoldenFeedback, TextsAreAsTheyWere) {
  const bool update = std::getenv("PTXBENCH_UPDATE_GOLDEN") != nullptr;
  for (const Case& one : cases()) {
    for (const FeedbackLevel level : kLevels) {
      const fs::path file = fs::path(GOLDEN_DIR) / (one.name + "." + std::string(to_string(level)) + ".txt");
      const std::string text = feedback_text(one.evaluation, one.source, {.level = level});
      if (update) {
        ASSERT_TRUE(base::write_file_atomic(file, text));
        continue;
      }
      const auto golden = base::read_file(file);
      ASSERT_TRUE(golden) << file << ": make it with PTXBENCH_UPDATE_GOLDEN=1";
      EXPECT_EQ(text, *golden) << file << ": read the change; PTXBENCH_UPDATE_GOLDEN=1 accepts it";
    }
  }
}

TEST(GoldenFeedback, AnswersWithoutACandidate) {
  const std::pair<const char*, const char*> answers[] = {
      {"no-code.nothing", "I would use wgmma here."},
      {"no-code.no-export", "```cpp\n__global__ void k() {}\n```\n"},
      {"no-code.cut-off", "```cpp\n__global__ void k() {\n  asm volatile(\"wgmma.fence"}};
  for (const auto& [name, answer] : answers) {
    const fs::path file = fs::path(GOLDEN_DIR) / (std::string(name) + ".txt");
    const std::string text = no_code_feedback(candidate::extract_candidate(answer));
    if (std::getenv("PTXBENCH_UPDATE_GOLDEN") != nullptr) {
      ASSERT_TRUE(base::write_file_atomic(file, text));
      continue;
    }
    const auto golden = base::read_file(file);
    ASSERT_TRUE(golden) << file;
    EXPECT_EQ(text, *golden) << file;
  }
}

TEST(GoldenFeedback, EveryBudgetIsKept) {
  for (const Case& one : cases()) {
    for (const FeedbackLevel level : kLevels) {
      const auto sections = feedback_sections(one.evaluation, one.source, {.level = level});
      for (std::size_t tokens = kFewestFeedbackTokens; tokens < 4000; tokens += tokens < 800 ? 7 : 101) {
        const std::string text = compose(sections, tokens);
        EXPECT_LE(knowledge::estimate_tokens(text), tokens) << one.name << ' ' << to_string(level) << '\n' << text;
      }
    }
  }
}

TEST(GoldenFeedback, ASmallerBudgetHasTheFirstSectionsOfALarger) {
  for (const Case& one : cases()) {
    const auto sections = feedback_sections(one.evaluation, one.source, {.level = FeedbackLevel::rich});
    std::size_t before = 0;
    for (std::size_t tokens = kFewestFeedbackTokens; tokens < 6000; tokens += 53) {
      const std::string text = compose(sections, tokens);
      // As many from the first on as stand there whole, in order, and none after the first that does not.
      std::size_t whole = 0, at = 0;
      for (const FeedbackSection& section : sections) {
        const auto found = text.find(section.text, at);
        if (found == std::string::npos) break;
        at = found + section.text.size();
        ++whole;
      }
      for (std::size_t later = whole + 1; later < sections.size(); ++later)
        EXPECT_EQ(text.find(sections[later].text), std::string::npos) << one.name << ' ' << sections[later].name;
      EXPECT_EQ(whole < sections.size(), text.find("left out, less causal") != std::string::npos) << one.name;
      EXPECT_GE(whole, before) << one.name << " at " << tokens;
      before = whole;
    }
    EXPECT_EQ(before, sections.size()) << one.name;
  }
}

TEST(GoldenFeedback, TheFirstCauseIsToldAtTheSmallestBudget) {
  for (const Case& one : cases()) {
    if (one.evaluation.passed()) continue;
    const std::string text = feedback_text(one.evaluation, one.source, {.tokens = kFewestFeedbackTokens});
    EXPECT_NE(text.find("Do first: "), std::string::npos) << one.name << '\n' << text;
  }
}

TEST(GoldenFeedback, IsTheSameAfterAnotherTripThroughJson) {
  for (const Case& one : cases()) {
    const auto again = evaluation::evaluation_from_json(evaluation::to_json(one.evaluation), one.name);
    ASSERT_TRUE(again) << one.name;
    for (const FeedbackLevel level : kLevels) {
      EXPECT_EQ(feedback_text(one.evaluation, one.source, {.level = level}),
                feedback_text(*again, one.source, {.level = level}))
          << one.name;
    }
  }
}

}  // namespace
}  // namespace ptxbench::agent
