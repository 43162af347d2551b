// What `ptxbench knowledge check` finds, each on a folder with that one fault.
#include "knowledge/lint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folder.h"

namespace ptxbench::knowledge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kRules =
    "| rule | severity | reported when |\n| --- | --- | --- |\n| `proxy.async` | error | x |\n| `launch.*` (engine) | "
    "error | x |\n";

std::vector<std::string> faults_of(const Folder& folder, const std::string& tag = "") {
  const auto hub = folder.load();
  EXPECT_TRUE(hub) << hub.error().message;
  if (!hub) return {};
  const base::TempDir rules = base::TempDir::create().value();
  EXPECT_TRUE(base::write_file_atomic(rules.path() / "hazards.md", kRules));
  const auto faults = lint(*hub, {tag, rules.path() / "hazards.md"});
  EXPECT_TRUE(faults) << faults.error().message;
  std::vector<std::string> lines;
  for (const Fault& fault : *faults) lines.push_back(fault.rule + " " + fault.place + ": " + fault.message);
  return lines;
}

TEST(Lint, ASoundFolderHasNoFaults) {
  const Folder folder;
  EXPECT_THAT(faults_of(folder), IsEmpty());
  EXPECT_THAT(faults_of(folder, "large"), IsEmpty());
  EXPECT_THAT(faults_of(folder, "small-patched"), IsEmpty());
}

TEST(Lint, UnknownIdentifier) {
  const Folder folder;
  folder.change("common/docs/first.md", "`twice(x)`", "`twize(x)`");
  EXPECT_THAT(faults_of(folder, "small"), ElementsAre(HasSubstr("identifier common/docs/first.md:5: `twize(x)`")));
}

TEST(Lint, HelperThatTheTagDoesNotShow) {
  const Folder folder;
  folder.change("common/docs/first.md", "`twice(x)`", "`thrice(x)`");
  EXPECT_THAT(faults_of(folder, "small"),
              ElementsAre(HasSubstr("helper common/docs/first.md:5: `thrice(x)`: small does not show thrice")));
  EXPECT_THAT(faults_of(folder, "large"), IsEmpty());
}

TEST(Lint, HelperNamedWithoutACall) {
  const Folder folder;
  folder.change("common/include/tools.cuh", "thrice", "three_times");
  folder.change("programs/use.cu", "thrice", "three_times");
  folder.change("common/docs/first.md", "`twice(x)`", "`three_times`");
  EXPECT_THAT(faults_of(folder, "small"), ElementsAre(HasSubstr("small does not show three_times")));
}

TEST(Lint, PieceOfAPatternThatNeedsAnother) {
  const Folder folder;
  folder.change("sm_90a/patterns/pattern.cu", "// region body", "constexpr int kAnswer = 42;\n// region body");
  folder.change("sm_90a/patterns/pattern.cu", "twice(21)", "kAnswer");
  EXPECT_THAT(faults_of(folder, "large"), ElementsAre(HasSubstr("shown code uses kAnswer")));
}

TEST(Lint, CodeThatCallsWhatTheTagDoesNotShow) {
  const Folder folder;
  folder.change("sm_90a/docs/second.md", "{{code common/include/tools.cuh#hidden}}", "");
  folder.change("sm_90a/patterns/pattern.cu", "twice(21)", "thrice(14)");
  EXPECT_THAT(faults_of(folder, "large"), ElementsAre(HasSubstr("shown code uses thrice")));
}

TEST(Lint, UntestedHelper) {
  const Folder folder;
  folder.change("common/include/tools.cuh", "// endregion hidden",
                "DEVICE int unused(int x) { return x; }\n// endregion hidden");
  // For both targets: the header is theirs in common, the program is not.
  EXPECT_THAT(faults_of(folder),
              ::testing::Contains(HasSubstr(
                  "untested common/include/tools.cuh: no pattern, program or tested helper for sm_90a uses unused")));
}

TEST(Lint, WrongNumber) {
  const Folder folder;
  folder.change("common/docs/first.md", "2048 bytes", "2047 bytes");
  EXPECT_THAT(faults_of(folder, "small"),
              ElementsAre(HasSubstr("number common/docs/first.md:5: 2047 is not in numbers.toml")));
  folder.change("common/docs/first.md", "2047 bytes", "99 bytes and sm_100 and fp32");
  EXPECT_THAT(faults_of(folder, "small"), IsEmpty());
}

TEST(Lint, RuleThatDoesNotExist) {
  const Folder folder;
  folder.change("common/docs/first.md", "`proxy.async`", "`proxy.asink`, `launch.anything`");
  EXPECT_THAT(faults_of(folder, "small"), ElementsAre(HasSubstr("rule-id common/docs/first.md:5: `proxy.asink`")));
}

TEST(Lint, Budget) {
  const Folder folder;
  folder.change("hub.toml", "budget = 100\nfragments = [\"common/docs/first.md\"]",
                "budget = 20\nfragments = [\"common/docs/first.md\"]");
  EXPECT_THAT(faults_of(folder, "small"), ElementsAre(HasSubstr("the budget is 20")));
  folder.change("hub.toml", "budget = 20", "budget = 5000");
  EXPECT_THAT(faults_of(folder, "small"), ElementsAre(HasSubstr("a budget of 5000 says nothing")));
}

TEST(Lint, Unreachable) {
  const Folder folder;
  folder.write("common/docs/forgotten.md", "# Forgotten\n");
  EXPECT_THAT(faults_of(folder),
              ElementsAre("unreachable common/docs/forgotten.md: no tag, document or program uses it"));
}

TEST(Lint, HazardRulesMustBeThere) {
  const Folder folder;
  const auto hub = folder.load();
  ASSERT_TRUE(hub);
  const auto faults = lint(*hub, {});
  ASSERT_TRUE(faults);
  ASSERT_FALSE(faults->empty());
  EXPECT_EQ(faults->front().rule, "rule-id");
}

TEST(CompileJobs, AreAllFilesOfATarget) {
  const Folder folder;
  const auto hub = folder.load();
  ASSERT_TRUE(hub);
  std::vector<std::string> files;
  for (const CompileJob& job : compile_jobs(*hub)) files.push_back(job.file + " " + job.target);
  EXPECT_THAT(files,
              ElementsAre("common/include/tools.cuh sm_90a", "sm_90a/patterns/pattern.cu sm_90a",
                          "programs/use.cu sm_90a", "common/include/tools.cuh sm_100a", "programs/use.cu sm_100a"));
}

TEST(RuleIds, OfADocument) {
  const base::TempDir folder = base::TempDir::create().value();
  ASSERT_TRUE(base::write_file_atomic(folder.path() / "rules.md", kRules));
  const auto ids = read_rule_ids(folder.path() / "rules.md");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_THAT(*ids, ElementsAre("proxy.async", "launch.*"));
  ASSERT_TRUE(base::write_file_atomic(folder.path() / "rules.md", "nothing"));
  EXPECT_FALSE(read_rule_ids(folder.path() / "rules.md"));
}

}  // namespace
}  // namespace ptxbench::knowledge
