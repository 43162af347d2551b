#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"

/// Language models behind one interface.
namespace ptxbench::models {

enum class Role : std::uint8_t { system, user, assistant };
std::string_view to_string(Role role);

struct Message {
  Role role = Role::user;
  std::string content;
};

struct Usage {
  std::uint64_t prompt_tokens = 0, completion_tokens = 0, reasoning_tokens = 0;
};

struct Completion {
  std::string text;
  std::string reasoning;      ///< what the provider tells of it
  std::string finish_reason;  ///< "stop", "length", ... as the provider spells it
  Usage usage;
  double seconds = 0;
  unsigned attempts = 1;
};

struct CompletionOptions {
  std::stop_token cancel;
  /// Told how many characters have arrived so far, now and then.
  std::function<void(std::size_t)> progress;
};

/// Errors of complete() are infrastructure (endpoint, network) or input (key, model name): never the model's own
/// failure, so that a trajectory never counts them as turns.
class Model {
 public:
  virtual ~Model() = default;
  virtual Result<Completion> complete(std::span<const Message> messages, const CompletionOptions& options = {}) = 0;
  /// "replay:gemm_n7168_k5120", "openai:some-model".
  virtual std::string name() const = 0;
  /// What a trajectory records of the model. Never holds a key.
  virtual base::Json describe() const = 0;
  /// Number of answers left, for models that have a limited number.
  virtual std::optional<std::size_t> remaining() const { return std::nullopt; }
};

}  // namespace ptxbench::models
