#include "service/scheduler.h"

#include <algorithm>

namespace ptxbench::service {

void Scheduler::add(Entry entry) { entries_.push_back(std::move(entry)); }

std::optional<Scheduler::Entry> Scheduler::take(Lane lane, double now) {
  auto best = entries_.end();
  double best_rank = 0;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->lane != lane) continue;
    const auto given = given_.find(entry->task);
    const double rank = entry->cost + (given == given_.end() ? 0 : given->second) - kAging * (now - entry->since);
    if (best == entries_.end() || rank < best_rank) {
      best = entry;
      best_rank = rank;
    }
  }
  if (best == entries_.end()) return std::nullopt;
  Entry taken = std::move(*best);
  entries_.erase(best);
  given_[taken.task] += taken.cost;
  return taken;
}

void Scheduler::remove(const std::string& task) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.task == task; });
  given_.erase(task);
}

std::size_t Scheduler::size(Lane lane) const {
  return static_cast<std::size_t>(
      std::count_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.lane == lane; }));
}

double Scheduler::backlog(Lane lane) const {
  double seconds = 0;
  for (const Entry& entry : entries_) {
    if (entry.lane == lane) seconds += entry.cost;
  }
  return seconds;
}

}  // namespace ptxbench::service
