#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/instruction_table.h"

/// Instructions made from the instruction table: tests hold the table against ptxas with them, and the coverage page
/// asks the emulator about them.
namespace ptxbench::ptx {

struct InstructionSample {
  std::string text;
  std::vector<int> choices;  ///< per slot of the form the chosen modifier, -1 for an optional one that is left out
  std::vector<std::string> operands;
};

/// A module with a kernel `k<i>` for each line, followed by none of its own instructions but a `ret`. Its declarations
/// have registers of every type: `%r1` .b32, `%f1` .f32, `%rd1` .b64, `%p1` .pred, `%h1` .b16, ..., variables sm
/// (.shared), gm (.global), cm (.const), lm (.local), parameters, a label `out`, a `.branchtargets` list and everything
/// a call needs.
std::string sample_module(const std::vector<std::string>& lines, std::string_view target = "sm_90a");

/// Every choice of every modifier once with the usual operands, and every kind of operand once.
std::vector<InstructionSample> samples_of(const CompiledForm& form);
/// Also every pair of modifiers, and every kind of operand with every choice of a modifier.
std::vector<InstructionSample> thorough_samples_of(const CompiledForm& form);

/// Instruction text for given modifiers and operand rules.
std::string sample_instruction(Op op, const std::vector<Mod>& mods, const std::vector<OperandRule>& rules);

}  // namespace ptxbench::ptx
