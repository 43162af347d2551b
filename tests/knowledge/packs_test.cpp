// The shipped packs: sound, compiled for their targets, executed on the emulated GPU, clean under the checker, and each
// rule that they cite reported where its remedy is taken away.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/files.h"
#include "base/json.h"
#include "base/text.h"
#include "knowledge/lint.h"
#include "knowledge/tokens.h"
#include "shipped.h"

namespace ptxbench::knowledge {

/// Names tests by the job instead of its bytes.
void PrintTo(const CompileJob& job, std::ostream* out);
void PrintTo(const TritonPattern& pattern, std::ostream* out);
void PrintTo(const TritonPattern& pattern, std::ostream* out) { *out << pattern.file; }
void PrintTo(const CompileJob& job, std::ostream* out) { *out << job.file << " for " << job.target; }

namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Packs, AreSound) {
  const auto faults = lint(shipped(), {"", TEST_RULES});
  ASSERT_TRUE(faults) << faults.error().message;
  for (const Fault& fault : *faults) ADD_FAILURE() << fault.rule << " " << fault.place << ": " << fault.message;
}

TEST(Packs, PublishedTagsExist) {
  for (const char* name :
       {"hopper-no-hint", "hopper-00", "hopper-05", "hopper-07", "hopper-08", "hopper-012", "hopper-013", "b200-bf16",
        "b200-bf16-00", "b200-bf16-04", "b200-bf16-010", "b200-bf16-011", "b200-bf16-012", "b200-bf16-013"}) {
    EXPECT_TRUE(shipped().text(name)) << name;
    EXPECT_TRUE(shipped().text(std::string(name) + "-mha-patched")) << name;
  }
}

// Sizes of the published packs, in tokens of a real vocabulary; ours are estimates, and must stay below.
TEST(Packs, AreNoLargerThanPublishedOnes) {
  const std::map<std::string, std::size_t> published = {
      {"hopper-no-hint", 22314}, {"hopper-00", 23070},     {"hopper-05", 22972},     {"hopper-07", 23991},
      {"hopper-08", 25343},      {"hopper-012", 24726},    {"hopper-013", 26472},    {"b200-bf16", 28815},
      {"b200-bf16-00", 29571},   {"b200-bf16-010", 30155}, {"b200-bf16-012", 31218}, {"b200-bf16-013", 30100}};
  for (const auto& [name, tokens] : published) EXPECT_LT(estimate_tokens(shipped().text(name).value()), tokens) << name;
}

TEST(Packs, TritonHasItsOwn) {
  for (const std::string architecture : {"triton-hopper", "triton-blackwell"}) {
    const auto text = shipped().text(architecture);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_THAT(*text, HasSubstr("```python\n"));
    EXPECT_THAT(*text, Not(HasSubstr("# region")));
    EXPECT_EQ(shipped().find(architecture)->language, "triton");
  }
  for (const char* ending : {"00", "05", "07", "08", "012", "013"})
    EXPECT_TRUE(shipped().text(std::string("triton-hopper-") + ending)) << ending;
  for (const char* ending : {"00", "04", "010", "011", "012", "013"})
    EXPECT_TRUE(shipped().text(std::string("triton-blackwell-") + ending)) << ending;
  EXPECT_THAT(shipped().text("triton-hopper-mha-patched").error().message, HasSubstr("only for packs in cuda"));
}

// ---- Compiling -----------------------------------------------------------------------------------------------------

std::vector<CompileJob> jobs() {
  std::vector<CompileJob> all = compile_jobs(shipped());
  // Programs that run are compiled, warnings aside, when the tests are built.
  std::erase_if(all, [](const CompileJob& job) {
    return std::any_of(shipped().programs().begin(), shipped().programs().end(), [&](const Program& program) {
      return program.file == job.file && std::count(program.runs.begin(), program.runs.end(), job.target) != 0;
    });
  });
  return all;
}

class Compiled : public ::testing::TestWithParam<CompileJob> {};
TEST_P(Compiled, WithoutAWord) {
  const auto said = compile(shipped(), GetParam(), std::filesystem::path(TEST_CACHE) / "knowledge");
  ASSERT_TRUE(said) << said.error().message;
  EXPECT_EQ(*said, "");
}
INSTANTIATE_TEST_SUITE_P(Files, Compiled, ::testing::ValuesIn(jobs()), [](const auto& parameter) {
  std::string name = parameter.param.file + "_" + parameter.param.target;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

// ---- Executing -----------------------------------------------------------------------------------------------------

TEST(Helpers, DoWhatTheySayAndAreClean) {
  const auto result = ptxbench({"check", "--", program("helpers")});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
  EXPECT_THAT(result.stdout_text, HasSubstr("\n0 failures\n"));
}

TEST(Helpers, MultiplyInEveryShapeAndAreClean) {
  const auto result = ptxbench({"check", "--policies", "lazy", "--", program("wgmma_shapes")});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
  EXPECT_THAT(result.stdout_text, HasSubstr("\n0 failures\n"));
}

class BlackwellModel : public ::testing::TestWithParam<const char*> {};
TEST_P(BlackwellModel, GivesRightNumbers) {
  const auto result = ptxbench({"emulate", "--", program("blackwell_model"), GetParam()});
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
  EXPECT_THAT(result.stdout_text, HasSubstr(std::string(GetParam()) + ": ok\n0 failures\n"));
}
INSTANTIATE_TEST_SUITE_P(Patterns, BlackwellModel,
                         ::testing::Values("gemm_minimal", "gemm_pair", "forward", "forward_causal", "backward",
                                           "backward_causal"),
                         [](const auto& parameter) { return std::string(parameter.param); });

class HopperPattern : public ::testing::TestWithParam<PatternCase> {};
TEST_P(HopperPattern, IsRightAndClean) {
  const PatternCase& one = GetParam();
  const std::string file = candidate(one.pattern, "sm_90a", one.macros, one.name);
  std::vector<std::string> arguments = {"check", file, "--problem", one.problem, "--full", "--json", "-"};
  for (const std::string& axis : one.axes) arguments.insert(arguments.end(), {"--axis", axis});
  const auto result = ptxbench(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
  const auto report = base::Json::parse(result.stdout_text, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << result.stdout_text;
  EXPECT_EQ(report.value("verdict", ""), "clean");
  EXPECT_TRUE(report.at("findings").empty()) << "also no notes: no spills, no serialised wgmma\n" << result.stdout_text;
}
INSTANTIATE_TEST_SUITE_P(Patterns, HopperPattern, ::testing::ValuesIn(pattern_cases()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

class TritonOnHopper : public ::testing::TestWithParam<TritonPattern> {};
TEST_P(TritonOnHopper, IsRightAndClean) {
  const TritonPattern& one = GetParam();
  std::vector<std::string> arguments = {
      "check", (shipped().folder() / one.file).string(), "--problem", one.problem, "--full", "--json", "-"};
  for (const std::string& axis : one.axes) arguments.insert(arguments.end(), {"--axis", axis});
  const auto result = ptxbench(arguments);
  EXPECT_EQ(result.exit_code, 0) << result.stdout_text << result.stderr_text;
  const auto report = base::Json::parse(result.stdout_text, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << result.stdout_text;
  // Triton leaves out fences that are contested: notes.
  EXPECT_EQ(report.value("verdict", ""), "clean");
}
INSTANTIATE_TEST_SUITE_P(Patterns, TritonOnHopper, ::testing::ValuesIn(shipped().triton()), [](const auto& parameter) {
  return std::filesystem::path(parameter.param.file).stem().string();
});

TEST(Tables, AreWhatTheProgramsPrint) {
  for (const auto& [option, file] : {std::pair{"--phases", "tables/phases.md"}, {"--bytes", "tables/bytes.md"}}) {
    const auto result = ptxbench({"emulate", "--", program("helpers"), option});
    EXPECT_EQ(result.exit_code, 0) << result.stderr_text;
    EXPECT_EQ(result.stdout_text, read_inside(shipped().folder(), file).value()) << file;
  }
}

TEST(Numbers, AreThoseOfTheEmulatedDevice) {
  const auto result = ptxbench({"emulate", "--", program("attributes")});
  ASSERT_EQ(result.exit_code, 0) << result.stderr_text;
  std::size_t compared = 0;
  const auto attributes = pairs_of(result.stdout_text);
  for (const Number* number : shipped().numbers().of("sm_90a")) {
    if (number->attribute.empty()) continue;
    const auto found = std::find_if(attributes.begin(), attributes.end(),
                                    [&](const auto& pair) { return pair.first == number->attribute; });
    ASSERT_NE(found, attributes.end()) << number->attribute;
    EXPECT_EQ(found->second, std::to_string(number->value)) << number->name();
    ++compared;
  }
  EXPECT_GE(compared, 7u);
}

// ---- Faults --------------------------------------------------------------------------------------------------------

std::vector<std::pair<std::string, std::string>> mutations() {
  static const auto list = pairs_of(ptxbench({"emulate", "--", program("mutations"), "--list"}).stdout_text);
  return list;
}

/// The rules of the checker's findings.
std::set<std::string> rules_of(const base::ProcessResult& result) {
  std::set<std::string> rules;
  const std::size_t begin = result.stdout_text.find("{\n");
  const auto report =
      base::Json::parse(begin == std::string::npos ? "" : result.stdout_text.substr(begin), nullptr, false);
  if (report.is_discarded()) {
    ADD_FAILURE() << result.stdout_text << result.stderr_text;
    return rules;
  }
  for (const auto& finding : report.at("findings")) {
    if (finding.at("severity") != "note") rules.insert(finding.at("rule").get<std::string>());
  }
  return rules;
}

TEST(Mutations, AreFoundUnderTheRuleThatThePackCites) {
  ASSERT_GT(mutations().size(), 30u);
  for (const auto& [name, rule] : mutations()) {
    const auto rules = rules_of(ptxbench({"check", "--json", "-", "--", program("mutations"), name}));
    if (rule == "none") {
      EXPECT_TRUE(rules.empty()) << name << ": " << *rules.begin();
    } else {
      EXPECT_EQ(rules.count(rule), 1u) << name << " should be " << rule << ", is "
                                       << fmt::format("{}", fmt::join(rules, ", "));
    }
  }
}

TEST(Mutations, CoverTheErrorTable) {
  std::set<std::string> covered;
  for (const auto& [name, rule] : mutations()) covered.insert(rule);
  const std::string table = read_inside(shipped().folder(), "sm_90a/docs/errors.md").value();
  std::size_t rows = 0;
  for (const std::string_view line : base::split_lines(table)) {
    if (!line.starts_with("| `")) continue;
    const std::string rule(line.substr(3, line.find('`', 3) - 3));
    EXPECT_EQ(covered.count(rule), 1u) << rule << " is in the error table, and no mutation shows it";
    ++rows;
  }
  EXPECT_EQ(rows + 1, covered.size()) << "every mutation's rule stands in the table (and 'none' does not)";
}

// ---- The command line ----------------------------------------------------------------------------------------------

TEST(Command, ListShowTokensAndErrors) {
  EXPECT_THAT(ptxbench({"knowledge", "list"}).stdout_text, HasSubstr("hopper-no-hint"));
  const auto json = base::Json::parse(ptxbench({"knowledge", "list", "--json"}).stdout_text);
  EXPECT_EQ(json.at("schema"), "ptxbench.knowledge/1");
  EXPECT_GT(json.at("tags").size(), 10u);
  EXPECT_EQ(ptxbench({"knowledge", "show", "hopper"}).stdout_text, shipped().text("hopper-no-hint").value());
  EXPECT_THAT(ptxbench({"knowledge", "tokens", "hopper-00"}).stdout_text, HasSubstr("an estimate"));
  const auto unknown = ptxbench({"knowledge", "show", "hoper-00"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.stderr_text, HasSubstr("did you mean 'hopper-00'?"));
  const auto check = ptxbench({"knowledge", "check", "--no-compile"});
  EXPECT_EQ(check.exit_code, 0) << check.stdout_text;
}

TEST(Command, PromptIsWhatAModelSees) {
  const auto result = ptxbench({"prompt", "--problem", "gemm_n7168_k5120", "--pack", "b200-bf16", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.stderr_text;
  const auto json = base::Json::parse(result.stdout_text);
  EXPECT_EQ(json.at("schema"), "ptxbench.prompt/1");
  EXPECT_EQ(json.at("target"), "sm_100a");
  const std::string system = json.at("messages").at(0).at("content");
  EXPECT_THAT(system, HasSubstr(shipped().text("b200-bf16").value()));
  EXPECT_THAT(std::string(json.at("messages").at(1).at("content")), HasSubstr("M=8192"));
  EXPECT_EQ(ptxbench({"prompt", "--problem", "gemm_n7168_k5120", "--pack", "hopper", "--target", "sm_100a"}).exit_code,
            2);
  EXPECT_THAT(ptxbench({"prompt", "--problem", "gemm_n7168_k5120"}).stdout_text, Not(HasSubstr("mbar_init")));
}

}  // namespace
}  // namespace ptxbench::knowledge
