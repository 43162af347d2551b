#include "models/model.h"

#include <future>

namespace ptxbench::models {

using base::Json;

std::string_view to_string(Role role) {
  switch (role) {
    case Role::system:
      return "system";
    case Role::user:
      return "user";
    case Role::assistant:
      return "assistant";
  }
  return "user";
}

std::optional<std::uint64_t> Usage::total_tokens() const {
  if (!prompt_tokens || !completion_tokens) return std::nullopt;
  return *prompt_tokens + *completion_tokens;
}

Json to_json(const Usage& usage) {
  const auto number = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"prompt_tokens", number(usage.prompt_tokens)},
          {"completion_tokens", number(usage.completion_tokens)},
          {"reasoning_tokens", number(usage.reasoning_tokens)},
          {"cached_tokens", number(usage.cached_tokens)},
          {"cost", number(usage.cost)}};
}

Usage usage_from_json(const Json& json) {
  Usage usage;
  if (!json.is_object()) return usage;
  const auto count = [&](const char* key) -> std::optional<std::uint64_t> {
    const Json* value = base::optional_member(json, key);
    if (value == nullptr || !value->is_number_unsigned()) return std::nullopt;
    return value->get<std::uint64_t>();
  };
  usage.prompt_tokens = count("prompt_tokens");
  usage.completion_tokens = count("completion_tokens");
  usage.reasoning_tokens = count("reasoning_tokens");
  usage.cached_tokens = count("cached_tokens");
  if (const Json* cost = base::optional_member(json, "cost");
      cost != nullptr && cost->is_number() && cost->get<double>() >= 0) {
    usage.cost = cost->get<double>();
  }
  return usage;
}

Result<Completion> Model::complete(std::span<const Message> messages, CompletionOptions options) {
  std::promise<Result<Completion>> promise;
  auto future = promise.get_future();
  start({messages.begin(), messages.end()}, std::move(options),
        [&promise](Result<Completion> completion) { promise.set_value(std::move(completion)); });
  return future.get();
}

}  // namespace ptxbench::models
