#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "agent/turn_loop.h"
#include "models/config.h"
#include "problem/dataset.h"

namespace ptxbench::agent {

/// What of a problem an experiment judges on: stored workloads, or axes; with neither, its checks, or its largest
/// workload where it has none.
struct ProblemChoice {
  std::string definition;
  std::vector<std::string> workloads;  ///< uuids or their beginnings
  std::vector<std::string> axes;       ///< "M=128"
};

/// An experiment as a file describes it: docs/agent.md has the keys.
struct ExperimentConfig {
  std::string name;
  std::vector<std::string> models;
  std::vector<ProblemChoice> problems;
  std::vector<std::string> packs = {"none"};
  unsigned replicas = 1;
  std::vector<std::string> data;  ///< problem folders; empty: the shipped ones
  LoopRules rules;
  bool tell_shape = true;
  candidate::Language language = candidate::Language::cuda;  ///< that answers are asked for in

  struct Limits {
    unsigned generation = 64;  ///< questions under way
    unsigned compile = 2, evaluate = 2;
    unsigned in_flight = 0;  ///< trajectories in memory; 0: twice the questions, and room for what waits to be judged
  } limits;

  struct Budget {
    std::optional<std::uint64_t> tokens;
    std::optional<double> cost;  ///< US dollars
  } budget;

  std::string service;  ///< address; empty: judged here
  std::string backend = "emulator";
  bool timelines = false;                        ///< of each turn that launched kernels, beside its trajectory
  base::Json evaluation = base::Json::object();  ///< options as POST /v1/evaluate has them

  models::ModelConfigs model_configs;  ///< of the file itself
  std::vector<std::filesystem::path> models_files;
};

/// Errors name file, line and key, and suggest what was probably meant. Relative paths start at `folder`.
Result<ExperimentConfig> parse_experiment(std::string_view text, const std::string& file,
                                          const std::filesystem::path& folder);

/// The workloads of each chosen problem.
Result<std::vector<std::vector<problem::Problem>>> resolve_problems(const ExperimentConfig& config);

}  // namespace ptxbench::agent
