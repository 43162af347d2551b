#include "selection.h"

#include "base/files.h"
#include "candidate/local_includes.h"
#include "candidate/triton_source.h"

namespace ptxbench::app {

Result<emulator::CompletionPolicy> parse_completion(const std::string& text) {
  if (text == "eager") return emulator::CompletionPolicy::eager;
  if (text == "lazy") return emulator::CompletionPolicy::lazy;
  if (text == "random") return emulator::CompletionPolicy::random;
  return input_error("--completion {}: eager, lazy or random", text);
}

Result<candidate::Language> choose_language(const std::string& given, const std::string& path) {
  if (given.empty()) return candidate::language_of_file(path);
  auto language = candidate::parse_language(given);
  if (!language) return input_error("--language: {}", language.error().message);
  return language;
}

void add_language(CLI::App& command, std::string& language) {
  command.add_option("--language", language, "cuda or triton (default: triton for .py files, else cuda)")
      ->check(CLI::IsMember({"cuda", "triton"}));
}

Result<std::string> read_candidate(const std::string& path, bool is_answer, candidate::Language language) {
  const bool named_as_answer = path.ends_with(".md") || path.ends_with(".txt");
  const bool is_file = !is_answer && !named_as_answer;
  if (is_file && language == candidate::Language::cuda) return candidate::read_with_local_includes(path);
  auto text = base::read_file(path, std::uint64_t{16} << 20);
  if (!text) return tl::unexpected<Error>(text.error());
  if (text->find('\0') != std::string::npos) return input_error("{} is not a text file", path);
  if (is_file) return std::move(*text);
  candidate::Extraction extraction = candidate::extract_candidate(*text, language);
  if (!extraction.source) return input_error("{}: {}", path, extraction.message);
  return std::move(*extraction.source);
}

Result<std::vector<problem::Problem>> find_problems(const ProblemChoice& options) {
  const auto roots = problem::dataset_roots(options.data);
  if (!roots) return tl::unexpected<Error>(roots.error());
  const auto dataset = problem::Dataset::load(*roots);
  if (!dataset) return tl::unexpected<Error>(dataset.error());
  if (!options.workloads.empty() && !options.axes.empty()) {
    return input_error("--workload names stored axes and --axis gives others: use one of them");
  }
  return dataset->choose(options.problem, options.axes, options.workloads);
}

}  // namespace ptxbench::app
