#include "emulator/definedness_code.h"

#include <algorithm>
#include <cstring>

#include "emulator/definedness_parts.h"
#include "emulator/isa/engine.h"

namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;

bool defines_first(const Instruction& instruction) {
  if (instruction.form == nullptr || instruction.operands.empty()) return false;
  std::string_view contract = instruction.form->operands;
  while (!contract.empty() && contract.front() == ' ') contract.remove_prefix(1);
  return !contract.empty() && std::string_view("dDeEPQ").find(contract.front()) != std::string_view::npos;
}

size_t address_position(const Instruction& instruction) {
  return instruction.op == Op::st || instruction.op == Op::red ? 0 : 1;
}

bool is_access(Op op) { return op == Op::ld || op == Op::ldu || op == Op::st || op == Op::atom || op == Op::red; }

bool memory_op(Decoder& decoder, const Instruction& instruction, MemoryOp& op) {
  const size_t position = address_position(instruction);
  const size_t data = instruction.op == Op::st || instruction.op == Op::red ? 1 : instruction.op == Op::atom ? 2 : 0;
  const Operand& value = instruction.operands.at(data);
  op.element_bytes = type_bits(instruction.type()) / 8;
  op.elements = value.kind == OperandKind::vector ? static_cast<unsigned>(value.elements.size()) : 1;
  op.bytes = op.element_bytes * op.elements;
  decoder.memory_address(instruction.operands.at(position), instruction.space(), op);
  const bool parameter =
      op.space == StateSpace::param || op.space == StateSpace::param_entry || op.space == StateSpace::param_func;
  return !parameter && op.space != StateSpace::const_ && op.bytes != 0 && op.bytes <= 32;
}

WrittenMemory written_by(const Instruction& instruction) {
  switch (instruction.op) {
    case Op::mbarrier_init:
      return {0, 8, instruction.space()};
    case Op::tensormap_replace:
      return {0, 128, instruction.space()};
    case Op::tensormap_cp_fenceproxy:
      return {0, 128, StateSpace::global};
    default:
      return {};
  }
}

namespace {

struct LocalRange {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

const Inst* define_results(Warp& warp, const Inst& inst) {
  const auto& ranges = *static_cast<const std::vector<LocalRange>*>(inst.extra);
  for (const LocalRange& range : ranges) {
    for_each_lane(warp.mask, [&](unsigned lane) {
      const auto view = Definedness::local_view(warp, lane, warp.frame->local_base + range.offset, range.bytes);
      Definedness::mark(view, range.bytes);
      if (view.undefined != nullptr) std::memset(view.undefined, 0, range.bytes);
    });
  }
  return &inst + 1;
}

}  // namespace

void emit_call_results(Decoder& decoder, const Instruction& instruction) {
  std::vector<LocalRange> ranges;
  for (const Operand& element : instruction.operands.at(0).elements) {
    if (element.kind != OperandKind::variable || ptx::VariableRef::is_module(element.index)) continue;
    const uint32_t variable = ptx::VariableRef::position(element.index);
    const uint64_t offset = decoder.code().local_offset[variable];
    if (offset != kNone64)
      ranges.push_back({offset, static_cast<uint32_t>(decoder.function().variables[variable].size)});
  }
  if (!ranges.empty()) decoder.emit({&define_results, &define_results}).extra = decoder.keep(std::move(ranges));
}

std::vector<bool> maybe_unassigned(const ptx::Function& function, const std::vector<BasicBlock>& blocks,
                                   const std::vector<RegisterLifetime>& lifetimes) {
  const size_t registers = function.registers.size();
  std::vector<bool> found(registers, false);
  // Registers that live inside one block are written first, by their definition.
  std::vector<uint32_t> number(registers, ptx::kNone);
  uint32_t count = 0;
  for (size_t r = 0; r < registers; ++r) {
    if (!lifetimes[r].block_local()) number[r] = count++;
  }
  if (count == 0 || blocks.empty()) return found;
  const size_t words = (count + 63) / 64;
  using Set = std::vector<uint64_t>;
  // Per block: registers that may hold nothing when it begins, and those it certainly writes.
  std::vector<Set> open(blocks.size(), Set(words, 0)), written(blocks.size(), Set(words, 0));
  std::vector<bool> reached(blocks.size(), false);
  const auto certainly_writes = [&](const Instruction& instruction, const auto& use) {
    if (instruction.guard == ptx::kNone) for_each_write(instruction, use);
  };
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (uint32_t i = blocks[b].first; i < blocks[b].last; ++i) {
      certainly_writes(function.instructions[i], [&](uint32_t reg) {
        if (number[reg] != ptx::kNone) written[b][number[reg] / 64] |= 1ull << (number[reg] % 64);
      });
    }
  }
  for (uint32_t r = 0; r < count; ++r) open[0][r / 64] |= 1ull << (r % 64);
  reached[0] = true;
  std::vector<uint32_t> work{0};
  while (!work.empty()) {
    const uint32_t b = work.back();
    work.pop_back();
    for (const uint32_t next : blocks[b].successors) {
      bool changed = !reached[next];
      reached[next] = true;
      for (size_t w = 0; w < words; ++w) {
        const uint64_t out = open[b][w] & ~written[b][w];
        changed = changed || (out & ~open[next][w]) != 0;
        open[next][w] |= out;
      }
      if (changed) work.push_back(next);
    }
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (!reached[b]) continue;
    Set now = open[b];
    const auto check = [&](uint32_t reg) {
      if (number[reg] != ptx::kNone && (now[number[reg] / 64] >> (number[reg] % 64) & 1) != 0) found[reg] = true;
    };
    for (uint32_t i = blocks[b].first; i < blocks[b].last; ++i) {
      const Instruction& instruction = function.instructions[i];
      if (instruction.guard != ptx::kNone) check(instruction.guard);
      for_each_read(instruction, check);
      certainly_writes(instruction, [&](uint32_t reg) {
        if (number[reg] != ptx::kNone) now[number[reg] / 64] &= ~(1ull << (number[reg] % 64));
      });
    }
  }
  return found;
}
std::unique_ptr<DefinednessCode> DefinednessCode::create(Decoder& decoder) {
  switch (decoder.program().definedness) {
    case DefinednessMode::watch: {
      std::vector<RegisterLifetime> lifetimes;
      for (uint32_t r = 0; r < decoder.function().registers.size(); ++r) lifetimes.push_back(decoder.lifetime(r));
      return make_watch_code(decoder, maybe_unassigned(decoder.function(), decoder.code().blocks, lifetimes));
    }
    case DefinednessMode::track:
      return make_track_code(decoder);
    default:
      return nullptr;
  }
}

}  // namespace ptxbench::emulator
