#include "agent/source_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "base/text.h"
#include "candidate/extraction.h"

namespace ptxbench::agent {
namespace {

constexpr std::size_t kLongestLine = 160;
constexpr std::size_t kMostStatementLines = 40;  ///< an asm statement with its operands

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// A line of an asm statement that lists registers ("%1, %2, %3, ...") or constraints ("+f"(d[0]), ...) and no more.
bool is_list(std::string_view line) {
  std::size_t marks = 0;
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    if (line[i] == '%' && line[i + 1] >= '0' && line[i + 1] <= '9') ++marks;
    if (line[i] == '"' && line[i + 1] == '(') ++marks;
  }
  return marks >= 5;
}

}  // namespace

std::vector<std::string> identifiers(std::string_view text) {
  std::vector<std::string> out;
  std::unordered_set<std::string_view> seen;
  for (std::size_t at = 0; at < text.size();) {
    if (!is_word(text[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    if (!(word[0] >= '0' && word[0] <= '9') && word.size() > 2 && seen.insert(word).second) out.emplace_back(word);
    at = end;
  }
  return out;
}

SourceView::SourceView(std::string_view source)
    : lines_(base::split_lines(source)), code_(candidate::blank_comments_and_strings(source)) {
  code_lines_ = base::split_lines(code_);
  names_ = identifiers(code_);
}

std::string SourceView::numbered(std::size_t line, char mark) const {
  std::string_view text = lines_[line - 1];
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r' || text.back() == '\t')) text.remove_suffix(1);
  std::string shown(text);
  if (shown.size() > kLongestLine) {
    std::size_t end = kLongestLine - 4;
    while (end > 0 && (static_cast<unsigned char>(shown[end]) & 0xC0) == 0x80) --end;  // never inside a character
    shown = shown.substr(0, end) + " ...";
  }
  return fmt::format("  {} {:>4} | {}\n", mark, line, shown);
}

std::string SourceView::quote(std::uint32_t line, std::uint32_t around) const {
  if (!has(line)) return {};
  std::string text;
  const std::size_t first = line > around ? line - around : 1;
  const std::size_t last = std::min<std::size_t>(lines_.size(), std::size_t{line} + around);
  for (std::size_t at = first; at <= last; ++at) text += numbered(at, at == line && around > 0 ? '>' : ' ');
  return text;
}

std::string SourceView::quote_statement(std::uint32_t line) const {
  if (!has(line) || code_lines_.size() != lines_.size()) return quote(line);
  // Backwards to the nearest asm whose parentheses hold the line.
  for (std::size_t start = line; start >= 1 && start + kMostStatementLines > line; --start) {
    const std::string_view code = code_lines_[start - 1];
    const auto at = code.find("asm");
    if (at == std::string_view::npos || !candidate::has_identifier(code, "asm")) continue;
    int depth = 0;
    bool opened = false;
    for (std::size_t end = start; end <= code_lines_.size() && end < start + kMostStatementLines; ++end) {
      const std::string_view rest = end == start ? code.substr(at) : code_lines_[end - 1];
      for (const char c : rest) {
        if (c == '(') {
          ++depth;
          opened = true;
        }
        if (c == ')') --depth;
      }
      if (!opened || depth > 0) continue;
      if (end < line) return quote(line);
      // Lists of registers and operands say little; the instruction and what ends it do.
      std::string text;
      for (std::size_t shown = start; shown <= end;) {
        std::size_t last = shown;
        while (last + 1 < end && is_list(lines_[last]) && is_list(lines_[last - 1])) ++last;
        if (last - shown < 2) {
          text += numbered(shown++, ' ');
          continue;
        }
        text += fmt::format("    ...    | ({} lines of operands)\n", last - shown);
        shown = last;
      }
      return text;
    }
    break;
  }
  return quote(line);
}

}  // namespace ptxbench::agent
