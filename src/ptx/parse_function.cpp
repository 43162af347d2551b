#include <algorithm>

#include <fmt/format.h>

#include "ptx/names.h"
#include "ptx/parser_impl.h"
#include "ptx/spelling.h"

namespace ptxbench::ptx {

bool Parser::function(const Linkage& linkage, bool entry) {
  Function made;
  made.is_entry = entry;
  made.is_extern = linkage.is_extern;
  made.is_visible = linkage.is_visible;
  made.is_weak = linkage.is_weak;
  if (linkage.is_common) return fail(token_, "'.common' is for variables");
  function_ = &made;
  scopes_.resize(std::max<size_t>(scopes_.size(), 1));
  depth_ = 1;
  scopes_[0].names.clear();
  scopes_[0].labels.clear();
  ranges_.clear();
  vector_registers_.clear();
  label_uses_.clear();
  label_instructions_.clear();
  location_file_ = location_line_ = 0;
  location_site_ = kNone;
  location_sites_.clear();
  call_site_index_.clear();
  if (!entry && is('(') && !parameter_list(made, made.returns)) return false;
  const Token at = token_;
  std::string_view name;
  if (!identifier(name, entry ? "the kernel's name" : "the function's name")) return false;
  made.name = name;
  made.position = {at.line, at.column};
  if (is('(') && !parameter_list(made, made.parameters)) return false;
  if (!performance_directives(made)) return false;

  const bool has_body = is('{');
  const NameEntry* known = module_names_.find(name, hash_text(name));
  uint32_t index = static_cast<uint32_t>(module_.functions.size());
  if (known != nullptr) {
    if (known->kind != NameKind::function || (module_.functions[known->index].has_body && has_body))
      return fail(at, fmt::format("duplicate definition of '{}'", name));
    index = known->index;
  } else {
    if (!define_module_name(at, name, NameKind::function, index)) return false;
    module_.functions.emplace_back();
  }
  module_.items.push_back({Module::Item::Kind::function, index, has_body ? "" : "declaration"});
  if (!has_body) {
    if (!module_.functions[index].has_body) module_.functions[index] = std::move(made);
    function_ = nullptr;
    return expect(';', "or '{' after the function's declaration");
  }
  made.has_body = true;
  module_.functions[index] = std::move(made);
  function_ = &module_.functions[index];
  const bool good = body(*function_);
  function_ = nullptr;
  return good;
}

bool Parser::performance_directives(Function& function) {
  const auto extents = [&](uint32_t(&into)[3], std::string& text) {
    for (size_t i = 0; i < 3; ++i) {
      const Token at = token_;
      uint64_t value = 0;
      if (!integer(value, "a positive extent")) return false;
      if (value == 0 || value > 0x7fffffff) return fail(at, fmt::format("extent {} is out of range", value));
      into[i] = static_cast<uint32_t>(value);
      text += fmt::format("{}{}", i == 0 ? " " : ", ", value);
      if (!is(',')) {
        for (++i; i < 3; ++i) into[i] = 1;
        return true;
      }
      if (i < 2) advance();
    }
    return true;
  };
  const auto single = [&](uint32_t& into, std::string& text) {
    uint64_t value = 0;
    const Token at = token_;
    if (!integer(value, "a positive number")) return false;
    if (value == 0 || value > 0x7fffffff) return fail(at, fmt::format("{} is out of range", value));
    into = static_cast<uint32_t>(value);
    text += fmt::format(" {}", value);
    return true;
  };
  while (token_.kind == TokenKind::dotted) {
    const Token at = token_;
    std::string text(at.text);
    if (at.text == ".pragma") {
      if (!pragma_directive(text)) return false;
      function.directives.push_back(std::move(text));
      continue;
    }
    advance();
    uint32_t ignored = 0;
    bool good = true;
    if (at.text == ".maxntid")
      good = extents(function.maxntid, text);
    else if (at.text == ".reqntid")
      good = extents(function.reqntid, text);
    else if (at.text == ".reqnctapercluster")
      good = extents(function.reqnctapercluster, text);
    else if (at.text == ".minnctapersm")
      good = single(function.minnctapersm, text);
    else if (at.text == ".maxnctapersm")
      good = single(ignored, text);
    else if (at.text == ".maxnreg")
      good = single(function.maxnreg, text);
    else if (at.text == ".maxclusterrank")
      good = single(function.maxclusterrank, text);
    else if (at.text == ".abi_preserve" || at.text == ".abi_preserve_control")
      good = single(ignored, text);
    else if (at.text == ".explicitcluster")
      function.explicit_cluster = true;
    else if (at.text == ".blocksareclusters")
      function.blocks_are_clusters = true;
    else if (at.text == ".noreturn")
      function.noreturn = true;
    else {
      NearestSpelling nearest(at.text);
      for (const std::string_view known :
           {".maxntid", ".reqntid", ".reqnctapercluster", ".minnctapersm", ".maxnctapersm", ".maxnreg",
            ".maxclusterrank", ".explicitcluster", ".blocksareclusters", ".noreturn", ".pragma", ".abi_preserve"})
        nearest.offer(known);
      return fail(at,
                  fmt::format("expected a performance directive, '{{' or ';', found '{}'{}", at.text, nearest.hint()));
    }
    if (!good) return false;
    function.directives.push_back(std::move(text));
  }
  return true;
}

bool Parser::define_local_name(const Token& at, std::string_view name, NameKind kind, uint32_t index) {
  const uint64_t hash = hash_text(name);
  Scope& scope = scopes_[depth_ - 1];
  if (scope.names.find(name, hash) != nullptr) return fail(at, fmt::format("duplicate definition of '{}'", name));
  scope.names.insert(name, hash, kind, index);
  return true;
}

bool Parser::open_scope() {
  if (depth_ > options_.max_scope_depth)
    return fail(token_, fmt::format("scopes are nested more than {} deep", options_.max_scope_depth));
  if (scopes_.size() <= depth_) scopes_.emplace_back();
  scopes_[depth_].names.clear();
  scopes_[depth_].labels.clear();
  ++depth_;
  return true;
}

bool Parser::close_scope() {
  Scope& inner = scopes_[depth_ - 1];
  if (!finish_labels(inner, depth_ > 1 ? &scopes_[depth_ - 2] : nullptr)) return false;
  --depth_;
  return true;
}

bool Parser::body(Function& function) {
  advance();
  if (!open_scope()) return false;
  const size_t outermost = depth_;
  for (;;) {
    if (token_.kind == TokenKind::end)
      return fail(token_, fmt::format("function '{}' is never closed; add '}}'", function.name));
    if (is('{')) {
      function.statements.push_back({StatementKind::scope_open, kNone, {}});
      if (!open_scope()) return false;
      advance();
    } else if (is('}')) {
      const bool last = depth_ == outermost;
      if (!close_scope()) return false;
      if (!last) function.statements.push_back({StatementKind::scope_close, kNone, {}});
      advance();
      if (last) break;
    } else if (!statement()) {
      return false;
    }
  }
  return resolve_labels();
}

bool Parser::statement() {
  switch (token_.kind) {
    case TokenKind::identifier: {
      const Token name = token_;
      if (lexer_.offset() < lexer_.text().size() && lexer_.text()[lexer_.offset()] != '.' &&
          lexer_.peek_is_label_colon()) {
        advance();
        advance();
        return label_statement(name);
      }
      return instruction(name);
    }
    case TokenKind::dotted:
      return directive_statement();
    case TokenKind::punctuation:
      if (is('@')) return instruction(token_);
      if (is(';')) return fail(token_, "expected a statement, found ';': remove the extra semicolon");
      [[fallthrough]];
    default:
      return fail_expected("an instruction, a label, a directive or '}'");
  }
}

bool Parser::directive_statement() {
  const Token at = token_;
  const std::string_view word = at.text;
  if (word == ".reg") return register_declaration();
  if (word == ".loc") return location_directive();
  if (word == ".local" || word == ".shared" || word == ".param" || word == ".global" || word == ".const") {
    advance();
    return local_variables(mod_space(find_modifier(word.substr(1))));
  }
  if (word == ".pragma") {
    std::string text;
    if (!pragma_directive(text)) return false;
    function_->statements.push_back({StatementKind::directive, kNone, std::move(text)});
    return true;
  }
  NearestSpelling nearest(word);
  for (const std::string_view known : {".reg", ".loc", ".local", ".shared", ".param", ".global", ".const", ".pragma"})
    nearest.offer(known);
  return fail(at,
              fmt::format("expected an instruction, a label, a directive or '}}', found '{}'{}", word, nearest.hint()));
}

bool Parser::register_declaration() {
  advance();
  std::string text = ".reg";
  uint32_t vector = 1;
  Type type = Type::none;
  while (token_.kind == TokenKind::dotted) {
    const Token at = token_;
    if (at.text == ".v2" || at.text == ".v4") {
      vector = static_cast<uint32_t>(at.text[2] - '0');
    } else {
      const Type found = find_type(at.text.substr(1));
      switch (found) {
        case Type::pred:
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
          break;
        default: {
          NearestSpelling nearest(at.text);
          for (const std::string_view known : {".pred", ".b16", ".b32", ".b64", ".b128", ".u16", ".u32", ".u64", ".s16",
                                               ".s32", ".s64", ".f16", ".f16x2", ".f32", ".f64"})
            nearest.offer(known);
          return fail(at, fmt::format("expected a register type, found {}{}", describe(at), nearest.hint()));
        }
      }
      if (type != Type::none)
        return fail(at, fmt::format("expected a register's name, found a second type {}", describe(at)));
      type = found;
    }
    text += ' ';
    text += at.text;
    advance();
  }
  if (type == Type::none) return fail_expected("a register type such as .b32");
  bool first = true;
  do {
    const Token at = token_;
    std::string_view name;
    if (!identifier(name, "a register's name")) return false;
    text += first ? " " : ", ";
    first = false;
    text += name;
    if (accept('<')) {
      const Token count_at = token_;
      uint64_t count = 0;
      if (!integer(count, "the number of registers")) return false;
      if (count > 0x7fffffff) return fail(count_at, fmt::format("register range of {} is too long", count));
      if (!expect('>', "to close the register range")) return false;
      text += fmt::format("<{}>", count);
      const uint64_t hash = ~hash_text(name);
      NameTable& names = scopes_[depth_ - 1].names;
      if (names.find(name, hash) != nullptr)
        return fail(at, fmt::format("duplicate definition of register range '{}'", name));
      names.insert(name, hash, NameKind::register_range, static_cast<uint32_t>(ranges_.size()));
      ranges_.push_back({type, count, vector});
    } else {
      if (!define_local_name(at, name, NameKind::pending_register, static_cast<uint32_t>(ranges_.size()))) return false;
      ranges_.push_back({type, 1, vector});
    }
  } while (accept(','));
  text += ';';
  function_->statements.push_back({StatementKind::declare_registers, kNone, std::move(text)});
  return expect(';', "after the register declaration");
}

bool Parser::local_variables(StateSpace space) {
  VariableHead head;
  head.space = space;
  if (!variable_head(head, false)) return false;
  do {
    Variable variable;
    Token at;
    if (!declarator(head, {}, variable, at)) return false;
    if (!finish_variable(at, variable)) return false;
    const auto index = static_cast<uint32_t>(function_->variables.size());
    if (!define_local_name(at, at.text, NameKind::variable, index)) return false;
    function_->variables.push_back(std::move(variable));
    function_->statements.push_back({StatementKind::declare_variable, index, {}});
  } while (accept(','));
  return expect(';', "after the variable");
}

bool Parser::location_directive() {
  const Token start = token_;
  advance();
  uint64_t file = 0, line = 0, column = 0;
  if (!integer(file, "a file index after '.loc'") || !integer(line, "a line number") || !integer(column, "a column"))
    return false;
  std::string text = fmt::format(".loc {} {} {}", file, line, column);
  location_site_ = kNone;
  if (is(',')) {
    advance();
    std::string_view word, label;
    if (!identifier(word, "'function_name' or 'inlined_at'")) return false;
    if (word == "function_name") {
      if (!identifier(label, "a label of the function's name")) return false;
      text += fmt::format(", function_name {}", label);
      if (accept('+')) {
        uint64_t offset = 0;
        if (!integer(offset, "an offset")) return false;
        text += fmt::format("+{}", offset);
      }
      if (!expect(',', "before 'inlined_at'") || !identifier(word, "'inlined_at'")) return false;
    }
    if (word != "inlined_at") return fail(token_, fmt::format("expected 'inlined_at', found '{}'", word));
    uint64_t outer_file = 0, outer_line = 0, outer_column = 0;
    if (!integer(outer_file, "a file index") || !integer(outer_line, "a line number") ||
        !integer(outer_column, "a column"))
      return false;
    text += fmt::format(", inlined_at {} {} {}", outer_file, outer_line, outer_column);
    // The caller's place may lie in an inlined function itself: then an earlier .loc of that place has told where.
    const auto outer = location_sites_.find({outer_file, outer_line, outer_column});
    const uint32_t parent = outer == location_sites_.end() ? kNone : outer->second;
    const auto [entry, fresh] = call_site_index_.try_emplace({outer_file, outer_line, outer_column, parent},
                                                             static_cast<uint32_t>(function_->call_sites.size()));
    if (fresh) {
      function_->call_sites.push_back({static_cast<uint32_t>(outer_file), static_cast<uint32_t>(outer_line),
                                       static_cast<uint32_t>(outer_column), parent});
    }
    location_site_ = entry->second;
    location_sites_[{file, line, column}] = location_site_;
  }
  location_file_ = static_cast<uint32_t>(file);
  location_line_ = static_cast<uint32_t>(line);
  function_->statements.push_back({StatementKind::location, kNone, std::move(text)});
  debug_text(start);
  return true;
}

// --- labels: a scope sees the labels of the scopes around it, wherever in them the label stands.

uint32_t Parser::reference_label(const Token& at) {
  const uint64_t hash = hash_text(at.text);
  NameTable& labels = scopes_[depth_ - 1].labels;
  if (const NameEntry* entry = labels.find(at.text, hash)) return entry->index;
  const auto index = static_cast<uint32_t>(label_uses_.size());
  labels.insert(at.text, hash, NameKind::label, index);
  label_uses_.push_back({at.line, at.column, false, kNone, at.text, 0});
  function_->labels.emplace_back();
  return index;
}

bool Parser::label_statement(const Token& name) {
  if (scopes_[depth_ - 1].names.find(name.text, hash_text(name.text)) != nullptr)
    return fail(name, fmt::format("duplicate definition of '{}'", name.text));
  const uint32_t index = reference_label(name);
  if (label_uses_[index].defined)
    return fail(name, fmt::format("duplicate label '{}', first defined in line {}", name.text,
                                  label_uses_[index].definition_line));
  label_uses_[index].defined = true;
  label_uses_[index].definition_line = name.line;
  function_->labels[index].name = name.text;
  function_->labels[index].instruction = static_cast<uint32_t>(function_->instructions.size());
  function_->statements.push_back({StatementKind::label, index, {}});
  if (is_dotted(".branchtargets")) return branch_targets(index);
  if (is_dotted(".calltargets")) return call_targets(index);
  if (is_dotted(".callprototype")) return call_prototype(index);
  return true;
}

bool Parser::branch_targets(uint32_t label) {
  std::string text = ".branchtargets ";
  do {
    advance();
    const Token at = token_;
    std::string_view name;
    if (!identifier(name, "a label")) return false;
    const uint32_t target = reference_label(at);
    function_->labels[label].targets.push_back(target);
    if (function_->labels[label].targets.size() > 1) text += ", ";
    text += name;
  } while (is(','));
  text += ';';
  function_->statements.push_back({StatementKind::directive, kNone, std::move(text)});
  return expect(';', "after '.branchtargets'");
}

bool Parser::call_targets(uint32_t label) {
  std::string text = ".calltargets ";
  do {
    advance();
    const Token at = token_;
    std::string_view name;
    if (!identifier(name, "a function")) return false;
    const NameEntry* entry = module_names_.find(name, hash_text(name));
    if (entry == nullptr || entry->kind != NameKind::function) return unknown_name(at, "function");
    auto& targets = function_->labels[label].call_targets;
    targets.push_back(entry->index);
    if (targets.size() > 1) text += ", ";
    text += name;
  } while (is(','));
  text += ';';
  function_->statements.push_back({StatementKind::directive, kNone, std::move(text)});
  return expect(';', "after '.calltargets'");
}

bool Parser::prototype_list(std::vector<uint64_t>& sizes, std::string& text) {
  if (!expect('(', "to open the prototype's parameters")) return false;
  text += '(';
  while (!is(')')) {
    if (!is_dotted(".param")) return fail_expected("'.param' or ')'");
    advance();
    VariableHead head;
    head.space = StateSpace::param;
    if (!variable_head(head, true)) return false;
    Variable variable;
    Token at;
    if (!declarator(head, {}, variable, at)) return false;
    if (!sizes.empty()) text += ", ";
    sizes.push_back(variable.size);
    text += ".param";
    if (head.alignment != 0) text += fmt::format(" .align {}", head.alignment);
    text += fmt::format(" .{} {}", type_name(head.type), variable.name);
    for (const uint64_t extent : variable.dimensions) text += extent == 0 ? "[]" : fmt::format("[{}]", extent);
    if (!accept(',')) break;
  }
  text += ')';
  return expect(')', "to close the prototype's parameters");
}

bool Parser::call_prototype(uint32_t label) {
  advance();
  std::string text = ".callprototype ";
  std::vector<uint64_t> returns, parameters;
  if (is('(') && !prototype_list(returns, text)) return false;
  std::string_view name;
  if (!identifier(name, "'_' or a name in the prototype")) return false;
  text += fmt::format(" {} ", name);
  if (is('(') && !prototype_list(parameters, text)) return false;
  while (token_.kind == TokenKind::dotted) {
    if (!is_dotted(".noreturn") && !is_dotted(".abi_preserve") && !is_dotted(".abi_preserve_control"))
      return fail_expected("'.noreturn' or ';'");
    text += fmt::format(" {}", token_.text);
    advance();
    if (token_.kind == TokenKind::integer) {
      text += fmt::format(" {}", token_.text);
      advance();
    }
  }
  text += ';';
  Label& made = function_->labels[label];
  made.is_prototype = true;
  made.prototype_returns = std::move(returns);
  made.prototype_params = std::move(parameters);
  function_->statements.push_back({StatementKind::directive, kNone, std::move(text)});
  return expect(';', "after '.callprototype'");
}

bool Parser::finish_labels(Scope& scope, Scope* parent) {
  if (scope.labels.size() == 0) return true;
  for (const NameEntry& entry : scope.labels.slots()) {
    if (entry.kind == NameKind::none || label_uses_[entry.index].defined) continue;
    if (parent == nullptr) continue;
    if (const NameEntry* outer = parent->labels.find(entry.name, entry.hash)) {
      label_uses_[entry.index].alias = outer->index;
      // The earliest use is the one to report.
      LabelUse& use = label_uses_[outer->index];
      const LabelUse& inner = label_uses_[entry.index];
      if (!use.defined && std::pair(inner.line, inner.column) < std::pair(use.line, use.column)) {
        use.line = inner.line;
        use.column = inner.column;
      }
    } else {
      parent->labels.insert(entry.name, entry.hash, NameKind::label, entry.index);
    }
  }
  return true;
}

bool Parser::resolve_labels() {
  Function& function = *function_;
  const LabelUse* missing = nullptr;
  for (const LabelUse& use : label_uses_) {
    if (use.defined || use.alias != kNone) continue;
    if (missing == nullptr || std::pair(use.line, use.column) < std::pair(missing->line, missing->column))
      missing = &use;
  }
  if (missing != nullptr) {
    NearestSpelling nearest(missing->name);
    for (const LabelUse& use : label_uses_)
      if (use.defined) nearest.offer(use.name);
    return fail_position(missing->line, missing->column,
                         fmt::format("unknown label '{}'{}", missing->name.substr(0, 80), nearest.hint()));
  }
  // Aliases point outwards to labels made later or earlier; every chain ends at a defined label.
  std::vector<uint32_t> place(label_uses_.size(), kNone);
  std::vector<Label> kept;
  for (size_t i = 0; i < label_uses_.size(); ++i) {
    if (!label_uses_[i].defined) continue;
    place[i] = static_cast<uint32_t>(kept.size());
    kept.push_back(std::move(function.labels[i]));
  }
  for (size_t i = 0; i < label_uses_.size(); ++i) {
    if (place[i] != kNone) continue;
    uint32_t root = static_cast<uint32_t>(i);
    while (label_uses_[root].alias != kNone && place[root] == kNone) root = label_uses_[root].alias;
    const uint32_t target = place[root];
    for (uint32_t at = static_cast<uint32_t>(i); place[at] == kNone; at = label_uses_[at].alias) place[at] = target;
  }
  function.labels = std::move(kept);
  for (Label& label : function.labels)
    for (uint32_t& target : label.targets) target = place[target];
  for (Statement& statement : function.statements)
    if (statement.kind == StatementKind::label) statement.index = place[statement.index];
  for (const uint32_t index : label_instructions_) {
    Instruction& instruction = function.instructions[index];
    for (Operand& operand : instruction.operands) {
      if (operand.kind != OperandKind::label && operand.kind != OperandKind::target_list) continue;
      operand.index = place[operand.index];
      const Label& label = function.labels[operand.index];
      if (operand.kind != OperandKind::target_list) continue;
      const bool list =
          instruction.op == Op::brx_idx ? !label.targets.empty() : label.is_prototype || !label.call_targets.empty();
      if (!list)
        return fail_position(
            instruction.position.line, instruction.position.column,
            fmt::format("'{}' is not a {}", label.name,
                        instruction.op == Op::brx_idx ? ".branchtargets list" : ".callprototype or .calltargets"));
    }
  }
  return true;
}

}  // namespace ptxbench::ptx
