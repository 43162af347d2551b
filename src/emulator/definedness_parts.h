#pragma once

#include <cstdint>
#include <string_view>

#include "emulator/definedness.h"
#include "emulator/definedness_code.h"
#include "emulator/memory_access.h"

/// What watching and tracking share: operands of an instruction, its memory, what it writes.
namespace ptxbench::emulator {

void for_each_register(const ptx::Operand& operand, const auto& use) {
  if (operand.kind == ptx::OperandKind::reg) use(operand.index);
  for (const ptx::Operand& element : operand.elements) for_each_register(element, use);
}

/// Whether operand 0 is a destination: registers or predicates.
bool defines_first(const ptx::Instruction& instruction);

/// Sources in operand order; wgmma's accumulators are both.
void for_each_read(const ptx::Instruction& instruction, const auto& use) {
  for (size_t o = defines_first(instruction) && instruction.op != ptx::Op::wgmma_mma_async ? 1 : 0;
       o < instruction.operands.size(); ++o) {
    for_each_register(instruction.operands[o], use);
  }
}
void for_each_write(const ptx::Instruction& instruction, const auto& use) {
  if (defines_first(instruction)) for_each_register(instruction.operands[0], use);
}

/// ld, st, atom, red.
bool is_access(ptx::Op op);
/// Which operand of an access is the memory.
size_t address_position(const ptx::Instruction& instruction);
/// Address and size of an access; false if it is to memory that is always initialised.
bool memory_op(Decoder& decoder, const ptx::Instruction& instruction, MemoryOp& op);

/// A piece of memory that an instruction other than a store writes: position of the operand and bytes; 0 if none.
struct WrittenMemory {
  size_t operand = 0;
  uint32_t bytes = 0;
  ptx::StateSpace space = ptx::StateSpace::shared;
};
WrittenMemory written_by(const ptx::Instruction& instruction);

/// Results of a call: library functions write them, and a function's own replace this (Definedness::copy_local).
void emit_call_results(Decoder& decoder, const ptx::Instruction& instruction);

inline Definedness::View view_of(Definedness& definedness, Warp& warp, const Located& where, unsigned lane,
                                 uint32_t bytes) {
  return where.space == Space::local ? Definedness::local_view(warp, lane, where.address, bytes)
                                     : definedness.view(*warp.cluster, where.space, where.address, bytes);
}

std::unique_ptr<DefinednessCode> make_watch_code(Decoder& decoder, std::vector<bool> suspects);
std::unique_ptr<DefinednessCode> make_track_code(Decoder& decoder);

}  // namespace ptxbench::emulator
