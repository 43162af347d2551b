#pragma once

#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ptxbench::service {

/// Counters and gauges in Prometheus' text format. Thread safe.
class Metrics {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  /// Adds to a counter; `name` is one of those that the constructor declares.
  void add(std::string_view name, const Labels& labels = {}, double amount = 1);
  /// A duration: `name`_sum and `name`_count.
  void observe(std::string_view name, const Labels& labels, double seconds);
  void set(std::string_view name, const Labels& labels, double value);
  double value(std::string_view name, const Labels& labels = {}) const;

  std::string text() const;

 private:
  struct Summary {
    double sum = 0;
    double count = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, std::map<std::string, double>, std::less<>> values_;  ///< by name and labels
  std::map<std::string, std::map<std::string, Summary>, std::less<>> summaries_;
};

}  // namespace ptxbench::service
