#include "service/body_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ptxbench::service {
namespace {

using base::Json;

const Json& empty_object() {
  static const Json kEmpty = Json::object();
  return kEmpty;
}

const Json& empty_list() {
  static const Json kEmpty = Json::array();
  return kEmpty;
}

}  // namespace

void BodyErrors::add(const Place& place, std::string_view type, std::string_view message, const Json& input) {
  // Sources are not sent back.
  const bool is_long = input.is_structured() || (input.is_string() && input.get_ref<const std::string&>().size() > 200);
  list_.push_back({{"type", type}, {"loc", place}, {"msg", message}, {"input", is_long ? Json(nullptr) : input}});
}

BodyErrors::Place BodyReader::place(std::string_view key) const {
  BodyErrors::Place place = place_;
  place.emplace_back(key);
  return place;
}

void BodyReader::error(std::string_view key, std::string_view message) {
  const Json* value = find(key);
  errors_.add(place(key), "value_error", fmt::format("Value error, {}", message), value == nullptr ? Json() : *value);
}

void BodyReader::missing(std::string_view key) { errors_.add(place(key), "missing", "Field required"); }

std::string BodyReader::required_text(std::string_view key) {
  if (find(key) == nullptr) {
    missing(key);
    return {};
  }
  return text(key).value_or("");
}

std::optional<std::string> BodyReader::text(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  errors_.add(place(key), "string_type", "Input should be a valid string", *value);
  return std::nullopt;
}

bool BodyReader::flag(std::string_view key, bool fallback) {
  const Json* value = find(key);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  errors_.add(place(key), "bool_type", "Input should be a valid boolean", *value);
  return fallback;
}

std::optional<double> BodyReader::number(std::string_view key, double least, double most) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    errors_.add(place(key), "float_type", "Input should be a valid number", *value);
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (number < least) {
    errors_.add(place(key), "greater_than_equal", fmt::format("Input should be greater than or equal to {}", least),
                *value);
    return std::nullopt;
  }
  if (number > most) {
    errors_.add(place(key), "less_than_equal", fmt::format("Input should be less than or equal to {}", most), *value);
    return std::nullopt;
  }
  return number;
}

std::optional<std::int64_t> BodyReader::integer(std::string_view key, std::int64_t least, std::int64_t most) {
  const Json* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) {
    errors_.add(place(key), "int_type", "Input should be a valid integer", *value);
    return std::nullopt;
  }
  const auto number = this->number(key, static_cast<double>(least), static_cast<double>(most));
  if (!number) return std::nullopt;
  return value->get<std::int64_t>();
}

std::vector<std::string> BodyReader::texts(std::string_view key) {
  std::vector<std::string> out;
  const Json* value = find(key);
  if (value == nullptr) return out;
  if (!value->is_array()) {
    errors_.add(place(key), "list_type", "Input should be a valid list", *value);
    return out;
  }
  for (std::size_t i = 0; i < value->size(); ++i) {
    const Json& one = value->at(i);
    if (one.is_string()) {
      out.push_back(one.get<std::string>());
      continue;
    }
    BodyErrors::Place where = place(key);
    where.emplace_back(i);
    errors_.add(where, "string_type", "Input should be a valid string", one);
  }
  return out;
}

std::string BodyReader::word(std::string_view key, const std::vector<std::string_view>& words,
                             std::string_view fallback) {
  const Json* value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (value->is_string() &&
      std::find(words.begin(), words.end(), value->get_ref<const std::string&>()) != words.end()) {
    return value->get<std::string>();
  }
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    list += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == words.size() ? " or " : ", ", words[i]);
  }
  errors_.add(place(key), "literal_error", fmt::format("Input should be {}", list), *value);
  return std::string(fallback);
}

const Json& BodyReader::required_object(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) {
    missing(key);
    return empty_object();
  }
  if (value->is_object()) return *value;
  errors_.add(place(key), "model_type", "Input should be a valid dictionary", *value);
  return empty_object();
}

const Json& BodyReader::required_list(std::string_view key) {
  const Json* value = find(key);
  if (value == nullptr) {
    missing(key);
    return empty_list();
  }
  if (value->is_array()) return *value;
  errors_.add(place(key), "list_type", "Input should be a valid list", *value);
  return empty_list();
}

}  // namespace ptxbench::service
