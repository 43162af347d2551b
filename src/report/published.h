#pragma once

#include <filesystem>
#include <string>

#include "report/table.h"

namespace ptxbench::report {

/// The file that makes a folder one of published results.
inline constexpr std::string_view kPublishedTurns = "reasoning_tokens_vs_performance.csv";

/// Adds the published results in `folder` to the table. The other files in it are optional: experiments.csv gives the
/// order of the runs, model_release_dates.csv their dates; those with results per run are recomputed and compared.
Result<void> read_published(const std::filesystem::path& folder, Table& table);

/// The files of results per run, as they were published: correctness and best speed-up of each run at 1, 4 and 8 turns.
struct PublishedFiles {
  std::string correctness_rate, best_speedup;
};
PublishedFiles published_files(const Table& table);

}  // namespace ptxbench::report
