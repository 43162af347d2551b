#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "ptx/names.h"
#include "ptx/parser_impl.h"
#include "ptx/spelling.h"

namespace ptxbench::ptx {
namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
constexpr size_t kMaxDimensions = 64;

/// Types a variable may have: the fundamental ones (ISA "Fundamental Types"), no packed or sub-byte types.
bool declarable(Type type) {
  switch (type) {
    case Type::b8:
    case Type::b16:
    case Type::b32:
    case Type::b64:
    case Type::b128:
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
    case Type::s8:
    case Type::s16:
    case Type::s32:
    case Type::s64:
    case Type::f16:
    case Type::f16x2:
    case Type::f32:
    case Type::f64:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool Parser::attribute_list(std::vector<std::string>& attributes) {
  advance();
  if (!expect('(', "after '.attribute'")) return false;
  do {
    const Token at = token_;
    if (token_.kind != TokenKind::dotted) return fail_expected("an attribute such as .managed");
    if (token_.text == ".managed") {
      attributes.emplace_back(".managed");
      advance();
    } else if (token_.text == ".unified") {
      advance();
      uint64_t high = 0, low = 0;
      if (!expect('(', "after '.unified'") || !integer(high, "the first half of the identifier") ||
          !expect(',', "between the halves of the identifier") || !integer(low, "the second half of the identifier") ||
          !expect(')', "after the identifier"))
        return false;
      attributes.push_back(fmt::format(".unified({}, {})", high, low));
    } else {
      return fail(at, fmt::format("expected .managed or .unified, found {}", describe(at)));
    }
  } while (accept(','));
  return expect(')', "to close '.attribute'");
}

bool Parser::variable_head(VariableHead& head, bool parameter) {
  while (token_.kind == TokenKind::dotted) {
    const Token at = token_;
    if (at.text == ".align") {
      advance();
      uint64_t alignment = 0;
      const Token value = token_;
      if (!integer(alignment, "an alignment in bytes")) return false;
      if (!std::has_single_bit(alignment) || alignment > 32768)
        return fail(value, fmt::format("alignment {} is not a power of two up to 32768", alignment));
      (head.pointer ? head.pointer_alignment : head.alignment) = static_cast<uint32_t>(alignment);
      continue;
    }
    if (at.text == ".attribute") {
      if (!attribute_list(head.attributes)) return false;
      continue;
    }
    advance();
    if (at.text == ".v2" || at.text == ".v4" || at.text == ".v8") {
      head.vector = static_cast<uint32_t>(at.text[2] - '0');
      continue;
    }
    if (parameter && at.text == ".ptr") {
      head.pointer = true;
      continue;
    }
    if (head.pointer) {
      const StateSpace space = mod_space(find_modifier(at.text.substr(1)));
      if (space != StateSpace::generic) {
        head.pointer_space = space;
        continue;
      }
    }
    const Type type = find_type(at.text.substr(1));
    if (!declarable(type)) {
      if (at.text == ".texref" || at.text == ".samplerref" || at.text == ".surfref")
        return fail(at, fmt::format("'{}' variables are not supported; use texture objects", at.text));
      NearestSpelling nearest(at.text.substr(1));
      for (int i = 1; i <= static_cast<int>(Type::ue8m0x2); ++i)
        if (declarable(static_cast<Type>(i))) nearest.offer(type_name(static_cast<Type>(i)));
      return fail(at, fmt::format("expected a type for the variable, found {}{}", describe(at), nearest.hint()));
    }
    if (head.type != Type::none)
      return fail(at, fmt::format("expected a variable's name, found a second type {}", describe(at)));
    head.type = type;
  }
  if (head.type == Type::none) return fail_expected("a type such as .b32");
  if (type_bits(head.type) * head.vector > 128 && head.vector != 1)
    return fail(token_, fmt::format("a vector of {} x .{} is wider than 128 bits", head.vector, type_name(head.type)));
  return true;
}

bool Parser::declarator(const VariableHead& head, const Linkage& linkage, Variable& variable, Token& at) {
  at = token_;
  std::string_view name;
  if (!identifier(name, "a variable's name")) return false;
  variable.name = name;
  variable.space = head.space;
  variable.type = head.type;
  variable.vector = head.vector;
  variable.alignment = head.alignment;
  variable.attributes = head.attributes;
  variable.pointer = head.pointer;
  variable.pointer_space = head.pointer_space;
  variable.pointer_alignment = head.pointer_alignment;
  variable.is_extern = linkage.is_extern;
  variable.is_visible = linkage.is_visible;
  variable.is_weak = linkage.is_weak;
  variable.is_common = linkage.is_common;
  variable.position = {at.line, at.column};
  while (accept('[')) {
    if (variable.dimensions.size() >= kMaxDimensions) return fail(token_, "array has too many dimensions");
    int64_t extent = 0;
    const Token value = token_;
    if (is(']')) {
      if (!variable.dimensions.empty()) return fail(token_, "only the first dimension may be left open");
    } else {
      if (!integer_constant(extent, "an array extent")) return false;
      if (extent <= 0) return fail(value, fmt::format("array extent {} is not positive", extent));
    }
    variable.dimensions.push_back(static_cast<uint64_t>(extent));
    if (!expect(']', "to close the array extent")) return false;
  }
  const uint64_t element = type_bits(head.type) / 8 * head.vector;
  if (variable.alignment == 0) variable.alignment = static_cast<uint32_t>(element);
  uint64_t size = element;
  for (const uint64_t extent : variable.dimensions) {
    if (__builtin_mul_overflow(size, extent, &size) || size > kMaxVariableBytes)
      return fail(at, fmt::format("variable '{}' is larger than {} bytes", name, kMaxVariableBytes));
  }
  variable.size = size;
  return true;
}

bool Parser::initialiser_element(Variable& variable, uint64_t element, uint64_t element_bytes) {
  const uint64_t offset = element * element_bytes;
  if (element_bytes > options_.max_initialised_bytes || offset > options_.max_initialised_bytes - initialised_bytes_ ||
      offset + element_bytes > options_.max_initialised_bytes - initialised_bytes_)
    return fail(token_, fmt::format("initialisers of the module exceed {} bytes", options_.max_initialised_bytes));
  if (variable.data.size() < offset + element_bytes) {
    if (variable.data.capacity() < offset + element_bytes)
      variable.data.reserve(std::max<size_t>(offset + element_bytes, variable.data.capacity() * 2));
    variable.data.resize(offset + element_bytes);
  }
  // `0xff00(symbol)`: some bytes of an address.
  const Token at = token_;
  uint64_t mask = 0;
  bool masked = false;
  if (token_.kind == TokenKind::integer && lexer_.peek_is('(')) {
    mask = token_.bits;
    masked = true;
    advance();
    advance();
  }
  if (token_.kind == TokenKind::identifier && token_.text != "WARP_SZ") {
    Variable::Relocation relocation;
    relocation.offset = offset;
    relocation.mask = mask;
    const bool wrapped = token_.text == "generic" && lexer_.peek_is('(');
    relocation.generic = wrapped;
    if (wrapped) {
      advance();
      advance();
    }
    const Token symbol_at = token_;
    std::string_view symbol;
    if (!identifier(symbol, "a symbol")) return false;
    const NameEntry* entry = module_names_.find(symbol, hash_text(symbol));
    if (entry == nullptr) return unknown_name(symbol_at, "symbol");
    relocation.symbol = symbol;
    if (wrapped && !expect(')', "to close 'generic('")) return false;
    if (is('+') || is('-')) {
      const bool minus = is('-');
      advance();
      Constant addend;
      if (!constant_binary(addend, 10)) return false;
      relocation.addend = static_cast<int64_t>(minus ? 0 - addend.bits : addend.bits);
    }
    if (masked && !expect(')', "to close the masked symbol")) return false;
    if (!masked && element_bytes != 8 && element_bytes != 4)
      return fail(at, fmt::format("the address of '{}' does not fit in an element of {} bytes", symbol, element_bytes));
    variable.relocations.push_back(std::move(relocation));
    return true;
  }
  if (masked) return fail_expected("a symbol in the mask");
  Constant value;
  if (!constant_expression(value)) return false;
  uint64_t bits = value.bits;
  const bool is_float = value.kind == Constant::Kind::f32 || value.kind == Constant::Kind::f64;
  const bool wants_float = variable.type == Type::f32 || variable.type == Type::f64;
  if (is_float != wants_float)
    return fail(
        at, fmt::format("expected {} initialiser for .{}, found {}", wants_float ? "a floating-point" : "an integer",
                        type_name(variable.type), is_float ? "a floating-point constant" : "an integer"));
  if (variable.type == Type::f32 && value.kind == Constant::Kind::f64)
    bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  else if (variable.type == Type::f64 && value.kind == Constant::Kind::f32)
    bits = std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  std::memcpy(variable.data.data() + offset, &bits, std::min<uint64_t>(element_bytes, sizeof bits));
  return true;
}

/// One pair of braces. ptxas packs the values: a row with fewer values than its extent moves the next row forward.
bool Parser::initialiser_list(Variable& variable, size_t dimension, uint64_t& element, uint64_t& entries) {
  const uint64_t element_bytes = type_bits(variable.type) / 8;
  const size_t levels = variable.dimensions.size() + (variable.vector > 1 ? 1 : 0);
  const bool components = dimension >= variable.dimensions.size();
  const uint64_t extent = components ? variable.vector : variable.dimensions[dimension];
  const Token open = token_;
  advance();
  entries = 0;
  while (!is('}') || entries > 0) {
    if (extent != 0 && entries >= extent)
      return fail(token_, fmt::format("too many initialisers for '{}'", variable.name));
    if (is('{')) {
      if (dimension + 1 >= levels) return fail(token_, "initialiser has more braces than the variable has dimensions");
      uint64_t inner = 0;
      if (!initialiser_list(variable, dimension + 1, element, inner)) return false;
    } else {
      if (!initialiser_element(variable, element, element_bytes)) return false;
      ++element;
    }
    ++entries;
    if (!accept(',')) break;
  }
  if (components && entries != extent)
    return fail(token_,
                fmt::format("expected {} values for a vector of '{}', found {}", extent, variable.name, entries));
  if (!is('}'))
    return fail(token_, fmt::format("expected ',' or '}}' in the initialiser opened at line {}, found {}", open.line,
                                    describe(token_)));
  advance();
  return true;
}

bool Parser::initialiser(Variable& variable) {
  const uint64_t element_bytes = type_bits(variable.type) / 8;
  const bool scalar = variable.dimensions.empty() && variable.vector == 1;
  if (scalar) {
    if (is('{')) return fail_expected("a value without braces for a scalar");
    return initialiser_element(variable, 0, element_bytes);
  }
  if (!is('{')) return fail_expected("'{' to open the initialiser");
  uint64_t element = 0, entries = 0;
  if (!initialiser_list(variable, 0, element, entries)) return false;
  if (!variable.dimensions.empty() && variable.dimensions[0] == 0) {
    uint64_t inner = variable.vector;
    for (size_t i = 1; i < variable.dimensions.size(); ++i) inner *= variable.dimensions[i];
    if (entries == 0)
      return fail(token_, fmt::format("array '{}' without an extent needs at least one value", variable.name));
    variable.dimensions[0] = entries;
    variable.size = entries * inner * element_bytes;
  }
  return true;
}

bool Parser::finish_variable(const Token& at, Variable& variable) {
  if (accept('=')) {
    if (variable.is_extern) return fail(at, fmt::format("extern variable '{}' has an initialiser", variable.name));
    if (variable.space != StateSpace::global && variable.space != StateSpace::const_)
      return fail(at, fmt::format("initialisers are for .global and .const variables, '{}' is .{}", variable.name,
                                  space_text(variable.space)));
    if (!initialiser(variable)) return false;
    if (variable.size > options_.max_initialised_bytes - initialised_bytes_)
      return fail(at, fmt::format("initialisers of the module exceed {} bytes", options_.max_initialised_bytes));
    initialised_bytes_ += variable.size;
    // `= {}` initialises nothing.
    if (!variable.data.empty()) variable.data.resize(variable.size);
  } else if (!variable.is_extern && !variable.dimensions.empty() && variable.dimensions[0] == 0 &&
             variable.space != StateSpace::param && variable.space != StateSpace::shared) {
    return fail(at, fmt::format("array '{}' needs an extent or an initialiser", variable.name));
  }
  return true;
}

bool Parser::module_variables(StateSpace space, const Linkage& linkage) {
  VariableHead head;
  head.space = space;
  if (!variable_head(head, false)) return false;
  do {
    Variable variable;
    Token at;
    if (!declarator(head, linkage, variable, at)) return false;
    auto index = static_cast<uint32_t>(module_.variables.size());
    const NameEntry* known = module_names_.find(at.text, hash_text(at.text));
    const bool redeclared =
        known != nullptr && known->kind == NameKind::variable && module_.variables[known->index].is_extern;
    if (redeclared)
      index = known->index;
    else if (!define_module_name(at, at.text, NameKind::variable, index))
      return false;
    if (!finish_variable(at, variable)) return false;
    const bool declaration = variable.is_extern;
    if (!redeclared)
      module_.variables.push_back(std::move(variable));
    else if (!declaration)
      module_.variables[index] = std::move(variable);
    module_.items.push_back({Module::Item::Kind::variable, index, declaration ? "extern" : ""});
  } while (accept(','));
  return expect(';', "after the variable");
}

bool Parser::parameter_list(Function& function, std::vector<uint32_t>& into) {
  if (!expect('(', "to open the parameter list")) return false;
  if (accept(')')) return true;
  do {
    const Token start = token_;
    const bool is_register = is_dotted(".reg");
    if (!is_register && !is_dotted(".param")) return fail_expected("'.param' or ')'");
    advance();
    if (is_register) return fail(start, "register parameters are not supported; use .param");
    VariableHead head;
    head.space = StateSpace::param;
    if (!variable_head(head, true)) return false;
    Variable variable;
    Token at;
    if (!declarator(head, {}, variable, at)) return false;
    const auto index = static_cast<uint32_t>(function.variables.size());
    if (at.text != "_" && !define_local_name(at, at.text, NameKind::variable, index)) return false;
    function.variables.push_back(std::move(variable));
    into.push_back(index);
  } while (accept(','));
  return expect(')', "to close the parameter list");
}

}  // namespace ptxbench::ptx
