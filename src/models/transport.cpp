#include "models/transport.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>

#include "base/text.h"

namespace ptxbench::models {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLongestPollMs = 1000;
constexpr double kLongestRetryAfter = 3600;

}  // namespace

struct Transport::Exchange {
  HttpRequest request;
  OnData data;
  OnDone done;
  ReplyHead head;
  std::uint64_t received = 0;
  Result<void> status;
  char error[CURL_ERROR_SIZE] = "";
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy{curl_easy_init(), &curl_easy_cleanup};
  std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers{nullptr, &curl_slist_free_all};

  static std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& self = *static_cast<Exchange*>(user);
    const std::string_view line(bytes, size * count);
    if (line.starts_with("HTTP/")) self.head = ReplyHead();  // an interim reply came before
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return size * count;
    const std::string name = base::to_lower(line.substr(0, colon));
    const std::string_view value = base::trim(line.substr(colon + 1));
    if (name == "content-type") {
      self.head.content_type = base::to_lower(value);
    } else if (name == "retry-after" && !self.head.retry_after) {
      self.head.retry_after = parse_retry_after(value);
    } else if (name == "retry-after-ms") {
      if (const auto ms = base::parse_u64(value)) {
        self.head.retry_after = std::chrono::milliseconds(
            std::min<std::uint64_t>(*ms, static_cast<std::uint64_t>(kLongestRetryAfter * 1000)));
      }
    }
    return size * count;
  }

  static std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& self = *static_cast<Exchange*>(user);
    const std::size_t length = size * count;
    self.received += length;
    if (self.received > self.request.max_reply_bytes) {
      // Asking again would bring as much.
      self.status = input_error("the reply is larger than {} bytes (max_reply_bytes)", self.request.max_reply_bytes);
      return 0;
    }
    curl_easy_getinfo(self.easy.get(), CURLINFO_RESPONSE_CODE, &self.head.status);
    self.status = self.data(self.head, {bytes, length});
    return self.status ? length : 0;
  }
};

std::optional<std::chrono::milliseconds> parse_retry_after(std::string_view value) {
  double seconds = 0;
  const auto [end, status] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  if (status != std::errc{} || end != value.data() + value.size()) {
    const std::time_t date = curl_getdate(std::string(value).c_str(), nullptr);
    if (date < 0) return std::nullopt;
    seconds = std::difftime(date, std::time(nullptr));
  }
  if (std::isnan(seconds)) return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::clamp(seconds, 0.0, kLongestRetryAfter) * 1000));
}

Transport& Transport::shared() {
  static Transport transport;
  return transport;
}

Transport::Transport() {
  curl_global_init(CURL_GLOBAL_DEFAULT);
  multi_ = curl_multi_init();
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

Transport::~Transport() {
  thread_.request_stop();
  curl_multi_wakeup(multi_);
  thread_.join();
  for (auto& [id, exchange] : exchanges_) curl_multi_remove_handle(multi_, exchange->easy.get());
  exchanges_.clear();
  curl_multi_cleanup(multi_);
}

void Transport::post(Job job) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(job));
  }
  curl_multi_wakeup(multi_);
}

void Transport::after(Clock::duration time, Job job) { timers_.emplace(Clock::now() + time, std::move(job)); }

std::uint64_t Transport::send(HttpRequest request, OnData data, OnDone done) {
  auto owned = std::make_unique<Exchange>();
  Exchange& exchange = *owned;
  const std::uint64_t id = ++last_exchange_;
  exchange.request = std::move(request);
  exchange.data = std::move(data);
  exchange.done = std::move(done);
  CURL* easy = exchange.easy.get();
  // "Expect: 100-continue" would cost a round trip per request.
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : exchange.request.headers) list = curl_slist_append(list, header.c_str());
  exchange.headers.reset(list);
  curl_easy_setopt(easy, CURLOPT_PRIVATE, reinterpret_cast<char*>(id));
  curl_easy_setopt(easy, CURLOPT_URL, exchange.request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, exchange.headers.get());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, exchange.request.body.c_str());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.request.body.size()));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Exchange::on_body);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, &Exchange::on_header);
  curl_easy_setopt(easy, CURLOPT_HEADERDATA, &exchange);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, &exchange.error[0]);
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);  // a redirect would carry the key elsewhere
  curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "");
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(exchange.request.connect_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(exchange.request.total_timeout.count()));
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, static_cast<long>(exchange.request.idle_timeout.count()));
  exchanges_.emplace(id, std::move(owned));
  curl_multi_add_handle(multi_, easy);
  return id;
}

void Transport::cancel(std::uint64_t exchange) {
  const auto at = exchanges_.find(exchange);
  if (at == exchanges_.end()) return;
  curl_multi_remove_handle(multi_, at->second->easy.get());
  exchanges_.erase(at);
}

void Transport::finish_exchanges() {
  // Handlers may send and cancel, which libcurl does not want inside of the loop over its messages.
  std::vector<std::pair<std::uint64_t, CURLcode>> ended;
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    char* id = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &id);
    ended.emplace_back(reinterpret_cast<std::uint64_t>(id), message->data.result);
  }
  for (const auto& [id, code] : ended) {
    const auto at = exchanges_.find(id);
    if (at == exchanges_.end()) continue;  // cancelled by the handler of another one
    const std::unique_ptr<Exchange> exchange = std::move(at->second);
    exchanges_.erase(at);
    curl_easy_getinfo(exchange->easy.get(), CURLINFO_RESPONSE_CODE, &exchange->head.status);
    curl_multi_remove_handle(multi_, exchange->easy.get());
    if (!exchange->status) {
      exchange->done(tl::unexpected<Error>(exchange->status.error()));
    } else if (code != CURLE_OK) {
      const char* why = exchange->error[0] != '\0' ? &exchange->error[0] : curl_easy_strerror(code);
      exchange->done(infrastructure_error("{}", why));
    } else {
      exchange->done(exchange->head);
    }
  }
}

/// Runs what was posted and is due.
void Transport::run_jobs() {
  std::vector<Job> jobs;
  {
    const std::lock_guard lock(mutex_);
    jobs.swap(posted_);
  }
  for (Job& job : jobs) job();
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first <= now) {
    Job job = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    job();
  }
}

/// Milliseconds until something is to be done.
int Transport::time_to_wait() {
  {
    const std::lock_guard lock(mutex_);
    if (!posted_.empty()) return 0;
  }
  if (timers_.empty()) return kLongestPollMs;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(wait, 0, kLongestPollMs));
}

void Transport::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    run_jobs();
    int running = 0;
    curl_multi_perform(multi_, &running);
    finish_exchanges();
    curl_multi_poll(multi_, nullptr, 0, time_to_wait(), nullptr);
  }
}

}  // namespace ptxbench::models
