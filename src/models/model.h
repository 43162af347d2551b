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

/// What an answer took. What a provider does not tell is absent: never zero.
struct Usage {
  std::optional<std::uint64_t> prompt_tokens;      ///< cached ones included
  std::optional<std::uint64_t> completion_tokens;  ///< reasoning included
  std::optional<std::uint64_t> reasoning_tokens;   ///< of the completion tokens
  std::optional<std::uint64_t> cached_tokens;      ///< of the prompt tokens, those read from the provider's cache
  std::optional<double> cost;                      ///< US dollars, as the provider says or by the configured prices

  /// Prompt and completion together, if both are known.
  std::optional<std::uint64_t> total_tokens() const;
};

/// Members `prompt_tokens`, `completion_tokens`, `reasoning_tokens`, `cached_tokens`, `cost`; null for what is unknown.
base::Json to_json(const Usage& usage);
/// The reverse; members of a wrong type count as unknown.
Usage usage_from_json(const base::Json& json);

struct Completion {
  std::string text;
  std::string reasoning;      ///< what the provider tells of it
  std::string finish_reason;  ///< "stop", "length", ... as the provider spells it
  Usage usage;
  double seconds = 0;
  unsigned attempts = 1;
};

/// What was asked and brought no answer, but may have been billed. Estimates, where the provider did not tell.
struct Lost {
  std::uint64_t attempts = 0, tokens = 0;
  double cost = 0;  ///< US dollars, as far as prices are known
};

struct CompletionOptions {
  std::stop_token cancel;
  /// Told how many characters have arrived so far, now and then, by another thread.
  std::function<void(std::size_t)> progress;
  /// Which answer of which trajectory this is, the first being 1: what is recorded and replayed goes by it. 0: the next
  /// one in order.
  std::string trajectory;
  unsigned turn = 0;
};

/// Errors are infrastructure (endpoint, network) or input (key, model name): never the model's own failure, so that a
/// trajectory never counts them as turns. No text that comes from here, answers and errors included, holds a key.
class Model {
 public:
  using Done = std::function<void(Result<Completion>)>;

  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  /// Asks, and returns. `done` is called once, by this thread or another, and should not take long. The model must live
  /// until then.
  virtual void start(std::vector<Message> messages, CompletionOptions options, Done done) = 0;
  /// Asks and waits.
  Result<Completion> complete(std::span<const Message> messages, CompletionOptions options = {});

  /// "replay:gemm_n7168_k5120", "openai:some-model".
  virtual std::string name() const = 0;
  /// What a trajectory records of the model. Never holds a key.
  virtual base::Json describe() const = 0;
  /// Whether answers tell what they cost: prices are configured, or the provider says it.
  virtual bool knows_cost() const { return false; }
  /// Of all questions so far. From any thread.
  virtual Lost lost() const { return {}; }
  /// How many answers there are for a trajectory, for models that have a limited number.
  virtual std::optional<std::size_t> answers(std::string_view /*trajectory*/) const { return std::nullopt; }
};

}  // namespace ptxbench::models
