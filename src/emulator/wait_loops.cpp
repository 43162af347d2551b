#include "emulator/wait_loops.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "emulator/definedness_parts.h"
#include "emulator/instruction_kinds.h"

namespace ptxbench::emulator {
namespace {

using ptx::Instruction;
using ptx::Op;
using ptx::SpecialRegister;

bool waits(const Instruction& instruction) {
  return instruction.op == Op::mbarrier_test_wait || instruction.op == Op::mbarrier_try_wait;
}

bool reads_time(const ptx::Operand& operand) {
  if (operand.kind == ptx::OperandKind::special) {
    switch (static_cast<SpecialRegister>(operand.index)) {
      case SpecialRegister::clock:
      case SpecialRegister::clock_hi:
      case SpecialRegister::clock64:
      case SpecialRegister::globaltimer:
      case SpecialRegister::globaltimer_lo:
      case SpecialRegister::globaltimer_hi:
        return true;
      default:
        break;
    }
  }
  return std::any_of(operand.elements.begin(), operand.elements.end(), reads_time);
}

bool tells_time(const Instruction& instruction) {
  if (instruction.op == Op::mbarrier_pending_count || instruction.op == Op::activemask) return true;
  // The state that an arrival returns holds how many others are still to come.
  const bool arrives = instruction.op == Op::mbarrier_arrive || instruction.op == Op::mbarrier_arrive_drop;
  if (arrives && !instruction.operands.empty() && (instruction.operands[0].kind == ptx::OperandKind::reg)) return true;
  return std::any_of(instruction.operands.begin(), instruction.operands.end(), reads_time);
}

class Waits {
 public:
  explicit Waits(const FunctionCode& code) : code_(code), instructions_(code.source->instructions) {}

  bool leave_no_trace() const {
    for (uint32_t b = 0; b < code_.blocks.size(); ++b) {
      const BasicBlock& block = code_.blocks[b];
      for (uint32_t i = block.first; i < block.last; ++i) {
        if (tells_time(instructions_[i]) || (waits(instructions_[i]) && !is_repeated(b))) return false;
      }
    }
    return true;
  }

 private:
  /// The loop from the start of block `first`, which holds the wait, by single ways on to a conditional branch that
  /// goes back to `first` where the wait has failed and on where it has not.
  bool is_repeated(uint32_t first) const {
    std::vector<uint32_t> asks;
    for (uint32_t at = first;; at = code_.blocks[at].successors[0]) {
      if (std::find(asks.begin(), asks.end(), at) != asks.end()) return false;
      asks.push_back(at);
      const size_t ways = code_.blocks[at].successors.size();
      if (ways == 2) break;
      if (ways != 1) return false;
    }
    const BasicBlock& last = code_.blocks[asks.back()];
    if (last.first == last.last) return false;
    const Instruction& branch = instructions_[last.last - 1];
    if (branch.op != Op::bra || branch.guard == ptx::kNone || branch.operands.size() != 1 ||
        branch.operands[0].kind != ptx::OperandKind::label)
      return false;
    const uint32_t taken = code_.label_block[branch.operands[0].index];
    const uint32_t fallen = last.successors[0] == taken ? last.successors[1] : last.successors[0];
    if (taken == fallen) return false;
    const auto answer = answers(asks, branch.guard);
    if (!answer || answer->failed == answer->succeeded) return false;
    const bool taken_on_failure = (answer->failed != 0) != branch.guard_negated;
    return leads_back(taken_on_failure ? taken : fallen, first) &&
           !leads_back(taken_on_failure ? fallen : taken, first);
  }

  /// Nothing on the way but jumps and pauses.
  bool leads_back(uint32_t at, uint32_t first) const {
    for (size_t steps = 0; at != first; ++steps, at = code_.blocks[at].successors[0]) {
      const BasicBlock& block = code_.blocks[at];
      if (block.successors.size() != 1 || steps > code_.blocks.size()) return false;
      for (uint32_t i = block.first; i < block.last; ++i) {
        const Instruction& instruction = instructions_[i];
        if ((instruction.op != Op::bra && instruction.op != Op::nanosleep) || instruction.guard != ptx::kNone)
          return false;
      }
    }
    return true;
  }

  /// What a register holds after a wait that failed, or succeeded, where nothing else decides it.
  struct Answer {
    int64_t failed = 0, succeeded = 1;
  };
  using Known = std::map<uint32_t, Answer>;

  static std::optional<Answer> value_of(const ptx::Operand& operand, const Known& known) {
    if (operand.kind == ptx::OperandKind::integer) {
      // Others may be equal in the instruction's type and not here.
      if (operand.bits > 1) return std::nullopt;
      const auto bits = static_cast<int64_t>(operand.bits);
      return Answer{bits, bits};
    }
    if (operand.kind != ptx::OperandKind::reg || operand.negated) return std::nullopt;
    const auto found = known.find(operand.index);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  }

  /// The same for what an instruction computes from answers and constants; nothing for all others.
  static std::optional<Answer> computed(const Instruction& instruction, const Known& known) {
    const auto& operands = instruction.operands;
    const auto value = [&](size_t o) { return o < operands.size() ? value_of(operands[o], known) : std::nullopt; };
    switch (instruction.type()) {
      case ptx::Type::u32:
      case ptx::Type::s32:
      case ptx::Type::b32:
      case ptx::Type::pred:
        break;
      default:
        return std::nullopt;
    }
    if (instruction.op == Op::mov && operands.size() == 2) return value(1);
    if (instruction.op == Op::selp && operands.size() == 4) {
      const auto yes = value(1), no = value(2), which = value(3);
      if (!yes || !no || !which) return std::nullopt;
      return Answer{which->failed != 0 ? yes->failed : no->failed,
                    which->succeeded != 0 ? yes->succeeded : no->succeeded};
    }
    const bool equal = instruction.has(ptx::Mod::eq), unequal = instruction.has(ptx::Mod::ne);
    if (instruction.op == Op::setp && operands.size() == 3 && equal != unequal) {
      const auto one = value(1), other = value(2);
      if (!one || !other) return std::nullopt;
      return Answer{(one->failed == other->failed) == equal, (one->succeeded == other->succeeded) == equal};
    }
    return std::nullopt;
  }

  /// What `guard` holds at the end of the loop's body. Nothing if it is not for the wait alone to decide, if an
  /// instruction reads what an earlier round wrote, or if anything is done but waiting and computing.
  std::optional<Answer> answers(const std::vector<uint32_t>& blocks, uint32_t guard) const {
    std::vector<const Instruction*> body;
    for (const uint32_t b : blocks) {
      for (uint32_t i = code_.blocks[b].first; i < code_.blocks[b].last; ++i) body.push_back(&instructions_[i]);
    }
    std::set<uint32_t> written_here, written;
    for (const Instruction* instruction : body) {
      for_each_write(*instruction, [&](uint32_t reg) { written_here.insert(reg); });
    }
    Known known;
    bool fresh = true;
    unsigned asked = 0;
    for (const Instruction* instruction : body) {
      for_each_read(*instruction,
                    [&](uint32_t reg) { fresh = fresh && (written.contains(reg) || !written_here.contains(reg)); });
      const bool jumps = instruction->op == Op::bra, asks = waits(*instruction);
      const bool harmless = jumps || asks || instruction->op == Op::nanosleep || is_arithmetic(instruction->op) ||
                            instruction->op == Op::setp || instruction->op == Op::selp;
      // The carry is read and written without being an operand.
      const bool carries = instruction->has(ptx::Mod::cc) || instruction->op == Op::addc ||
                           instruction->op == Op::subc || instruction->op == Op::madc;
      if (!fresh || !harmless || carries ||
          (instruction->guard != ptx::kNone && (!jumps || instruction != body.back())))
        return std::nullopt;
      const auto answer = computed(*instruction, known);
      for_each_write(*instruction, [&](uint32_t reg) {
        written.insert(reg);
        known.erase(reg);
      });
      if (asks) {
        ++asked;
        if (instruction->operands.empty() || instruction->operands[0].kind != ptx::OperandKind::reg)
          return std::nullopt;
        known[instruction->operands[0].index] = Answer{};
      } else if (answer && instruction->operands[0].kind == ptx::OperandKind::reg) {
        known[instruction->operands[0].index] = *answer;
      }
    }
    const auto found = known.find(guard);
    return asked == 1 && found != known.end() ? std::optional(found->second) : std::nullopt;
  }

  const FunctionCode& code_;
  const std::vector<Instruction>& instructions_;
};

}  // namespace

bool waits_leave_no_trace(const Program& program, uint32_t kernel) {
  const FunctionCode* code = program.functions[kernel].get();
  if (code == nullptr || code->calls_indirectly || !code->callees.empty()) return false;
  return Waits(*code).leave_no_trace();
}

}  // namespace ptxbench::emulator
