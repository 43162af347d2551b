#pragma once

#include <string>

#include "ptx/module.h"

namespace ptxbench::ptx {

/// PTX text of a module: assembles to the same machine code as the text it was parsed from.
std::string print_module(const Module& module);

/// One instruction as in print_module, with guard and semicolon, no indentation: "@%p1 add.u32 %r1, %r2, 4;".
std::string print_instruction(const Module& module, const Function& function, const Instruction& instruction);

}  // namespace ptxbench::ptx
