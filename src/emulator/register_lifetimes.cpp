#include "emulator/register_lifetimes.h"

#include <algorithm>

#include "ptx/instruction_table.h"

namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;

namespace {

bool asynchronous(Op op) { return op == Op::wgmma_mma_async || op == Op::wgmma_mma_async_sp; }

void for_each_register(const Operand& operand, const auto& use) {
  if (operand.kind == OperandKind::reg) use(operand.index);
  for (const Operand& element : operand.elements) for_each_register(element, use);
}

}  // namespace

bool writes_first_operand(const Instruction& instruction) {
  if (instruction.form == nullptr) return false;
  std::string_view contract = instruction.form->operands;
  for (;;) {
    while (!contract.empty() && contract.front() == ' ') contract.remove_prefix(1);
    if (contract.empty() || std::string_view("dDeE").find(contract.front()) == std::string_view::npos) return false;
    const size_t bar = contract.find('|');
    if (bar == std::string_view::npos) return true;
    contract.remove_prefix(bar + 1);
  }
}

std::vector<RegisterLifetime> find_lifetimes(const ptx::Function& function, const std::vector<BasicBlock>& blocks) {
  constexpr uint32_t kEverywhere = ptx::kNone - 1;
  std::vector<RegisterLifetime> lifetimes(function.registers.size());
  std::vector<uint32_t> home(function.registers.size(), ptx::kNone);  // the block that names the register
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    for (uint32_t i = blocks[b].first; i < blocks[b].last; ++i) {
      const Instruction& instruction = function.instructions[i];
      const auto read = [&](uint32_t reg) {
        if (home[reg] == b) {
          lifetimes[reg].last = i;
        } else {
          home[reg] = kEverywhere;
        }
      };
      const auto write = [&](uint32_t reg) {
        if (home[reg] == ptx::kNone) {
          home[reg] = b;
          lifetimes[reg].first = i;
        }
        read(reg);
      };
      if (instruction.guard != ptx::kNone) read(instruction.guard);
      const bool defines =
          instruction.guard == ptx::kNone && !asynchronous(instruction.op) && writes_first_operand(instruction);
      for (size_t o = defines ? 1 : 0; o < instruction.operands.size(); ++o)
        for_each_register(instruction.operands[o], read);
      if (defines) for_each_register(instruction.operands[0], write);
      if (asynchronous(instruction.op)) {
        for (const Operand& operand : instruction.operands)
          for_each_register(operand, [&](uint32_t reg) { home[reg] = kEverywhere; });
      }
    }
  }
  for (size_t r = 0; r < lifetimes.size(); ++r) {
    if (home[r] == ptx::kNone || home[r] == kEverywhere) lifetimes[r] = {};
  }
  return lifetimes;
}

}  // namespace ptxbench::emulator
