#include "knowledge/numbers.h"

#include <cctype>
#include <limits>
#include <optional>

#include "base/files.h"
#include "base/text.h"
#include "base/toml.h"

namespace ptxbench::knowledge {
namespace {

using base::TomlValue;

/// "1,024", "227 KiB", "3.35 TB/s" -> the value that the text says, or nothing where it does not begin with a number.
std::optional<std::int64_t> value_of(std::string_view text) {
  std::string digits;
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == ',') continue;
    if (c != '.' && std::isdigit(static_cast<unsigned char>(c)) == 0) break;
    digits += c;
  }
  if (digits.empty() || digits.size() > 15) return std::nullopt;
  const std::string_view unit = base::trim(text.substr(at));
  std::int64_t factor = 1;
  if (unit.starts_with("KiB")) factor = 1024;
  if (unit.starts_with("MiB")) factor = 1024 * 1024;
  if (unit.starts_with("GB")) factor = 1'000'000'000;
  if (unit.starts_with("MB")) factor = 1'000'000;
  if (unit.starts_with("TB")) factor = 1'000'000'000'000;
  if (unit.starts_with("TFLOP")) factor = 1'000'000'000'000;
  std::int64_t whole = 0, fraction = 0, scale = 1;
  bool after_point = false;
  for (const char c : digits) {
    if (c == '.') {
      if (after_point) return std::nullopt;
      after_point = true;
      continue;
    }
    auto& part = after_point ? fraction : whole;
    part = part * 10 + (c - '0');
    if (after_point) scale *= 10;
  }
  if (whole > std::numeric_limits<std::int64_t>::max() / factor / 2) return std::nullopt;
  return whole * factor + fraction * (factor / scale);
}

class Evaluator {
 public:
  Evaluator(std::string_view text, const Numbers& numbers, std::string_view target)
      : text_(text), numbers_(numbers), target_(target) {}

  Result<std::int64_t> run() {
    auto value = sum(0);
    if (!value) return value;
    skip();
    if (at_ != text_.size()) return input_error("'{}': cannot read from '{}' on", text_, text_.substr(at_));
    return value;
  }

 private:
  static constexpr int kDeepest = 50;

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  tl::unexpected<Error> overflow() const { return input_error("'{}': the numbers are too large", text_); }

  Result<std::int64_t> sum(int depth) {
    auto value = product(depth);
    while (value) {
      const bool plus = take('+');
      if (!plus && !take('-')) break;
      auto other = product(depth);
      if (!other) return other;
      std::int64_t result = 0;
      if (plus ? __builtin_add_overflow(*value, *other, &result) : __builtin_sub_overflow(*value, *other, &result)) {
        return overflow();
      }
      value = result;
    }
    return value;
  }
  Result<std::int64_t> product(int depth) {
    auto value = term(depth);
    while (value) {
      const bool times = take('*');
      if (!times && !take('/')) break;
      auto other = term(depth);
      if (!other) return other;
      if (times) {
        std::int64_t result = 0;
        if (__builtin_mul_overflow(*value, *other, &result)) return overflow();
        value = result;
      } else {
        if (*other <= 0 || *value % *other != 0) {
          return input_error("'{}': {} / {} is no whole number", text_, *value, *other);
        }
        value = *value / *other;
      }
    }
    return value;
  }
  Result<std::int64_t> term(int depth) {
    if (depth > kDeepest) return input_error("'{}': too many parentheses", text_);
    if (take('(')) {
      auto value = sum(depth + 1);
      if (value && !take(')')) return input_error("'{}': ')' is missing", text_);
      return value;
    }
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return input_error("'{}': a number or a name is missing", text_);
    if (const auto number = base::parse_u64(word)) {
      if (*number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return overflow();
      return static_cast<std::int64_t>(*number);
    }
    const auto found = numbers_.find(target_, word);
    if (!found) return tl::unexpected(found.error());
    return (*found)->value;
  }

  std::string_view text_;
  const Numbers& numbers_;
  std::string_view target_;
  std::size_t at_ = 0;
};

Result<Number> read_number(const TomlValue& value, const std::string& file, std::string group, std::string key) {
  Number number;
  number.group = std::move(group);
  number.key = std::move(key);
  number.line = value.line;
  const auto* members = value.get_if<TomlValue::Table>();
  if (members == nullptr)
    return input_error("{}:{}: {} must be a table with value and text", file, value.line, number.name());
  bool has_value = false;
  for (const auto& [name, member] : members->items()) {
    if (name == "value") {
      const auto* integer = member.get_if<std::int64_t>();
      if (integer == nullptr)
        return input_error("{}:{}: the value of {} must be an integer", file, member.line, number.name());
      number.value = *integer;
      has_value = true;
      continue;
    }
    std::string* place = name == "label"       ? &number.label
                         : name == "text"      ? &number.text
                         : name == "equals"    ? &number.equals
                         : name == "attribute" ? &number.attribute
                                               : nullptr;
    if (place == nullptr) {
      return input_error("{}:{}: {} has an unknown member '{}': value, text, label, equals or attribute", file,
                         member.line, number.name(), name);
    }
    auto text = base::toml_text(member, file, name);
    if (!text) return tl::unexpected(text.error());
    *place = std::move(*text);
  }
  if (!has_value) return input_error("{}:{}: {} has no value", file, value.line, number.name());
  if (number.text.empty()) number.text = std::to_string(number.value);
  return number;
}

}  // namespace

Result<Numbers> Numbers::load(const std::filesystem::path& file) {
  const auto text = base::read_file(file);
  if (!text) return tl::unexpected(text.error());
  const std::string name = file.filename().string();
  const auto top = base::read_toml(*text, name);
  if (!top) return tl::unexpected(top.error());
  Numbers numbers;
  numbers.file_ = name;
  for (const auto& [scope, groups] : top->get_if<TomlValue::Table>()->items()) {
    const auto* group_table = groups.get_if<TomlValue::Table>();
    if (group_table == nullptr) return input_error("{}:{}: {} must be a table of groups", name, groups.line, scope);
    auto& list = numbers.scopes_[scope];
    for (const auto& [group, facts] : group_table->items()) {
      const auto* fact_table = facts.get_if<TomlValue::Table>();
      if (fact_table == nullptr)
        return input_error("{}:{}: {}.{} must be a table of facts", name, facts.line, scope, group);
      for (const auto& [key, fact] : fact_table->items()) {
        auto number = read_number(fact, name, group, key);
        if (!number) return tl::unexpected(number.error());
        list.push_back(std::move(*number));
      }
    }
  }
  return numbers;
}

Result<const Number*> Numbers::find(std::string_view target, std::string_view name) const {
  std::vector<std::string> known;
  for (const std::string_view scope : {target, std::string_view("common")}) {
    const auto facts = scopes_.find(scope);
    if (facts == scopes_.end()) continue;
    for (const Number& number : facts->second) {
      if (number.name() == name) return &number;
      known.push_back(number.name());
    }
  }
  return input_error("{} has no number '{}' for {}{}", file_, name, target, base::did_you_mean(name, known));
}

std::vector<const Number*> Numbers::of(std::string_view target) const {
  std::vector<const Number*> all;
  for (const std::string_view scope : {target, std::string_view("common")}) {
    const auto facts = scopes_.find(scope);
    if (facts == scopes_.end()) continue;
    for (const Number& number : facts->second) all.push_back(&number);
  }
  return all;
}

Result<std::string> Numbers::table(std::string_view target, std::string_view group) const {
  std::string rows;
  for (const Number* number : of(target)) {
    if (number->group == group && !number->label.empty())
      rows += fmt::format("| {} | {} |\n", number->label, number->text);
  }
  if (rows.empty()) return input_error("{} has no group '{}' with labels for {}", file_, group, target);
  return "| what | value |\n|---|---|\n" + rows;
}

std::vector<std::string> Numbers::contradictions() const {
  std::vector<std::string> found;
  for (const auto& [scope, facts] : scopes_) {
    for (const Number& number : facts) {
      const std::string place = fmt::format("{}:{}: {}.{}", file_, number.line, scope, number.name());
      if (const auto said = value_of(number.text); said && *said != number.value) {
        found.push_back(
            fmt::format("{}: the text '{}' says {}, the value is {}", place, number.text, *said, number.value));
      }
      if (number.equals.empty()) continue;
      const auto value = evaluate(number.equals, *this, scope);
      if (!value) {
        found.push_back(fmt::format("{}: {}", place, value.error().message));
      } else if (*value != number.value) {
        found.push_back(fmt::format("{}: '{}' is {}, the value is {}", place, number.equals, *value, number.value));
      }
    }
  }
  return found;
}

Result<std::int64_t> evaluate(std::string_view expression, const Numbers& numbers, std::string_view target) {
  return Evaluator(expression, numbers, target).run();
}

}  // namespace ptxbench::knowledge
