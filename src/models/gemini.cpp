// Google's generateContent.
#include "models/dialect.h"

namespace ptxbench::models {
namespace {

using base::Json;

class GeminiReader : public ReplyReader {
 protected:
  Result<void> take_event(const Json& event) override { return take(event, false); }
  Result<void> take_reply(const Json& reply) override { return take(reply, true); }

 private:
  Result<void> take(const Json& reply, bool whole) {
    take_usage(reply);
    const Json* candidates = detail::array(reply, "candidates");
    if (candidates == nullptr || candidates->empty() || !(*candidates)[0].is_object()) {
      // A prompt that is not answered: the model's own doing, and the end.
      if (const Json* feedback = detail::object(reply, "promptFeedback")) {
        detail::append_text(*feedback, "blockReason", completion.finish_reason);
        ended_ = true;
        return {};
      }
      if (whole) return infrastructure_error("the endpoint's reply has no candidates");
      return {};
    }
    const Json& candidate = (*candidates)[0];
    const Json* content = detail::object(candidate, "content");
    const Json* parts = content != nullptr ? detail::array(*content, "parts") : nullptr;
    if (parts != nullptr) {
      for (const Json& part : *parts) {
        if (!part.is_object()) continue;
        const Json* thought = base::optional_member(part, "thought");
        const bool is_thought = thought != nullptr && thought->is_boolean() && thought->get<bool>();
        detail::append_text(part, "text", is_thought ? completion.reasoning : completion.text);
      }
    }
    std::string reason;
    detail::append_text(candidate, "finishReason", reason);
    if (!reason.empty()) {
      completion.finish_reason = reason;
      ended_ = true;
    }
    if (whole) ended_ = true;
    return {};
  }

  /// Thoughts are not part of `candidatesTokenCount`.
  void take_usage(const Json& reply) {
    const Json* usage = detail::object(reply, "usageMetadata");
    if (usage == nullptr) return;
    completion.usage.prompt_tokens = detail::count(*usage, "promptTokenCount");
    completion.usage.cached_tokens = detail::count(*usage, "cachedContentTokenCount");
    completion.usage.reasoning_tokens = detail::count(*usage, "thoughtsTokenCount");
    const auto answer = detail::count(*usage, "candidatesTokenCount");
    if (answer || completion.usage.reasoning_tokens) {
      completion.usage.completion_tokens = answer.value_or(0) + completion.usage.reasoning_tokens.value_or(0);
    }
  }
};

class GeminiDialect : public Dialect {
 public:
  std::string url(const ModelConfig& config) const override {
    return fmt::format("{}/models/{}:{}", config.base_url, config.model,
                       config.stream ? "streamGenerateContent?alt=sse" : "generateContent");
  }

  std::vector<std::string> headers(const ModelConfig& config, const std::string& key) const override {
    if (key.empty()) return {};
    return {detail::bearer(config, key, "x-goog-api-key", "")};
  }

  Json body(const ModelConfig& config, std::span<const Message> messages) const override {
    Json request = Json::object();
    std::string system;
    Json contents = Json::array();
    for (const Message& message : messages) {
      if (message.role == Role::system) {
        system += (system.empty() ? "" : "\n\n") + message.content;
      } else {
        contents.push_back({{"role", message.role == Role::assistant ? "model" : "user"},
                            {"parts", Json::array({{{"text", message.content}}})}});
      }
    }
    if (!system.empty()) request["systemInstruction"] = {{"parts", Json::array({{{"text", system}}})}};
    request["contents"] = std::move(contents);
    Json generation = Json::object();
    if (config.max_tokens) generation["maxOutputTokens"] = *config.max_tokens;
    if (config.temperature) generation["temperature"] = *config.temperature;
    if (config.top_p) generation["topP"] = *config.top_p;
    if (!generation.empty()) request["generationConfig"] = std::move(generation);
    return request;
  }

  std::unique_ptr<ReplyReader> reader() const override { return std::make_unique<GeminiReader>(); }
};

}  // namespace

std::unique_ptr<Dialect> make_gemini_dialect() { return std::make_unique<GeminiDialect>(); }

}  // namespace ptxbench::models
