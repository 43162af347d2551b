#pragma once

#include <string>

#include "base/error.h"
#include "base/json.h"

namespace ptxbench::app {

/// What a service answered, ready to print.
struct RemoteEvaluation {
  base::Json evaluation;  ///< of schema ptxbench.evaluation/1
  std::string text;       ///< the same for people
  bool passed = false;
};

/// Lets the service at `url` judge; `request` is that of POST /v1/evaluate with all workloads together. The token comes
/// from $PTXBENCH_SERVICE_TOKEN.
Result<RemoteEvaluation> evaluate_remotely(const std::string& url, const base::Json& request);

}  // namespace ptxbench::app
