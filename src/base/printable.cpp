#include "base/printable.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace ptxbench::base {
namespace {

/// Length of the UTF-8 character at the front, 0 where there is none.
std::size_t character_at(std::string_view text, std::uint32_t& code) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  std::size_t length = first < 0x80 ? 1 : first >= 0xc2 && first < 0xe0 ? 2 : (first & 0xf0) == 0xe0 ? 3 : 0;
  if (first >= 0xf0 && first < 0xf5) length = 4;
  if (length == 0 || length > text.size()) return 0;
  code = length == 1 ? first : first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code < kLeast[length] || code > 0x10ffff || is_surrogate ? 0 : length;
}

/// Beside what terminals obey also what reorders text: the marks, embeddings and isolates of bidirectional writing.
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200e && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  while (!text.empty()) {
    std::uint32_t code = 0;
    const std::size_t length = character_at(text, code);
    const bool plain = length > 0 && (!is_control(code) || code == '\t' || (code == '\n' && lines == Lines::kept));
    if (plain) {
      out += text.substr(0, length);
    } else if (code == '\n' && length == 1) {
      out += "\\n";
    } else if (length > 1) {
      out += fmt::format("\\u{:04x}", code);
    } else {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[0]));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

}  // namespace ptxbench::base
