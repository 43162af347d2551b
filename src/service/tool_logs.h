#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

/// Texts of /sanitize, /debug and /profile for what a worker answered.
namespace ptxbench::service {

/// In the manner of compute-sanitizer: one "Program hit" per finding that counts, and a sum at the end. What could not
/// be checked is a hit too: it is never clean.
std::string sanitize_log(const base::Json& answer, const base::Json& options);

/// The report as text.
std::string debug_log(const base::Json& answer, const base::Json& options);
/// Sections by title, each {exist, msg}.
base::Json debug_metadata(const base::Json& answer, const base::Json& options, std::string_view source);

/// Which instructions executed, by family. Times are not known without a GPU, and the text says so.
std::string profile_log(const base::Json& answer, const base::Json& options);

}  // namespace ptxbench::service
