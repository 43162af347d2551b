#include "models/rate_limiter.h"

#include <algorithm>

namespace ptxbench::models {
namespace {
constexpr std::chrono::seconds kWindow{60};
}

void RateLimiter::forget(Time now) {
  while (!recent_.empty() && recent_.front().time + kWindow <= now) {
    tokens_ -= recent_.front().tokens;
    recent_.pop_front();
  }
}

RateLimiter::Duration RateLimiter::try_start(Time now, std::uint64_t tokens) {
  if (now < held_until_) return held_until_ - now;
  if (!limits_.requests_per_minute && !limits_.tokens_per_minute) return Duration::zero();
  forget(now);
  Time earliest = now;
  if (limits_.requests_per_minute && recent_.size() >= *limits_.requests_per_minute) {
    earliest = recent_[recent_.size() - *limits_.requests_per_minute].time + kWindow;
  }
  if (limits_.tokens_per_minute) {
    std::uint64_t left = tokens_;
    for (const Request& request : recent_) {
      if (left + tokens <= *limits_.tokens_per_minute) break;
      left -= request.tokens;
      earliest = std::max(earliest, request.time + kWindow);
    }
  }
  if (earliest > now) return earliest - now;
  recent_.push_back({now, tokens});
  tokens_ += tokens;
  return Duration::zero();
}

void RateLimiter::correct(Time started, std::uint64_t estimated, std::uint64_t actual) {
  // Requests of one moment are alike; the latest one with that estimate is as good as any.
  const auto at = std::find_if(recent_.rbegin(), recent_.rend(), [&](const Request& request) {
    return request.time == started && request.tokens == estimated;
  });
  if (at == recent_.rend()) return;
  tokens_ += actual - at->tokens;
  at->tokens = actual;
}

void RateLimiter::hold_until(Time time) { held_until_ = std::max(held_until_, time); }

}  // namespace ptxbench::models
