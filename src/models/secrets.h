#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptxbench::models {

/// Keys and their disguises (as in JSON text, as in a URL), to be kept out of everything that is shown or stored.
class Secrets {
 public:
  Secrets() = default;
  explicit Secrets(std::string_view key) { add(key); }
  void add(std::string_view key);

  /// The text with "[key]" for every key: for messages.
  std::string hide(std::string text) const { return replace(std::move(text), 1); }
  /// The same for what a model wrote. Keys of fewer than eight characters are words that local servers take for a key
  /// ("none", "EMPTY"), no secrets; replacing them would damage the answer.
  std::string hide_in_answer(std::string text) const { return replace(std::move(text), kShortestInAnswer); }

 private:
  static constexpr std::size_t kShortestInAnswer = 8;
  std::string replace(std::string text, std::size_t shortest) const;
  std::vector<std::string> forms_;  ///< longest first
};

/// Whether a member or header of this name holds a key: "api_key", "Authorization", "client-secret", ...
bool names_a_key(std::string_view name);
/// The same for a member with that text: a "token" is a key if it looks like one, and not in a list of words.
bool may_hold_a_key(std::string_view name, std::string_view value);

}  // namespace ptxbench::models
