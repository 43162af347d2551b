#pragma once

#include <cstdint>
#include <vector>

#include "emulator/program.h"

/// Registers that live inside one basic block: most of a compiled kernel's. They can share slots, which keeps a warp's
/// register file in the first-level cache, and code that runs over several instructions at once need not write them.
namespace ptxbench::emulator {

struct RegisterLifetime {
  uint32_t first = ptx::kNone;  ///< PTX instruction that defines it; kNone: lives across blocks or is read undefined
  uint32_t last = ptx::kNone;   ///< PTX instruction that uses it last
  bool block_local() const { return first != ptx::kNone; }
};

/// Whether operand 0 is written and not read, in every alternative of the form's contract.
bool writes_first_operand(const ptx::Instruction& instruction);

/// Per register of the function. Block-local means: the first instruction that names the register writes it in whatever
/// lanes are active (no guard, no own operand), and no other block names it. Registers of asynchronous tensor-core
/// operations are never block-local: they are read and written after their instruction.
std::vector<RegisterLifetime> find_lifetimes(const ptx::Function& function, const std::vector<BasicBlock>& blocks);

}  // namespace ptxbench::emulator
