#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace ptxbench::service {

/// What is wrong with a request's body, in the form that FIBServe's clients know: a list of {type, loc, msg, input}.
class BodyErrors {
 public:
  using Place = std::vector<base::Json>;  ///< member names and list positions
  void add(const Place& place, std::string_view type, std::string_view message, const base::Json& input = nullptr);
  bool empty() const { return list_.empty(); }
  const base::Json& list() const { return list_; }

 private:
  base::Json list_ = base::Json::array();
};

/// Reads the members of an object and notes what is missing or of a wrong type; what it returns then is a default.
class BodyReader {
 public:
  BodyReader(const base::Json& object, BodyErrors& errors, BodyErrors::Place place)
      : object_(object), errors_(errors), place_(std::move(place)) {}

  /// The member, or null when absent or JSON null.
  const base::Json* find(std::string_view key) const { return base::optional_member(object_, key); }
  BodyErrors::Place place(std::string_view key) const;
  void error(std::string_view key, std::string_view message);  ///< a value that its type allows and the rules do not

  std::string required_text(std::string_view key);
  std::optional<std::string> text(std::string_view key);
  bool flag(std::string_view key, bool fallback);
  std::optional<double> number(std::string_view key, double least, double most);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::vector<std::string> texts(std::string_view key);
  /// One of `words`; `fallback` when absent.
  std::string word(std::string_view key, const std::vector<std::string_view>& words, std::string_view fallback);
  /// An object that must be there; an empty one after an error.
  const base::Json& required_object(std::string_view key);
  /// A list that must be there; an empty one after an error.
  const base::Json& required_list(std::string_view key);

 private:
  void missing(std::string_view key);
  const base::Json& object_;
  BodyErrors& errors_;
  BodyErrors::Place place_;
};

}  // namespace ptxbench::service
