#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

/// What the service works on: a task is one request for one candidate; a unit is what one worker does of it in one go.
namespace ptxbench::service {

enum class TaskKind : std::uint8_t { evaluate, sanitize, debug, profile };
std::string_view to_string(TaskKind kind);
std::optional<TaskKind> parse_task_kind(std::string_view text);

enum class TaskStatus : std::uint8_t { pending, running, completed, failed };
std::string_view to_string(TaskStatus status);
std::optional<TaskStatus> parse_task_status(std::string_view text);

/// Where a unit can run.
enum class Lane : std::uint8_t { cpu, gpu };
std::string_view to_string(Lane lane);
std::optional<Lane> parse_lane(std::string_view text);

enum class UnitRole : std::uint8_t {
  prepare,  ///< compiles and screens on a CPU what other units of the task then run on a GPU
  run,      ///< one workload, or all of them together
};

/// `waiting`: for the task's prepare unit. `failed`: given up, `error` says why. The last three are final.
enum class UnitState : std::uint8_t { waiting, pending, running, done, failed, cancelled };
std::string_view to_string(UnitState state);
std::optional<UnitState> parse_unit_state(std::string_view text);

struct Unit {
  std::int64_t number = 0;  ///< place in the task, in the order of the request
  UnitRole role = UnitRole::run;
  Lane lane = Lane::cpu;
  UnitState state = UnitState::pending;
  unsigned attempts = 0;  ///< started so often, the present one included
  double cost = 1;        ///< expected seconds
  std::string cost_key;   ///< what its measured time says something about
  std::string workload;   ///< JSON of the workload, for traces; "null" when it has several
  std::string request;    ///< JSON of the worker's request without id, source and folders
  std::string result;     ///< JSON, once done
  Error error;            ///< once failed
  double seconds = 0;     ///< that the last attempt took

  bool is_final() const {
    return state == UnitState::done || state == UnitState::failed || state == UnitState::cancelled;
  }
};

struct Task {
  std::string id;  ///< 32 hexadecimal digits
  TaskKind kind = TaskKind::evaluate;
  TaskStatus status = TaskStatus::pending;
  std::string definition;
  std::string solution;               ///< normalised name
  std::string source;                 ///< of the candidate
  std::string options;                ///< JSON of what the request asked of the answer (tolerances, lines, ...)
  std::optional<double> run_seconds;  ///< that a unit may take once it executes; nothing: the service's own limit
  double created = 0, finished = 0;   ///< seconds since 1970
  std::string error;                  ///< once failed
  ErrorKind error_kind = ErrorKind::infrastructure;
  std::vector<Unit> units;

  bool is_final() const { return status == TaskStatus::completed || status == TaskStatus::failed; }
};

/// A fresh id.
std::string new_task_id();
/// Now, in seconds since 1970.
double unix_time();

}  // namespace ptxbench::service
