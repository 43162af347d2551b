#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"

namespace ptxbench::models {

struct HttpRequest {
  std::string url;
  std::vector<std::string> headers;
  std::string body;
  std::chrono::milliseconds connect_timeout{30000};
  std::chrono::milliseconds total_timeout{1800000};
  std::chrono::seconds idle_timeout{300};  ///< without a byte from the server
  std::uint64_t max_reply_bytes = std::uint64_t{64} << 20;
};

/// What is known of a reply when its body begins to arrive.
struct ReplyHead {
  long status = 0;
  std::string content_type;
  std::optional<std::chrono::milliseconds> retry_after;
};

/// Any number of HTTP requests at a time on one thread, with their connections kept for the next ones; and timers. All
/// functions that are given to it run on that thread, one at a time, and must not wait.
class Transport {
 public:
  using Job = std::function<void()>;
  /// Takes a piece of the body. An error ends the exchange and is its outcome.
  using OnData = std::function<Result<void>(const ReplyHead&, std::string_view)>;
  using OnDone = std::function<void(Result<ReplyHead>)>;

  /// The one of this process; it lives until the program ends.
  static Transport& shared();
  Transport();
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  /// Exchanges under way are dropped without a word.
  ~Transport();

  /// Runs `job` soon. From any thread.
  void post(Job job);

  // Only on the transport's thread:

  /// Runs `job` after that time.
  void after(std::chrono::steady_clock::duration time, Job job);
  /// POST. `done` is told the outcome, never inside of this call.
  std::uint64_t send(HttpRequest request, OnData data, OnDone done);
  /// `done` of that exchange is not called any more.
  void cancel(std::uint64_t exchange);

 private:
  struct Exchange;
  void run(const std::stop_token& stop);
  void finish_exchanges();
  void run_jobs();
  int time_to_wait();

  void* multi_ = nullptr;
  std::mutex mutex_;
  std::vector<Job> posted_;
  std::multimap<std::chrono::steady_clock::time_point, Job> timers_;
  std::map<std::uint64_t, std::unique_ptr<Exchange>> exchanges_;
  std::uint64_t last_exchange_ = 0;
  std::jthread thread_;  // last: it uses the others
};

/// "120", "1.5" or a date: the time that a Retry-After header asks for, from now.
std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view value);

}  // namespace ptxbench::models
