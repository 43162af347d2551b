#pragma once

#include "models/model.h"

namespace ptxbench::models {

struct OpenAiOptions {
  std::string base_url = "https://api.openai.com/v1";
  std::string model;
  /// Name of the environment variable with the key; empty: no key is sent (local servers). The key itself is read when
  /// a request is made, sent to this endpoint only, and never stored or printed.
  std::string key_variable = "OPENAI_API_KEY";
  std::uint32_t max_tokens = 0;  ///< 0: the provider's default
  std::optional<double> temperature, top_p;
  base::Json extra = base::Json::object();  ///< further members of the request body
  bool stream = true;
  std::chrono::seconds connect_timeout{30};
  std::chrono::seconds total_timeout{1800};
  std::chrono::seconds idle_timeout{300};  ///< without a byte from the endpoint
  unsigned attempts = 10;                  ///< network errors, 408, 409, 425, 429 and 5xx are tried again
  std::chrono::milliseconds first_pause{4000}, longest_pause{60000};
  std::uint64_t max_reply_bytes = std::uint64_t{64} << 20;
};

/// Any endpoint that speaks OpenAI's chat completions.
class OpenAiModel : public Model {
 public:
  /// Checks the options: URL, model name, key present.
  static Result<std::unique_ptr<OpenAiModel>> create(OpenAiOptions options);
  Result<Completion> complete(std::span<const Message> messages, const CompletionOptions& options = {}) override;
  std::string name() const override { return "openai:" + options_.model; }
  base::Json describe() const override;

 private:
  explicit OpenAiModel(OpenAiOptions options) : options_(std::move(options)) {}
  OpenAiOptions options_;
};

/// Takes a stream of server-sent events apart. Feed bytes as they come; `completion` grows.
class EventStream {
 public:
  /// An error when the endpoint reports one inside the stream, or sends what is no JSON.
  Result<void> feed(std::string_view bytes);
  /// The stream ended: an error when nothing marked its end.
  Result<void> finish();
  bool done() const { return done_; }
  Completion completion;

 private:
  Result<void> line(std::string_view text);
  std::string buffer_;
  bool done_ = false;
};

/// Fills text, reasoning, usage from a chat completion that came in one piece.
Result<Completion> parse_chat_completion(std::string_view body);

}  // namespace ptxbench::models
