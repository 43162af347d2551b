// Every kernel of the planted-fault corpus on the emulator: the correct variants under all completion policies, the
// faulty ones as far as the engine itself stops them. README.md describes the files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "emulator/device.h"
#include "hazard_case.h"
#include "launch/prepared_launch.h"

namespace ptxbench::hazards {
namespace {

using emulator::CompletionPolicy;

constexpr const char* kCases[] = {
#include "hazard_cases.inc"
};
constexpr std::pair<const char*, CompletionPolicy> kPolicies[] = {
    {"eager", CompletionPolicy::eager}, {"lazy", CompletionPolicy::lazy}, {"random", CompletionPolicy::random}};

/// Rules without kernels here, for the reasons in README.md.
constexpr const char* kElsewhere[] = {"race.stream", "race.dependent-launch", "launch.*", "numeric.*", "unsupported.*"};

std::filesystem::path case_path(const char* name) { return std::filesystem::path(HAZARD_FOLDER) / name; }

const std::vector<Rule>& rules() {
  static const std::vector<Rule> read = [] {
    auto result = read_rules(HAZARD_RULES);
    EXPECT_TRUE(result) << result.error().message;
    return result.value_or(std::vector<Rule>{});
  }();
  return read;
}

struct Outcome {
  std::optional<emulator::Fault> fault;
  std::vector<launch::OutputMismatch> mismatches;
};

/// Whether the fault's place, or a call that was inlined there, is this line of the file.
bool is_at(const emulator::CodePlace& place, const std::filesystem::path& file, uint32_t line) {
  const auto same = [&](const std::string& name, uint32_t at) {
    return at == line && std::filesystem::path(name).filename() == file.filename();
  };
  return same(place.file, place.line) || std::any_of(place.called_from.begin(), place.called_from.end(),
                                                     [&](const auto& call) { return same(call.first, call.second); });
}

std::string describe(const emulator::Fault& fault) {
  std::string text = fault.rule + " at " + fault.place.file + ":" + std::to_string(fault.place.line);
  for (const auto& [file, line] : fault.place.called_from) text += " from " + file + ":" + std::to_string(line);
  return text + " (" + fault.place.instruction + "): " + fault.message;
}

class HazardTest : public ::testing::TestWithParam<const char*> {
 protected:
  void run(const HazardCase& hazard, const std::string& ptx, CompletionPolicy policy, Outcome& result) {
    emulator::DeviceOptions options;
    options.threads = 1;
    options.completion = policy;
    options.seed = 11;
    options.instruction_budget = 50'000'000;
    auto device = emulator::Device::create(std::move(options));
    ASSERT_TRUE(device) << device.error().message;
    const auto module = (*device)->load_ptx(ptx, hazard.path.filename().string());
    ASSERT_TRUE(module) << module.error().message;
    auto prepared = launch::PreparedLaunch::create(**device, *module, hazard.launch);
    ASSERT_TRUE(prepared) << prepared.error().message;
    for (uint32_t i = 0; i < hazard.launch.repeat && !result.fault; ++i) {
      auto report = (*device)->launch(prepared->request());
      ASSERT_TRUE(report) << report.error().message;
      result.fault = report->fault;
    }
    auto mismatches = prepared->check_outputs();
    ASSERT_TRUE(mismatches) << mismatches.error().message;
    result.mismatches = std::move(*mismatches);
  }
};

TEST_P(HazardTest, CorrectRunsAndFaultyStops) {
  const auto hazard = read_case(case_path(GetParam()));
  ASSERT_TRUE(hazard) << hazard.error().message;
  bool engine = hazard->engine;
  for (const std::string& id : hazard->rules) {
    const auto rule = std::find_if(rules().begin(), rules().end(), [&](const Rule& r) { return r.covers(id); });
    ASSERT_NE(rule, rules().end()) << id << " is no rule of docs/hazards.md";
    // Where several names are right, the first one decides.
    if (&id == &hazard->rules.front()) engine = engine || rule->engine;
  }
  const bool checks_output = std::any_of(hazard->launch.arguments.begin(), hazard->launch.arguments.end(),
                                         [](const launch::Argument& argument) { return argument.expect.has_value(); });
  EXPECT_TRUE(checks_output) << "the launch description says nothing about the results";

  const auto correct = compile_variant(*hazard, false, TEST_CACHE);
  ASSERT_TRUE(correct) << correct.error().message;
  for (const auto& [name, policy] : kPolicies) {
    Outcome result;
    run(*hazard, *correct, policy, result);
    if (HasFatalFailure()) return;
    EXPECT_FALSE(result.fault) << name << ": " << describe(*result.fault);
    for (const auto& mismatch : result.mismatches) EXPECT_TRUE(false) << name << ": " << mismatch.text();
  }
  if (hazard->rules.empty()) return;

  const auto faulty = compile_variant(*hazard, true, TEST_CACHE);
  ASSERT_TRUE(faulty) << faulty.error().message;
  EXPECT_NE(*faulty, *correct) << "the compiler removed the difference";
  for (const auto& [name, policy] : kPolicies) {
    Outcome result;
    run(*hazard, *faulty, policy, result);
    if (HasFatalFailure()) return;
    if (!engine) {
      // What the checker will say is its own test; here the kernel only has to be within what is modelled.
      if (result.fault) {
        EXPECT_THAT(result.fault->rule, ::testing::Not(::testing::StartsWith("unsupported."))) << name;
      }
      continue;
    }
    ASSERT_TRUE(result.fault) << name << ": the faulty variant ran without a fault";
    EXPECT_THAT(hazard->rules, ::testing::Contains(result.fault->rule)) << name << ": " << describe(*result.fault);
    EXPECT_TRUE(is_at(result.fault->place, hazard->path, hazard->fault_line))
        << name << ": " << describe(*result.fault);
  }
}

std::string test_name(const ::testing::TestParamInfo<const char*>& info) {
  std::string name = std::filesystem::path(info.param).replace_extension().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Files, HazardTest, ::testing::ValuesIn(kCases), test_name);

/// Two kernels of different structure for each rule that a kernel can break.
TEST(HazardCorpus, CoversTheRules) {
  std::map<std::string, int> kernels;
  for (const char* name : kCases) {
    const auto hazard = read_case(case_path(name));
    ASSERT_TRUE(hazard) << hazard.error().message;
    if (hazard->rules.empty()) continue;
    for (const Rule& rule : rules()) kernels[rule.id] += rule.covers(hazard->rules.front()) ? 1 : 0;
  }
  for (const Rule& rule : rules()) {
    // "launch.*" stands for itself and for the single rules of that family.
    const bool elsewhere = std::any_of(std::begin(kElsewhere), std::end(kElsewhere), [&](std::string_view one) {
      return rule.id == one || (one.ends_with('*') && rule.id.starts_with(one.substr(0, one.size() - 1)));
    });
    if (elsewhere) continue;
    EXPECT_GE(kernels[rule.id], 2) << rule.id;
  }
}

}  // namespace
}  // namespace ptxbench::hazards
