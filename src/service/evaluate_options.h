#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "evaluation/evaluator.h"

namespace ptxbench::service {

/// How to judge, as requests of the native endpoint and of workers say it: an object with any of `seed`, `seeds`,
/// `threads`, `completion`, `tensor_cores`, `tolerance`, `hazards`, `full`, `sample_clusters`, `budget`,
/// `host_seconds`, `require` (a list of "target" and "speedup=X"), `target`, `language`, and `timing` (on a GPU).
/// Unknown members are errors, as a misspelt one would change a verdict without a word.
Result<evaluation::EvaluateOptions> parse_evaluate_options(const base::Json& json, std::string_view path);

}  // namespace ptxbench::service
