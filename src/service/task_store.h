#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "service/database.h"
#include "service/task.h"

namespace ptxbench::service {

/// Tasks on disk. What a function has returned from survives a kill at any moment. Thread safe.
class TaskStore {
 public:
  /// In `folder`, which is created and belongs to one service at a time: another one that has it is an error.
  static Result<std::unique_ptr<TaskStore>> open(const std::filesystem::path& folder);
  ~TaskStore();
  TaskStore(const TaskStore&) = delete;
  TaskStore& operator=(const TaskStore&) = delete;

  Result<void> insert(const Task& task);
  /// The task with its units; nothing when there is none.
  Result<std::optional<Task>> find(std::string_view id);
  /// All that are not final, oldest first.
  Result<std::vector<Task>> unfinished();

  /// Writes the state, attempts, result, error and time of these units, and status, error and end of their task.
  Result<void> update(const Task& task, const std::vector<const Unit*>& units);

  /// Removes final tasks that ended before this time; how many.
  Result<std::int64_t> prune(double before);

 private:
  TaskStore(Database database, int lock) : database_(std::move(database)), lock_(lock) {}
  Result<void> read_units(Task& task);
  std::mutex mutex_;
  Database database_;
  int lock_;  ///< descriptor of the folder's lock file
};

}  // namespace ptxbench::service
