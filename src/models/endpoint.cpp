#include "models/endpoint.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/text.h"
#include "models/event_stream.h"
#include "models/secrets.h"

namespace ptxbench::models {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kBytesPerToken = 4;          ///< of prompts, roughly
constexpr std::uint64_t kExpectedCompletion = 2000;  ///< tokens, before any answer has come
constexpr std::size_t kLongestErrorText = 600, kLongestMessage = 1200;
constexpr unsigned kMostBilled = 3;  ///< attempts that brought no answer and may have to be paid

bool worth_retrying(long status) {
  return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

/// Whether the user can mend it: the request, the key or the model's name is wrong.
bool is_users(long status) {
  return status == 400 || status == 401 || status == 402 || status == 403 || status == 404 || status == 405 ||
         status == 413 || status == 422;
}

}  // namespace

/// One question until its answer, over all attempts. Everything but the constructor runs on the transport's thread.
class EndpointModel::Call : public std::enable_shared_from_this<EndpointModel::Call> {
 public:
  Call(EndpointModel& model, std::vector<Message> messages, CompletionOptions options, Done done)
      : model_(model), options_(std::move(options)), done_(std::move(done)) {
    for (const Message& message : messages) prompt_bytes_ += message.content.size();
    body_ = request_body(*model.dialect_, model.config_, messages).dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void begin() {
    if (options_.cancel.stop_requested()) return finish(infrastructure_error("cancelled"));
    // The token may be stopped by any thread, at once or later.
    cancelled_.emplace(options_.cancel, [weak = weak_from_this(), &transport = model_.transport_] {
      transport.post([weak] {
        if (const auto self = weak.lock()) self->finish(infrastructure_error("cancelled"));
      });
    });
    enter();
  }

  /// Takes one of the places, where they are limited.
  void enter() {
    if (finished_) return next_waiting();
    if (model_.config_.concurrent && model_.running_ >= *model_.config_.concurrent) {
      model_.waiting_.push_back(shared_from_this());
      return;
    }
    ++model_.running_;
    entered_ = true;
    wait_for_turn();
  }

 private:
  ModelConfig& config() const { return model_.config_; }

  void next_waiting() {
    if (model_.waiting_.empty()) return;
    const auto next = std::move(model_.waiting_.front());
    model_.waiting_.pop_front();
    next->enter();
  }

  void wait_for_turn() {
    if (finished_) return;
    const std::uint64_t answer =
        model_.completions_ == 0 ? kExpectedCompletion : model_.completion_tokens_ / model_.completions_;
    estimate_ = prompt_bytes_ / kBytesPerToken + answer;
    const auto now = Clock::now();
    const auto wait = model_.limiter_.try_start(now, estimate_);
    if (wait > Clock::duration::zero()) {
      // All that wait for the same moment would start at once.
      const double spread = std::uniform_real_distribution<double>(0, 0.1)(model_.random_);
      const auto later = wait + std::chrono::duration_cast<Clock::duration>(wait * spread);
      model_.transport_.after(later, [self = shared_from_this()] { self->wait_for_turn(); });
      return;
    }
    started_ = now;
    send();
  }

  void send() {
    ++attempts_;
    std::string key;
    if (!config().key_variable.empty()) {
      const char* value = std::getenv(config().key_variable.c_str());
      if (value == nullptr || *value == '\0') {
        return finish(input_error("the environment variable {} is not set any more", config().key_variable));
      }
      key = value;
    }
    secrets_ = Secrets(key);
    reader_ = model_.dialect_->reader();
    stream_.emplace([this](std::string_view data) { return reader_->event(data); });
    whole_.clear();
    streaming_ = begun_ = false;
    HttpRequest request;
    request.url = url_ = model_.dialect_->url(config());
    request.headers = model_.dialect_->headers(config(), key);
    request.headers.emplace_back("Content-Type: application/json");
    for (const auto& [name, value] : config().headers) request.headers.push_back(fmt::format("{}: {}", name, value));
    request.body = body_;
    request.connect_timeout = config().connect_timeout;
    request.total_timeout = config().total_timeout;
    request.idle_timeout = config().idle_timeout;
    request.max_reply_bytes = config().max_reply_bytes;
    exchange_ = model_.transport_.send(
        std::move(request),
        [self = shared_from_this()](const ReplyHead& head, std::string_view bytes) { return self->take(head, bytes); },
        [self = shared_from_this()](Result<ReplyHead> head) { self->ended(std::move(head)); });
  }

  Result<void> take(const ReplyHead& head, std::string_view bytes) {
    begun_ = begun_ || head.status == 200;
    streaming_ = config().stream && head.status == 200 && !head.content_type.starts_with("application/json");
    if (!streaming_) {
      whole_ += bytes;
      return {};
    }
    auto fed = stream_->feed(bytes);
    if (fed && options_.progress) {
      options_.progress(reader_->completion.text.size() + reader_->completion.reasoning.size());
    }
    return fed;
  }

  void ended(Result<ReplyHead> head) {
    exchange_ = 0;
    if (finished_) return;
    if (head ? head->status == 200 : begun_ || was_our_timeout()) {
      Result<Completion> read = head ? read_answer() : tl::unexpected<Error>(head.error());
      if (!read) return broken(read.error());
      return answered(std::move(*read));
    }
    if (!head) {
      if (head.error().kind == ErrorKind::input) return finish(input_error("{}: {}", url_, head.error().message));
      return retry(fmt::format("{}: {}", url_, head.error().message), std::nullopt);
    }
    refused(*head);
  }

  /// No other reason keeps a request waiting that long.
  bool was_our_timeout() const {
    return Clock::now() - started_ >= std::min<Clock::duration>(config().total_timeout, config().idle_timeout);
  }

  Result<Completion> read_answer() {
    Result<void> read = streaming_ ? stream_->finish() : reader_->whole(whole_);
    if (read && streaming_) read = reader_->finish();
    if (!read) return tl::unexpected<Error>(read.error());
    return std::move(reader_->completion);
  }

  /// An answer had begun, or was being made: it may be billed, so it is counted, and asked for a few times only.
  void broken(const Error& error) {
    count_lost();
    const std::string message = fmt::format("{}: {}", url_, error.message);
    if (error.kind == ErrorKind::input) return finish(input_error("{}", message));
    if (++billed_ >= kMostBilled) {
      return finish(
          infrastructure_error("{} (asked {} times and not again: each may have been billed)", message, billed_));
    }
    retry(message, std::nullopt);
  }

  void count_lost() {
    const Usage& told = reader_->completion.usage;
    const std::size_t bytes = reader_->completion.text.size() + reader_->completion.reasoning.size();
    const std::uint64_t prompt = told.prompt_tokens.value_or(prompt_bytes_ / kBytesPerToken);
    const std::uint64_t answer = std::max<std::uint64_t>(told.completion_tokens.value_or(0), bytes / kBytesPerToken);
    const std::lock_guard lock(model_.lost_mutex_);
    ++model_.lost_.attempts;
    model_.lost_.tokens += prompt + answer;
    model_.lost_.cost +=
        told.cost.value_or(cost_by_prices(config().prices, prompt, told.cached_tokens, answer).value_or(0));
  }

  void answered(Completion completion) {
    completion.text = secrets_.hide_in_answer(std::move(completion.text));
    completion.reasoning = secrets_.hide_in_answer(std::move(completion.reasoning));
    completion.finish_reason = secrets_.hide_in_answer(std::move(completion.finish_reason));
    completion.attempts = attempts_;
    completion.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    Usage& usage = completion.usage;
    if (!usage.cost) {
      usage.cost = cost_by_prices(config().prices, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens);
    }
    if (const auto total = usage.total_tokens()) model_.limiter_.correct(started_, estimate_, *total);
    if (usage.completion_tokens) {
      model_.completion_tokens_ += *usage.completion_tokens;
      ++model_.completions_;
    }
    finish(std::move(completion));
  }

  void refused(const ReplyHead& head) {
    // Before anything is cut: half a key is known by nothing.
    const std::string body = secrets_.hide(whole_);
    std::string detail = error_message(body).value_or(body.empty() ? "no reason given" : body);
    detail = base::shorten_middle(detail, kLongestErrorText);
    if (head.status >= 300 && head.status < 400) detail = "a redirect, which would carry the key elsewhere";
    const std::string message = fmt::format("{} answered {}: {}", url_, head.status, detail);
    if (worth_retrying(head.status)) {
      auto pause = head.retry_after;
      if (!pause) pause = retry_delay(whole_);
      // What one request is told holds for all that share the key.
      if (pause && (head.status == 429 || head.status == 503)) model_.limiter_.hold_until(Clock::now() + *pause);
      return retry(message, pause);
    }
    if (is_users(head.status)) return finish(input_error("{}", message));
    finish(infrastructure_error("{}", message));
  }

  void retry(const std::string& message, std::optional<std::chrono::milliseconds> demanded) {
    if (attempts_ >= config().attempts) {
      return finish(infrastructure_error("{} (tried {} time{})", message, attempts_, attempts_ == 1 ? "" : "s"));
    }
    // Doubling from attempt to attempt, and never the same for all that failed together.
    const double factor = std::ldexp(1.0, static_cast<int>(std::min(attempts_ - 1, 30U)));
    const double most = static_cast<double>(config().longest_pause.count());
    const double pause = std::min(most, static_cast<double>(config().first_pause.count()) * factor);
    const double share = std::uniform_real_distribution<double>(0.5, 1)(model_.random_);
    auto wait = std::chrono::milliseconds(static_cast<std::int64_t>(pause * share));
    if (demanded && demanded->count() > 0) {
      const double jitter = std::uniform_real_distribution<double>(0, 0.1)(model_.random_);
      wait =
          std::chrono::milliseconds(static_cast<std::int64_t>(static_cast<double>(demanded->count()) * (1 + jitter)));
    }
    model_.transport_.after(wait, [self = shared_from_this()] { self->wait_for_turn(); });
  }

  void finish(Result<Completion> completion) {
    if (finished_) return;
    finished_ = true;
    // The exchange's handlers own this call too.
    const auto self = shared_from_this();
    if (exchange_ != 0) {
      if (begun_) count_lost();
      model_.transport_.cancel(exchange_);
    }
    if (!completion) {
      // Hidden before it is cut: half a key is known by nothing.
      completion.error().message =
          base::shorten_middle(secrets_.hide(std::move(completion.error().message)), kLongestMessage);
    }
    if (entered_) {
      --model_.running_;
      next_waiting();
    } else {
      std::erase(model_.waiting_, self);
    }
    Done done = std::move(done_);
    done(std::move(completion));
  }

  EndpointModel& model_;
  CompletionOptions options_;
  Done done_;
  std::optional<std::stop_callback<std::function<void()>>> cancelled_;
  std::string body_, url_;
  std::size_t prompt_bytes_ = 0;
  std::uint64_t estimate_ = 0, exchange_ = 0;
  unsigned attempts_ = 0;
  unsigned billed_ = 0;
  bool entered_ = false, finished_ = false, streaming_ = false, begun_ = false;
  Clock::time_point started_;
  Secrets secrets_;
  std::unique_ptr<ReplyReader> reader_;
  std::optional<EventStream> stream_;
  std::string whole_;
};

EndpointModel::EndpointModel(ModelConfig config, Transport& transport)
    : config_(std::move(config)),
      transport_(transport),
      dialect_(make_dialect(config_.provider)),
      limiter_({config_.requests_per_minute, config_.tokens_per_minute}),
      random_(std::random_device()()) {}

Result<std::unique_ptr<EndpointModel>> EndpointModel::create(ModelConfig config, Transport& transport) {
  if (const auto missing = what_is_missing(config)) return input_error("model '{}': {}", config.name, *missing);
  return std::unique_ptr<EndpointModel>(new EndpointModel(std::move(config), transport));
}

void EndpointModel::start(std::vector<Message> messages, CompletionOptions options, Done done) {
  auto call = std::make_shared<Call>(*this, std::move(messages), std::move(options), std::move(done));
  transport_.post([call = std::move(call)] { call->begin(); });
}

std::string EndpointModel::name() const { return fmt::format("{}:{}", to_string(config_.provider), config_.model); }

Json EndpointModel::describe() const {
  Json json = {{"name", config_.name},
               {"provider", to_string(config_.provider)},
               {"model", config_.model},
               {"base_url", config_.base_url}};
  if (config_.max_tokens) json["max_tokens"] = *config_.max_tokens;
  if (config_.temperature) json["temperature"] = *config_.temperature;
  if (config_.top_p) json["top_p"] = *config_.top_p;
  if (!config_.options.empty()) json["options"] = config_.options;
  if (config_.prices.input) {
    json["prices"] = {{"input", *config_.prices.input}, {"output", *config_.prices.output}};
    if (config_.prices.cached_input) json["prices"]["cached_input"] = *config_.prices.cached_input;
  }
  // A key that stands where it should not is not carried on.
  const char* key = config_.key_variable.empty() ? nullptr : std::getenv(config_.key_variable.c_str());
  if (key == nullptr) return json;
  const std::string hidden = Secrets(key).hide_in_answer(json.dump(-1, ' ', false, Json::error_handler_t::replace));
  auto parsed = base::parse_json(hidden, "the model's description");
  return parsed ? *parsed : Json{{"name", config_.name}};
}

Lost EndpointModel::lost() const {
  const std::lock_guard lock(lost_mutex_);
  return lost_;
}

bool EndpointModel::knows_cost() const {
  return config_.prices.input.has_value() || config_.provider == Provider::openrouter;
}

}  // namespace ptxbench::models
