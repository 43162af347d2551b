#include "ptx/printer.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <iterator>

#include <fmt/format.h>

#include "ptx/names.h"

namespace ptxbench::ptx {
namespace {

class Printer {
 public:
  explicit Printer(const Module& module) : module_(module) {}

  std::string run() {
    out_ += fmt::format(".version {}.{}\n.target {}", module_.version_major, module_.version_minor, module_.target);
    for (const std::string& option : module_.target_options) out_ += ", " + option;
    out_ += fmt::format("\n.address_size {}\n\n", module_.address_size);
    for (const Module::Item& item : module_.items) {
      switch (item.kind) {
        case Module::Item::Kind::text:
          out_ += item.text + "\n";
          break;
        case Module::Item::Kind::variable:
          variable(module_.variables[item.index], item.text == "extern");
          out_ += ";\n";
          break;
        case Module::Item::Kind::function:
          function(module_.functions[item.index], item.text == "declaration");
          break;
      }
    }
    return std::move(out_);
  }

  std::string one(const Function& function, const Instruction& made) {
    instruction(function, made);
    return std::move(out_);
  }

 private:
  void add(std::string_view text) { out_ += text; }
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  /// `extern_declaration`: the declaration that came before the variable's definition.
  void variable(const Variable& made, bool extern_declaration) {
    if (!made.declaration_text.empty()) return add(made.declaration_text);
    if (made.is_extern || extern_declaration) add(".extern ");
    if (made.is_visible) add(".visible ");
    if (made.is_weak) add(".weak ");
    if (made.is_common) add(".common ");
    add(".{}", space_text(made.space));
    if (!made.attributes.empty()) {
      add(" .attribute(");
      for (size_t i = 0; i < made.attributes.size(); ++i) add("{}{}", i == 0 ? "" : ", ", made.attributes[i]);
      add(")");
    }
    const uint64_t natural = type_bits(made.type) / 8 * made.vector;
    // A parameter's type comes before .ptr, its own alignment before the type.
    if (made.alignment != natural || !made.dimensions.empty()) add(" .align {}", made.alignment);
    if (made.vector > 1) add(" .v{}", made.vector);
    add(" .{}", type_name(made.type));
    if (made.pointer) {
      add(" .ptr");
      if (made.pointer_space != StateSpace::generic) add(" .{}", space_text(made.pointer_space));
      if (made.pointer_alignment != 0) add(" .align {}", made.pointer_alignment);
    }
    add(" {}", made.name);
    const bool open = extern_declaration && !made.is_extern;
    for (size_t i = 0; i < made.dimensions.size(); ++i) {
      if (made.dimensions[i] == 0 || (open && i == 0))
        add("[]");
      else
        add("[{}]", made.dimensions[i]);
    }
    if (!extern_declaration && !made.data.empty()) initialiser(made);
  }

  void initialiser(const Variable& made) {
    const uint64_t bytes = type_bits(made.type) / 8;
    uint64_t count = made.size / bytes;
    const auto is_zero = [&](uint64_t element) {
      for (uint64_t i = element * bytes; i < (element + 1) * bytes; ++i)
        if (made.data[i] != std::byte{0}) return false;
      return true;
    };
    uint64_t relocated = 0;
    for (const auto& relocation : made.relocations) relocated = std::max(relocated, relocation.offset / bytes + 1);
    while (count > std::max<uint64_t>(relocated, 1) && is_zero(count - 1)) --count;
    add(" = ");
    if (made.dimensions.empty() && made.vector == 1) return element(made, 0, bytes);
    // Flat braces only where the variable has one level; nested ones otherwise.
    std::vector<uint64_t> extents(made.dimensions.begin(), made.dimensions.end());
    if (made.vector > 1) extents.push_back(made.vector);
    std::vector<uint64_t> span(extents.size());
    uint64_t product = 1;
    for (size_t i = extents.size(); i-- > 0;) {
      product *= extents[i];
      span[i] = product;
    }
    braces(made, span, 0, 0, count, bytes);
  }

  void braces(const Variable& made, const std::vector<uint64_t>& span, size_t level, uint64_t first, uint64_t count,
              uint64_t bytes) {
    add("{");
    const bool last = level + 1 == span.size();
    // Trailing zeros may be left out, but not inside a vector.
    const bool whole = last && made.vector > 1;
    const uint64_t end = whole ? first + span[level] : std::min(first + span[level], count);
    const uint64_t step = last ? 1 : span[level + 1];
    for (uint64_t at = first; at < end; at += step) {
      if (at > first) add(", ");
      if (last)
        element(made, at, bytes);
      else
        braces(made, span, level + 1, at, count, bytes);
    }
    add("}");
  }

  void element(const Variable& made, uint64_t index, uint64_t bytes) {
    const uint64_t offset = index * bytes;
    const auto found = std::lower_bound(made.relocations.begin(), made.relocations.end(), offset,
                                        [](const Variable::Relocation& a, uint64_t b) { return a.offset < b; });
    if (found != made.relocations.end() && found->offset == offset) {
      if (found->mask != 0) add("0x{:X}(", found->mask);
      if (found->generic)
        add("generic({})", found->symbol);
      else
        add(found->symbol);
      if (found->addend != 0) add("+{}", found->addend);
      if (found->mask != 0) add(")");
      return;
    }
    uint64_t bits = 0;
    for (uint64_t i = std::min<uint64_t>(bytes, 8); i-- > 0;)
      bits = bits << 8 | std::to_integer<uint64_t>(made.data[offset + i]);
    if (made.type == Type::f32)
      add("0f{:08X}", bits);
    else if (made.type == Type::f64)
      add("0d{:016X}", bits);
    else
      add("{}", bits);
  }

  void parameters(const Function& made, const std::vector<uint32_t>& indices) {
    add("(");
    for (size_t i = 0; i < indices.size(); ++i) {
      if (i > 0) add(",\n  ");
      variable(made.variables[indices[i]], false);
    }
    add(")");
  }

  void function(const Function& made, bool declaration) {
    if (made.is_extern) add(".extern ");
    if (made.is_visible) add(".visible ");
    if (made.is_weak) add(".weak ");
    add(made.is_entry ? ".entry " : ".func ");
    if (!made.returns.empty()) {
      parameters(made, made.returns);
      add(" ");
    }
    add(made.name);
    // A function takes "()" or nothing alike.
    if (!made.parameters.empty() || !made.is_entry) parameters(made, made.parameters);
    for (const std::string& directive : made.directives) {
      if (declaration && directive != ".noreturn") continue;
      add("\n{}", directive);
    }
    if (declaration) return add(";\n");
    add("\n{\n");
    for (const Statement& statement : made.statements) {
      switch (statement.kind) {
        case StatementKind::instruction:
          add("  ");
          instruction(made, made.instructions[statement.index]);
          add("\n");
          break;
        case StatementKind::label:
          add("{}:\n", made.labels[statement.index].name);
          break;
        case StatementKind::scope_open:
          add("{\n");
          break;
        case StatementKind::scope_close:
          add("}\n");
          break;
        case StatementKind::declare_variable:
          add("  ");
          variable(made.variables[statement.index], false);
          add(";\n");
          break;
        case StatementKind::declare_registers:
        case StatementKind::location:
        case StatementKind::directive:
          add("  {}\n", statement.text);
          break;
      }
    }
    add("}\n\n");
  }

  void instruction(const Function& function, const Instruction& made) {
    if (made.guard != kNone) add("@{}{} ", made.guard_negated ? "!" : "", function.registers[made.guard].name);
    add(opcode_text(made.op));
    for (const Mod mod : made.mods) {
      add(".");
      add(modifier_text(mod));
    }
    if (made.op == Op::call) {
      call(function, made);
    } else {
      for (size_t i = 0; i < made.operands.size(); ++i) {
        add(i == 0 ? " " : ", ");
        operand(function, made.operands[i]);
      }
    }
    add(";");
  }

  void call(const Function& function, const Instruction& made) {
    const auto list = [&](const Operand& operands) {
      add("(");
      for (size_t i = 0; i < operands.elements.size(); ++i) {
        if (i > 0) add(", ");
        operand(function, operands.elements[i]);
      }
      add(")");
    };
    add(" ");
    if (!made.operands[0].elements.empty()) {
      list(made.operands[0]);
      add(", ");
    }
    operand(function, made.operands[1]);
    if (!made.operands[2].elements.empty()) {
      add(", ");
      list(made.operands[2]);
    }
    if (made.operands.size() > 3) {
      add(", ");
      operand(function, made.operands[3]);
    }
  }

  void sequence(const Function& function, const std::vector<Operand>& elements, std::string_view separator) {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i > 0) add(separator);
      operand(function, elements[i]);
    }
  }

  void operand(const Function& function, const Operand& made) {
    const bool braces = !made.text.empty();
    if (braces) add("{");
    if (made.negated) add("!");
    switch (made.kind) {
      case OperandKind::reg:
        add(function.registers[made.index].name);
        break;
      case OperandKind::predicate_pair:
        sequence(function, made.elements, "|");
        break;
      case OperandKind::integer:
        add("{}", static_cast<int64_t>(made.bits));
        break;
      case OperandKind::floating:
        if (made.is_f32)
          add("0f{:08X}", made.bits);
        else
          add("0d{:016X}", made.bits);
        break;
      case OperandKind::special:
        add(special_register_text(static_cast<SpecialRegister>(made.index)));
        break;
      case OperandKind::variable:
        add(variable_name(function, made.index));
        if (made.bits != 0) add("+{}", static_cast<int64_t>(made.bits));
        break;
      case OperandKind::label:
      case OperandKind::target_list:
        add(function.labels[made.index].name);
        break;
      case OperandKind::function:
        add(module_.functions[made.index].name);
        break;
      case OperandKind::address:
        add("[");
        operand(function, made.elements[0]);
        if (made.bits != 0) add("+{}", static_cast<int64_t>(made.bits));
        if (made.elements.size() > 1) {
          add(", ");
          operand(function, made.elements[1]);
        }
        add("]");
        break;
      case OperandKind::vector:
        add("{");
        sequence(function, made.elements, ", ");
        add("}");
        break;
      case OperandKind::sink:
        add("_");
        break;
    }
    if (made.suffix != Mod::none) {
      add(".");
      add(modifier_text(made.suffix));
    }
    if (braces) add("}");
  }

  std::string_view variable_name(const Function& function, uint32_t index) const {
    const uint32_t position = VariableRef::position(index);
    return VariableRef::is_module(index) ? module_.variables[position].name : function.variables[position].name;
  }

  const Module& module_;
  std::string out_;
};

}  // namespace

std::string print_module(const Module& module) { return Printer(module).run(); }

std::string print_instruction(const Module& module, const Function& function, const Instruction& instruction) {
  return Printer(module).one(function, instruction);
}

}  // namespace ptxbench::ptx
