#include "service/dispatcher.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace ptxbench::service {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTick{500};  ///< idle workers are looked at this often
constexpr std::chrono::milliseconds kStartLimit{60'000};
constexpr std::chrono::milliseconds kMostBackoff{30'000};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string_view outcome_name(WorkerProcess::Outcome outcome) {
  switch (outcome) {
    case WorkerProcess::Outcome::answered:
      return "answered";
    case WorkerProcess::Outcome::died:
      return "died";
    case WorkerProcess::Outcome::hung:
      return "hung";
    case WorkerProcess::Outcome::out_of_time:
      return "out_of_time";
    case WorkerProcess::Outcome::cancelled:
      return "cancelled";
  }
  return "";
}

}  // namespace

Dispatcher::Dispatcher(TaskStore& store, CostModel& costs, Metrics& metrics, EventLog& log, DispatcherOptions options)
    : store_(store), costs_(costs), metrics_(metrics), log_(log), options_(std::move(options)) {}

Dispatcher::~Dispatcher() { drain(); }

// --- start

Result<std::unique_ptr<WorkerProcess>> Dispatcher::launch(const WorkerLane& lane) const {
  auto worker = WorkerProcess::start(options_.worker);
  if (!worker) return worker;
  WorkerProcess::Limits limits;
  limits.total = kStartLimit;
  const auto answer =
      (*worker)->call(Json{{"kind", "probe"}, {"backend", lane.backend}, {"device", lane.device}}, limits);
  if (answer.outcome != WorkerProcess::Outcome::answered) {
    return infrastructure_error("a worker for {} does not come up: {}", lane.device, answer.detail);
  }
  if (const Json* error = base::optional_member(answer.json, "error"); error != nullptr) {
    return infrastructure_error("a worker for {} does not come up: {}", lane.device, error->value("message", ""));
  }
  return worker;
}

Result<void> Dispatcher::start() {
  bool cpu_seen = false;
  for (const WorkerLane& lane : options_.lanes) {
    auto slot = std::make_unique<Slot>();
    slot->lane = lane;
    if (lane.lane == Lane::gpu || !cpu_seen) {
      auto worker = launch(lane);
      if (!worker) return tl::unexpected<Error>(worker.error());
      slot->first = std::move(*worker);
      slot->healthy = true;
    }
    cpu_seen = cpu_seen || lane.lane == Lane::cpu;
    slots_.push_back(std::move(slot));
  }
  if (auto resumed = resume(); !resumed) return resumed;
  for (auto& slot : slots_) {
    slot->thread = std::jthread([this, &slot = *slot](const std::stop_token& stop) { work(stop, slot); });
  }
  return {};
}

Result<void> Dispatcher::resume() {
  auto tasks = store_.unfinished();
  if (!tasks) return tl::unexpected<Error>(tasks.error());
  const std::lock_guard lock(mutex_);
  for (Task& task : *tasks) adopt(std::move(task));
  if (!tasks->empty()) log_.info("service.resumed", Json{{"tasks", tasks->size()}, {"units", scheduler_.size()}});
  return {};
}

void Dispatcher::adopt(Task task) {
  const std::string id = task.id;
  LiveTask& live = live_[id];
  live.task = std::move(task);
  for (Unit& unit : live.task.units) {
    const bool has_lane = std::any_of(options_.lanes.begin(), options_.lanes.end(),
                                      [&](const WorkerLane& lane) { return lane.lane == unit.lane; });
    if (!unit.is_final() && !has_lane) {
      set_state(live, unit, UnitState::failed);
      unit.error = {ErrorKind::infrastructure, "the service was restarted without a GPU"};
    } else if (unit.state == UnitState::running) {
      retry(live, unit, "restart", "the service ended while it ran");
    } else if (unit.state == UnitState::pending) {
      enqueue(live, unit);
    }
  }
  const bool any_done = std::any_of(live.task.units.begin(), live.task.units.end(),
                                    [](const Unit& unit) { return unit.state == UnitState::done; });
  live.task.status = any_done ? TaskStatus::running : TaskStatus::pending;
  save(live);
  finish_if_done(id);
}

// --- workers

void Dispatcher::work(const std::stop_token& stop, Slot& slot) {
  std::unique_ptr<WorkerProcess> worker = std::move(slot.first);
  std::chrono::milliseconds backoff{100};
  while (!stop.stop_requested()) {
    if (worker && !worker->is_alive()) {
      log_.warn("worker.lost", Json{{"device", slot.lane.device}, {"pid", worker->pid()}});
      metrics_.add("ptxbench_worker_restarts_total", {{"reason", "idle"}});
      worker.reset();
    }
    if (!worker) {
      {
        const std::lock_guard lock(mutex_);
        slot.healthy = false;
      }
      auto started = launch(slot.lane);
      if (!started) {
        log_.error("worker.not_started", Json{{"device", slot.lane.device}, {"error", started.error().message}});
        std::unique_lock lock(mutex_);
        work_.wait_for(lock, stop, backoff, [] { return false; });
        backoff = std::min(backoff * 2, kMostBackoff);
        continue;
      }
      backoff = std::chrono::milliseconds(100);
      worker = std::move(*started);
      log_.debug("worker.started", Json{{"device", slot.lane.device}, {"pid", worker->pid()}});
      const std::lock_guard lock(mutex_);
      slot.healthy = true;
    }
    const auto entry = next(stop, slot);
    if (!entry) continue;
    // One whose GPU is lost would fail unit after unit: it comes back only if it passes the probe.
    if (!run(*entry, slot, *worker)) worker.reset();
  }
}

std::optional<Scheduler::Entry> Dispatcher::next(const std::stop_token& stop, Slot& slot) {
  std::unique_lock lock(mutex_);
  std::optional<Scheduler::Entry> entry;
  work_.wait_for(lock, stop, kTick, [&] {
    if (!closing_) entry = scheduler_.take(slot.lane.lane, unix_time());
    return entry.has_value() || closing_;
  });
  slot.busy = entry.has_value();
  // What the store could not be told when it happened.
  for (const std::string& id : std::exchange(unsaved_, {})) {
    const auto live = live_.find(id);
    if (live == live_.end()) continue;
    save(live->second);
    finish_if_done(id);
  }
  return entry;
}

bool Dispatcher::run(const Scheduler::Entry& entry, Slot& slot, WorkerProcess& worker) {
  Json request;
  WorkerProcess::Limits limits;
  limits.total = options_.unit_limit;
  std::stop_source cancel;
  LiveTask* live = nullptr;
  Unit* unit = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(entry.task);
    if (found == live_.end()) return true;
    live = &found->second;  // stays: a task with a running unit is not final
    unit = &live->task.units.at(static_cast<std::size_t>(entry.unit));
    set_state(*live, *unit, UnitState::running);
    ++unit->attempts;
    live->task.status = TaskStatus::running;
    live->running[unit->number] = cancel;
    save(*live);
    if (auto parsed = base::parse_json(unit->request, "request"); parsed && parsed->is_object()) {
      request = std::move(*parsed);
    }
    request["source"] = live->task.source;
    request["data"] = options_.data;
    request["device"] = slot.lane.device;
    if (!request.contains("backend")) request["backend"] = slot.lane.backend;
    if (slot.lane.threads != 0) {
      // A request may ask for fewer than the worker's share of the machine.
      Json& options = request["options"];
      const bool asked = options.is_object() && options.contains("threads") && options["threads"].is_number_unsigned();
      const auto most = std::uint64_t{slot.lane.threads};
      const auto wanted = asked ? options["threads"].get<std::uint64_t>() : most;
      options["threads"] = wanted == 0 ? most : std::min(wanted, most);
    }
    if (live->task.run_seconds) {
      limits.run = std::chrono::milliseconds(static_cast<std::int64_t>(*live->task.run_seconds * 1000));
    }
  }
  log_.debug("unit.started",
             Json{{"task", entry.task}, {"unit", entry.unit}, {"device", slot.lane.device}, {"pid", worker.pid()}});
  const auto started = Clock::now();
  auto answer = worker.call(std::move(request), limits, cancel.get_token());
  const double seconds = seconds_since(started);
  const auto outcome = answer.outcome;

  const std::lock_guard lock(mutex_);
  slot.busy = false;
  unit->seconds = seconds;
  live->changed.insert(unit->number);
  live->running.erase(unit->number);
  metrics_.observe("ptxbench_unit_seconds", {{"lane", std::string(to_string(slot.lane.lane))}}, seconds);
  log_.info("unit.ended", Json{{"task", entry.task},
                               {"unit", entry.unit},
                               {"device", slot.lane.device},
                               {"pid", worker.pid()},
                               {"outcome", outcome_name(outcome)},
                               {"attempt", unit->attempts},
                               {"seconds", seconds},
                               {"detail", answer.detail}});
  const bool answered = outcome == WorkerProcess::Outcome::answered;
  const Json* error = answered ? base::optional_member(answer.json, "error") : nullptr;
  const bool trusted = answered && (error == nullptr || error->value("kind", "") == "input");
  if (!trusted) {
    slot.healthy = false;
    metrics_.add("ptxbench_worker_restarts_total",
                 {{"reason", answered ? "error" : std::string(outcome_name(outcome))}});
  }
  settle(*live, *unit, std::move(answer));
  save(*live);
  finish_if_done(entry.task);
  return trusted;
}

// --- the book; all with the lock held

void Dispatcher::set_state(LiveTask& live, Unit& unit, UnitState state) {
  unit.state = state;
  live.changed.insert(unit.number);
}

void Dispatcher::enqueue(LiveTask& live, Unit& unit) {
  set_state(live, unit, UnitState::pending);
  scheduler_.add({live.task.id, unit.number, unit.lane, unit.cost, unix_time()});
  work_.notify_all();
}

void Dispatcher::settle(LiveTask& live, Unit& unit, WorkerProcess::Answer answer) {
  const std::string lane(to_string(unit.lane));
  const auto count = [&](std::string_view outcome) {
    metrics_.add("ptxbench_units_finished_total", {{"lane", lane}, {"outcome", std::string(outcome)}});
  };
  if (live.cancelled || answer.outcome == WorkerProcess::Outcome::cancelled) {
    set_state(live, unit, UnitState::cancelled);
    count("cancelled");
    return;
  }
  if (answer.outcome == WorkerProcess::Outcome::died || answer.outcome == WorkerProcess::Outcome::hung) {
    retry(
        live, unit, outcome_name(answer.outcome),
        fmt::format("its worker {}{}", answer.outcome == WorkerProcess::Outcome::died ? "died: " : "", answer.detail));
    return;
  }
  if (answer.outcome == WorkerProcess::Outcome::out_of_time) {
    answer.json = Json{{"timed_out", live.task.run_seconds.value_or(0)}};
  }
  if (const Json* error = base::optional_member(answer.json, "error"); error != nullptr) {
    const std::string message = error->value("message", "the worker gave no reason");
    if (error->value("kind", "") != "input") {
      retry(live, unit, "error", message);
      return;
    }
    set_state(live, unit, UnitState::failed);
    unit.error = {ErrorKind::input, message};
    count("refused");
    return;
  }
  answer.json.erase("id");
  answer.json["timestamp"] = unix_time();
  if (answer.outcome == WorkerProcess::Outcome::answered) costs_.observe(unit.cost_key, unit.seconds);
  set_state(live, unit, UnitState::done);
  count("done");
  if (unit.role == UnitRole::prepare) {
    settle_prepared(live, unit, answer.json);
  } else {
    unit.result = answer.json.dump();
  }
}

void Dispatcher::settle_prepared(LiveTask& live, Unit& unit, const Json& answer) {
  const bool stopped = !answer.contains("prepared");
  unit.result = stopped ? R"({"stopped":true})" : R"({"prepared":true})";
  metrics_.add("ptxbench_screened_total", {{"outcome", stopped ? "stopped" : "let_through"}});
  Json result = answer;
  result["screened"] = true;
  for (Unit& other : live.task.units) {
    if (other.state != UnitState::waiting) continue;
    if (stopped) {
      set_state(live, other, UnitState::done);
      other.result = result.dump();
    } else {
      enqueue(live, other);
    }
  }
}

void Dispatcher::retry(LiveTask& live, Unit& unit, std::string_view reason, const std::string& detail) {
  if (unit.attempts < options_.max_attempts) {
    metrics_.add("ptxbench_unit_retries_total", {{"reason", std::string(reason)}});
    enqueue(live, unit);
    return;
  }
  set_state(live, unit, UnitState::failed);
  unit.error = {ErrorKind::infrastructure,
                fmt::format("given up after {} attempts; the last one: {}", unit.attempts, detail)};
  metrics_.add("ptxbench_units_finished_total", {{"lane", std::string(to_string(unit.lane))}, {"outcome", "given_up"}});
}

void Dispatcher::save(LiveTask& live) {
  std::vector<const Unit*> units;
  units.reserve(live.changed.size());
  for (const std::int64_t number : live.changed) units.push_back(&live.task.units.at(static_cast<std::size_t>(number)));
  if (const auto saved = store_.update(live.task, units); !saved) {
    unsaved_.insert(live.task.id);
    log_.error("store.failed", Json{{"task", live.task.id}, {"error", saved.error().message}});
    return;
  }
  live.changed.clear();
}

void Dispatcher::finish_if_done(const std::string& id) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  LiveTask& live = found->second;
  Task& task = live.task;
  // What waits for a preparation that was given up will never run.
  for (const Unit& prepare : task.units) {
    if (prepare.role != UnitRole::prepare || !prepare.is_final() || prepare.state == UnitState::done) continue;
    for (Unit& unit : task.units) {
      if (unit.state != UnitState::waiting) continue;
      set_state(live, unit, prepare.state);
      unit.error = prepare.error;
    }
  }
  if (!std::all_of(task.units.begin(), task.units.end(), [](const Unit& unit) { return unit.is_final(); })) return;
  if (!task.is_final()) {
    task.finished = unix_time();
    task.status = TaskStatus::completed;
    for (const Unit& unit : task.units) {
      if (unit.state != UnitState::failed || task.status == TaskStatus::failed) continue;
      task.status = TaskStatus::failed;
      task.error = unit.error.message;
      task.error_kind = unit.error.kind;
    }
    if (live.cancelled) {
      task.status = TaskStatus::failed;
      task.error = "cancelled";
      task.error_kind = ErrorKind::input;
    }
    scheduler_.remove(id);
    metrics_.add("ptxbench_tasks_finished_total",
                 {{"kind", std::string(to_string(task.kind))}, {"status", std::string(to_string(task.status))}});
    log_.info("task.finished", Json{{"task", id},
                                    {"kind", to_string(task.kind)},
                                    {"status", to_string(task.status)},
                                    {"error", task.error},
                                    {"seconds", task.finished - task.created}});
    save(live);
  }
  // Until the store has it, the task is answered from memory.
  if (!unsaved_.contains(id)) live_.erase(found);
  finished_.notify_all();
}

bool Dispatcher::is_full() const {
  std::size_t units = scheduler_.size(), bytes = 0;
  for (const auto& [id, live] : live_) {
    bytes += live.task.source.size();
    units += static_cast<std::size_t>(std::count_if(live.task.units.begin(), live.task.units.end(),
                                                    [](const Unit& unit) { return unit.state == UnitState::waiting; }));
  }
  return units >= options_.max_queue || bytes >= options_.max_source_bytes;
}

// --- from outside

Result<Dispatcher::Admission> Dispatcher::submit(Task task) {
  const std::lock_guard lock(mutex_);
  if (closing_) return Admission::closing;
  if (is_full()) return Admission::full;
  if (auto stored = store_.insert(task); !stored) return tl::unexpected<Error>(stored.error());
  metrics_.add("ptxbench_tasks_accepted_total", {{"kind", std::string(to_string(task.kind))}});
  log_.info("task.accepted", Json{{"task", task.id},
                                  {"kind", to_string(task.kind)},
                                  {"definition", task.definition},
                                  {"solution", task.solution},
                                  {"units", task.units.size()}});
  LiveTask& live = live_[task.id];
  live.task = std::move(task);
  for (Unit& unit : live.task.units) {
    if (unit.state == UnitState::pending) enqueue(live, unit);
  }
  return Admission::accepted;
}

unsigned Dispatcher::retry_after() const {
  const std::lock_guard lock(mutex_);
  const double seconds = (scheduler_.backlog(Lane::cpu) + scheduler_.backlog(Lane::gpu)) /
                         static_cast<double>(std::max<std::size_t>(1, slots_.size())) / 4;
  return static_cast<unsigned>(std::clamp(std::ceil(seconds), 1.0, 60.0));
}

Result<std::optional<Task>> Dispatcher::find(const std::string& id) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto live = live_.find(id); live != live_.end()) {
      return std::optional<Task>(live->second.task);
    }
  }
  return store_.find(id);
}

void Dispatcher::wait(const std::string& id, Clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  finished_.wait_until(lock, deadline, [&] {
    const auto live = live_.find(id);
    return closed_ || live == live_.end() || live->second.task.is_final();
  });
}

bool Dispatcher::cancel(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(id);
  if (found == live_.end() || found->second.task.is_final()) return false;
  LiveTask& live = found->second;
  if (!live.cancelled) metrics_.add("ptxbench_tasks_cancelled_total");
  live.cancelled = true;
  scheduler_.remove(id);
  for (Unit& unit : live.task.units) {
    if (unit.state == UnitState::pending || unit.state == UnitState::waiting)
      set_state(live, unit, UnitState::cancelled);
  }
  for (auto& [number, stop] : live.running) stop.request_stop();
  save(live);
  finish_if_done(id);
  return true;
}

void Dispatcher::drain() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  for (auto& slot : slots_) slot->thread.request_stop();
  work_.notify_all();
  for (auto& slot : slots_) {
    if (slot->thread.joinable()) slot->thread.join();
  }
  const std::lock_guard lock(mutex_);
  closed_ = true;
  finished_.notify_all();
}

bool Dispatcher::is_closing() const {
  const std::lock_guard lock(mutex_);
  return closing_;
}

std::vector<Dispatcher::Health> Dispatcher::health() const {
  const std::lock_guard lock(mutex_);
  std::vector<Health> out;
  out.reserve(slots_.size());
  for (const auto& slot : slots_) {
    // A device with several workers is there as long as one of them is.
    const auto known =
        std::find_if(out.begin(), out.end(), [&](const Health& one) { return one.device == slot->lane.device; });
    if (known == out.end()) {
      out.push_back({slot->lane.device, slot->healthy});
    } else {
      known->healthy = known->healthy || slot->healthy;
    }
  }
  return out;
}

std::size_t Dispatcher::pending_tasks() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      live_.begin(), live_.end(), [](const auto& live) { return live.second.task.status == TaskStatus::pending; }));
}

void Dispatcher::report(Metrics& metrics) const {
  const std::lock_guard lock(mutex_);
  metrics.set("ptxbench_tasks_unfinished", {}, static_cast<double>(live_.size()));
  for (const Lane lane : {Lane::cpu, Lane::gpu}) {
    const Metrics::Labels labels{{"lane", std::string(to_string(lane))}};
    double workers = 0, healthy = 0, busy = 0;
    for (const auto& slot : slots_) {
      if (slot->lane.lane != lane) continue;
      workers += 1;
      healthy += slot->healthy ? 1 : 0;
      busy += slot->busy ? 1 : 0;
    }
    metrics.set("ptxbench_workers", labels, workers);
    metrics.set("ptxbench_workers_healthy", labels, healthy);
    metrics.set("ptxbench_units_running", labels, busy);
    metrics.set("ptxbench_units_waiting", labels, static_cast<double>(scheduler_.size(lane)));
    metrics.set("ptxbench_backlog_seconds", labels, scheduler_.backlog(lane));
  }
}

}  // namespace ptxbench::service
