#include <algorithm>

#include <fmt/format.h>

#include "ptx/names.h"
#include "ptx/parser_impl.h"
#include "ptx/spelling.h"

namespace ptxbench::ptx {
namespace {

constexpr size_t kMaxVectorElements = 256;
constexpr size_t kMaxOperands = 64;
constexpr size_t kMaxArguments = 4096;

Mod find_selector(std::string_view text) {
  for (const Mod mod : {Mod::b0, Mod::b1, Mod::b2, Mod::b3, Mod::h0, Mod::h1})
    if (modifier_text(mod) == text) return mod;
  return Mod::none;
}

int component_of(std::string_view text) {
  if (text.size() != 1) return -1;
  switch (text[0]) {
    case 'x':
    case 'r':
      return 0;
    case 'y':
    case 'g':
      return 1;
    case 'z':
    case 'b':
      return 2;
    case 'w':
    case 'a':
      return 3;
    default:
      return -1;
  }
}

StateSpace base_space(StateSpace space) {
  switch (space) {
    case StateSpace::shared_cta:
    case StateSpace::shared_cluster:
      return StateSpace::shared;
    case StateSpace::param_entry:
    case StateSpace::param_func:
      return StateSpace::param;
    default:
      return space;
  }
}

}  // namespace

uint32_t Parser::add_register(std::string name, Type type) {
  function_->registers.push_back({std::move(name), type});
  return static_cast<uint32_t>(function_->registers.size() - 1);
}

bool Parser::find_name(std::string_view name, uint64_t hash, NameKind& kind, uint32_t& index, bool& module_level) {
  module_level = false;
  const auto materialise = [&](NameTable& names, NameEntry* entry, const RegisterRange& range) {
    if (range.vector == 1) {
      const uint32_t made = add_register(std::string(name), range.type);
      if (entry != nullptr)
        *entry = {name, hash, NameKind::reg, made};
      else
        names.insert(name, hash, NameKind::reg, made);
      kind = NameKind::reg;
      index = made;
      return;
    }
    const auto first = static_cast<uint32_t>(function_->registers.size());
    constexpr std::string_view kComponents[] = {".x", ".y", ".z", ".w"};
    for (uint32_t i = 0; i < range.vector; ++i) add_register(std::string(name).append(kComponents[i]), range.type);
    const auto made = static_cast<uint32_t>(vector_registers_.size());
    vector_registers_.push_back(first);
    vector_registers_.push_back(range.vector);
    if (entry != nullptr)
      *entry = {name, hash, NameKind::vector_register, made};
    else
      names.insert(name, hash, NameKind::vector_register, made);
    kind = NameKind::vector_register;
    index = made;
  };
  const size_t digits = name.size() - std::min(name.size(), name.find_last_not_of("0123456789") + 1);
  for (size_t depth = depth_; depth-- > 0;) {
    NameTable& names = scopes_[depth].names;
    if (names.size() == 0) continue;
    if (NameEntry* entry = names.find(name, hash)) {
      if (entry->kind == NameKind::pending_register) {
        materialise(names, entry, ranges_[entry->index]);
        return true;
      }
      kind = entry->kind;
      index = entry->index;
      return true;
    }
    for (size_t length = std::min<size_t>(digits, 10); length > 0 && length < name.size(); --length) {
      const std::string_view number = name.substr(name.size() - length);
      if (number.size() > 1 && number[0] == '0') continue;
      const std::string_view prefix = name.substr(0, name.size() - length);
      const NameEntry* entry = names.find(prefix, ~hash_text(prefix));
      if (entry == nullptr) continue;
      const RegisterRange range = ranges_[entry->index];
      uint64_t value = 0;
      for (const char c : number) value = value * 10 + static_cast<uint64_t>(c - '0');
      if (value >= range.count) continue;
      materialise(names, nullptr, range);
      return true;
    }
  }
  if (const NameEntry* entry = module_names_.find(name, hash)) {
    kind = entry->kind;
    index = entry->index;
    module_level = true;
    return true;
  }
  return false;
}

bool Parser::unknown_name(const Token& at, std::string_view what) {
  NearestSpelling nearest(at.text);
  std::vector<std::string> generated;
  if (function_ != nullptr) {
    for (size_t depth = 0; depth < depth_; ++depth) {
      for (const NameEntry& entry : scopes_[depth].names.slots()) {
        if (entry.kind == NameKind::none) continue;
        if (entry.kind == NameKind::register_range) {
          const uint64_t count = ranges_[entry.index].count;
          if (at.text.starts_with(entry.name) &&
              at.text.find_first_not_of("0123456789", entry.name.size()) == std::string_view::npos &&
              at.text.size() > entry.name.size())
            return fail(at, fmt::format("unknown {} '{}': '{}<{}>' ends at '{}{}'", what, at.text.substr(0, 80),
                                        entry.name, count, entry.name, count == 0 ? 0 : count - 1));
          continue;
        }
        nearest.offer(entry.name);
      }
    }
  }
  for (const NameEntry& entry : module_names_.slots())
    if (entry.kind != NameKind::none) nearest.offer(entry.name);
  if (at.text.starts_with("%"))
    for (const std::string_view reg : special_register_spellings()) nearest.offer(reg);
  return fail(at, fmt::format("unknown {} '{}'{}", what, at.text.substr(0, 80), nearest.hint()));
}

bool Parser::find_register(const Token& at, uint32_t& index) {
  NameKind kind = NameKind::none;
  bool module_level = false;
  if (!find_name(at.text, hash_text(at.text), kind, index, module_level)) return unknown_name(at, "register");
  if (kind != NameKind::reg) return fail(at, fmt::format("expected a register, found '{}'", at.text));
  return true;
}

bool Parser::guard(uint32_t& predicate, bool& negated) {
  advance();
  negated = accept('!');
  const Token at = token_;
  std::string_view name;
  if (!identifier(name, "a predicate register after '@'") || !find_register(at, predicate)) return false;
  if (function_->registers[predicate].type != Type::pred)
    return fail(at, fmt::format("expected a predicate register after '@', found '{}' of type .{}", name,
                                type_name(function_->registers[predicate].type)));
  return true;
}

bool Parser::opcode_name(const Token& name, std::string_view& text) {
  const std::string_view tail = lexer_.dotted_tail();
  text = lexer_.text().substr(name.offset, name.text.size() + tail.size());
  if (!lexer_.peek_is('.')) return true;
  // White space inside the name: `mma.sync.aligned .m16n8k16`.
  std::string joined(text);
  while (lexer_.peek_is('.')) {
    advance();
    if (token_.kind != TokenKind::dotted) return fail_expected("a modifier");
    joined += token_.text;
    if (joined.size() > 4096) return fail(name, "instruction name is too long");
    joined += lexer_.dotted_tail();
  }
  joined_names_.push_back(std::move(joined));
  text = joined_names_.back();
  return true;
}

const Spelling& Parser::spelling_of(std::string_view name) {
  auto& bucket = spellings_[hash_text(name)];
  for (const auto& [text, spelling] : bucket)
    if (text == name) return spelling;
  bucket.emplace_back(std::string(name), resolve_spelling(name, target_));
  return bucket.back().second;
}

bool Parser::instruction(const Token& first) {
  Instruction made;
  Token name = first;
  if (is('@')) {
    if (!guard(made.guard, made.guard_negated)) return false;
    name = token_;
    if (name.kind != TokenKind::identifier) return fail_expected("an instruction after the guard");
  }
  std::string_view text;
  if (!opcode_name(name, text)) return false;
  const Spelling& spelling = spelling_of(text);
  if (spelling.forms.empty()) {
    const bool in_text = text.data() == lexer_.text().data() + name.offset;
    return fail_position(name.line, name.column + (in_text ? static_cast<uint32_t>(spelling.problem_offset) : 0),
                         spelling.problem);
  }
  made.op = spelling.op;
  made.mods = spelling.mods;
  made.position = {name.line, name.column};
  made.file = location_file_;
  made.line = location_line_;
  made.inlined_at = location_site_;
  advance();
  scratch_.clear();
  uint32_t operand_lines[kMaxOperands], operand_columns[kMaxOperands];
  if (spelling.op == Op::call) {
    if (!call_operands(scratch_)) return false;
  } else if (!is(';')) {
    do {
      if (scratch_.size() >= kMaxOperands) return fail(token_, "instruction has too many operands");
      operand_lines[scratch_.size()] = token_.line;
      operand_columns[scratch_.size()] = token_.column;
      Operand& operand = scratch_.emplace_back();
      if (!this->operand(operand, spelling.op)) return false;
    } while (accept(','));
  }
  const Token end = token_;
  if (!is(';')) return fail_expected(fmt::format("',' or ';' after the operands of '{}'", text));
  made.operands.reserve(scratch_.size());
  std::move(scratch_.begin(), scratch_.end(), std::back_inserter(made.operands));
  std::string problem;
  int problem_operand = -1;
  if (!match_operands(spelling, {module_, *function_}, made, problem, problem_operand)) {
    const bool placed = problem_operand >= 0 && spelling.op != Op::call;
    return fail_position(placed ? operand_lines[problem_operand] : end.line,
                         placed ? operand_columns[problem_operand] : end.column, fmt::format("{}: {}", text, problem));
  }
  if (spelling.op == Op::call ? !check_call(name, made) : !check_memory(name, made)) return false;
  const bool labelled = std::any_of(made.operands.begin(), made.operands.end(), [](const Operand& operand) {
    return operand.kind == OperandKind::label || operand.kind == OperandKind::target_list;
  });
  const auto index = static_cast<uint32_t>(function_->instructions.size());
  if (labelled) label_instructions_.push_back(index);
  function_->instructions.push_back(std::move(made));
  function_->statements.push_back({StatementKind::instruction, index, {}});
  advance();
  return true;
}

bool Parser::operand(Operand& operand, Op op) {
  if (is('{')) return vector_operand(operand, op);
  if (is('[')) return address_operand(operand);
  if (!scalar_operand(operand, op)) return false;
  if (!is('|')) return true;
  Operand pair;
  pair.kind = OperandKind::predicate_pair;
  pair.elements.resize(2);
  pair.elements[0] = std::move(operand);
  advance();
  if (!scalar_operand(pair.elements[1], op)) return false;
  operand = std::move(pair);
  return true;
}

bool Parser::scalar_operand(Operand& operand, Op op) {
  if (token_.kind == TokenKind::identifier && token_.text != "WARP_SZ") return name_operand(operand, op);
  if (is('!')) {
    const Token at = token_;
    advance();
    if (token_.kind == TokenKind::identifier && token_.text != "WARP_SZ") {
      if (!name_operand(operand, op)) return false;
      if (operand.kind != OperandKind::reg || function_->registers[operand.index].type != Type::pred)
        return fail(at, "'!' takes a predicate register");
      operand.negated = true;
      return true;
    }
    Constant value;
    if (!constant_unary(value)) return false;
    operand.kind = OperandKind::integer;
    operand.bits = value.bits == 0 ? 1 : 0;
    return true;
  }
  const bool starts = token_.kind == TokenKind::integer || token_.kind == TokenKind::floating ||
                      token_.kind == TokenKind::identifier || is('-') || is('+') || is('~') || is('(');
  if (!starts) return fail_expected("an operand");
  if (is('-') && lexer_.offset() < lexer_.text().size() && lexer_.text()[lexer_.offset()] == '%')
    return fail(token_, "a register operand takes no sign");
  Constant value;
  if (!constant_expression(value)) return false;
  operand.bits = value.bits;
  const bool floating = value.kind == Constant::Kind::f32 || value.kind == Constant::Kind::f64;
  operand.kind = floating ? OperandKind::floating : OperandKind::integer;
  operand.is_f32 = value.kind == Constant::Kind::f32;
  return true;
}

bool Parser::name_operand(Operand& operand, Op op) {
  const Token at = token_;
  if (at.text == "_") {
    operand.kind = OperandKind::sink;
    advance();
    return true;
  }
  if (op == Op::bra) {
    operand.kind = OperandKind::label;
    operand.index = reference_label(at);
    advance();
    return true;
  }
  const bool dotted = lexer_.offset() < lexer_.text().size() && lexer_.text()[lexer_.offset()] == '.';
  NameKind kind = NameKind::none;
  uint32_t index = kNone;
  bool module_level = false;
  const bool known = find_name(at.text, hash_text(at.text), kind, index, module_level);
  if (op == Op::brx_idx && (!known || kind != NameKind::reg)) {
    operand.kind = OperandKind::target_list;
    operand.index = reference_label(at);
    advance();
    return true;
  }
  if (!known) {
    Token whole = at;
    std::string_view tail;
    if (dotted) {
      tail = lexer_.dotted_tail();
      whole.text = lexer_.text().substr(at.offset, at.text.size() + tail.size());
    }
    const auto special = find_special_register(whole.text);
    if (!special) return unknown_name(whole, at.text.starts_with("%") ? "register" : "name");
    operand.kind = OperandKind::special;
    operand.index = static_cast<uint32_t>(*special);
    advance();
    return true;
  }
  advance();
  switch (kind) {
    case NameKind::reg:
      operand.kind = OperandKind::reg;
      operand.index = index;
      if (dotted && token_.kind == TokenKind::dotted) {
        operand.suffix = find_selector(token_.text.substr(1));
        if (operand.suffix == Mod::none)
          return fail(token_, fmt::format("register '{}' has no component '{}'", at.text, token_.text));
        advance();
      }
      return true;
    case NameKind::vector_register: {
      const uint32_t first = vector_registers_[index], count = vector_registers_[index + 1];
      if (dotted && token_.kind == TokenKind::dotted) {
        const int component = component_of(token_.text.substr(1));
        if (component < 0 || static_cast<uint32_t>(component) >= count)
          return fail(token_, fmt::format("vector register '{}' has no component '{}'", at.text, token_.text));
        operand.kind = OperandKind::reg;
        operand.index = first + static_cast<uint32_t>(component);
        advance();
        return true;
      }
      operand.kind = OperandKind::vector;
      operand.elements.resize(count);
      for (uint32_t i = 0; i < count; ++i) {
        operand.elements[i].kind = OperandKind::reg;
        operand.elements[i].index = first + i;
      }
      return true;
    }
    case NameKind::function:
      operand.kind = OperandKind::function;
      operand.index = index;
      return true;
    case NameKind::variable:
      operand.kind = OperandKind::variable;
      operand.index = module_level ? index | VariableRef::kModule : index;
      if (is('+')) {
        advance();
        int64_t offset = 0;
        if (!integer_constant(offset, "an offset")) return false;
        operand.bits = static_cast<uint64_t>(offset);
      }
      return true;
    default:
      return fail(at, fmt::format("'{}' is not an operand", at.text));
  }
}

bool Parser::address_operand(Operand& operand) {
  operand.kind = OperandKind::address;
  advance();
  operand.elements.reserve(1);
  Operand& base = operand.elements.emplace_back();
  if (token_.kind == TokenKind::identifier && token_.text != "WARP_SZ") {
    const Token at = token_;
    if (!name_operand(base, Op::ld)) return false;
    if (base.kind != OperandKind::reg && base.kind != OperandKind::variable)
      return fail(at, fmt::format("expected a register or a variable as the address, found '{}'", at.text));
    if (base.kind == OperandKind::variable) {
      operand.bits = base.bits;
      base.bits = 0;
    }
    if (is('-')) return fail(token_, "expected '+' or ']' in the address, found '-': write a negative offset as '+-4'");
    if (accept('+')) {
      int64_t offset = 0;
      if (!integer_constant(offset, "an offset")) return false;
      operand.bits += static_cast<uint64_t>(offset);
    }
  } else {
    int64_t value = 0;
    if (!integer_constant(value, "a register, a variable or a constant as the address")) return false;
    base.kind = OperandKind::integer;
    base.bits = static_cast<uint64_t>(value);
  }
  if (accept(',')) {
    if (!is('{')) return fail_expected("'{' to open the tensor coordinates");
    Operand coordinates;
    if (!vector_operand(coordinates, Op::ld)) return false;
    operand.elements.push_back(std::move(coordinates));
  }
  if (!is(']')) return fail_expected("']' to close the address");
  advance();
  if (is_dotted(".unified")) {
    operand.suffix = Mod::unified;
    advance();
  }
  return true;
}

bool Parser::vector_operand(Operand& operand, Op op) {
  operand.kind = OperandKind::vector;
  advance();
  do {
    if (operand.elements.size() >= kMaxVectorElements)
      return fail(token_, fmt::format("vector has more than {} elements", kMaxVectorElements));
    Operand& element = operand.elements.emplace_back();
    if (!scalar_operand(element, op)) return false;
  } while (accept(','));
  return expect('}', "to close the vector");
}

bool Parser::call_argument_list(Operand& list, bool returns) {
  list.kind = OperandKind::vector;
  if (!expect('(', "to open the argument list")) return false;
  while (!is(')')) {
    if (list.elements.size() >= kMaxArguments) return fail(token_, "call has too many arguments");
    const Token at = token_;
    Operand& argument = list.elements.emplace_back();
    if (!scalar_operand(argument, Op::call)) return false;
    if (returns && argument.kind != OperandKind::variable && argument.kind != OperandKind::reg &&
        argument.kind != OperandKind::sink)
      return fail(at, "expected a return parameter");
    if (!accept(',')) break;
  }
  return expect(')', "to close the argument list");
}

bool Parser::call_operands(std::vector<Operand>& operands) {
  operands.resize(3);
  operands[0].kind = OperandKind::vector;
  operands[2].kind = OperandKind::vector;
  if (is('(')) {
    if (!call_argument_list(operands[0], true) || !expect(',', "before the called function")) return false;
  }
  const Token at = token_;
  if (token_.kind != TokenKind::identifier) return fail_expected("the function to call");
  if (!name_operand(operands[1], Op::call)) return false;
  if (operands[1].kind != OperandKind::function && operands[1].kind != OperandKind::reg)
    return fail(at, fmt::format("expected a function or a register to call, found '{}'", at.text));
  if (!accept(',')) return true;
  if (is('(')) {
    if (!call_argument_list(operands[2], false)) return false;
    if (!accept(',')) return true;
  }
  const Token list_at = token_;
  if (token_.kind != TokenKind::identifier) return fail_expected("a prototype or target list");
  Operand list;
  list.kind = OperandKind::target_list;
  list.index = reference_label(list_at);
  operands.push_back(std::move(list));
  advance();
  return true;
}

bool Parser::check_call(const Token& at, const Instruction& instruction) {
  const Operand& target = instruction.operands[1];
  if (target.kind == OperandKind::reg) {
    if (instruction.operands.size() < 4) return fail(at, "an indirect call needs a prototype or a target list");
    const unsigned bits = type_bits(function_->registers[target.index].type);
    if (bits != 64) return fail(at, "an indirect call needs a 64-bit register");
    return true;
  }
  const Function& callee = module_.functions[target.index];
  if (callee.is_entry) return fail(at, fmt::format("kernel '{}' cannot be called", callee.name));
  const size_t returns = instruction.operands[0].elements.size(), arguments = instruction.operands[2].elements.size();
  if (returns != callee.returns.size())
    return fail(at, fmt::format("call of '{}': expected {} return parameters, found {}", callee.name,
                                callee.returns.size(), returns));
  if (arguments != callee.parameters.size())
    return fail(at, fmt::format("call of '{}': expected {} arguments, found {}", callee.name, callee.parameters.size(),
                                arguments));
  return true;
}

bool Parser::check_memory(const Token& at, const Instruction& instruction) {
  unsigned vector = 1, bits = 0;
  StateSpace space = StateSpace::generic;
  for (const Mod mod : instruction.mods) {
    if (mod == Mod::v2)
      vector = 2;
    else if (mod == Mod::v4)
      vector = 4;
    else if (mod == Mod::v8)
      vector = 8;
    if (const Type type = mod_type(mod); type != Type::none) bits = type_bits(type);
    if (const StateSpace named = mod_space(mod); named != StateSpace::generic) space = named;
  }
  if (vector > 1 && vector * bits > 128)
    return fail(at, fmt::format("a vector of {} x {} bits is wider than 128 bits", vector, bits));
  if (space != StateSpace::generic && space != StateSpace::global) {
    for (const Mod mod : instruction.mods) {
      const bool caching = (mod >= Mod::L1_evict_normal && mod <= Mod::L1_no_allocate) ||
                           (mod >= Mod::L2_cache_hint && mod <= Mod::L2_256B);
      if (caching && (instruction.op == Op::ld || instruction.op == Op::st || instruction.op == Op::atom ||
                      instruction.op == Op::red))
        return fail(at, fmt::format("'.{}' is for global memory, the instruction is .{}", modifier_text(mod),
                                    space_text(space)));
    }
  }
  // The n-th address is in the n-th state space named, if there are as many; barriers of bulk copies follow them.
  const Op op = instruction.op;
  const bool generic_only =
      op == Op::ld || op == Op::st || op == Op::atom || op == Op::red || op == Op::ldu || op == Op::multimem;
  StateSpace named[4] = {};
  size_t count = 0;
  for (const Mod mod : instruction.mods)
    if (mod_space(mod) != StateSpace::generic && count < 4) named[count++] = mod_space(mod);
  size_t address = 0;
  for (const Operand& operand : instruction.operands) {
    const bool is_address = operand.kind == OperandKind::address && operand.elements.size() == 1;
    const bool converted = op == Op::cvta && operand.kind == OperandKind::variable;
    if (!is_address && !converted) continue;
    const StateSpace wanted = address < count ? base_space(named[address]) : StateSpace::generic;
    ++address;
    const Operand& base = converted ? operand : operand.elements[0];
    if (base.kind == OperandKind::integer && !(wanted == StateSpace::local && (op == Op::ld || op == Op::st)))
      return fail(at, "an immediate address is allowed only in .local");
    if (base.kind == OperandKind::variable && wanted != StateSpace::generic && op != Op::prefetch &&
        op != Op::cp_async_bulk_tensor && op != Op::cp_reduce_async_bulk_tensor) {
      const Variable& variable = OperandContext{module_, *function_}.variable(base.index);
      if (base_space(variable.space) != wanted)
        return fail(at, fmt::format("state space mismatch: the instruction is .{}, variable '{}' is .{}",
                                    space_text(wanted), variable.name, space_text(variable.space)));
    }
    if (base.kind == OperandKind::reg && generic_only) {
      const unsigned width = type_bits(function_->registers[base.index].type);
      const bool narrow = wanted == StateSpace::shared || wanted == StateSpace::local || wanted == StateSpace::param ||
                          wanted == StateSpace::const_;
      if (width != 64 && !narrow)
        return fail(at, fmt::format("expected a 64-bit address register, found '{}' of {} bits",
                                    function_->registers[base.index].name, width));
    }
  }
  return true;
}

}  // namespace ptxbench::ptx
