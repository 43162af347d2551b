#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ptx/instruction_table.h"

/// Instructions made from the instruction table, for tests that hold the table against ptxas.
namespace ptxbench::ptx {

/// A kernel whose declarations have registers of every type for one line of samples: `%r1` .b32, `%f1` .f32, `%rd1`
/// .b64, `%p1` .pred, `%h1` .b16, ..., variables sm (.shared), gm (.global), cm (.const), lm (.local), parameters.
std::string sample_module(const std::vector<std::string>& lines, std::string_view target = "sm_90a");
/// Line number of sample `index` in sample_module's text.
size_t sample_line(size_t index);

/// Instruction lines of one form: every choice of every modifier once, every operand alternative once.
std::vector<std::string> samples_of(const CompiledForm& form);

/// Instruction text for given modifiers and operand rules.
std::string sample_instruction(Op op, const std::vector<Mod>& mods, const std::vector<OperandRule>& rules);

}  // namespace ptxbench::ptx
