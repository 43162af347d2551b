#pragma once

#include <optional>
#include <string>

#include "base/json.h"

namespace ptxbench::service {

/// Tolerances of a request. They can only tighten: an output must also have its largest absolute error within `atol` or
/// its largest relative error within `rtol`. Looser ones than kDefault change nothing.
struct Tolerances {
  static constexpr double kDefault = 1e-2;
  std::optional<double> atol, rtol;
};

/// The `evaluation` of a trace in FlashInfer-Trace form for what a worker answered: an `evaluation` of schema
/// ptxbench.evaluation/1 with its `text`, or `timed_out`. The status follows from the stages, never from text.
base::Json trace_evaluation(const base::Json& answer, const Tolerances& tolerances);

}  // namespace ptxbench::service
