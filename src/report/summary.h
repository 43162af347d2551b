#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/terminal.h"
#include "report/compare.h"
#include "report/metrics.h"
#include "report/table.h"

namespace ptxbench::report {

/// The figures of a table, group by group.
struct Summary {
  std::vector<Dimension> dimensions;
  MetricOptions options;
  std::vector<Group> groups;
  std::vector<Metrics> metrics;  ///< per group
  Metrics all;
  Classes classes;  ///< of all trajectories
};
Summary summarise(const Table& table, std::vector<Dimension> dimensions, const MetricOptions& options);

/// Tables for a terminal. What came from runs is made printable.
std::string summary_text(const Table& table, const Summary& summary, const base::Style& style);
std::string comparison_text(const Comparison& comparison, const base::Style& style);

/// Schemas "ptxbench.report/1" and "ptxbench.comparison/1".
base::Json summary_json(const Table& table, const Summary& summary);
base::Json comparison_json(const Comparison& comparison);

/// Writes turns.csv, groups.csv, failure_classes_by_turn.csv, transitions.csv, findings.csv and, of published results,
/// their files of results per run. Gives the names.
Result<std::vector<std::string>> write_csv_files(const Table& table, const Summary& summary,
                                                 const std::filesystem::path& folder);

}  // namespace ptxbench::report
