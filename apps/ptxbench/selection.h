#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "candidate/language.h"
#include "emulator/device.h"
#include "problem/dataset.h"

/// What several subcommands are told in the same words: which candidate, which problem, which policy.
namespace ptxbench::app {

struct ProblemChoice {
  std::vector<std::string> data;  ///< folders in FlashInfer-Trace layout; empty: the shipped problems
  std::string problem;            ///< definition
  std::vector<std::string> workloads, axes;
};
/// Without workloads and axes: the definition's checks, or its largest workload where it has none.
Result<std::vector<problem::Problem>> find_problems(const ProblemChoice& options);

/// The candidate's text: the file itself with what it includes from beside it, or the code in a model's answer.
Result<std::string> read_candidate(const std::string& path, bool is_answer, candidate::Language language);

/// The option --language.
void add_language(CLI::App& command, std::string& language);
/// What --language says, else what the file's name does.
Result<candidate::Language> choose_language(const std::string& given, const std::string& path);

Result<emulator::CompletionPolicy> parse_completion(const std::string& text);

}  // namespace ptxbench::app
