// Every attack of attacks.json, on the emulator and, where there is one, on a GPU.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "base/files.h"
#include "base/json.h"
#include "candidate/local_includes.h"
#include "cuda_shim/sandbox.h"
#include "evaluation/evaluation_text.h"
#include "evaluation/evaluator.h"

namespace ptxbench::evaluation {
namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

struct Attack {
  std::string backend;
  base::Json json;
};

void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.backend; }

std::vector<Attack> attacks(const std::string& backend) {
  const std::string text = value_of(base::read_file("tests/attacks/attacks.json"));
  std::vector<Attack> out;
  for (const base::Json& one : value_of(base::parse_json(text, "attacks.json"))) out.push_back({backend, one});
  return out;
}

Evaluator& evaluator() {
  static const std::unique_ptr<Evaluator> kOne = [] {
    ::setenv("PTXBENCH_CACHE", TEST_CACHE, 1);
    ::setenv("OPENAI_API_KEY", "planted", 1);
    ::setenv("PTXBENCH_SERVICE_TOKEN", "planted", 1);
    return value_of(Evaluator::create());
  }();
  return *kOne;
}

problem::Problem gemm_of(std::int64_t rows) {
  static const problem::Dataset kData = value_of(problem::Dataset::load({"tests/evaluation/data"}));
  const auto* found = value_of(kData.find_definition("gemm_small"));
  return value_of(
      problem::make_problem(*found, value_of(kData.workload_for_axes(*found, {"M=" + std::to_string(rows)}))));
}

Evaluation judge(const Attack& attack) {
  EvaluateOptions options;
  options.seeds = 1;
  options.threads = 2;
  options.instruction_budget = 20'000'000;
  options.host.idle = std::chrono::milliseconds(1500);
  options.require_target = attack.json.value("require_target", false);
  if (attack.backend == "gpu") {
    options.backend = EvaluateOptions::Backend::gpu;
    options.host.idle = std::chrono::seconds(5);
    options.stop.seconds = 0.5;
    options.count_instructions = options.require_target;
  }
  if (attack.json.contains("host_seconds"))
    options.host.idle = std::chrono::seconds(attack.json["host_seconds"].get<int>());
  const std::string source = value_of(candidate::read_with_local_includes(
      std::filesystem::path("tests/attacks/candidates") / attack.json.at("file").get<std::string>()));
  return value_of(evaluator().evaluate(source, {gemm_of(attack.json.at("m").get<std::int64_t>())}, options));
}

bool matches(const std::string& pattern, const std::string& rule) {
  return pattern.ends_with('*') ? rule.starts_with(pattern.substr(0, pattern.size() - 1)) : rule == pattern;
}

class Attacks : public ::testing::TestWithParam<Attack> {};

TEST_P(Attacks, ComesToWhatItMust) {
  const Attack& attack = GetParam();
  if (attack.backend == "gpu" && !gpu::has_gpu()) GTEST_SKIP() << "no GPU here: not run";
  if (attack.json.value("needs", "") == "landlock" && !cuda_shim::restricts_files())
    GTEST_SKIP() << "this kernel cannot restrict what a process reads: not run, and not blocked";
  const Evaluation result = judge(attack);
  const std::string all = to_text(result, base::Style(false));
  std::string caught;
  for (const Finding& finding : result.findings) {
    if (caught.empty() && finding.severity != Severity::note)
      caught = std::string(to_string(finding.stage)) + ": " + finding.rule + ": " + finding.message;
  }
  std::printf("%s on the %s: %s%s%s\n", attack.json.at("name").get<std::string>().c_str(), attack.backend.c_str(),
              std::string(to_string(result.verdict)).c_str(), caught.empty() ? "" : ", by ", caught.c_str());

  const base::Json& expected = attack.json.at(attack.backend);
  if (expected.is_array()) {
    EXPECT_EQ(result.verdict, Status::failed) << all;
    bool found = false;
    for (const base::Json& rule : expected) {
      for (const Finding& finding : result.findings)
        found = found || (finding.severity != Severity::note && matches(rule.get<std::string>(), finding.rule));
    }
    EXPECT_TRUE(found) << expected.dump() << '\n' << all;
  } else {
    EXPECT_EQ(to_string(result.verdict), expected.get<std::string>()) << all;
  }
  if (attack.json.contains("prints")) {
    ASSERT_FALSE(result.runs.empty()) << all;
    const std::string& printed = result.runs[0].host_output;
    EXPECT_NE(printed.find("blocked: "), std::string::npos) << printed;
    EXPECT_EQ(printed.find("OPEN: "), std::string::npos) << printed;
  }
}

std::string name_of(const ::testing::TestParamInfo<Attack>& attack) { return attack.param.json.at("name"); }
#ifdef ATTACKS_ON_GPU
INSTANTIATE_TEST_SUITE_P(Gpu, Attacks, ::testing::ValuesIn(attacks("gpu")), name_of);
#else
INSTANTIATE_TEST_SUITE_P(Emulator, Attacks, ::testing::ValuesIn(attacks("emulator")), name_of);
#endif

}  // namespace
}  // namespace ptxbench::evaluation
