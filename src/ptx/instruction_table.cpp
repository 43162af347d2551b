#include "ptx/instruction_table.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <string>

#include "ptx/names.h"
#include "ptx/table/table.h"

namespace ptxbench::ptx {
namespace {

[[noreturn]] void bad_row(const InstructionForm& form, std::string_view what) {
  throw std::logic_error("instruction table: " + std::string(opcode_text(form.op)) + " " + std::string(form.modifiers) +
                         " | " + std::string(form.operands) + ": " + std::string(what));
}

std::vector<ModifierSlot> compile_modifiers(const InstructionForm& form) {
  std::vector<ModifierSlot> slots;
  std::string_view text = form.modifiers;
  size_t at = 0;
  const auto modifier = [&] {
    const size_t start = ++at;
    while (at < text.size() &&
           (text[at] == '_' || text[at] == ':' || std::isalnum(static_cast<unsigned char>(text[at]))))
      ++at;
    const Mod mod = find_modifier(text.substr(start, at - start));
    if (mod == Mod::none) bad_row(form, text.substr(start, at - start));
    return mod;
  };
  while (at < text.size()) {
    ModifierSlot slot;
    if (text[at] == '.') {
      slot.choices.push_back(modifier());
    } else if (text[at] == '{' || text[at] == '(') {
      slot.optional = text[at] == '{';
      const char close = slot.optional ? '}' : ')';
      do {
        ++at;
        if (at >= text.size() || text[at] != '.') bad_row(form, "expected a modifier");
        slot.choices.push_back(modifier());
      } while (at < text.size() && text[at] == '|');
      if (at >= text.size() || text[at] != close) bad_row(form, "unclosed alternatives");
      ++at;
    } else {
      bad_row(form, "expected '.', '{' or '('");
    }
    slots.push_back(std::move(slot));
  }
  return slots;
}

OperandRole role_of(const InstructionForm& form, char letter) {
  switch (letter) {
    case 'd':
      return OperandRole::destination;
    case 'D':
      return OperandRole::destination_sink;
    case 's':
      return OperandRole::source;
    case 'r':
      return OperandRole::source_register;
    case 'm':
      return OperandRole::move_source;
    case 'x':
      return OperandRole::special_source;
    case 'i':
      return OperandRole::immediate;
    case 'p':
      return OperandRole::predicate_source;
    case 'P':
      return OperandRole::predicate_destination;
    case 'Q':
      return OperandRole::predicate_destination_pair;
    case 'e':
      return OperandRole::destination_with_predicate;
    case 'E':
      return OperandRole::destination_and_predicate;
    case 'a':
      return OperandRole::address;
    case 't':
      return OperandRole::tensor_address;
    case '_':
      return OperandRole::sink;
    case 'L':
      return OperandRole::label;
    case 'T':
      return OperandRole::label_list;
    case 'C':
      return OperandRole::call;
    default:
      bad_row(form, std::string("unknown operand letter ") + letter);
  }
}

/// `letter[:type][~][@][*count][(low..high[/step])][?[<modifier>]]`
OperandRule compile_operand(const InstructionForm& form, std::string_view text) {
  OperandRule rule;
  size_t at = 0;
  const auto number = [&] {
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), value);
    if (parsed.ec != std::errc()) bad_row(form, text);
    at = static_cast<size_t>(parsed.ptr - text.data());
    return value;
  };
  rule.role = role_of(form, text[at++]);
  if (at < text.size() && text[at] == ':') {
    const size_t start = ++at;
    while (at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]))) ++at;
    const std::string_view type = text.substr(start, at - start);
    if (type.size() == 1 && type[0] >= '0' && type[0] <= '9') {
      rule.type_index = static_cast<int8_t>(type[0] - '0');
    } else if (type == "W") {
      rule.type_index = 0;
      rule.widened = true;
    } else {
      rule.type = find_type(type);
      if (rule.type == Type::none) bad_row(form, type);
    }
  }
  while (at < text.size()) {
    const char c = text[at++];
    if (c == '~') {
      rule.relaxed = true;
    } else if (c == '@') {
      rule.selectable = true;
    } else if (c == '?') {
      rule.optional = true;
      if (at < text.size() && text[at] == '<') {
        const size_t end = text.find('>', at);
        if (end == std::string_view::npos) bad_row(form, text);
        rule.condition = find_modifier(text.substr(at + 1, end - at - 1));
        if (rule.condition == Mod::none) bad_row(form, text);
        at = end + 1;
      }
    } else if (c == '*') {
      const char kind = text[at];
      if (kind == 'v') {
        rule.count_rule = CountRule::vector_modifier;
        ++at;
      } else if (kind == 'x') {
        rule.count_rule = CountRule::matrix_count;
        ++at;
        rule.count = 1;
        if (at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])))
          rule.count = static_cast<uint16_t>(number());
      } else if (kind == 'i') {
        rule.count_rule = CountRule::im2col_offsets;
        ++at;
      } else if (kind == 'A' || kind == 'B' || kind == 'C' || kind == 'D') {
        rule.count_rule = CountRule::fragment;
        rule.fragment = kind;
        ++at;
      } else {
        rule.count_rule = CountRule::fixed;
        rule.count = static_cast<uint16_t>(number());
      }
    } else if (c == '(') {
      rule.has_range = true;
      rule.low = number();
      at += 2;
      rule.high = number();
      if (text[at] == '/') {
        ++at;
        rule.step = number();
      }
      ++at;
    } else {
      bad_row(form, text);
    }
  }
  return rule;
}

std::vector<std::vector<OperandRule>> compile_operands(const InstructionForm& form) {
  std::vector<std::vector<OperandRule>> alternatives(1);
  std::string_view text = form.operands;
  size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == ' ' || c == ',') {
      ++at;
    } else if (c == '|') {
      alternatives.emplace_back();
      ++at;
    } else {
      const size_t end = std::min(text.find_first_of(",| ", at), text.size());
      alternatives.back().push_back(compile_operand(form, text.substr(at, end - at)));
      at = end;
    }
  }
  return alternatives;
}

CompiledForm compile(const InstructionForm& form) {
  CompiledForm compiled;
  compiled.form = &form;
  compiled.slots = compile_modifiers(form);
  compiled.operands = compile_operands(form);
  if (!form.target.starts_with("sm_")) bad_row(form, form.target);
  for (const char c : form.target.substr(3)) {
    if (c == 'a')
      compiled.target_specific = true;
    else
      compiled.target_number = compiled.target_number * 10 + static_cast<uint32_t>(c - '0');
  }
  return compiled;
}

struct Compiled {
  std::vector<InstructionForm> rows;
  std::vector<CompiledForm> forms;
  std::vector<std::pair<uint32_t, uint32_t>> by_op;  // first, count

  Compiled() {
    for (const std::span<const InstructionForm> family : table::families())
      rows.insert(rows.end(), family.begin(), family.end());
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
    forms.reserve(rows.size());
    for (const InstructionForm& row : rows) forms.push_back(compile(row));
    for (size_t i = 0; i < forms.size(); ++i) {
      const auto op = static_cast<size_t>(rows[i].op);
      if (by_op.size() <= op) by_op.resize(op + 1);
      if (by_op[op].second++ == 0) by_op[op].first = static_cast<uint32_t>(i);
    }
  }
};

const Compiled& compiled() {
  static const Compiled once;
  return once;
}

}  // namespace

bool ModifierSlot::accepts(Mod mod) const { return std::find(choices.begin(), choices.end(), mod) != choices.end(); }

std::span<const InstructionForm> instruction_table() { return compiled().rows; }
std::span<const CompiledForm> compiled_forms() { return compiled().forms; }

std::span<const CompiledForm> compiled_forms(Op op) {
  const Compiled& all = compiled();
  const auto index = static_cast<size_t>(op);
  if (index >= all.by_op.size()) return {};
  return std::span(all.forms).subspan(all.by_op[index].first, all.by_op[index].second);
}

}  // namespace ptxbench::ptx
