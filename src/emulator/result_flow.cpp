#include "emulator/result_flow.h"

#include <algorithm>
#include <vector>

#include "emulator/definedness_parts.h"
#include "emulator/instruction_kinds.h"

namespace ptxbench::emulator {
namespace {

using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::StateSpace;

bool multiplies(const Instruction& instruction) {
  return instruction.op == Op::wgmma_mma_async || instruction.op == Op::mma;
}

/// Positions of operands that are plain values: what they hold changes no more than what is stored or returned.
/// -1: none.
struct DataOperands {
  int first = -1, last = -1;
  bool contains(size_t position) const {
    return first >= 0 && position >= static_cast<size_t>(first) && position <= static_cast<size_t>(last);
  }
};
DataOperands data_operands(const Instruction& instruction) {
  const int count = static_cast<int>(instruction.operands.size());
  switch (instruction.op) {
    case Op::st:
    case Op::stmatrix:
    case Op::red:
      return {1, count - 1};
    case Op::atom:
      return {2, count - 1};
    case Op::shfl_sync:
    case Op::movmatrix:
    case Op::redux_sync:
      return {1, 1};
    case Op::mma:
      return {1, count - 1};
    case Op::wgmma_mma_async:
      // A in registers; a descriptor is one register and no vector.
      if (count > 1 && instruction.operands[1].kind == ptx::OperandKind::vector) return {1, 1};
      return {};
    default:
      return {};
  }
}

bool reads_memory(const Instruction& instruction) {
  const StateSpace space = instruction.space();
  if (space == StateSpace::param || space == StateSpace::param_entry || space == StateSpace::param_func ||
      space == StateSpace::const_)
    return false;
  return instruction.op == Op::ld || instruction.op == Op::ldu || instruction.op == Op::atom ||
         instruction.op == Op::ldmatrix;
}
bool writes_memory(const Instruction& instruction) {
  return instruction.op == Op::st || instruction.op == Op::stmatrix || instruction.op == Op::red ||
         instruction.op == Op::atom;
}

class Flow {
 public:
  explicit Flow(const ptx::Function& function) : function_(function), results_(function.registers.size(), false) {}

  /// True: a result decides something.
  bool run() {
    for (bool changed = true; changed;) {
      changed = false;
      for (const Instruction& instruction : function_.instructions) {
        if (decides(instruction)) return true;
        changed = spread(instruction) || changed;
      }
    }
    return false;
  }

 private:
  bool holds_result(const Operand& operand) const {
    bool found = false;
    for_each_register(operand, [&](uint32_t reg) { found = found || results_[reg]; });
    return found;
  }
  bool guard_holds_result(const Instruction& instruction) const {
    return instruction.guard != ptx::kNone && results_[instruction.guard];
  }

  bool decides(const Instruction& instruction) const {
    if (is_arithmetic(instruction.op)) return false;
    if (guard_holds_result(instruction)) return true;
    const DataOperands data = data_operands(instruction);
    for (size_t o = defines_first(instruction) ? 1 : 0; o < instruction.operands.size(); ++o) {
      if (!data.contains(o) && holds_result(instruction.operands[o])) return true;
    }
    return false;
  }

  bool spread(const Instruction& instruction) {
    bool result = multiplies(instruction) || guard_holds_result(instruction) || (reads_memory(instruction) && memory_);
    for (size_t o = defines_first(instruction) ? 1 : 0; o < instruction.operands.size() && !result; ++o)
      result = holds_result(instruction.operands[o]);
    if (!result) return false;
    bool changed = false;
    if (writes_memory(instruction) && !memory_) changed = memory_ = true;
    for_each_write(instruction, [&](uint32_t reg) {
      changed = changed || !results_[reg];
      results_[reg] = true;
    });
    return changed;
  }

  const ptx::Function& function_;
  std::vector<bool> results_;
  bool memory_ = false;
};

}  // namespace

bool tensor_results_decide(const Program& program, uint32_t kernel) {
  const FunctionCode* code = program.functions[kernel].get();
  // Through a call results may take any way.
  if (code == nullptr || code->calls_indirectly || !code->callees.empty()) return true;
  return Flow(*code->source).run();
}

bool uses_tensor_cores(const Program& program, uint32_t kernel) {
  const FunctionCode* code = program.functions[kernel].get();
  if (code == nullptr) return false;
  const auto& instructions = code->source->instructions;
  return std::any_of(instructions.begin(), instructions.end(), multiplies);
}

}  // namespace ptxbench::emulator
