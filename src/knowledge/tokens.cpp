#include "knowledge/tokens.h"

#include <cctype>
#include <cstdint>

namespace ptxbench::knowledge {
namespace {

bool letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }
bool line_end(char c) { return c == '\n' || c == '\r'; }
bool blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool mark(char c) { return !letter(c) && !digit(c) && !blank(c); }

/// Hundredths of a token that a word of this many letters makes, on average over packs and documents.
std::uint64_t word_weight(std::uint64_t letters) {
  if (letters <= 4) return 105;
  if (letters <= 7) return 115;
  if (letters <= 12) return 140;
  return 140 + 40 * (letters - 12);
}

std::uint64_t marks_weight(std::uint64_t marks) {
  if (marks <= 2) return 100;
  return marks <= 4 ? 160 : 160 + 60 * (marks - 4);
}

}  // namespace

std::size_t estimate_tokens(std::string_view text) {
  std::uint64_t sum = 0;
  const auto run = [&](std::size_t from, bool (*is)(char)) {
    while (from < text.size() && is(text[from])) ++from;
    return from;
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t word = letter(text[i]) ? i : !line_end(text[i]) && !digit(text[i]) ? i + 1 : text.size();
    if (word < text.size() && letter(text[word])) {
      // A word takes the one character before it along; a mark there often costs a token all the same.
      const std::size_t end = run(word, letter);
      sum += word_weight(end - word) + (word > i && text[i] != ' ' ? 20 : 0);
      i = end;
    } else if (digit(text[i])) {
      sum += 100;
      ++i;
    } else if (const std::size_t first = text[i] == ' ' ? i + 1 : i; first < text.size() && mark(text[first])) {
      const std::size_t end = run(first, mark);
      sum += marks_weight(end - first);
      i = run(end, line_end);
    } else {
      // White space: one token up to its last line end, one for the indent, whose last blank goes to the next word.
      const std::size_t end = run(i, blank);
      std::size_t lines = end;
      while (lines > i && !line_end(text[lines - 1])) --lines;
      if (lines > i) {
        sum += 100;
        i = lines;
      } else {
        sum += 100;
        i = end < text.size() && end > i + 1 ? end - 1 : end;
      }
    }
  }
  return (sum + 99) / 100;
}

}  // namespace ptxbench::knowledge
