#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace ptxbench::models {

/// Keeps requests and tokens below limits per minute. Exact: no window of 60 seconds, wherever it starts, has more
/// requests or more tokens than allowed, as far as the estimates of tokens hold. Times are told to it, so that it needs
/// no clock of its own. For one thread.
class RateLimiter {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::steady_clock::duration;
  struct Limits {
    std::optional<std::uint64_t> requests_per_minute, tokens_per_minute;
  };

  explicit RateLimiter(Limits limits) : limits_(limits) {}

  /// Zero: the request may go now and has been counted, with this many tokens. Else how long to wait before asking
  /// again. A request with more tokens than a minute allows goes alone.
  Duration try_start(Time now, std::uint64_t tokens);
  /// What a request that was counted at `started` with `estimated` tokens really took.
  void correct(Time started, std::uint64_t estimated, std::uint64_t actual);
  /// The server said to come back later: nothing goes before.
  void hold_until(Time time);

 private:
  struct Request {
    Time time;
    std::uint64_t tokens;
  };
  void forget(Time now);
  Limits limits_;
  std::deque<Request> recent_;  ///< of the last minute, oldest first
  std::uint64_t tokens_ = 0;    ///< of these
  Time held_until_{};
};

}  // namespace ptxbench::models
