#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"

namespace ptxbench::problem {

/// One thing to know about a data set. Errors keep something from being used; warnings make a result worth less or
/// point to a slip; notes are facts.
struct Remark {
  enum class Severity { error, warning, note };
  Severity severity = Severity::error;
  std::string message;  ///< names the file, the place and the remedy
};

struct Validation {
  std::size_t definitions = 0, workloads = 0, blobs = 0;  ///< read without an error
  std::vector<Remark> remarks;                            ///< errors first, then in file order

  std::size_t count(Remark::Severity severity) const;
};

/// Reads everything in the folders and says all that is wrong, where `Dataset::load` stops at the first: broken files,
/// workloads without their definition or that do not fit it, blobs that are missing, cut off, outside of the folder or
/// of another shape or type (their headers are read, not their data), axes that no input's shape tells, references
/// without a `run`. Definitions that cannot be judged here are noted. Folders that cannot be read at all are the
/// result's error.
Result<Validation> validate(const std::vector<std::filesystem::path>& roots);

}  // namespace ptxbench::problem
