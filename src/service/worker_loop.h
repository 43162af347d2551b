#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "evaluation/evaluator.h"
#include "problem/dataset.h"

namespace ptxbench::service {

/// The side of a worker that works: one request at a time, as docs/service.md describes them. Keeps the evaluator with
/// its inputs and truths, and the problem folders it has read.
class WorkerLoop {
 public:
  /// Told what is going on; `running` once the candidate executes.
  using Progress = std::function<void(std::string_view state, bool running)>;

  /// The answer without its id; whatever is wrong is in its `error`.
  base::Json answer(const base::Json& request, const Progress& progress);

  /// Answers each line of `in` with lines on `out` until its end. The result is the exit code.
  int run(int in, int out);

 private:
  Result<base::Json> evaluate(const base::Json& request, const Progress& progress);
  Result<base::Json> check(const base::Json& request, const Progress& progress);
  Result<base::Json> prepare(const base::Json& request, const Progress& progress);
  Result<base::Json> probe(const base::Json& request);

  Result<std::vector<problem::Problem>> problems_of(const base::Json& request);
  Result<evaluation::Evaluator*> evaluator();
  std::unique_ptr<evaluation::Evaluator> evaluator_;
  std::map<std::vector<std::string>, problem::Dataset> datasets_;  ///< by their folders
};

}  // namespace ptxbench::service
