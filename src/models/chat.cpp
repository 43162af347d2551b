// Chat completions, as OpenAI defined them and most servers speak them.
#include "models/dialect.h"

namespace ptxbench::models {
namespace {

using base::Json;

void take_usage(const Json& reply, Usage& usage) {
  const Json* u = detail::object(reply, "usage");
  if (u == nullptr) return;
  usage.prompt_tokens = detail::count(*u, "prompt_tokens");
  usage.completion_tokens = detail::count(*u, "completion_tokens");
  if (const Json* details = detail::object(*u, "completion_tokens_details")) {
    usage.reasoning_tokens = detail::count(*details, "reasoning_tokens");
  }
  if (const Json* details = detail::object(*u, "prompt_tokens_details")) {
    usage.cached_tokens = detail::count(*details, "cached_tokens");
  }
  if (const Json* cost = base::optional_member(*u, "cost");
      cost != nullptr && cost->is_number() && cost->get<double>() >= 0) {
    usage.cost = cost->get<double>();
  }
}

/// `content` is a text, or a list of parts with texts.
void take_content(const Json& message, std::string& out) {
  detail::append_text(message, "content", out);
  if (const Json* parts = detail::array(message, "content")) {
    for (const Json& part : *parts) {
      if (part.is_object()) detail::append_text(part, "text", out);
    }
  }
}

/// Servers call it by either name, and some send both.
void take_reasoning(const Json& message, std::string& out) {
  const Json* content = base::optional_member(message, "reasoning_content");
  const bool named_content = content != nullptr && content->is_string() && !content->empty() && *content != "";
  detail::append_text(message, named_content ? "reasoning_content" : "reasoning", out);
}

class ChatReader : public ReplyReader {
 protected:
  Result<void> take_event(const Json& event) override {
    take_usage(event, completion.usage);
    const Json* choices = detail::array(event, "choices");
    if (choices == nullptr || choices->empty() || !(*choices)[0].is_object()) return {};
    const Json& choice = (*choices)[0];
    if (auto checked = check_error(choice); !checked) return checked;
    if (const Json* delta = detail::object(choice, "delta")) {
      take_content(*delta, completion.text);
      detail::append_text(*delta, "refusal", completion.text);
      take_reasoning(*delta, completion.reasoning);
    }
    return take_reason(choice);
  }

  Result<void> take_reply(const Json& reply) override {
    const Json* choices = detail::array(reply, "choices");
    if (choices == nullptr || choices->empty() || !(*choices)[0].is_object()) {
      return infrastructure_error("the endpoint's reply has no choices");
    }
    const Json& choice = (*choices)[0];
    if (auto checked = check_error(choice); !checked) return checked;
    const Json* message = detail::object(choice, "message");
    if (message == nullptr) return infrastructure_error("the endpoint's reply has no message");
    take_content(*message, completion.text);
    detail::append_text(*message, "refusal", completion.text);
    take_reasoning(*message, completion.reasoning);
    take_usage(reply, completion.usage);
    ended_ = true;
    return take_reason(choice);
  }

 private:
  Result<void> take_reason(const Json& choice) {
    std::string reason;
    detail::append_text(choice, "finish_reason", reason);
    if (reason.empty()) return {};
    if (reason == "error") return infrastructure_error("the endpoint gave up with finish_reason \"error\"");
    completion.finish_reason = reason;
    ended_ = true;
    return {};
  }
};

class ChatDialect : public Dialect {
 public:
  explicit ChatDialect(bool openrouter) : openrouter_(openrouter) {}

  std::string url(const ModelConfig& config) const override { return config.base_url + "/chat/completions"; }

  std::vector<std::string> headers(const ModelConfig& config, const std::string& key) const override {
    if (key.empty()) return {};
    return {detail::bearer(config, key, "Authorization", "Bearer ")};
  }

  Json body(const ModelConfig& config, std::span<const Message> messages) const override {
    Json request = {{"model", config.model}, {"messages", Json::array()}};
    for (const Message& message : messages) {
      request["messages"].push_back({{"role", to_string(message.role)}, {"content", message.content}});
    }
    if (config.max_tokens) request["max_tokens"] = *config.max_tokens;
    if (config.temperature) request["temperature"] = *config.temperature;
    if (config.top_p) request["top_p"] = *config.top_p;
    if (config.stream) {
      request["stream"] = true;
      request["stream_options"] = {{"include_usage", true}};
    }
    if (openrouter_) request["usage"] = {{"include", true}};
    return request;
  }

  std::unique_ptr<ReplyReader> reader() const override { return std::make_unique<ChatReader>(); }

 private:
  bool openrouter_;
};

}  // namespace

std::unique_ptr<Dialect> make_chat_dialect(bool openrouter) { return std::make_unique<ChatDialect>(openrouter); }

}  // namespace ptxbench::models
