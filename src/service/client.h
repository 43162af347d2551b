#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace ptxbench::service {

/// Speaks to a service. A full queue is waited for, and a service that restarts is asked again, as tasks outlive it.
class Client {
 public:
  /// `url`: "http://host:port", a path after it allowed. `token` may be empty.
  static Result<Client> connect_to(const std::string& url, std::string token);

  /// POST /v1/evaluate and its task's end: the object of schema ptxbench.task/1. A refused request is an input error,
  /// everything between here and there an infrastructure error. When `cancel` is stopped the task is cancelled there,
  /// and the error is "cancelled".
  Result<base::Json> evaluate(const base::Json& request, const std::function<void(std::string_view)>& progress,
                              const std::stop_token& cancel = {}) const;

 private:
  struct Reply {
    int status = 0;
    base::Json json;
    unsigned retry_after = 1;
  };
  Result<Reply> send(const std::string& method, const std::string& path, const std::string& body,
                     const std::stop_token& cancel) const;

  std::string url_, origin_, prefix_, token_;
};

}  // namespace ptxbench::service
