#include "emulator/register_facts.h"

#include <algorithm>

#include "emulator/decoder.h"
#include "emulator/isa/uniform.h"

namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::Type;

namespace {

class Analysis {
 public:
  Analysis(const ptx::Function& function, const std::vector<BasicBlock>& blocks)
      : function_(function), blocks_(blocks), divergent_(blocks.size(), false) {
    facts_.varying.assign(function.registers.size(), false);
  }

  RegisterFacts run() {
    for (bool changed = true; changed;) {
      changed = mark_divergent_blocks();
      for (size_t b = 0; b < blocks_.size(); ++b) {
        for (uint32_t i = blocks_[b].first; i < blocks_[b].last; ++i)
          changed = visit(function_.instructions[i], b) || changed;
      }
    }
    find_strides();
    return std::move(facts_);
  }

 private:
  bool reg_varying(uint32_t reg) const { return facts_.varying[reg]; }

  bool operand_varying(const Operand& operand) const {
    switch (operand.kind) {
      case OperandKind::reg:
        return reg_varying(operand.index);
      case OperandKind::special:
        return Decoder::varies_in_aligned_block(static_cast<ptx::SpecialRegister>(operand.index));
      case OperandKind::address:
      case OperandKind::vector:
      case OperandKind::predicate_pair:
        return std::any_of(operand.elements.begin(), operand.elements.end(),
                           [this](const Operand& element) { return operand_varying(element); });
      default:
        return false;
    }
  }

  static void for_each_destination(const Instruction& instruction, const auto& use) {
    if (instruction.operands.empty()) return;
    const Operand& first = instruction.operands[0];
    if (first.kind == OperandKind::reg) use(first.index);
    if (first.kind == OperandKind::vector || first.kind == OperandKind::predicate_pair) {
      for (const Operand& element : first.elements) {
        if (element.kind == OperandKind::reg) use(element.index);
      }
    }
  }

  /// A load gives one value to the warp if its address is one and its memory is the same for all lanes.
  bool uniform_load(const Instruction& instruction) const {
    if (instruction.op != Op::ld && instruction.op != Op::ldu) return false;
    if (instruction.type() == Type::b128) return false;
    const StateSpace space = instruction.space();
    switch (space) {
      case StateSpace::global:
      case StateSpace::shared:
      case StateSpace::shared_cta:
      case StateSpace::shared_cluster:
      case StateSpace::const_:
        return true;
      case StateSpace::param:
      case StateSpace::param_entry:
      case StateSpace::param_func:
        return function_.is_entry && !names_local(instruction);
      default:
        return false;
    }
  }

  /// `.param` variables declared in a body are call parameters and live in each thread's local memory.
  bool names_local(const Instruction& instruction) const {
    const Operand& base = instruction.operands.at(1).elements.at(0);
    if (base.kind != OperandKind::variable || ptx::VariableRef::is_module(base.index)) return false;
    const uint32_t position = ptx::VariableRef::position(base.index);
    return std::find(function_.parameters.begin(), function_.parameters.end(), position) == function_.parameters.end();
  }

  bool keeps_uniform(const Instruction& instruction, size_t block) const {
    if (divergent_[block]) return false;
    if (instruction.guard != ptx::kNone && reg_varying(instruction.guard)) return false;
    if (!uniform_capable(instruction) && !uniform_load(instruction)) return false;
    for (size_t o = 1; o < instruction.operands.size(); ++o) {
      if (operand_varying(instruction.operands[o])) return false;
    }
    return true;
  }

  bool visit(const Instruction& instruction, size_t block) {
    if (keeps_uniform(instruction, block)) return false;
    bool changed = false;
    for_each_destination(instruction, [&](uint32_t reg) {
      if (!facts_.varying[reg]) {
        facts_.varying[reg] = true;
        changed = true;
      }
    });
    return changed;
  }

  /// Blocks between a branch that can split the warp and the place where its lanes meet again.
  bool mark_divergent_blocks() {
    bool changed = false;
    for (size_t b = 0; b < blocks_.size(); ++b) {
      const BasicBlock& block = blocks_[b];
      if (block.last == block.first) continue;
      const Instruction& last = function_.instructions[block.last - 1];
      bool splits = false;
      if (last.op == Op::bra) splits = last.guard != ptx::kNone && reg_varying(last.guard);
      if (last.op == Op::brx_idx) {
        splits = operand_varying(last.operands[0]) || (last.guard != ptx::kNone && reg_varying(last.guard));
      }
      if (!splits) continue;
      if (steps_ > kMaxSteps) {
        // Quadratic in functions of very many blocks: no uniform registers then, which is always right.
        changed = changed || !std::all_of(divergent_.begin(), divergent_.end(), [](bool d) { return d; });
        divergent_.assign(blocks_.size(), true);
        return changed;
      }
      steps_ += blocks_.size() / 64;
      std::vector<uint32_t> work(block.successors.begin(), block.successors.end());
      std::vector<bool> seen(blocks_.size(), false);
      while (!work.empty()) {
        const uint32_t next = work.back();
        work.pop_back();
        if (next == block.post_dominator || seen[next]) continue;
        seen[next] = true;
        ++steps_;
        if (!divergent_[next]) {
          divergent_[next] = true;
          changed = true;
        }
        work.insert(work.end(), blocks_[next].successors.begin(), blocks_[next].successors.end());
      }
    }
    return changed;
  }

  // --- strides
  // ---------------------------------------------------------------------------------------------------------

  static constexpr int64_t kUndetermined = std::numeric_limits<int64_t>::max();

  int64_t operand_stride(const Operand& operand) const {
    switch (operand.kind) {
      case OperandKind::reg:
        return reg_varying(operand.index) ? facts_.stride[operand.index] : 0;
      case OperandKind::special: {
        const auto special = static_cast<ptx::SpecialRegister>(operand.index);
        if (special == ptx::SpecialRegister::tid_x || special == ptx::SpecialRegister::laneid) return 1;
        return Decoder::varies_in_aligned_block(special) ? kNoStride : 0;
      }
      case OperandKind::integer:
      case OperandKind::variable:
        return 0;
      default:
        return kNoStride;
    }
  }

  int64_t result_stride(const Instruction& instruction) const {
    const auto& o = instruction.operands;
    auto known = [](int64_t s) { return s != kNoStride && s != kUndetermined; };
    auto combine = [&](int64_t a, int64_t b, auto op) {
      if (a == kNoStride || b == kNoStride) return kNoStride;
      if (a == kUndetermined || b == kUndetermined) return kUndetermined;
      const int64_t result = op(a, b);
      return result > (1 << 24) || result < -(1 << 24) ? kNoStride : result;
    };
    auto plus = [](int64_t a, int64_t b) { return a + b; };
    auto minus = [](int64_t a, int64_t b) { return a - b; };
    const Type type = instruction.type();
    const bool integer = type_bits(type) >= 32 && type != Type::f32 && type != Type::f64 && type != Type::f16x2 &&
                         type != Type::bf16x2 && type != Type::u16x2 && type != Type::s16x2;
    auto scaled = [&](const Operand& value, const Operand& factor) {
      const int64_t s = operand_stride(value);
      if (s == 0 && operand_stride(factor) == 0) return int64_t{0};
      if (!known(s)) return s;
      if (auto immediate = Decoder::immediate(factor)) {
        if (*immediate > (1 << 24) || *immediate < -(1 << 24)) return kNoStride;
        return combine(s, *immediate, [](int64_t a, int64_t b) { return a * b; });
      }
      return kNoStride;
    };
    switch (instruction.op) {
      case Op::mov:
      case Op::cvta:
        return o[1].kind == OperandKind::vector || o[0].kind == OperandKind::vector ? kNoStride : operand_stride(o[1]);
      case Op::cvt: {
        const Type to = instruction.type(0), from = instruction.type(1);
        const bool widen = (to == Type::u64 || to == Type::s64 || to == Type::u32 || to == Type::s32) &&
                           (from == Type::u32 || from == Type::s32 || from == Type::u64 || from == Type::s64) &&
                           type_bits(to) >= type_bits(from) && !instruction.has(Mod::sat);
        return widen ? operand_stride(o[1]) : kNoStride;
      }
      case Op::add:
        return integer && !instruction.has(Mod::sat) && !instruction.has(Mod::cc)
                   ? combine(operand_stride(o[1]), operand_stride(o[2]), plus)
                   : kNoStride;
      case Op::sub:
        return integer && !instruction.has(Mod::sat) && !instruction.has(Mod::cc)
                   ? combine(operand_stride(o[1]), operand_stride(o[2]), minus)
                   : kNoStride;
      case Op::shl: {
        const auto amount = Decoder::immediate(o[2]);
        if (!integer || !amount || *amount < 0 || *amount > 20) return kNoStride;
        return combine(operand_stride(o[1]), int64_t{1} << *amount, [](int64_t a, int64_t b) { return a * b; });
      }
      case Op::mul:
        if (!integer || instruction.has(Mod::hi)) return kNoStride;
        return o[1].kind == OperandKind::integer ? scaled(o[2], o[1]) : scaled(o[1], o[2]);
      case Op::mad:
        if (!integer || instruction.has(Mod::hi)) return kNoStride;
        return combine(o[1].kind == OperandKind::integer ? scaled(o[2], o[1]) : scaled(o[1], o[2]),
                       operand_stride(o[3]), plus);
      default:
        return kNoStride;
    }
  }

  void find_strides() {
    facts_.stride.assign(function_.registers.size(), kUndetermined);
    for (bool changed = true; changed;) {
      changed = false;
      for (size_t b = 0; b < blocks_.size(); ++b) {
        for (uint32_t i = blocks_[b].first; i < blocks_[b].last; ++i) {
          const Instruction& instruction = function_.instructions[i];
          const bool whole = !divergent_[b] && (instruction.guard == ptx::kNone || !reg_varying(instruction.guard));
          for_each_destination(instruction, [&](uint32_t reg) {
            if (!facts_.varying[reg] || facts_.stride[reg] == kNoStride) return;
            const int64_t s = whole ? result_stride(instruction) : kNoStride;
            if (s == kUndetermined || s == facts_.stride[reg]) return;
            facts_.stride[reg] = facts_.stride[reg] == kUndetermined ? s : kNoStride;
            changed = true;
          });
        }
      }
    }
    for (auto& s : facts_.stride) s = s == kUndetermined ? kNoStride : s;
  }

  const ptx::Function& function_;
  const std::vector<BasicBlock>& blocks_;
  std::vector<bool> divergent_;
  /// Blocks visited in search of divergent ones.
  uint64_t steps_ = 0;
  static constexpr uint64_t kMaxSteps = 50'000'000;
  RegisterFacts facts_;
};

}  // namespace

RegisterFacts analyse_registers(const ptx::Function& function, const std::vector<BasicBlock>& blocks) {
  return Analysis(function, blocks).run();
}

}  // namespace ptxbench::emulator
