#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "service/task.h"

namespace ptxbench::service {

/// Orders what waits for a worker. Short units go first, tasks that have been given little go first, and everything
/// that has waited long enough does: of the units of a lane the one with the smallest
///   cost of the unit + cost given to its task so far - kAging * seconds waited
/// is next, the older one among equals. Keeps no clock and takes no lock.
class Scheduler {
 public:
  /// A unit that waits as long as another one costs has caught up with it.
  static constexpr double kAging = 1.0;

  struct Entry {
    std::string task;
    std::int64_t unit = 0;
    Lane lane = Lane::cpu;
    double cost = 1;
    double since = 0;  ///< when it began to wait
  };

  void add(Entry entry);
  /// The next unit for this lane; it is taken out and its cost is given to its task.
  std::optional<Entry> take(Lane lane, double now);
  /// Takes out all units of a task and forgets what it was given.
  void remove(const std::string& task);

  std::size_t size() const { return entries_.size(); }
  std::size_t size(Lane lane) const;
  /// Expected seconds of work that wait for the lane.
  double backlog(Lane lane) const;

 private:
  std::vector<Entry> entries_;  ///< in order of arrival
  std::map<std::string, double> given_;
};

}  // namespace ptxbench::service
