#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/hash.h"
#include "check/check_report.h"

namespace ptxbench::check {

/// Everything that a report follows from, hashed.
struct CheckKey {
  std::string behaviour;  ///< what decides what is found
  std::string places;     ///< what decides at which lines
};

/// Reports of earlier checks, in a folder that processes share. An entry is written beside its place and renamed into
/// it, and carries a digest of itself.
class StoredChecks {
 public:
  /// In base::cache_dir("checks").
  static Result<StoredChecks> open();
  explicit StoredChecks(std::filesystem::path root) : root_(std::move(root)) {}

  /// The report with `stored_at` set; nothing when there is none. A damaged entry is none, and `warning` says so.
  std::optional<CheckReport> find(const CheckKey& key, std::string& warning) const;
  /// A report without findings, and without anything it could not look at, is found again whatever the places are.
  Result<void> keep(const CheckKey& key, const CheckReport& report) const;

  /// False for a report that another machine, or the same one at another time, may give otherwise: host code that did
  /// not come to its end, memory that ran out.
  static bool is_repeatable(const CheckReport& report);

 private:
  std::filesystem::path file_of(const std::string& name) const;
  std::optional<CheckReport> read(const std::string& name, std::string& warning) const;
  std::filesystem::path root_;
};

}  // namespace ptxbench::check
