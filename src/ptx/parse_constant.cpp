#include <bit>

#include <fmt/format.h>

#include "ptx/parser_impl.h"

namespace ptxbench::ptx {
namespace {

constexpr size_t kMaxExpressionDepth = 200;

int precedence(char op) {
  switch (op) {
    case 'O':
      return 1;
    case 'A':
      return 2;
    case '|':
      return 3;
    case '^':
      return 4;
    case '&':
      return 5;
    case 'e':
    case 'n':
      return 6;
    case '<':
    case '>':
    case 'l':
    case 'g':
      return 7;
    case 'L':
    case 'R':
      return 8;
    case '+':
    case '-':
      return 9;
    case '*':
    case '/':
    case '%':
      return 10;
    default:
      return 0;
  }
}

bool is_float(const Constant& value) { return value.kind == Constant::Kind::f64 || value.kind == Constant::Kind::f32; }

double as_double(const Constant& value) {
  switch (value.kind) {
    case Constant::Kind::f64:
      return std::bit_cast<double>(value.bits);
    case Constant::Kind::f32:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(value.bits)));
    case Constant::Kind::u64:
      return static_cast<double>(value.bits);
    case Constant::Kind::s64:
      return static_cast<double>(static_cast<int64_t>(value.bits));
  }
  return 0;
}

bool is_true(const Constant& value) { return is_float(value) ? as_double(value) != 0 : value.bits != 0; }
Constant boolean(bool value) { return {Constant::Kind::s64, value ? 1u : 0u}; }

/// Empty string: fine.
std::string apply_float(char op, double a, double b, Constant& result) {
  const auto set = [&](double value) { result = {Constant::Kind::f64, std::bit_cast<uint64_t>(value)}; };
  switch (op) {
    case '+':
      set(a + b);
      break;
    case '-':
      set(a - b);
      break;
    case '*':
      set(a * b);
      break;
    case '/':
      set(a / b);
      break;
    case 'e':
      result = boolean(a == b);
      break;
    case 'n':
      result = boolean(a != b);
      break;
    case '<':
      result = boolean(a < b);
      break;
    case '>':
      result = boolean(a > b);
      break;
    case 'l':
      result = boolean(a <= b);
      break;
    case 'g':
      result = boolean(a >= b);
      break;
    case 'A':
      result = boolean(a != 0 && b != 0);
      break;
    case 'O':
      result = boolean(a != 0 || b != 0);
      break;
    default:
      return "operator takes integers only";
  }
  return {};
}

std::string apply_integer(char op, const Constant& left, const Constant& right, Constant& result) {
  const bool is_unsigned = left.kind == Constant::Kind::u64 || right.kind == Constant::Kind::u64;
  const uint64_t a = left.bits, b = right.bits;
  const auto signed_a = static_cast<int64_t>(a), signed_b = static_cast<int64_t>(b);
  const auto set = [&](uint64_t value) { result = {is_unsigned ? Constant::Kind::u64 : Constant::Kind::s64, value}; };
  switch (op) {
    case '+':
      set(a + b);
      break;
    case '-':
      set(a - b);
      break;
    case '*':
      set(a * b);
      break;
    case '&':
      set(a & b);
      break;
    case '|':
      set(a | b);
      break;
    case '^':
      set(a ^ b);
      break;
    case '/':
    case '%':
      if (b == 0) return "division by zero in a constant expression";
      if (is_unsigned)
        set(op == '/' ? a / b : a % b);
      else if (signed_b == -1)
        set(op == '/' ? 0 - a : 0);
      else
        set(static_cast<uint64_t>(op == '/' ? signed_a / signed_b : signed_a % signed_b));
      break;
    case 'L':
      result = {left.kind, b > 63 ? 0 : a << b};
      break;
    case 'R':
      if (left.kind == Constant::Kind::u64)
        result = {left.kind, b > 63 ? 0 : a >> b};
      else
        result = {left.kind, static_cast<uint64_t>(signed_a >> (b > 63 ? 63 : b))};
      break;
    case 'e':
      result = boolean(a == b);
      break;
    case 'n':
      result = boolean(a != b);
      break;
    case '<':
      result = boolean(is_unsigned ? a < b : signed_a < signed_b);
      break;
    case '>':
      result = boolean(is_unsigned ? a > b : signed_a > signed_b);
      break;
    case 'l':
      result = boolean(is_unsigned ? a <= b : signed_a <= signed_b);
      break;
    case 'g':
      result = boolean(is_unsigned ? a >= b : signed_a >= signed_b);
      break;
    case 'A':
      result = boolean(a != 0 && b != 0);
      break;
    case 'O':
      result = boolean(a != 0 || b != 0);
      break;
    default:
      return "unknown operator";
  }
  return {};
}

}  // namespace

bool Parser::constant_unary(Constant& value) {
  if (++expression_depth_ > kMaxExpressionDepth) return fail(token_, "constant expression is nested too deeply");
  const struct Leave {
    size_t& depth;
    ~Leave() { --depth; }
  } leave{expression_depth_};
  const Token at = token_;
  switch (token_.kind) {
    case TokenKind::integer:
      value = {token_.is_unsigned ? Constant::Kind::u64 : Constant::Kind::s64, token_.bits};
      advance();
      return true;
    case TokenKind::floating:
      value = {token_.is_f32 ? Constant::Kind::f32 : Constant::Kind::f64, token_.bits};
      advance();
      return true;
    case TokenKind::identifier:
      if (token_.text == "WARP_SZ") {
        value = {Constant::Kind::s64, 32};
        advance();
        return true;
      }
      return fail_expected("a constant");
    case TokenKind::punctuation:
      break;
    default:
      return fail_expected("a constant");
  }
  switch (token_.punctuation) {
    case '(':
      advance();
      if (token_.kind == TokenKind::dotted) {
        const std::string_view type = token_.text;
        if (type != ".s64" && type != ".u64") return fail_expected("a cast to .s64 or .u64");
        advance();
        if (!expect(')', "after the cast's type") || !constant_unary(value)) return false;
        if (is_float(value)) return fail(at, "cast of a floating-point constant");
        value.kind = type == ".u64" ? Constant::Kind::u64 : Constant::Kind::s64;
        return true;
      }
      return constant_expression(value) && expect(')', "to close the parenthesis");
    case '-':
      advance();
      if (token_.kind == TokenKind::floating && token_.is_hexadecimal_float)
        return fail(at, "a hexadecimal floating-point constant takes no sign; set its sign bit");
      if (!constant_unary(value)) return false;
      if (is_float(value))
        value = {Constant::Kind::f64, std::bit_cast<uint64_t>(-as_double(value))};
      else
        value.bits = 0 - value.bits;
      return true;
    case '+':
      advance();
      return constant_unary(value);
    case '~':
      advance();
      if (!constant_unary(value)) return false;
      if (is_float(value)) return fail(at, "'~' takes an integer");
      value.bits = ~value.bits;
      return true;
    case '!':
      advance();
      if (!constant_unary(value)) return false;
      value = boolean(!is_true(value));
      return true;
    default:
      return fail_expected("a constant");
  }
}

bool Parser::constant_binary(Constant& value, int minimum_precedence) {
  if (!constant_unary(value)) return false;
  while (token_.kind == TokenKind::punctuation) {
    const Token at = token_;
    const char op = token_.punctuation;
    const int strength = precedence(op);
    if (strength == 0 || strength < minimum_precedence) return true;
    advance();
    Constant right;
    if (!constant_binary(right, strength + 1)) return false;
    const std::string problem = is_float(value) || is_float(right)
                                    ? apply_float(op, as_double(value), as_double(right), value)
                                    : apply_integer(op, Constant(value), right, value);
    if (!problem.empty()) return fail(at, problem);
  }
  return true;
}

bool Parser::constant_expression(Constant& value) {
  if (++expression_depth_ > kMaxExpressionDepth) return fail(token_, "constant expression is nested too deeply");
  const struct Leave {
    size_t& depth;
    ~Leave() { --depth; }
  } leave{expression_depth_};
  if (!constant_binary(value, 1)) return false;
  if (!accept('?')) return true;
  Constant yes, no;
  if (!constant_expression(yes) || !expect(':', "in a conditional expression") || !constant_expression(no))
    return false;
  value = is_true(value) ? yes : no;
  return true;
}

bool Parser::integer_constant(int64_t& value, std::string_view what) {
  const Token at = token_;
  Constant constant;
  if (token_.kind == TokenKind::end || token_.kind == TokenKind::dotted || token_.kind == TokenKind::string)
    return fail_expected(what);
  if (!constant_expression(constant)) return false;
  if (is_float(constant)) return fail(at, fmt::format("expected {}, found a floating-point constant", what));
  value = static_cast<int64_t>(constant.bits);
  return true;
}

}  // namespace ptxbench::ptx
