#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "service/body_reader.h"
#include "service/solution.h"
#include "service/task.h"

/// Bodies of requests, checked for their form; what they name is looked up elsewhere.
namespace ptxbench::service {

/// POST /evaluate, /sanitize, /debug and /profile.
struct SubmitRequest {
  TaskKind kind = TaskKind::evaluate;
  Solution solution;
  std::vector<std::string> workload_uuids;  ///< empty: all
  std::optional<double> timeout;            ///< seconds that a workload may execute
  std::optional<double> atol, rtol;
  bool run_baseline = true;
  std::optional<std::int64_t> max_lines, print_limit;
  std::int64_t source_context_lines = 4;
  std::string kernel_name;  ///< of /profile: only kernels that contain it
};
SubmitRequest read_submit_request(TaskKind kind, const base::Json& body, BodyErrors& errors);

/// POST /tasks/batch.
struct BatchRequest {
  std::vector<std::string> task_ids;
  double timeout = 0;
};
BatchRequest read_batch_request(const base::Json& body, BodyErrors& errors);

/// POST /v1/evaluate.
struct NativeRequest {
  std::string source, problem;
  std::string name = "candidate";
  std::vector<std::string> workloads;                      ///< uuids or beginnings of them
  std::vector<std::pair<std::string, std::int64_t>> axes;  ///< instead of workloads
  std::string backend = "auto";
  base::Json options = base::Json::object();  ///< as in evaluate_options.h
  bool together = false;                      ///< one evaluation of all workloads instead of one for each
  bool color = false;                         ///< of the text
  bool screen = true;                         ///< run it on the emulator before a GPU gets it
  std::optional<double> timeout;
};
NativeRequest read_native_request(const base::Json& body, BodyErrors& errors);

inline constexpr double kLongestPollSeconds = 3600;
inline constexpr std::size_t kMostTasksInBatch = 1000;

}  // namespace ptxbench::service
