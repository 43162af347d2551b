#pragma once

#include "emulator/program.h"
#include "ptx/module.h"

namespace ptxbench::emulator {

/// Fills semantics and scope of a memory instruction from its modifiers (PTX ISA "Memory Consistency Model").
/// `.volatile` and `.mmio` count as relaxed with system scope; a missing scope is none for weak accesses and
/// `default_scope` otherwise.
void read_semantics(const ptx::Instruction& instruction, MemoryOp& op, Semantics default_semantics = Semantics::weak,
                    Scope default_scope = Scope::none);
Scope scope_of(const ptx::Instruction& instruction, Scope default_scope);

}  // namespace ptxbench::emulator
