#include "selection.h"

#include "base/files.h"
#include "candidate/extraction.h"
#include "candidate/local_includes.h"

namespace ptxbench::app {

Result<emulator::CompletionPolicy> parse_completion(const std::string& text) {
  if (text == "eager") return emulator::CompletionPolicy::eager;
  if (text == "lazy") return emulator::CompletionPolicy::lazy;
  if (text == "random") return emulator::CompletionPolicy::random;
  return input_error("--completion {}: eager, lazy or random", text);
}

Result<std::string> read_candidate(const std::string& path, bool is_answer) {
  const bool named_as_answer = path.ends_with(".md") || path.ends_with(".txt");
  if (!is_answer && !named_as_answer) return candidate::read_with_local_includes(path);
  auto text = base::read_file(path, std::uint64_t{16} << 20);
  if (!text) return tl::unexpected<Error>(text.error());
  if (text->find('\0') != std::string::npos) return input_error("{} is not a text file", path);
  candidate::Extraction extraction = candidate::extract_candidate(*text);
  if (!extraction.source) return input_error("{}: {}", path, extraction.message);
  return std::move(*extraction.source);
}

Result<std::vector<problem::Problem>> find_problems(const ProblemChoice& options) {
  const auto roots = problem::dataset_roots(options.data);
  if (!roots) return tl::unexpected<Error>(roots.error());
  const auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  const auto definition = dataset->find_definition(options.problem);
  if (!definition) return tl::unexpected<Error>(definition.error());
  if (!options.workloads.empty() && !options.axes.empty()) {
    return input_error("--workload names stored axes and --axis gives others: use one of them");
  }
  std::vector<problem::Workload> workloads;
  if (!options.axes.empty()) {
    auto workload = dataset->workload_for_axes(**definition, options.axes);
    if (!workload) return tl::unexpected<Error>(workload.error());
    workloads.push_back(std::move(*workload));
  } else if (!options.workloads.empty()) {
    for (const std::string& uuid : options.workloads) {
      const auto workload = dataset->find_workload(**definition, uuid);
      if (!workload) return tl::unexpected<Error>(workload.error());
      workloads.push_back(**workload);
    }
  } else {
    const auto usual = dataset->default_workloads(**definition);
    if (!usual) return tl::unexpected<Error>(usual.error());
    for (const problem::Workload* workload : *usual) workloads.push_back(*workload);
  }
  std::vector<problem::Problem> problems;
  for (const problem::Workload& workload : workloads) {
    auto made = problem::make_problem(**definition, workload);
    if (!made) return tl::unexpected<Error>(made.error());
    problems.push_back(std::move(*made));
  }
  return problems;
}

}  // namespace ptxbench::app
