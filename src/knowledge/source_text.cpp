#include "knowledge/source_text.h"

#include <algorithm>
#include <cctype>

#include "base/text.h"

namespace ptxbench::knowledge {
namespace {

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

struct Token {
  std::string_view text;
  bool word = false;
};

/// Identifiers and single punctuation characters; the words of string literals go to `words`, comments to `comments`.
std::vector<Token> scan(std::string_view code, std::set<std::string, std::less<>>& words,
                        std::vector<std::string_view>& comments) {
  std::vector<Token> tokens;
  std::size_t i = 0;
  const auto word_end = [&](std::size_t from) {
    while (from < code.size() && in_word(code[from])) ++from;
    return from;
  };
  while (i < code.size()) {
    const char c = code[i];
    if (code.substr(i, 2) == "//") {
      const std::size_t end = std::min(code.find('\n', i), code.size());
      comments.push_back(code.substr(i + 2, end - i - 2));
      i = end;
    } else if (code.substr(i, 2) == "/*") {
      const std::size_t end = code.find("*/", i + 2);
      i = end == std::string_view::npos ? code.size() : end + 2;
    } else if (c == '"' || c == '\'') {
      std::size_t end = i + 1;
      while (end < code.size() && code[end] != c && code[end] != '\n') end += code[end] == '\\' ? 2 : 1;
      end = std::min(end, code.size());
      for (std::size_t at = i + 1; at < end;) {
        if (code[at] == '\\') {
          at += 2;  // \n is no word
        } else if (starts_word(code[at])) {
          const std::size_t stop = std::min(word_end(at), end);
          words.emplace(code.substr(at, stop - at));
          at = stop;
        } else {
          // ".2d", ".128x256b": words of PTX may begin with digits.
          std::size_t stop = at;
          while (stop < end && in_word(code[stop])) ++stop;
          if (stop > at) words.emplace(code.substr(at, stop - at));
          at = std::max(stop, at + 1);
        }
      }
      tokens.push_back({"\"", false});
      i = std::min(end + 1, code.size());
    } else if (starts_word(c)) {
      const std::size_t end = word_end(i);
      tokens.push_back({code.substr(i, end - i), true});
      i = end;
    } else if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      while (i < code.size() && (in_word(code[i]) || code[i] == '.' || code[i] == '\'')) ++i;
      tokens.push_back({"0", false});
    } else {
      if (std::isspace(static_cast<unsigned char>(c)) == 0) tokens.push_back({code.substr(i, 1), false});
      ++i;
    }
  }
  return tokens;
}

bool is(const std::vector<Token>& tokens, std::size_t i, std::string_view text) {
  return i < tokens.size() && tokens[i].text == text;
}

/// Index behind the ')' that closes the '(' at `i`.
std::size_t behind_parentheses(const std::vector<Token>& tokens, std::size_t i) {
  int depth = 0;
  for (; i < tokens.size(); ++i) {
    if (tokens[i].text == "(") ++depth;
    if (tokens[i].text == ")" && --depth == 0) return i + 1;
  }
  return tokens.size();
}

/// NAME ( ... ) [const] {, after something that can be a type.
bool defines_function(const std::vector<Token>& tokens, std::size_t i) {
  if (i == 0 || !is(tokens, i + 1, "(")) return false;
  const std::string_view before = tokens[i - 1].text;
  if (!(tokens[i - 1].word || before == "*" || before == "&" || before == ">")) return false;
  if (before == "return" || before == "if" || before == "while" || before == "for" || before == "switch") return false;
  std::size_t end = behind_parentheses(tokens, i + 1);
  if (is(tokens, end, "const")) ++end;
  return is(tokens, end, "{");
}

}  // namespace

std::optional<std::string_view> after_mark(std::string_view line, std::string_view word) {
  for (const std::string_view mark : {"// ", "# "}) {
    if (line.starts_with(mark) && line.substr(mark.size()).starts_with(word))
      return line.substr(mark.size() + word.size());
  }
  return std::nullopt;
}

bool is_region_mark(std::string_view line) {
  return after_mark(line, "region ").has_value() || after_mark(line, "endregion").has_value();
}

Result<std::map<std::string, Region, std::less<>>> find_regions(std::string_view source, std::string_view name) {
  std::map<std::string, Region, std::less<>> regions;
  std::vector<std::string> open;
  std::uint32_t line_number = 0;
  for (const std::string_view line : base::split_lines(source)) {
    ++line_number;
    const std::string_view trimmed = base::trim(line);
    if (const auto opened = after_mark(trimmed, "region ")) {
      std::string region(base::trim(*opened));
      if (regions.count(region) != 0) return input_error("{}:{}: a second region '{}'", name, line_number, region);
      regions[region].first_line = line_number + 1;
      open.push_back(std::move(region));
    } else if (const auto closed = after_mark(trimmed, "endregion")) {
      const std::string_view region = base::trim(*closed);
      if (open.empty() || open.back() != region) {
        return input_error("{}:{}: 'endregion {}' closes {}", name, line_number, region,
                           open.empty() ? "nothing" : "'" + open.back() + "'");
      }
      open.pop_back();
    } else {
      for (const std::string& region : open) regions[region].text.append(line).append("\n");
    }
  }
  if (!open.empty()) return input_error("{}: region '{}' does not end", name, open.back());
  return regions;
}

CodeNames read_names(std::string_view code) {
  CodeNames names;
  std::vector<std::string_view> comments;
  const std::vector<Token> tokens = scan(code, names.words, comments);
  for (const std::string_view comment : comments) {
    const std::string_view text = base::trim(comment);
    if (!text.starts_with("helpers:")) continue;
    for (const std::string_view word : base::split(text.substr(8), ' ')) {
      if (word.empty()) continue;
      names.helpers.emplace(word);
      names.defined.emplace(word);
      names.words.emplace(word);
    }
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i].word) continue;
    const std::string_view word = tokens[i].text;
    names.words.emplace(word);
    const bool call = is(tokens, i + 1, "(");
    const std::string_view before = i > 0 ? tokens[i - 1].text : std::string_view();
    if (before == "struct" || before == "class" || before == "enum" || before == "define") {
      names.defined.emplace(word);
      if (before != "define") names.helpers.emplace(word);
      if (before == "define" && call) names.helpers.emplace(word);
    }
    if (is(tokens, i + 1, "=") || is(tokens, i + 1, "[")) names.defined.emplace(word);
    if (!defines_function(tokens, i)) {
      if (call || is(tokens, i + 1, "<")) names.called.emplace(word);
      continue;
    }
    names.defined.emplace(word);
    for (std::size_t back = i; back > 0 && i - back < 14; --back) {
      const std::string_view text = tokens[back - 1].text;
      if (text == ";" || text == "}" || text == "{") break;
      if (text == "DEVICE" || text == "inline" || text == "constexpr" || text == "void") names.helpers.emplace(word);
    }
  }
  return names;
}

}  // namespace ptxbench::knowledge
