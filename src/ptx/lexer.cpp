#include "ptx/lexer.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace ptxbench::ptx {
namespace {

enum : uint8_t { kSpace = 1, kLetter = 2, kDigit = 4, kHex = 8, kName = 16 };

constexpr std::array<uint8_t, 256> kClasses = [] {
  std::array<uint8_t, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    uint8_t bits = 0;
    if (c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v' || c == '\n') bits |= kSpace;
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
    const bool digit = c >= '0' && c <= '9';
    if (letter) bits |= kLetter;
    if (digit) bits |= kDigit;
    if (digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) bits |= kHex;
    if ((letter && c != '%') || digit) bits |= kName;
    classes[static_cast<size_t>(c)] = bits;
  }
  return classes;
}();

bool is(char c, uint8_t mask) { return (kClasses[static_cast<unsigned char>(c)] & mask) != 0; }

unsigned hex_value(char c) {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  return static_cast<unsigned>((c | 0x20) - 'a' + 10);
}

}  // namespace

bool Lexer::skip_space() {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c == '\n') {
      ++position_;
      ++line_;
      line_start_ = position_;
    } else if (is(c, kSpace)) {
      ++position_;
    } else if (c == '/' && at(position_ + 1) == '/') {
      const void* end = std::memchr(text_.data() + position_, '\n', text_.size() - position_);
      position_ = end == nullptr ? text_.size() : static_cast<size_t>(static_cast<const char*>(end) - text_.data());
    } else if (c == '/' && at(position_ + 1) == '*') {
      const size_t end = unterminated_comment_ ? std::string_view::npos : text_.find("*/", position_ + 2);
      if (end == std::string_view::npos) {
        unterminated_comment_ = true;
        return false;
      }
      for (; position_ < end + 2; ++position_) {
        if (text_[position_] == '\n') {
          ++line_;
          line_start_ = position_ + 1;
        }
      }
    } else {
      return true;
    }
  }
  return true;
}

Token Lexer::next() {
  const bool comments_end = skip_space();
  Token token;
  token.offset = position_;
  token.line = line_;
  token.column = static_cast<uint32_t>(position_ - line_start_ + 1);
  if (!comments_end) {
    token.kind = TokenKind::invalid;
    token.problem = "comment is never closed; add '*/'";
    return token;
  }
  if (position_ >= text_.size()) return token;
  const size_t start = position_;
  const char c = text_[start];
  if (is(c, kLetter)) {
    ++position_;
    while (position_ < text_.size() && is(text_[position_], kName)) ++position_;
    token.kind = TokenKind::identifier;
    token.text = text_.substr(start, position_ - start);
    return token;
  }
  if (is(c, kDigit)) return number(token);
  if (c == '.') {
    if (is(at(start + 1), kDigit)) return decimal_float(token, start);
    ++position_;
    while (position_ < text_.size() &&
           (is(text_[position_], kName) || (text_[position_] == ':' && at(position_ + 1) == ':' && ++position_)))
      ++position_;
    token.kind = TokenKind::dotted;
    token.text = text_.substr(start, position_ - start);
    return token;
  }
  if (c == '"') {
    const size_t end = text_.find_first_of("\"\n", start + 1);
    if (end == std::string_view::npos || text_[end] == '\n') {
      position_ = end == std::string_view::npos ? text_.size() : end;
      token.kind = TokenKind::invalid;
      token.problem = "string is not closed on its line; add '\"'";
      return token;
    }
    position_ = end + 1;
    token.kind = TokenKind::string;
    token.text = text_.substr(start + 1, end - start - 1);
    return token;
  }
  ++position_;
  token.kind = TokenKind::punctuation;
  token.punctuation = c;
  const char following = at(position_);
  const auto pair = [&](char second, char code) {
    if (following != second) return false;
    token.punctuation = code;
    ++position_;
    return true;
  };
  switch (c) {
    case '<':
      if (!pair('<', 'L')) pair('=', 'l');
      break;
    case '>':
      if (!pair('>', 'R')) pair('=', 'g');
      break;
    case '=':
      pair('=', 'e');
      break;
    case '!':
      pair('=', 'n');
      break;
    case '&':
      pair('&', 'A');
      break;
    case '|':
      pair('|', 'O');
      break;
    case '{':
    case '}':
    case '(':
    case ')':
    case '[':
    case ']':
    case ',':
    case ';':
    case ':':
    case '@':
    case '+':
    case '-':
    case '*':
    case '/':
    case '%':
    case '^':
    case '~':
    case '?':
      break;
    default:
      token.kind = TokenKind::invalid;
      token.problem = "character has no meaning in PTX";
      break;
  }
  token.text = text_.substr(start, position_ - start);
  return token;
}

Token Lexer::number(Token token) {
  const size_t start = position_;
  const char second = static_cast<char>(at(start + 1) | 0x20);
  token.kind = TokenKind::integer;
  const auto finish = [&] {
    token.text = text_.substr(start, position_ - start);
    if (token.kind != TokenKind::invalid && position_ < text_.size() && is(text_[position_], kName)) {
      token.kind = TokenKind::invalid;
      token.problem = "number runs into a name; separate them or check the digits";
    }
    return token;
  };
  const auto overflow = [&] {
    token.kind = TokenKind::invalid;
    token.problem = "integer constant does not fit in 64 bits";
  };
  if (text_[start] == '0' && (second == 'f' || second == 'd')) {
    const size_t digits = second == 'f' ? 8 : 16;
    position_ = start + 2;
    while (position_ < text_.size() && position_ - start - 2 < digits && is(text_[position_], kHex))
      token.bits = token.bits << 4 | hex_value(text_[position_++]);
    token.is_f32 = second == 'f';
    token.is_hexadecimal_float = true;
    token.kind = TokenKind::floating;
    if (position_ - start - 2 != digits) {
      token.kind = TokenKind::invalid;
      token.problem = second == 'f' ? "a 0f constant has exactly 8 hexadecimal digits"
                                    : "a 0d constant has exactly 16 hexadecimal digits";
    }
    return finish();
  }
  if (text_[start] == '0' && (second == 'x' || second == 'b')) {
    const unsigned shift = second == 'x' ? 4 : 1;
    position_ = start + 2;
    const size_t digits = position_;
    bool fits = true;
    while (position_ < text_.size() &&
           (shift == 4 ? is(text_[position_], kHex) : text_[position_] == '0' || text_[position_] == '1')) {
      fits = fits && (token.bits >> (64 - shift)) == 0;
      token.bits = token.bits << shift | hex_value(text_[position_++]);
    }
    if (position_ == digits) {
      token.kind = TokenKind::invalid;
      token.problem = "digits are missing after the base prefix";
    } else if (!fits) {
      overflow();
    }
  } else {
    size_t end = start;
    while (is(at(end), kDigit)) ++end;
    const char after = at(end);
    if (after == '.' || after == 'e' || after == 'E') return decimal_float(token, start);
    const unsigned base = text_[start] == '0' && end - start > 1 ? 8 : 10;
    bool fits = true, octal = true;
    for (position_ = start; position_ < end; ++position_) {
      const unsigned digit = hex_value(text_[position_]);
      octal = octal && (base == 10 || digit < 8);
      uint64_t scaled = 0;
      fits = fits && !__builtin_mul_overflow(token.bits, base, &scaled) &&
             !__builtin_add_overflow(scaled, digit, &token.bits);
    }
    if (!octal) {
      token.kind = TokenKind::invalid;
      token.problem = "a constant that starts with 0 is octal: digits 0 to 7 only";
    } else if (!fits) {
      overflow();
    }
  }
  if (at(position_) == 'U') {
    token.is_unsigned = true;
    ++position_;
  }
  // ISA "Integer Constants": a constant above the signed range is unsigned whatever its suffix.
  if (token.bits >> 63 != 0) token.is_unsigned = true;
  return finish();
}

Token Lexer::decimal_float(Token token, size_t start) {
  size_t end = start;
  while (is(at(end), kDigit)) ++end;
  if (at(end) == '.') {
    ++end;
    while (is(at(end), kDigit)) ++end;
  }
  if (at(end) == 'e' || at(end) == 'E') {
    size_t exponent = end + 1;
    if (at(exponent) == '+' || at(exponent) == '-') ++exponent;
    if (is(at(exponent), kDigit)) {
      while (is(at(exponent), kDigit)) ++exponent;
      end = exponent;
    }
  }
  position_ = end;
  token.text = text_.substr(start, end - start);
  token.kind = TokenKind::floating;
  double value = 0;
  const auto parsed = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (parsed.ec == std::errc::result_out_of_range) {
    token.kind = TokenKind::invalid;
    token.problem = "floating-point constant is out of range";
  } else if (parsed.ec != std::errc() || is(at(position_), kName)) {
    token.kind = TokenKind::invalid;
    token.problem = "floating-point constant is malformed";
  }
  std::memcpy(&token.bits, &value, sizeof value);
  return token;
}

std::string_view Lexer::dotted_tail() {
  const size_t start = position_;
  while (at(position_) == '.') {
    ++position_;
    while (position_ < text_.size() &&
           (is(text_[position_], kName) || (text_[position_] == ':' && at(position_ + 1) == ':' && ++position_)))
      ++position_;
  }
  return text_.substr(start, position_ - start);
}

bool Lexer::peek_is(char c) {
  skip_space();
  return at(position_) == c;
}

bool Lexer::peek_is_label_colon() {
  skip_space();
  return at(position_) == ':' && at(position_ + 1) != ':';
}

bool Lexer::raw_block(std::string_view& body) {
  const size_t start = position_;
  unsigned depth = 1;
  while (position_ < text_.size()) {
    if (!skip_space() || position_ >= text_.size()) return false;
    const char c = text_[position_];
    if (c == '"') {
      const size_t end = text_.find_first_of("\"\n", position_ + 1);
      if (end == std::string_view::npos) return false;
      position_ = text_[end] == '\n' ? end : end + 1;
      continue;
    }
    ++position_;
    if (c == '{') ++depth;
    if (c == '}' && --depth == 0) {
      body = text_.substr(start, position_ - start - 1);
      return true;
    }
  }
  return false;
}

void Lexer::rewind(const Token& token) {
  position_ = token.offset;
  line_ = token.line;
  line_start_ = token.offset + 1 - token.column;
}

}  // namespace ptxbench::ptx
