// OpenAI's responses API.
#include "models/dialect.h"

namespace ptxbench::models {
namespace {

using base::Json;

class ResponsesReader : public ReplyReader {
 protected:
  Result<void> take_event(const Json& event) override {
    std::string type;
    detail::append_text(event, "type", type);
    if (type == "response.output_text.delta" || type == "response.refusal.delta") {
      detail::append_text(event, "delta", completion.text);
    } else if (type == "response.reasoning_summary_text.delta" || type == "response.reasoning_text.delta") {
      detail::append_text(event, "delta", completion.reasoning);
    } else if (type == "response.completed" || type == "response.incomplete" || type == "response.failed") {
      const Json* response = detail::object(event, "response");
      if (response == nullptr) return infrastructure_error("the endpoint's last event has no response");
      return take_response(*response);
    } else if (type == "error") {
      std::string message;
      detail::append_text(event, "message", message);
      return infrastructure_error("the endpoint reports: {}", message);
    }
    return {};
  }

  Result<void> take_reply(const Json& reply) override { return take_response(reply); }

  /// A response that went well has `"error": null`, which counts as none.
  Result<void> take_response(const Json& response) {
    if (auto checked = check_error(response); !checked) return checked;
    std::string status;
    detail::append_text(response, "status", status);
    if (status != "completed" && status != "incomplete") {
      return infrastructure_error("the endpoint's response is '{}', not completed", status);
    }
    completion.finish_reason = "stop";
    if (const Json* why = detail::object(response, "incomplete_details")) {
      completion.finish_reason.clear();
      detail::append_text(*why, "reason", completion.finish_reason);
    }
    const Json* output = detail::array(response, "output");
    if (completion.text.empty() && output != nullptr) take_output(*output);
    if (const Json* usage = detail::object(response, "usage")) {
      completion.usage.prompt_tokens = detail::count(*usage, "input_tokens");
      completion.usage.completion_tokens = detail::count(*usage, "output_tokens");
      if (const Json* details = detail::object(*usage, "output_tokens_details")) {
        completion.usage.reasoning_tokens = detail::count(*details, "reasoning_tokens");
      }
      if (const Json* details = detail::object(*usage, "input_tokens_details")) {
        completion.usage.cached_tokens = detail::count(*details, "cached_tokens");
      }
    }
    ended_ = true;
    return {};
  }

 private:
  void take_output(const Json& output) {
    const bool reasoning_known = !completion.reasoning.empty();
    for (const Json& item : output) {
      if (!item.is_object()) continue;
      std::string type;
      detail::append_text(item, "type", type);
      if (type == "reasoning" && reasoning_known) continue;
      for (const char* list : {"summary", "content"}) {
        const Json* parts = detail::array(item, list);
        if (parts == nullptr) continue;
        for (const Json& part : *parts) {
          if (!part.is_object()) continue;
          std::string& out = type == "reasoning" ? completion.reasoning : completion.text;
          detail::append_text(part, "text", out);
          detail::append_text(part, "refusal", out);
        }
      }
    }
  }
};

class ResponsesDialect : public Dialect {
 public:
  std::string url(const ModelConfig& config) const override { return config.base_url + "/responses"; }

  std::vector<std::string> headers(const ModelConfig& config, const std::string& key) const override {
    if (key.empty()) return {};
    return {detail::bearer(config, key, "Authorization", "Bearer ")};
  }

  Json body(const ModelConfig& config, std::span<const Message> messages) const override {
    Json request = {{"model", config.model}};
    std::string instructions;
    Json input = Json::array();
    for (const Message& message : messages) {
      if (message.role == Role::system) {
        instructions += (instructions.empty() ? "" : "\n\n") + message.content;
      } else {
        input.push_back({{"role", to_string(message.role)}, {"content", message.content}});
      }
    }
    if (!instructions.empty()) request["instructions"] = instructions;
    request["input"] = std::move(input);
    if (config.max_tokens) request["max_output_tokens"] = *config.max_tokens;
    if (config.temperature) request["temperature"] = *config.temperature;
    if (config.top_p) request["top_p"] = *config.top_p;
    if (config.stream) request["stream"] = true;
    request["store"] = false;
    return request;
  }

  std::unique_ptr<ReplyReader> reader() const override { return std::make_unique<ResponsesReader>(); }
};

}  // namespace

std::unique_ptr<Dialect> make_responses_dialect() { return std::make_unique<ResponsesDialect>(); }

}  // namespace ptxbench::models
