#include "service/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace ptxbench::service {
namespace {

struct Family {
  std::string_view name, type, help;
};

constexpr std::array kFamilies = {
    Family{"ptxbench_http_requests_total", "counter", "Answered requests by route, method and status."},
    Family{"ptxbench_requests_refused_total", "counter", "Requests refused before they became tasks, by reason."},
    Family{"ptxbench_long_polls", "gauge", "Requests that wait for a task now."},
    Family{"ptxbench_tasks_accepted_total", "counter", "Tasks by kind."},
    Family{"ptxbench_tasks_finished_total", "counter", "Tasks by kind and status."},
    Family{"ptxbench_tasks_cancelled_total", "counter", "Tasks that a client cancelled."},
    Family{"ptxbench_tasks_unfinished", "gauge", "Tasks that are pending or running."},
    Family{"ptxbench_units_waiting", "gauge", "Units that wait for a worker, by lane."},
    Family{"ptxbench_backlog_seconds", "gauge", "Expected seconds of work that wait, by lane."},
    Family{"ptxbench_units_running", "gauge", "Units that a worker has, by lane."},
    Family{"ptxbench_units_finished_total", "counter", "Units by lane and outcome."},
    Family{"ptxbench_unit_retries_total", "counter", "Units started again, by reason."},
    Family{"ptxbench_unit_seconds", "summary", "Time of units on a worker, by lane."},
    Family{"ptxbench_screened_total", "counter",
           "Candidates that a CPU worker prepared for a GPU lane: stopped, which never reached it, or let through."},
    Family{"ptxbench_workers", "gauge", "Workers by lane."},
    Family{"ptxbench_workers_healthy", "gauge", "Workers that are up, by lane."},
    Family{"ptxbench_worker_restarts_total", "counter", "Workers started again, by reason."},
};

std::string label_text(const Metrics::Labels& labels) {
  if (labels.empty()) return "";
  std::string text = "{";
  for (const auto& [name, value] : labels) {
    std::string escaped = base::replace_all(value, "\\", "\\\\");
    escaped = base::replace_all(escaped, "\"", "\\\"");
    escaped = base::replace_all(escaped, "\n", "\\n");
    text += fmt::format("{}{}=\"{}\"", text.size() == 1 ? "" : ",", name, escaped);
  }
  return text + "}";
}

}  // namespace

void Metrics::add(std::string_view name, const Labels& labels, double amount) {
  const std::lock_guard lock(mutex_);
  values_[std::string(name)][label_text(labels)] += amount;
}

void Metrics::observe(std::string_view name, const Labels& labels, double seconds) {
  const std::lock_guard lock(mutex_);
  Summary& summary = summaries_[std::string(name)][label_text(labels)];
  summary.sum += seconds;
  summary.count += 1;
}

void Metrics::set(std::string_view name, const Labels& labels, double value) {
  const std::lock_guard lock(mutex_);
  values_[std::string(name)][label_text(labels)] = value;
}

double Metrics::value(std::string_view name, const Labels& labels) const {
  const std::lock_guard lock(mutex_);
  const auto family = values_.find(name);
  if (family == values_.end()) return 0;
  const auto found = family->second.find(label_text(labels));
  return found == family->second.end() ? 0 : found->second;
}

std::string Metrics::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  for (const Family& family : kFamilies) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, family.help, family.name, family.type);
    if (const auto values = values_.find(family.name); values != values_.end()) {
      for (const auto& [labels, value] : values->second) out += fmt::format("{}{} {}\n", family.name, labels, value);
    }
    if (const auto found = summaries_.find(family.name); found != summaries_.end()) {
      for (const auto& [labels, summary] : found->second) {
        out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", family.name, labels, summary.sum, family.name, labels,
                           summary.count);
      }
    }
  }
  return out;
}

}  // namespace ptxbench::service
