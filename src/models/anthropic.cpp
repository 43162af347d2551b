// Anthropic's messages API.
#include "models/dialect.h"

namespace ptxbench::models {
namespace {

using base::Json;

/// The API wants a number. Every model of the last generations allows this much.
constexpr std::uint64_t kDefaultMaxTokens = 32000;

class AnthropicReader : public ReplyReader {
 protected:
  Result<void> take_event(const Json& event) override {
    std::string type;
    detail::append_text(event, "type", type);
    if (type == "message_start") {
      if (const Json* message = detail::object(event, "message")) take_usage(*message);
    } else if (type == "content_block_start") {
      if (const Json* block = detail::object(event, "content_block")) take_block(*block);
    } else if (type == "content_block_delta") {
      if (const Json* delta = detail::object(event, "delta")) take_block(*delta);
    } else if (type == "message_delta") {
      take_usage(event);
      if (const Json* delta = detail::object(event, "delta")) take_reason(*delta);
    } else if (type == "message_stop") {
      ended_ = true;
    }
    return {};
  }

  Result<void> take_reply(const Json& reply) override {
    const Json* content = detail::array(reply, "content");
    if (content == nullptr) return infrastructure_error("the endpoint's reply has no content");
    for (const Json& block : *content) {
      if (block.is_object()) take_block(block);
    }
    take_usage(reply);
    take_reason(reply);
    ended_ = true;
    return {};
  }

 private:
  /// A block or a piece of one: only texts and thoughts have these members.
  void take_block(const Json& block) {
    detail::append_text(block, "text", completion.text);
    detail::append_text(block, "thinking", completion.reasoning);
  }

  void take_reason(const Json& object) {
    std::string reason;
    detail::append_text(object, "stop_reason", reason);
    if (!reason.empty()) completion.finish_reason = reason;
  }

  /// Counts come in several events; the later ones are cumulative. Tokens read from and written to the cache are not
  /// part of `input_tokens`.
  void take_usage(const Json& object) {
    const Json* usage = detail::object(object, "usage");
    if (usage == nullptr) return;
    if (const auto input = detail::count(*usage, "input_tokens")) {
      const auto read = detail::count(*usage, "cache_read_input_tokens");
      const auto written = detail::count(*usage, "cache_creation_input_tokens");
      completion.usage.prompt_tokens = *input + read.value_or(0) + written.value_or(0);
      completion.usage.cached_tokens = read;
    }
    if (const auto output = detail::count(*usage, "output_tokens")) completion.usage.completion_tokens = output;
    if (const Json* details = detail::object(*usage, "output_tokens_details")) {
      completion.usage.reasoning_tokens = detail::count(*details, "thinking_tokens");
    }
  }
};

class AnthropicDialect : public Dialect {
 public:
  std::string url(const ModelConfig& config) const override {
    return config.base_url + (config.base_url.ends_with("/v1") ? "/messages" : "/v1/messages");
  }

  std::vector<std::string> headers(const ModelConfig& config, const std::string& key) const override {
    std::vector<std::string> out = {"anthropic-version: 2023-06-01"};
    if (!key.empty()) out.push_back(detail::bearer(config, key, "x-api-key", ""));
    return out;
  }

  Json body(const ModelConfig& config, std::span<const Message> messages) const override {
    Json request = {{"model", config.model}, {"max_tokens", config.max_tokens.value_or(kDefaultMaxTokens)}};
    std::string system;
    Json list = Json::array();
    for (const Message& message : messages) {
      if (message.role == Role::system) {
        system += (system.empty() ? "" : "\n\n") + message.content;
      } else {
        // The API refuses empty texts.
        list.push_back({{"role", to_string(message.role)},
                        {"content", message.content.empty() ? std::string("(empty)") : message.content}});
      }
    }
    if (!system.empty()) request["system"] = system;
    request["messages"] = std::move(list);
    if (config.temperature) request["temperature"] = *config.temperature;
    if (config.top_p) request["top_p"] = *config.top_p;
    if (config.stream) request["stream"] = true;
    return request;
  }

  std::unique_ptr<ReplyReader> reader() const override { return std::make_unique<AnthropicReader>(); }
};

}  // namespace

std::unique_ptr<Dialect> make_anthropic_dialect() { return std::make_unique<AnthropicDialect>(); }

}  // namespace ptxbench::models
