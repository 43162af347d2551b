#include "service/event_log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <ctime>

namespace ptxbench::service {
namespace {

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec, millis);
}

}  // namespace

Result<std::unique_ptr<EventLog>> EventLog::create(const std::string& level) {
  spdlog::level::level_enum threshold{};
  if (level == "debug") {
    threshold = spdlog::level::debug;
  } else if (level == "info") {
    threshold = spdlog::level::info;
  } else if (level == "warn") {
    threshold = spdlog::level::warn;
  } else if (level == "error") {
    threshold = spdlog::level::err;
  } else if (level == "off") {
    threshold = spdlog::level::off;
  } else {
    return input_error("--log-level {}: debug, info, warn, error or off", level);
  }
  auto logger = std::make_shared<spdlog::logger>("service", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%v");
  logger->set_level(threshold);
  logger->flush_on(spdlog::level::debug);
  return std::unique_ptr<EventLog>(new EventLog(std::move(logger)));
}

void EventLog::write(int level, std::string_view event, const base::Json& fields) {
  const auto severity = static_cast<spdlog::level::level_enum>(level);
  if (!logger_->should_log(severity)) return;
  const auto name = spdlog::level::to_string_view(severity);
  base::Json line{{"time", timestamp()}, {"level", std::string(name.data(), name.size())}, {"event", event}};
  for (const auto& [key, value] : fields.items()) line[key] = value;
  logger_->log(severity, "{}", line.dump(-1, ' ', false, base::Json::error_handler_t::replace));
}

void EventLog::debug(std::string_view event, const base::Json& fields) { write(spdlog::level::debug, event, fields); }
void EventLog::info(std::string_view event, const base::Json& fields) { write(spdlog::level::info, event, fields); }
void EventLog::warn(std::string_view event, const base::Json& fields) { write(spdlog::level::warn, event, fields); }
void EventLog::error(std::string_view event, const base::Json& fields) { write(spdlog::level::err, event, fields); }

}  // namespace ptxbench::service
