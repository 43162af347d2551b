#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json.h"

namespace spdlog {
class logger;
}

namespace ptxbench::service {

/// One JSON object per line on standard error: time, level, event, and what belongs to it. Thread safe.
class EventLog {
 public:
  /// debug, info, warn, error or off.
  static Result<std::unique_ptr<EventLog>> create(const std::string& level);

  void debug(std::string_view event, const base::Json& fields = base::Json::object());
  void info(std::string_view event, const base::Json& fields = base::Json::object());
  void warn(std::string_view event, const base::Json& fields = base::Json::object());
  void error(std::string_view event, const base::Json& fields = base::Json::object());

 private:
  explicit EventLog(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}
  void write(int level, std::string_view event, const base::Json& fields);
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace ptxbench::service
