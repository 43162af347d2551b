#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ptxbench::ptx {

enum class TokenKind : uint8_t {
  end,
  identifier,   ///< `foo`, `%r1`, `$L__BB0_1`; a lone `_` too
  dotted,       ///< `.reg`, `.shared::cluster`: text keeps the dot
  integer,      ///< bits, is_unsigned
  floating,     ///< bits; is_f32 for `0f........`
  string,       ///< text without the quotes
  punctuation,  ///< punctuation holds the character; two-character operators: `<<` is 'L', `>>` 'R', `<=` 'l', `>=`
                ///< 'g',
                ///< `==` 'e', `!=` 'n', `&&` 'A', `||` 'O'
  invalid,      ///< problem says what is wrong
};

struct Token {
  TokenKind kind = TokenKind::end;
  char punctuation = 0;
  bool is_unsigned = false;
  bool is_f32 = false;
  bool is_hexadecimal_float = false;  ///< `0f`/`0d` form: takes no sign
  uint32_t line = 1;
  uint32_t column = 1;
  size_t offset = 0;  ///< of the first character
  uint64_t bits = 0;
  std::string_view text;
  const char* problem = nullptr;
};

/// Splits PTX text into tokens (PTX ISA, "Syntax"). Comments and white space separate; nothing is copied.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next();
  /// After an identifier token that began a statement: the rest of an opcode's name, `.add.release.gpu`, without white
  /// space inside. Empty if no dot follows directly.
  std::string_view dotted_tail();
  /// True if the next character after white space and comments is `c`; consumes nothing but the white space.
  bool peek_is(char c);
  /// True if a label's colon (not `::`) follows directly or after white space.
  bool peek_is_label_colon();
  /// Skips `{ ... }` and gives the text between the braces; the opening brace has been read. False if it never closes.
  bool raw_block(std::string_view& body);
  /// The position right after the last token.
  size_t offset() const { return position_; }
  /// Moves back to a token's start, to read it differently.
  void rewind(const Token& token);
  std::string_view text() const { return text_; }

 private:
  bool skip_space();
  Token number(Token token);
  Token decimal_float(Token token, size_t start);
  char at(size_t index) const { return index < text_.size() ? text_[index] : '\0'; }

  std::string_view text_;
  size_t position_ = 0;
  size_t line_start_ = 0;
  uint32_t line_ = 1;
  bool unterminated_comment_ = false;
};

}  // namespace ptxbench::ptx
