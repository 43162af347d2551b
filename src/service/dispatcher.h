#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "service/cost_model.h"
#include "service/event_log.h"
#include "service/metrics.h"
#include "service/scheduler.h"
#include "service/task_store.h"
#include "service/worker_process.h"

namespace ptxbench::service {

/// One worker: what it works for, and where.
struct WorkerLane {
  Lane lane = Lane::cpu;
  std::string backend = "emulator";
  std::string device;    ///< "cuda:0"; of the emulator only a name to show
  unsigned threads = 0;  ///< of the emulator
};

struct DispatcherOptions {
  WorkerCommand worker;
  std::vector<std::string> data;  ///< problem folders
  std::vector<WorkerLane> lanes;
  std::chrono::milliseconds unit_limit{600'000};  ///< a worker that takes longer for one unit hangs
  unsigned max_attempts = 3;
  std::size_t max_queue = 1024;                         ///< units that may wait
  std::size_t max_source_bytes = std::size_t{1} << 30;  ///< of all unfinished tasks, which stay in memory
};

/// Gives units to workers and keeps the book: in memory what is unfinished, in the store everything. A worker that
/// crashes, hangs or is killed is started again and its unit tried again; the others do not notice. Thread safe.
class Dispatcher {
 public:
  Dispatcher(TaskStore& store, CostModel& costs, Metrics& metrics, EventLog& log, DispatcherOptions options);
  ~Dispatcher();
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Takes up what the store has left and starts the workers. An error if the first of a kind cannot work here.
  Result<void> start();

  enum class Admission : std::uint8_t { accepted, full, closing };
  /// Accepted: the task is on the disk.
  Result<Admission> submit(Task task);
  /// Seconds after which a refused request may try again.
  unsigned retry_after() const;

  /// Nothing when there is no such task.
  Result<std::optional<Task>> find(const std::string& id);
  /// Returns when the task is final or unknown, at the deadline, or when the service closes.
  void wait(const std::string& id, std::chrono::steady_clock::time_point deadline);
  /// False when there is no such unfinished task. What runs of it is killed.
  bool cancel(const std::string& id);

  /// No task is accepted and no unit begun any more; returns when none runs. What waits stays in the store.
  void drain();
  bool is_closing() const;

  struct Health {
    std::string device;
    bool healthy = false;
  };
  std::vector<Health> health() const;
  std::size_t pending_tasks() const;
  /// Brings the gauges up to date.
  void report(Metrics& metrics) const;

 private:
  struct LiveTask {
    Task task;
    bool cancelled = false;
    std::map<std::int64_t, std::stop_source> running;  ///< by unit number
    std::set<std::int64_t> changed;                    ///< units that the store does not know as they are
  };
  struct Slot {
    WorkerLane lane;
    bool healthy = false;
    bool busy = false;
    std::unique_ptr<WorkerProcess> first;  ///< started ahead of the thread
    std::jthread thread;
  };

  Result<void> resume();
  void adopt(Task task);
  Result<std::unique_ptr<WorkerProcess>> launch(const WorkerLane& lane) const;
  void work(const std::stop_token& stop, Slot& slot);
  std::optional<Scheduler::Entry> next(const std::stop_token& stop, Slot& slot);
  /// False when the worker, or what it works with, is not to be trusted any more.
  bool run(const Scheduler::Entry& entry, Slot& slot, WorkerProcess& worker);

  // With the lock held:
  static void set_state(LiveTask& live, Unit& unit, UnitState state);
  void enqueue(LiveTask& live, Unit& unit);
  void settle(LiveTask& live, Unit& unit, WorkerProcess::Answer answer);
  void settle_prepared(LiveTask& live, Unit& unit, const base::Json& answer);
  void retry(LiveTask& live, Unit& unit, std::string_view reason, const std::string& detail);
  void finish_if_done(const std::string& id);
  void save(LiveTask& live);
  bool is_full() const;

  TaskStore& store_;
  CostModel& costs_;
  Metrics& metrics_;
  EventLog& log_;
  DispatcherOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable_any work_;      ///< there may be a unit to take
  std::condition_variable_any finished_;  ///< a task ended, or the service closes
  std::map<std::string, LiveTask> live_;
  std::set<std::string> unsaved_;  ///< tasks that the store could not be told about
  Scheduler scheduler_;
  bool closing_ = false, closed_ = false;
  std::vector<std::unique_ptr<Slot>> slots_;
};

}  // namespace ptxbench::service
