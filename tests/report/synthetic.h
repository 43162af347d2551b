#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

/// Made-up results in the shapes that reports read: of any size, and the same for the same seed.
namespace ptxbench::report {

struct SyntheticOptions {
  unsigned runs = 4, trajectories = 6, turns = 8;
  std::uint32_t seed = 1;
  bool hostile = false;  ///< names and texts that try to be markup
  double strength = 1;   ///< how good the models are
  std::string tag;       ///< part of the names of runs and models
  bool speedups = true;  ///< whether correct turns were timed
  std::string language;  ///< of an experiment; empty: not written
  unsigned kernel_lines = 60;
};

/// The published files' shape: turns, runs and release dates.
void write_published_shape(const std::filesystem::path& folder, const SyntheticOptions& options);

/// One experiment of ours: plan.json and trajectories/*.jsonl, with `runs` models.
void write_experiment_shape(const std::filesystem::path& folder, const SyntheticOptions& options);

}  // namespace ptxbench::report
