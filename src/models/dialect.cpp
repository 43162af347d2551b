#include "models/dialect.h"

#include "base/text.h"
#include "models/transport.h"

namespace ptxbench::models {

using base::Json;

namespace detail {

void append_text(const Json& parent, const char* key, std::string& out) {
  const Json* value = base::optional_member(parent, key);
  if (value != nullptr && value->is_string()) out += value->get_ref<const std::string&>();
}

std::optional<std::uint64_t> count(const Json& parent, const char* key) {
  const Json* value = base::optional_member(parent, key);
  if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
  return value->get<std::uint64_t>();
}

const Json* object(const Json& parent, const char* key) {
  const Json* value = base::optional_member(parent, key);
  return value != nullptr && value->is_object() ? value : nullptr;
}

const Json* array(const Json& parent, const char* key) {
  const Json* value = base::optional_member(parent, key);
  return value != nullptr && value->is_array() ? value : nullptr;
}

std::string bearer(const ModelConfig& config, const std::string& key, std::string_view header,
                   std::string_view prefix) {
  // A header of the user's choice carries the bare key.
  if (config.key_header.empty()) return fmt::format("{}: {}{}", header, prefix, key);
  const bool standard = base::to_lower(config.key_header) == "authorization";
  return fmt::format("{}: {}{}", config.key_header, standard ? "Bearer " : "", key);
}

}  // namespace detail

namespace {

std::optional<std::string> error_of(const Json& reply) {
  if (!reply.is_object()) return std::nullopt;
  const Json* error = base::optional_member(reply, "error");
  if (error == nullptr) {
    // FastAPI servers.
    const Json* detail = base::optional_member(reply, "detail");
    if (detail == nullptr) detail = base::optional_member(reply, "message");
    if (detail == nullptr || base::optional_member(reply, "choices") != nullptr) return std::nullopt;
    return detail->is_string() ? detail->get<std::string>()
                               : detail->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (error->is_string()) return error->get<std::string>();
  if (error->is_object()) {
    std::string text;
    detail::append_text(*error, "message", text);
    if (!text.empty()) {
      // OpenRouter: what the provider behind it said.
      if (const Json* metadata = detail::object(*error, "metadata")) {
        std::string raw;
        detail::append_text(*metadata, "raw", raw);
        if (!raw.empty()) text += ": " + raw;
      }
      return text;
    }
  }
  return error->dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// Whether asking again cannot help: the request itself is refused.
bool is_refusal(const Json& reply) {
  const Json* error = detail::object(reply, "error");
  if (error == nullptr) return false;
  std::string words;
  for (const char* key : {"type", "code", "status"}) {
    detail::append_text(*error, key, words);
    words += ' ';
  }
  for (const char* word : {"invalid_request", "context_length", "authentication", "permission", "not_found",
                           "INVALID_ARGUMENT", "PERMISSION_DENIED", "NOT_FOUND", "UNAUTHENTICATED"}) {
    if (words.find(word) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Result<void> ReplyReader::check_error(const Json& json) const {
  if (base::optional_member(json, "error") == nullptr) return {};
  const std::string text = error_of(json).value_or("an error without a message");
  // Not shortened here: half a key would be known by nothing.
  if (is_refusal(json)) return input_error("the endpoint reports: {}", text);
  return infrastructure_error("the endpoint reports: {}", text);
}

Result<void> ReplyReader::event(std::string_view data) {
  const std::string_view text = base::trim(data);
  if (text.empty()) return {};
  if (text == "[DONE]") {
    ended_ = true;
    return {};
  }
  auto json = base::parse_json(text, "the endpoint's event");
  if (!json) return infrastructure_error("{}", json.error().message);
  if (!json->is_object()) {
    return infrastructure_error("the endpoint's event is no object but {}", base::json_type_name(*json));
  }
  if (auto checked = check_error(*json); !checked) return checked;
  return take_event(*json);
}

Result<void> ReplyReader::finish() const {
  if (ended_) return {};
  return infrastructure_error("the endpoint's stream broke off after {} characters",
                              completion.text.size() + completion.reasoning.size());
}

Result<void> ReplyReader::whole(std::string_view body) {
  auto json = base::parse_json(body, "the endpoint's reply");
  if (!json) return infrastructure_error("{}", json.error().message);
  if (!json->is_object()) {
    return infrastructure_error("the endpoint's reply is no object but {}", base::json_type_name(*json));
  }
  if (auto checked = check_error(*json); !checked) return checked;
  return take_reply(*json);
}

std::unique_ptr<Dialect> make_dialect(Provider provider) {
  switch (provider) {
    case Provider::openai:
      return make_chat_dialect(false);
    case Provider::openrouter:
      return make_chat_dialect(true);
    case Provider::responses:
      return make_responses_dialect();
    case Provider::anthropic:
      return make_anthropic_dialect();
    case Provider::gemini:
      return make_gemini_dialect();
    case Provider::replay:
      break;
  }
  return nullptr;
}

Json request_body(const Dialect& dialect, const ModelConfig& config, std::span<const Message> messages) {
  Json body = dialect.body(config, messages);
  body.update(config.options, true);
  return body;
}

std::optional<std::string> error_message(std::string_view body) {
  const auto json = base::parse_json(body, "reply");
  if (!json) return std::nullopt;
  // Google's streams wrap their errors in a list.
  if (json->is_array() && !json->empty()) return error_of((*json)[0]);
  return error_of(*json);
}

std::optional<std::chrono::milliseconds> retry_delay(std::string_view body) {
  const auto json = base::parse_json(body, "reply");
  if (!json) return std::nullopt;
  const Json& reply = json->is_array() && !json->empty() ? (*json)[0] : *json;
  const Json* error = reply.is_object() ? detail::object(reply, "error") : nullptr;
  const Json* details = error != nullptr ? detail::array(*error, "details") : nullptr;
  if (details == nullptr) return std::nullopt;
  for (const Json& one : *details) {
    if (!one.is_object()) continue;
    std::string delay;
    detail::append_text(one, "retryDelay", delay);
    if (delay.ends_with('s')) return parse_retry_after(std::string_view(delay).substr(0, delay.size() - 1));
  }
  return std::nullopt;
}

}  // namespace ptxbench::models
