#include "evaluator_fixture.h"

#include <cstdlib>
#include <stdexcept>

#include "base/files.h"
#include "base/text.h"
#include "candidate/local_includes.h"
#include "evaluation/evaluation_text.h"

namespace ptxbench::evaluation {
namespace {

std::string read(const std::string& path) {
  auto text = base::read_file(path);
  if (!text) throw std::runtime_error(text.error().message);
  return std::move(*text);
}

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

}  // namespace

std::string candidate_source(std::string_view name) { return read("tests/evaluation/candidates/" + std::string(name)); }
std::string example_source(std::string_view name) {
  return value_of(candidate::read_with_local_includes("examples/kernels/" + std::string(name)));
}

std::uint32_t line_with(std::string_view source, std::string_view marker) {
  std::uint32_t number = 0;
  for (const std::string_view line : base::split_lines(source)) {
    ++number;
    if (line.find(marker) != std::string_view::npos) return number;
  }
  return 0;
}

Evaluator& evaluator() {
  static const std::unique_ptr<Evaluator> kOne = [] {
    ::setenv("PTXBENCH_CACHE", TEST_CACHE, 1);
    return value_of(Evaluator::create());
  }();
  return *kOne;
}

problem::Problem small_problem(std::int64_t rows, std::string_view definition) {
  static const problem::Dataset kData = value_of(problem::Dataset::load({"tests/evaluation/data"}));
  const auto* found = value_of(kData.find_definition(definition));
  const auto workload = value_of(kData.workload_for_axes(*found, {"M=" + std::to_string(rows)}));
  return value_of(problem::make_problem(*found, workload));
}

EvaluateOptions quick_options() {
  EvaluateOptions options;
  options.seeds = 1;
  options.instruction_budget = 20'000'000;
  options.host.idle = std::chrono::milliseconds(1500);
  return options;
}

Evaluation evaluate(std::string_view source, const problem::Problem& problem, const EvaluateOptions& options) {
  return value_of(evaluator().evaluate(source, {problem}, options));
}

const Finding* find(const Evaluation& evaluation, std::string_view rule) {
  for (const Finding& finding : evaluation.findings) {
    if (finding.rule == rule) return &finding;
  }
  return nullptr;
}

std::string dump(const Evaluation& evaluation) { return to_text(evaluation, base::Style(false)); }

}  // namespace ptxbench::evaluation
