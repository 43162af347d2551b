#include "service/task_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace ptxbench::service {
namespace {

constexpr int kVersion = 1;

constexpr const char* kSchema = R"(
CREATE TABLE tasks (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  status TEXT NOT NULL,
  definition TEXT NOT NULL,
  solution TEXT NOT NULL,
  source TEXT NOT NULL,
  options TEXT NOT NULL,
  run_seconds REAL NOT NULL,
  created REAL NOT NULL,
  finished REAL NOT NULL,
  error TEXT NOT NULL,
  error_kind INTEGER NOT NULL
);
CREATE INDEX tasks_by_status ON tasks(status, finished);
CREATE TABLE units (
  task TEXT NOT NULL REFERENCES tasks(id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  role INTEGER NOT NULL,
  lane TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  cost REAL NOT NULL,
  cost_key TEXT NOT NULL,
  workload TEXT NOT NULL,
  request TEXT NOT NULL,
  result TEXT NOT NULL,
  error TEXT NOT NULL,
  error_kind INTEGER NOT NULL,
  seconds REAL NOT NULL,
  PRIMARY KEY (task, number)
) WITHOUT ROWID;
)";

constexpr double kNoLimit = -1;

std::int64_t kind_number(ErrorKind kind) { return kind == ErrorKind::input ? 0 : 1; }
ErrorKind kind_of(std::int64_t number) { return number == 0 ? ErrorKind::input : ErrorKind::infrastructure; }

constexpr std::string_view kTaskColumns =
    "id, kind, status, definition, solution, options, run_seconds, created, finished, error, error_kind, source";

Result<Task> read_task(const Statement& row) {
  Task task;
  task.id = row.text(0);
  const auto kind = parse_task_kind(row.text(1));
  const auto status = parse_task_status(row.text(2));
  if (!kind || !status) return infrastructure_error("the task database holds a task that this version does not know");
  task.kind = *kind;
  task.status = *status;
  task.definition = row.text(3);
  task.solution = row.text(4);
  task.options = row.text(5);
  if (row.number(6) >= 0) task.run_seconds = row.number(6);
  task.created = row.number(7);
  task.finished = row.number(8);
  task.error = row.text(9);
  task.error_kind = kind_of(row.integer(10));
  task.source = row.text(11);
  return task;
}

}  // namespace

Result<std::unique_ptr<TaskStore>> TaskStore::open(const std::filesystem::path& folder) {
  std::error_code made;
  std::filesystem::create_directories(folder, made);
  if (made) return infrastructure_error("{}: cannot be created: {}", folder.string(), made.message());
  const std::filesystem::path lock_file = folder / "lock";
  const int lock = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (lock < 0) return infrastructure_error("{}: {}", lock_file.string(), std::strerror(errno));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return infrastructure_error("{} belongs to a service that runs; stop it, or use another --state-dir",
                                folder.string());
  }
  auto database = Database::open(folder / "tasks.sqlite");
  if (!database) {
    ::close(lock);
    return tl::unexpected<Error>(database.error());
  }
  std::unique_ptr<TaskStore> store(new TaskStore(std::move(*database), lock));
  Statement version(store->database_, "PRAGMA user_version");
  const auto row = version.step();
  if (!row) return tl::unexpected<Error>(row.error());
  const std::int64_t found = version.integer(0);
  if (found != 0 && found != kVersion) {
    return infrastructure_error(
        "{}: tasks of another version of this program ({}, this one has {}); use another "
        "--state-dir",
        folder.string(), found, kVersion);
  }
  if (found == 0) {
    auto transaction = Transaction::begin(store->database_);
    if (!transaction) return tl::unexpected<Error>(transaction.error());
    const auto created = store->database_.execute(fmt::format("{}; PRAGMA user_version={}", kSchema, kVersion));
    if (!created) return tl::unexpected<Error>(created.error());
    if (auto committed = transaction->commit(); !committed) return tl::unexpected<Error>(committed.error());
  }
  return store;
}

TaskStore::~TaskStore() { ::close(lock_); }

Result<void> TaskStore::insert(const Task& task) {
  const std::lock_guard lock(mutex_);
  auto transaction = Transaction::begin(database_);
  if (!transaction) return tl::unexpected<Error>(transaction.error());
  Statement into(database_,
                 "INSERT INTO tasks (id, kind, status, definition, solution, options, run_seconds, created, finished, "
                 "error, error_kind, source) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  into.bind(task.id).bind(to_string(task.kind)).bind(to_string(task.status)).bind(task.definition).bind(task.solution);
  into.bind(task.options).bind(task.run_seconds.value_or(kNoLimit)).bind(task.created).bind(task.finished);
  into.bind(task.error).bind(kind_number(task.error_kind)).bind(task.source);
  if (auto done = into.run(); !done) return done;
  for (const Unit& unit : task.units) {
    Statement row(database_,
                  "INSERT INTO units (task, number, role, lane, state, attempts, cost, cost_key, workload, request, "
                  "result, error, error_kind, seconds) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    row.bind(task.id).bind(unit.number).bind(static_cast<std::int64_t>(unit.role)).bind(to_string(unit.lane));
    row.bind(to_string(unit.state)).bind(static_cast<std::int64_t>(unit.attempts)).bind(unit.cost).bind(unit.cost_key);
    row.bind(unit.workload).bind(unit.request).bind(unit.result).bind(unit.error.message);
    row.bind(kind_number(unit.error.kind)).bind(unit.seconds);
    if (auto done = row.run(); !done) return done;
  }
  return transaction->commit();
}

Result<void> TaskStore::read_units(Task& task) {
  Statement rows(database_,
                 "SELECT number, role, lane, state, attempts, cost, cost_key, workload, request, result, error, "
                 "error_kind, seconds FROM units WHERE task = ? ORDER BY number");
  rows.bind(task.id);
  while (true) {
    const auto row = rows.step();
    if (!row) return tl::unexpected<Error>(row.error());
    if (!*row) return {};
    Unit unit;
    unit.number = rows.integer(0);
    unit.role = rows.integer(1) == 0 ? UnitRole::prepare : UnitRole::run;
    const auto lane = parse_lane(rows.text(2));
    const auto state = parse_unit_state(rows.text(3));
    if (!lane || !state) return infrastructure_error("the task database holds a unit that this version does not know");
    unit.lane = *lane;
    unit.state = *state;
    unit.attempts = static_cast<unsigned>(rows.integer(4));
    unit.cost = rows.number(5);
    unit.cost_key = rows.text(6);
    unit.workload = rows.text(7);
    unit.request = rows.text(8);
    unit.result = rows.text(9);
    unit.error.message = rows.text(10);
    unit.error.kind = kind_of(rows.integer(11));
    unit.seconds = rows.number(12);
    task.units.push_back(std::move(unit));
  }
}

Result<std::optional<Task>> TaskStore::find(std::string_view id) {
  const std::lock_guard lock(mutex_);
  Statement rows(database_, fmt::format("SELECT {} FROM tasks WHERE id = ?", kTaskColumns));
  rows.bind(id);
  const auto row = rows.step();
  if (!row) return tl::unexpected<Error>(row.error());
  if (!*row) return std::optional<Task>();
  auto task = read_task(rows);
  if (!task) return tl::unexpected<Error>(task.error());
  if (auto read = read_units(*task); !read) return tl::unexpected<Error>(read.error());
  return std::optional<Task>(std::move(*task));
}

Result<std::vector<Task>> TaskStore::unfinished() {
  const std::lock_guard lock(mutex_);
  std::vector<Task> tasks;
  Statement rows(database_, fmt::format("SELECT {} FROM tasks WHERE status IN ('pending', 'running') ORDER BY sequence",
                                        kTaskColumns));
  while (true) {
    const auto row = rows.step();
    if (!row) return tl::unexpected<Error>(row.error());
    if (!*row) break;
    auto task = read_task(rows);
    if (!task) return tl::unexpected<Error>(task.error());
    tasks.push_back(std::move(*task));
  }
  for (Task& task : tasks) {
    if (auto read = read_units(task); !read) return tl::unexpected<Error>(read.error());
  }
  return tasks;
}

Result<void> TaskStore::update(const Task& task, const std::vector<const Unit*>& units) {
  const std::lock_guard lock(mutex_);
  auto transaction = Transaction::begin(database_);
  if (!transaction) return tl::unexpected<Error>(transaction.error());
  for (const Unit* unit : units) {
    Statement row(database_,
                  "UPDATE units SET state = ?, attempts = ?, result = ?, error = ?, error_kind = ?, seconds = ? "
                  "WHERE task = ? AND number = ?");
    row.bind(to_string(unit->state)).bind(static_cast<std::int64_t>(unit->attempts)).bind(unit->result);
    row.bind(unit->error.message).bind(kind_number(unit->error.kind)).bind(unit->seconds);
    row.bind(task.id).bind(unit->number);
    if (auto done = row.run(); !done) return done;
  }
  Statement row(database_, "UPDATE tasks SET status = ?, error = ?, error_kind = ?, finished = ? WHERE id = ?");
  row.bind(to_string(task.status))
      .bind(task.error)
      .bind(kind_number(task.error_kind))
      .bind(task.finished)
      .bind(task.id);
  if (auto done = row.run(); !done) return done;
  return transaction->commit();
}

Result<std::int64_t> TaskStore::prune(double before) {
  const std::lock_guard lock(mutex_);
  Statement row(database_, "DELETE FROM tasks WHERE status IN ('completed', 'failed') AND finished < ?");
  row.bind(before);
  if (auto done = row.run(); !done) return tl::unexpected<Error>(done.error());
  return sqlite3_changes64(database_.handle());
}

}  // namespace ptxbench::service
