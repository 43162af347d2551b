#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/instruction_table.h"
#include "ptx/module.h"

/// From an instruction's spelling and operands to its row of the instruction table.
namespace ptxbench::ptx {

struct TargetVersion {
  uint32_t isa = 0;     ///< 90 for PTX ISA 9.0
  uint32_t number = 0;  ///< 90 for sm_90a
  char suffix = 0;      ///< 'a', 'f' or 0
};

/// What an instruction's dotted name means; made once for every distinct spelling of a module.
struct Spelling {
  Op op = Op::invalid;
  std::vector<Mod> mods;
  std::vector<const CompiledForm*> forms;  ///< rows whose modifiers fit and whose target is there; empty on error
  std::string problem;                     ///< set if there are none
  size_t problem_offset = 0;               ///< in the name
};

/// `name` is the whole dotted name, "ld.global.nc.v4.f32".
Spelling resolve_spelling(std::string_view name, const TargetVersion& target);

/// True if `slots` takes exactly these modifiers: in order, or in another order that keeps types and state spaces in
/// sequence (ptxas reads modifiers in any order).
bool match_modifiers(const std::vector<ModifierSlot>& slots, const std::vector<Mod>& mods);

/// Function and module an instruction's operands point into.
struct OperandContext {
  const Module& module;
  const Function& function;
  Type register_type(uint32_t index) const { return function.registers[index].type; }
  const Variable& variable(uint32_t reference) const {
    const uint32_t position = VariableRef::position(reference);
    return VariableRef::is_module(reference) ? module.variables[position] : function.variables[position];
  }
};

/// Chooses the first form whose operand contract the instruction meets and stores it in `instruction.form`; floating
/// constants take the width of their operand's type, `{x}` becomes `x` where a scalar is meant and `x` becomes `{x}`
/// where a matrix fragment of one register is. On failure says in `problem` what was expected, and in `problem_operand`
/// where (-1: the number of operands).
bool match_operands(const Spelling& spelling, const OperandContext& context, Instruction& instruction,
                    std::string& problem, int& problem_operand);

/// Registers in the fragment of a matrix operand and their type; count 0 if the form has no such fragment.
struct FragmentSize {
  uint32_t count = 0;
  Type type = Type::none;
};
FragmentSize fragment_size(Op op, MatrixShape shape, char fragment, Type element);

/// The integer type of twice the width, which a `widened` operand has ("mad.wide.u16": u32); none for other types.
Type widened_type(Type type);

}  // namespace ptxbench::ptx
