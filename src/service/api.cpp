#include "service/api.h"

#include <charconv>
#include <chrono>
#include <cmath>

#include "service/task_json.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr std::chrono::seconds kCancelWait{5};

Reply invalid(const BodyErrors& errors) { return Reply::detail(422, errors.list()); }

/// The body as JSON; or the answer that says why it is none.
tl::expected<Json, Reply> parse_body(const std::string& body) {
  auto json = base::parse_json(body, "body");
  if (json) return std::move(*json);
  BodyErrors errors;
  errors.add({"body"}, "json_invalid", "JSON decode error: " + json.error().message);
  return tl::unexpected<Reply>(invalid(errors));
}

/// What the service itself got wrong.
Reply failure(const Error& error) { return Reply::detail(500, error.message); }

Json names(const std::vector<std::string_view>& list) {
  Json out = Json::array();
  for (const std::string_view one : list) out.push_back(one);
  return out;
}

}  // namespace

Reply Api::root() const {
  return Reply::json(
      Json{{"name", "ptxbench"},
           {"version", options_.version},
           {"commit", nullptr},
           {"upstream", nullptr},
           {"docs", "docs/service.md"},
           {"endpoints",
            names({"GET /", "GET /health", "GET /metrics", "GET /definitions", "GET /definitions/{name}",
                   "GET /definitions/{name}/workloads", "GET /workloads/{uuid}", "POST /evaluate", "POST /sanitize",
                   "POST /debug", "POST /profile", "GET /tasks/{task_id}", "DELETE /tasks/{task_id}",
                   "POST /tasks/{task_id}/cancel", "POST /tasks/batch", "POST /shutdown", "POST /v1/evaluate",
                   "GET /v1/tasks/{task_id}", "DELETE /v1/tasks/{task_id}"})}});
}

Reply Api::health() const {
  Json workers = Json::array();
  bool any = false;
  for (const Dispatcher::Health& worker : dispatcher_.health()) {
    workers.push_back({{"device", worker.device}, {"healthy", worker.healthy}});
    any = any || worker.healthy;
  }
  const bool ok = any && !dispatcher_.is_closing();
  return Reply::json(
      Json{{"status", ok ? "ok" : "unhealthy"}, {"workers", workers}, {"queue_size", dispatcher_.pending_tasks()}});
}

Reply Api::metrics() const {
  dispatcher_.report(metrics_);
  metrics_.set("ptxbench_long_polls", {}, static_cast<double>(polls_.load()));
  Reply reply;
  reply.body = metrics_.text();
  reply.type = "text/plain; version=0.0.4";
  return reply;
}

Reply Api::definitions() const {
  Json list = Json::array();
  for (const auto& [name, definition] : dataset_.definitions()) {
    list.push_back({{"name", name},
                    {"description", definition.description.empty() ? Json(nullptr) : Json(definition.description)}});
  }
  return Reply::json(list);
}

Reply Api::definition(const std::string& name) const {
  const auto found = dataset_.definitions().find(name);
  if (found == dataset_.definitions().end()) return Reply::detail(404, "Definition not found: " + name);
  return Reply::json(problem::to_json(found->second));
}

Reply Api::workloads(const std::string& definition) const {
  if (!dataset_.definitions().contains(definition)) return Reply::detail(404, "Definition not found: " + definition);
  Json list = Json::array();
  for (const problem::Workload& workload : dataset_.workloads(definition)) list.push_back(problem::to_json(workload));
  return Reply::json(list);
}

Reply Api::workload(const std::string& uuid) const {
  const auto found = dataset_.find_workload(uuid);
  if (!found) return Reply::detail(404, "Workload not found: " + uuid);
  return Reply::json(problem::to_json(*found->second));
}

Reply Api::submit(TaskKind kind, const std::string& body) {
  const auto json = parse_body(body);
  if (!json) return json.error();
  BodyErrors errors;
  const SubmitRequest request = read_submit_request(kind, *json, errors);
  if (!errors.empty()) return invalid(errors);
  return admit(factory_.make(request), Form::fib);
}

Reply Api::submit_native(const std::string& body) {
  const auto json = parse_body(body);
  if (!json) return json.error();
  BodyErrors errors;
  const NativeRequest request = read_native_request(*json, errors);
  if (!errors.empty()) return invalid(errors);
  return admit(factory_.make(request), Form::native);
}

Reply Api::admit(Result<Task> task, Form form) {
  if (!task) {
    if (task.error().kind == ErrorKind::infrastructure) return failure(task.error());
    metrics_.add("ptxbench_requests_refused_total", {{"reason", "input"}});
    return Reply::detail(400, task.error().message);
  }
  Json accepted{{"task_id", task->id}, {"normalized_solution_name", task->solution}};
  if (form == Form::native) accepted = Json{{"schema", "ptxbench.accepted/1"}, {"task_id", task->id}};
  const auto admission = dispatcher_.submit(std::move(*task));
  if (!admission) return failure(admission.error());
  if (*admission == Dispatcher::Admission::accepted) return Reply::json(accepted);
  const bool full = *admission == Dispatcher::Admission::full;
  metrics_.add("ptxbench_requests_refused_total", {{"reason", full ? "full" : "closing"}});
  Reply reply = full ? Reply::detail(429, "The queue is full; try again later")
                     : Reply::detail(503, "The service is shutting down");
  reply.headers["Retry-After"] = std::to_string(full ? dispatcher_.retry_after() : 10);
  return reply;
}

void Api::wait_for(const std::vector<std::string>& ids, double seconds) {
  if (seconds <= 0) return;
  // Every waiting request holds a thread.
  if (++polls_ <= options_.max_polls) {
    const auto deadline =
        std::chrono::steady_clock::now() +
        std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
    for (const std::string& id : ids) dispatcher_.wait(id, deadline);
  }
  --polls_;
}

Reply Api::task(const std::string& id, const std::optional<std::string>& timeout, Form form) {
  double seconds = 0;
  if (timeout) {
    const auto [end, code] = std::from_chars(timeout->data(), timeout->data() + timeout->size(), seconds);
    const bool is_number = code == std::errc() && end == timeout->data() + timeout->size();
    BodyErrors errors;
    if (!is_number || !std::isfinite(seconds)) {
      errors.add({"query", "timeout"}, "float_parsing", "Input should be a valid number", *timeout);
    } else if (seconds < 0) {
      errors.add({"query", "timeout"}, "greater_than_equal", "Input should be greater than or equal to 0", *timeout);
    } else if (seconds > kLongestPollSeconds) {
      errors.add({"query", "timeout"}, "less_than_equal", "Input should be less than or equal to 3600", *timeout);
    }
    if (!errors.empty()) return invalid(errors);
  }
  wait_for({id}, seconds);
  const auto task = dispatcher_.find(id);
  if (!task) return failure(task.error());
  if (!*task) return Reply::detail(404, "Task not found: " + id);
  return Reply::json(form == Form::fib ? fib_task(**task) : native_task(**task));
}

Reply Api::batch(const std::string& body) {
  const auto json = parse_body(body);
  if (!json) return json.error();
  BodyErrors errors;
  const BatchRequest request = read_batch_request(*json, errors);
  if (!errors.empty()) return invalid(errors);
  // An unknown one is told at once, not after the wait for the others.
  for (const std::string& id : request.task_ids) {
    const auto task = dispatcher_.find(id);
    if (!task) return failure(task.error());
    if (!*task) return Reply::detail(404, "Task not found: " + id);
  }
  wait_for(request.task_ids, request.timeout);
  Json list = Json::array();
  for (const std::string& id : request.task_ids) {
    const auto task = dispatcher_.find(id);
    if (!task) return failure(task.error());
    if (!*task) return Reply::detail(404, "Task not found: " + id);
    list.push_back(fib_task(**task));
  }
  return Reply::json(list);
}

Reply Api::cancel(const std::string& id, Form form) {
  if (dispatcher_.cancel(id)) dispatcher_.wait(id, std::chrono::steady_clock::now() + kCancelWait);
  return task(id, std::nullopt, form);
}

Reply Api::shutdown() {
  if (options_.shutdown) options_.shutdown();
  return Reply::json(Json{{"status", "shutting_down"}});
}

}  // namespace ptxbench::service
