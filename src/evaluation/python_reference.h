#pragma once

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "problem/reference.h"

namespace ptxbench::evaluation {

struct PythonReferenceOptions {
  std::string python;  ///< the interpreter; empty: $PTXBENCH_PYTHON, else python3
  int threads = 0;     ///< of PyTorch; 0: all cores
  std::chrono::milliseconds wall_limit = std::chrono::minutes(5);
  std::stop_token cancel;
};

/// Results of a definition's own Python reference, or why there are none.
struct PythonTruth {
  std::optional<problem::Truth> truth;
  std::string reason;
  bool lasting = true;  ///< the reason would be the same again; not so when it was cancelled or ran out of time
};

/// Runs the definition's `run` with PyTorch on the CPU, in a process without sockets and without the user's
/// variables that cannot change files. It is
/// only as exact as the reference is: it may round where the native references do not. A missing interpreter or
/// PyTorch, an exception, a wrong shape or the end of the time is a reason, not an error.
Result<PythonTruth> python_truth(const problem::Problem& problem, const std::vector<problem::Tensor>& inputs,
                                 const PythonReferenceOptions& options = {});

}  // namespace ptxbench::evaluation
