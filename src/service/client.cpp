#include "service/client.h"

#include <httplib.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/text.h"

namespace ptxbench::service {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kConnect{5}, kRead{60};
constexpr int kPollSeconds = 30;
constexpr std::chrono::hours kTaskPatience{6};        ///< with a service that says that it is at work
constexpr std::chrono::minutes kQueuePatience{30};    ///< with a full queue
constexpr std::chrono::seconds kRestartPatience{60};  ///< with a service that went away during a task
constexpr std::chrono::milliseconds kLeastPoll{500};  ///< for one that answers at once

/// The member if it is a string. Whatever answers at that address may not be a service.
std::string text_of(const Json& object, const char* key) {
  const Json* value = object.is_object() ? base::optional_member(object, key) : nullptr;
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::string detail_of(const Json& json) {
  const Json* detail = base::optional_member(json, "detail");
  if (detail == nullptr) return "no reason given";
  if (!detail->is_array()) return detail->is_string() ? detail->get<std::string>() : detail->dump();
  std::string text;
  for (const Json& one : *detail) {
    if (!one.is_object()) continue;
    std::string place;
    const Json* location = base::optional_member(one, "loc");
    for (const Json& part : location != nullptr ? *location : Json::array()) {
      if (!place.empty()) place += '.';
      place += part.is_string() ? part.get<std::string>() : part.dump();
    }
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", place, text_of(one, "msg"));
  }
  return text;
}

/// Of a task: it becomes part of a path.
bool is_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

/// Sleeps, but not after `cancel` was stopped.
void pause(Clock::duration time, const std::stop_token& cancel) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, cancel, time, [] { return false; });
}

}  // namespace

Result<Client> Client::connect_to(const std::string& url, std::string token) {
  const std::size_t scheme = url.find("://");
  const bool known = url.starts_with("http://") || url.starts_with("https://");
  if (scheme == std::string::npos || !known || url.size() == scheme + 3) {
    return input_error("--service {}: an address such as http://127.0.0.1:8000 is needed", url);
  }
  Client client;
  client.url_ = url;
  const std::size_t slash = url.find('/', scheme + 3);
  client.origin_ = url.substr(0, slash);
  if (slash != std::string::npos) client.prefix_ = url.substr(slash);
  while (client.prefix_.ends_with('/')) client.prefix_.pop_back();
  client.token_ = std::move(token);
  return client;
}

Result<Client::Reply> Client::send(const std::string& method, const std::string& path, const std::string& body,
                                   const std::stop_token& cancel) const {
  httplib::Client http(origin_);
  if (!http.is_valid()) return input_error("--service {}: no usable address", url_);
  http.set_connection_timeout(kConnect);
  http.set_read_timeout(kRead);
  http.set_write_timeout(kRead);
  if (!token_.empty()) http.set_bearer_token_auth(token_);
  const std::stop_callback stop(cancel, [&http] { http.stop(); });
  const auto result = method == "POST"     ? http.Post(prefix_ + path, body, "application/json")
                      : method == "DELETE" ? http.Delete(prefix_ + path)
                                           : http.Get(prefix_ + path);
  if (!result && cancel.stop_requested()) return infrastructure_error("cancelled");
  if (!result) {
    const bool refused = result.error() == httplib::Error::Connection;
    return infrastructure_error("{}: {}; is the service up?", url_,
                                refused ? "cannot connect" : httplib::to_string(result.error()));
  }
  Reply reply;
  reply.status = result->status;
  auto json = base::parse_json(result->body, "the service's answer");
  if (json) reply.json = std::move(*json);
  if (result->status == 200 && !json) return infrastructure_error("{}: {}", url_, json.error().message);
  const auto seconds = base::parse_u64(result->get_header_value("Retry-After")).value_or(1);
  reply.retry_after = static_cast<unsigned>(std::clamp<std::uint64_t>(seconds, 1, 60));
  return reply;
}

Result<Json> Client::evaluate(const Json& request, const std::function<void(std::string_view)>& progress,
                              const std::stop_token& cancel) const {
  const std::string body = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto give_up = Clock::now() + kQueuePatience;
  std::string id;
  while (id.empty()) {
    if (cancel.stop_requested()) return infrastructure_error("cancelled");
    progress("sending");
    const auto reply = send("POST", "/v1/evaluate", body, cancel);
    if (!reply) return tl::unexpected<Error>(reply.error());
    const std::string why = detail_of(reply->json);
    switch (reply->status) {
      case 200:
        id = text_of(reply->json, "task_id");
        if (!is_id(id)) return infrastructure_error("{}: the answer names no task", url_);
        break;
      case 429:
        if (Clock::now() > give_up) return infrastructure_error("{}: {}", url_, why);
        progress("waiting for room in the queue");
        pause(std::chrono::seconds(reply->retry_after), cancel);
        break;
      case 401:
        return input_error("{}: {}; set PTXBENCH_SERVICE_TOKEN", url_, why);
      case 400:
      case 413:
      case 422:
        return input_error("{}: {}", url_, why);
      default:
        return infrastructure_error("{}: status {}: {}", url_, reply->status, why);
    }
  }
  auto seen = Clock::now();
  const auto end = seen + kTaskPatience;
  while (true) {
    if (Clock::now() > end) return infrastructure_error("{}: task {} does not end", url_, id);
    const auto asked = Clock::now();
    const auto reply = send("GET", fmt::format("/v1/tasks/{}?timeout={}", id, kPollSeconds), "", cancel);
    if (cancel.stop_requested()) {
      // Whether that reaches it or not, nobody waits for the task any more.
      static_cast<void>(send("DELETE", fmt::format("/v1/tasks/{}", id), "", {}));
      return infrastructure_error("cancelled");
    }
    if (!reply || reply->status >= 500) {
      if (Clock::now() - seen > kRestartPatience) {
        return reply ? infrastructure_error("{}: status {}: {}", url_, reply->status, detail_of(reply->json))
                     : tl::unexpected<Error>(reply.error());
      }
      progress("the service is away");
      pause(std::chrono::seconds(1), cancel);
      continue;
    }
    seen = Clock::now();
    if (reply->status != 200) {
      return infrastructure_error("{}: task {}: status {}: {}", url_, id, reply->status, detail_of(reply->json));
    }
    const std::string status = text_of(reply->json, "status");
    if (status == "completed" || status == "failed") return reply->json;
    if (status != "pending" && status != "running") {
      return infrastructure_error("{}: task {} has the status '{}', which no service gives", url_, id,
                                  base::shorten_middle(status, 40));
    }
    progress(status);
    if (const auto took = Clock::now() - asked; took < kLeastPoll) pause(kLeastPoll - took, cancel);
  }
}

}  // namespace ptxbench::service
