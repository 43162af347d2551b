#include "models/openai.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/text.h"

namespace ptxbench::models {
namespace {

using base::Json;

void take_usage(const Json& reply, Usage& usage) {
  const Json* u = base::optional_member(reply, "usage");
  if (u == nullptr || !u->is_object()) return;
  auto number = [](const Json& object, const char* key) -> std::uint64_t {
    const Json* value = base::optional_member(object, key);
    return value != nullptr && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
  };
  usage.prompt_tokens = number(*u, "prompt_tokens");
  usage.completion_tokens = number(*u, "completion_tokens");
  if (const Json* details = base::optional_member(*u, "completion_tokens_details");
      details != nullptr && details->is_object()) {
    usage.reasoning_tokens = number(*details, "reasoning_tokens");
  }
}

void append_text(const Json& part, const char* key, std::string& out) {
  const Json* value = base::optional_member(part, key);
  if (value != nullptr && value->is_string()) out += value->get_ref<const std::string&>();
}

std::optional<std::string> error_message(const Json& reply) {
  const Json* error = base::optional_member(reply, "error");
  if (error == nullptr) return std::nullopt;
  if (error->is_object()) {
    if (const Json* message = base::optional_member(*error, "message"); message != nullptr && message->is_string()) {
      return message->get<std::string>();
    }
  }
  return error->dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// One HTTP exchange in progress.
struct Exchange {
  bool stream = false;
  std::string body;  // of replies that are not streams of events
  EventStream events;
  Result<void> status;
  std::uint64_t received = 0, limit = 0;
  const CompletionOptions* options = nullptr;
  long retry_after = 0;
  CURL* handle = nullptr;
};

std::size_t on_data(char* data, std::size_t size, std::size_t count, void* user) {
  auto& exchange = *static_cast<Exchange*>(user);
  const std::size_t bytes = size * count;
  exchange.received += bytes;
  if (exchange.received > exchange.limit) {
    exchange.status = infrastructure_error("the endpoint's reply is larger than {} bytes", exchange.limit);
    return 0;
  }
  long code = 0;
  curl_easy_getinfo(exchange.handle, CURLINFO_RESPONSE_CODE, &code);
  const char* type = nullptr;
  curl_easy_getinfo(exchange.handle, CURLINFO_CONTENT_TYPE, &type);
  const bool events =
      exchange.stream && code == 200 && type != nullptr && std::string_view(type).starts_with("text/event-stream");
  if (!events) {
    exchange.body.append(data, bytes);
    return bytes;
  }
  exchange.status = exchange.events.feed({data, bytes});
  if (exchange.options->progress) {
    exchange.options->progress(exchange.events.completion.text.size() + exchange.events.completion.reasoning.size());
  }
  return exchange.status ? bytes : 0;
}

int on_progress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<Exchange*>(user)->options->cancel.stop_requested() ? 1 : 0;
}

std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user) {
  const std::string header = base::to_lower({data, size * count});
  if (header.starts_with("retry-after:")) {
    if (auto seconds = base::parse_u64(base::trim(std::string_view(header).substr(12)))) {
      static_cast<Exchange*>(user)->retry_after = static_cast<long>(std::min<std::uint64_t>(*seconds, 300));
    }
  }
  return size * count;
}

bool worth_retrying(long code) { return code == 408 || code == 409 || code == 425 || code == 429 || code >= 500; }

void pause(std::chrono::milliseconds time, const std::stop_token& cancel) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!cancel.stop_requested() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Result<void> EventStream::line(std::string_view text) {
  if (!text.starts_with("data:")) return {};  // comments and other fields of the event stream
  const std::string_view data = base::trim(text.substr(5));
  if (data.empty()) return {};
  if (data == "[DONE]") {
    done_ = true;
    return {};
  }
  auto json = base::parse_json(data, "the endpoint's event");
  if (!json) return infrastructure_error("{}", json.error().message);
  if (auto message = error_message(*json)) return infrastructure_error("the endpoint reports: {}", *message);
  take_usage(*json, completion.usage);
  const Json* choices = base::optional_member(*json, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return {};
  const Json& choice = (*choices)[0];
  if (const Json* delta = base::optional_member(choice, "delta"); delta != nullptr && delta->is_object()) {
    append_text(*delta, "content", completion.text);
    append_text(*delta, "reasoning_content", completion.reasoning);
    append_text(*delta, "reasoning", completion.reasoning);
  }
  if (const Json* reason = base::optional_member(choice, "finish_reason"); reason != nullptr && reason->is_string()) {
    completion.finish_reason = reason->get<std::string>();
  }
  return {};
}

Result<void> EventStream::feed(std::string_view bytes) {
  buffer_ += bytes;
  std::size_t start = 0;
  for (std::size_t end = buffer_.find('\n'); end != std::string::npos; end = buffer_.find('\n', start)) {
    std::string_view text(buffer_.data() + start, end - start);
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (auto fed = line(text); !fed) return fed;
    start = end + 1;
  }
  buffer_.erase(0, start);
  return {};
}

Result<void> EventStream::finish() {
  if (!buffer_.empty()) {
    if (auto fed = feed("\n"); !fed) return fed;
  }
  if (!done_ && completion.finish_reason.empty()) {
    return infrastructure_error("the endpoint's stream broke off after {} characters", completion.text.size());
  }
  return {};
}

Result<Completion> parse_chat_completion(std::string_view body) {
  auto json = base::parse_json(body, "the endpoint's reply");
  if (!json) return infrastructure_error("{}", json.error().message);
  if (auto message = error_message(*json)) return infrastructure_error("the endpoint reports: {}", *message);
  const Json* choices = base::optional_member(*json, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty() || !(*choices)[0].is_object()) {
    return infrastructure_error("the endpoint's reply has no choices");
  }
  Completion completion;
  const Json& choice = (*choices)[0];
  const Json* message = base::optional_member(choice, "message");
  if (message == nullptr || !message->is_object()) return infrastructure_error("the endpoint's reply has no message");
  append_text(*message, "content", completion.text);
  append_text(*message, "reasoning_content", completion.reasoning);
  append_text(*message, "reasoning", completion.reasoning);
  append_text(choice, "finish_reason", completion.finish_reason);
  take_usage(*json, completion.usage);
  return completion;
}

Result<std::unique_ptr<OpenAiModel>> OpenAiModel::create(OpenAiOptions options) {
  if (options.model.empty()) return input_error("a model name is needed, as in --model openai:NAME");
  if (!options.base_url.starts_with("http://") && !options.base_url.starts_with("https://")) {
    return input_error("the base URL '{}' must start with http:// or https://", options.base_url);
  }
  while (options.base_url.ends_with('/')) options.base_url.pop_back();
  if (!options.key_variable.empty() && std::getenv(options.key_variable.c_str()) == nullptr) {
    return input_error(
        "the environment variable {} with the endpoint's key is not set; for a server without keys give an "
        "empty key variable (--key-variable '')",
        options.key_variable);
  }
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  return std::unique_ptr<OpenAiModel>(new OpenAiModel(std::move(options)));
}

base::Json OpenAiModel::describe() const {
  Json json = {{"provider", "openai"}, {"model", options_.model}, {"base_url", options_.base_url}};
  if (options_.max_tokens != 0) json["max_tokens"] = options_.max_tokens;
  if (options_.temperature) json["temperature"] = *options_.temperature;
  if (options_.top_p) json["top_p"] = *options_.top_p;
  if (!options_.extra.empty()) json["extra"] = options_.extra;
  return json;
}

Result<Completion> OpenAiModel::complete(std::span<const Message> messages, const CompletionOptions& options) {
  Json request = {{"model", options_.model}, {"messages", Json::array()}};
  for (const Message& message : messages) {
    request["messages"].push_back({{"role", to_string(message.role)}, {"content", message.content}});
  }
  if (options_.max_tokens != 0) request["max_tokens"] = options_.max_tokens;
  if (options_.temperature) request["temperature"] = *options_.temperature;
  if (options_.top_p) request["top_p"] = *options_.top_p;
  if (options_.stream) {
    request["stream"] = true;
    request["stream_options"] = {{"include_usage", true}};
  }
  for (const auto& [key, value] : options_.extra.items()) request[key] = value;
  const std::string payload = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::string url = options_.base_url + "/chat/completions";
  std::string key;
  if (!options_.key_variable.empty()) {
    const char* value = std::getenv(options_.key_variable.c_str());
    if (value == nullptr) return input_error("the environment variable {} is not set any more", options_.key_variable);
    key = value;
  }
  const auto start = std::chrono::steady_clock::now();
  auto wait = options_.first_pause;
  std::string last;
  for (unsigned attempt = 1; attempt <= options_.attempts; ++attempt) {
    if (options.cancel.stop_requested()) return infrastructure_error("cancelled");
    std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(), &curl_easy_cleanup);
    if (!curl) return infrastructure_error("libcurl cannot be initialised");
    curl_slist* list = curl_slist_append(nullptr, "Content-Type: application/json");
    if (!key.empty()) list = curl_slist_append(list, ("Authorization: Bearer " + key).c_str());
    const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);
    Exchange exchange;
    exchange.stream = options_.stream;
    exchange.limit = options_.max_reply_bytes;
    exchange.options = &options;
    exchange.handle = curl.get();
    curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, payload.c_str());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(payload.size()));
    curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &on_data);
    curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &exchange);
    curl_easy_setopt(curl.get(), CURLOPT_HEADERFUNCTION, &on_header);
    curl_easy_setopt(curl.get(), CURLOPT_HEADERDATA, &exchange);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, &on_progress);
    curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &exchange);
    curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_FOLLOWLOCATION, 0L);  // a redirect would carry the key elsewhere
    curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, static_cast<long>(options_.connect_timeout.count()));
    curl_easy_setopt(curl.get(), CURLOPT_TIMEOUT, static_cast<long>(options_.total_timeout.count()));
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, static_cast<long>(options_.idle_timeout.count()));
    const CURLcode code = curl_easy_perform(curl.get());
    long http = 0;
    curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &http);
    if (options.cancel.stop_requested()) return infrastructure_error("cancelled");
    bool again = true;
    if (!exchange.status) {
      last = exchange.status.error().message;
    } else if (code != CURLE_OK) {
      last = fmt::format("{}: {}", url, curl_easy_strerror(code));
    } else if (http != 200) {
      std::string detail = base::shorten_middle(exchange.body, 600);
      if (auto json = base::parse_json(exchange.body, "reply")) {
        if (auto message = error_message(*json)) detail = *message;
      }
      if (!key.empty()) detail = base::replace_all(detail, key, "[key]");
      last = fmt::format("{} answered {}: {}", url, http, detail);
      again = worth_retrying(http);
    } else {
      Result<Completion> completion;
      if (!exchange.body.empty() || !options_.stream) {
        completion = parse_chat_completion(exchange.body);
      } else if (auto finished = exchange.events.finish(); finished) {
        completion = std::move(exchange.events.completion);
      } else {
        completion = tl::unexpected<Error>(finished.error());
      }
      if (completion) {
        completion->attempts = attempt;
        completion->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        return completion;
      }
      last = completion.error().message;
    }
    if (!again) {
      const bool user_can_mend = http == 400 || http == 401 || http == 403 || http == 404 || http == 422;
      if (user_can_mend) return input_error("{}", last);
      return infrastructure_error("{}", last);
    }
    if (attempt < options_.attempts) {
      const auto demanded = std::chrono::milliseconds(exchange.retry_after * 1000);
      pause(std::max(std::min(wait, options_.longest_pause), demanded), options.cancel);
      wait *= 2;
    }
  }
  return infrastructure_error("{} (tried {} times)", last, options_.attempts);
}

}  // namespace ptxbench::models
