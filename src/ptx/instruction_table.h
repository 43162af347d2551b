#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/modifiers.h"
#include "ptx/opcodes.h"
#include "ptx/types.h"

namespace ptxbench::ptx {

/// One syntactic form of an instruction: the single source for parsing, checking, printing, dispatch and the coverage page.
struct InstructionForm {
  Op op = Op::invalid;
  /// Modifiers after the opcode, in PTX order: `{.a}` optional, `(.a|.b)` alternatives, `{.a|.b}` optional alternatives.
  std::string_view modifiers;
  /// Operand contract, see docs/ptx.md for the small language it is written in.
  std::string_view operands;
  uint16_t min_isa = 0;            ///< PTX ISA version * 10 that brought the form (90 = 9.0)
  std::string_view target;         ///< "sm_80", or "sm_90a" for architecture-specific forms
  std::string_view section;        ///< PTX ISA section title the form is described in
};

std::span<const InstructionForm> instruction_table();

}  // namespace ptxbench::ptx
