#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "problem/dataset.h"
#include "service/dispatcher.h"
#include "service/metrics.h"
#include "service/reply.h"
#include "service/requests.h"
#include "service/task_factory.h"

namespace ptxbench::service {

/// The endpoints, apart from HTTP: FIBServe's, and our own below /v1. docs/service.md describes them.
class Api {
 public:
  struct Options {
    std::string version;
    std::size_t max_polls = 1000;  ///< requests that may wait at once; others are answered with what is known
    std::function<void()> shutdown;
  };
  Api(const problem::Dataset& dataset, TaskFactory factory, Dispatcher& dispatcher, Metrics& metrics, Options options)
      : dataset_(dataset),
        factory_(std::move(factory)),
        dispatcher_(dispatcher),
        metrics_(metrics),
        options_(std::move(options)) {}

  Reply root() const;
  Reply health() const;
  Reply metrics() const;
  Reply definitions() const;
  Reply definition(const std::string& name) const;
  Reply workloads(const std::string& definition) const;
  Reply workload(const std::string& uuid) const;

  Reply submit(TaskKind kind, const std::string& body);
  Reply submit_native(const std::string& body);

  enum class Form { fib, native };
  /// `timeout`: seconds to wait for its end, as the query has it.
  Reply task(const std::string& id, const std::optional<std::string>& timeout, Form form);
  Reply batch(const std::string& body);
  Reply cancel(const std::string& id, Form form);
  Reply shutdown();

 private:
  Reply admit(Result<Task> task, Form form);
  void wait_for(const std::vector<std::string>& ids, double seconds);

  const problem::Dataset& dataset_;
  TaskFactory factory_;
  Dispatcher& dispatcher_;
  Metrics& metrics_;
  Options options_;
  std::atomic<std::size_t> polls_ = 0;
};

}  // namespace ptxbench::service
