#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// Looking up a candidate's source for feedback.
namespace ptxbench::agent {

class SourceView {
 public:
  explicit SourceView(std::string_view source);

  bool has(std::uint32_t line) const { return line >= 1 && line <= lines_.size(); }
  /// The line and `around` more on both sides, numbered, the line itself marked where there are others.
  std::string quote(std::uint32_t line, std::uint32_t around = 0) const;
  /// The whole asm statement that holds the line, numbered and shortened in the middle; the line alone if none does.
  std::string quote_statement(std::uint32_t line) const;
  /// Functions, types, variables and macros that the source defines or calls, each once.
  const std::vector<std::string>& names() const { return names_; }

 private:
  std::string numbered(std::size_t line, char mark) const;
  std::vector<std::string_view> lines_;
  std::string code_;  ///< without comments and contents of strings
  std::vector<std::string_view> code_lines_;
  std::vector<std::string> names_;
};

/// Identifiers of `text`, which may be code in Markdown, each once, in their order.
std::vector<std::string> identifiers(std::string_view text);

}  // namespace ptxbench::agent
