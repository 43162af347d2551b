#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/config.h"
#include "models/model.h"

namespace ptxbench::models {

/// Takes a provider's reply apart, whole or event by event. Errors are infrastructure when asking again may help, input
/// when it will not.
class ReplyReader {
 public:
  virtual ~ReplyReader() = default;
  /// One event of a stream; what it brings is in `completion`.
  Result<void> event(std::string_view data);
  /// The stream ended: an error when nothing marked its end.
  Result<void> finish() const;
  /// A reply that came in one piece.
  Result<void> whole(std::string_view body);

  Completion completion;

 protected:
  virtual Result<void> take_event(const base::Json& event) = 0;
  virtual Result<void> take_reply(const base::Json& reply) = 0;
  /// What the stream calls an error, before it is looked at otherwise.
  virtual Result<void> check_error(const base::Json& json) const;
  bool ended_ = false;
};

/// The way a provider wants requests and writes replies.
class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual std::string url(const ModelConfig& config) const = 0;
  virtual std::vector<std::string> headers(const ModelConfig& config, const std::string& key) const = 0;
  /// Without the configured `options`, which the caller merges in.
  virtual base::Json body(const ModelConfig& config, std::span<const Message> messages) const = 0;
  virtual std::unique_ptr<ReplyReader> reader() const = 0;
};

/// Of an endpoint's provider; not of `replay`.
std::unique_ptr<Dialect> make_dialect(Provider provider);

std::unique_ptr<Dialect> make_chat_dialect(bool openrouter);
std::unique_ptr<Dialect> make_responses_dialect();
std::unique_ptr<Dialect> make_anthropic_dialect();
std::unique_ptr<Dialect> make_gemini_dialect();

/// The whole request's body: what the dialect says with `options` merged in, member by member.
base::Json request_body(const Dialect& dialect, const ModelConfig& config, std::span<const Message> messages);

/// The text of an error reply: its `error.message` and the like, or null if the text is no such object.
std::optional<std::string> error_message(std::string_view body);
/// The pause that the body of an error reply asks for (Google's RetryInfo).
std::optional<std::chrono::milliseconds> retry_delay(std::string_view body);

namespace detail {
/// Appends the member if it is a string.
void append_text(const base::Json& object, const char* key, std::string& out);
std::optional<std::uint64_t> count(const base::Json& object, const char* key);
/// The member if it is an object.
const base::Json* object(const base::Json& parent, const char* key);
/// The member if it is an array.
const base::Json* array(const base::Json& parent, const char* key);
std::string bearer(const ModelConfig& config, const std::string& key, std::string_view header, std::string_view prefix);
}  // namespace detail

}  // namespace ptxbench::models
