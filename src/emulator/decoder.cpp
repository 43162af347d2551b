#include "emulator/decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "emulator/definedness_code.h"
#include "emulator/isa/control.h"
#include "emulator/isa/fused.h"
#include "emulator/isa/lanes.h"
#include "ptx/names.h"

namespace ptxbench::emulator {

using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::Type;

namespace {

/// Register file of one activation. Large unrolled kernels stay below a tenth of it.
constexpr uint32_t kMaxFrameBytes = 64u << 20;
constexpr uint32_t kNoSlot = 0xffffffffu;

unsigned storage_bits(unsigned bits) {
  if (bits <= 1) return 1;
  return bits <= 16 ? 16 : bits <= 32 ? 32 : bits <= 64 ? 64 : 128;
}

bool is_control(ptx::Op op) {
  using ptx::Op;
  return op == Op::bra || op == Op::brx_idx || op == Op::exit || op == Op::ret || op == Op::call;
}

template <class T>
struct BroadcastOp {
  static T apply(T value) { return value; }
};

HandlerPair broadcast_handlers(unsigned bits) {
  constexpr unsigned kUniform = 1;
  if (bits == 16)
    return {&detail::LaneHandler<BroadcastOp<uint16_t>, uint16_t, kUniform, uint16_t>::full,
            &detail::LaneHandler<BroadcastOp<uint16_t>, uint16_t, kUniform, uint16_t>::full};
  if (bits == 32)
    return {&detail::LaneHandler<BroadcastOp<uint32_t>, uint32_t, kUniform, uint32_t>::full,
            &detail::LaneHandler<BroadcastOp<uint32_t>, uint32_t, kUniform, uint32_t>::full};
  return {&detail::LaneHandler<BroadcastOp<uint64_t>, uint64_t, kUniform, uint64_t>::full,
          &detail::LaneHandler<BroadcastOp<uint64_t>, uint64_t, kUniform, uint64_t>::full};
}

struct RegisterUse {
  std::vector<uint32_t> reads, writes;  ///< offsets in the register file
};

const Inst* observe_registers(Warp& warp, const Inst& inst) {
  const auto& use = *static_cast<const RegisterUse*>(inst.extra);
  if (Observer* observer = warp.cluster->launch->observer) {
    observer->on_registers({agent_of(warp, warp.mask), site_of(warp, inst), use.reads, use.writes});
  }
  return &inst + 1;
}

const Inst* negate_predicate(Warp& warp, const Inst& inst) {
  *warp.slot<uint32_t>(inst.dst) = ~*warp.slot<uint32_t>(inst.src[0]);
  return &inst + 1;
}

}  // namespace

Decoder::Decoder(Program& program, FunctionCode& code, const FunctionCode* specialised)
    : program_(program), code_(code), general_(specialised != nullptr), first_(specialised == nullptr) {
  next_counter_ = general_ ? specialised->counter_base : program.counters;
  next_guard_ = general_ ? specialised->guard_counter_base : program.guard_counters;
  code_.counter_base = next_counter_;
  code_.guard_counter_base = next_guard_;
  // Undefined bits are followed per lane and register: no scalars, no shared slots.
  general_ = general_ || program.definedness == DefinednessMode::track;
}
Decoder::~Decoder() = default;

const FunctionCode& general_code(const Program& program, const FunctionCode& code) {
  // Decoding touches only the new FunctionCode, so the loaded program may stay const for everybody else.
  auto& mutable_program = const_cast<Program&>(program);
  auto& owner = *mutable_program.functions[code.index];
  std::call_once(owner.general_once, [&] {
    auto general = std::make_unique<FunctionCode>();
    general->index = owner.index;
    general->source = owner.source;
    general->site_base = owner.site_base;
    general->local_offset = owner.local_offset;
    general->local_bytes = owner.local_bytes;
    general->parameter_offset = owner.parameter_offset;
    general->parameter_bytes = owner.parameter_bytes;
    Decoder(mutable_program, *general, &owner).run();
    owner.general = std::move(general);
  });
  return *owner.general;
}

uint32_t Decoder::allocate(unsigned bytes, unsigned alignment) {
  // General code needs up to 32 times the space, since it has no uniform slots: it stays below 4 GiB.
  if (next_offset_ > (general_ ? 0xf000'0000u : kMaxFrameBytes)) {
    throw std::length_error(
        fmt::format("{} needs more than {} MiB of registers per warp", function().name, kMaxFrameBytes >> 20));
  }
  next_offset_ = (next_offset_ + alignment - 1) / alignment * alignment;
  const uint32_t offset = next_offset_;
  next_offset_ += bytes;
  return offset;
}

Slot Decoder::scratch(unsigned bits, Shape shape) {
  bits = storage_bits(bits);
  if (bits == 1) return {allocate(8, 8), Shape::vector};
  if (shape == Shape::uniform) return {allocate(bits == 128 ? 16 : 8, 16), Shape::uniform};
  return {allocate(bits / 8 * kLanes, 64), Shape::vector};
}

Slot Decoder::constant(uint64_t low, uint64_t high) {
  auto [it, inserted] = constant_index_.try_emplace({low, high}, 0);
  if (inserted) {
    it->second = allocate(high != 0 ? 16 : 8, high != 0 ? 16 : 8);
    uniform_constants_.push_back({it->second, {low, high}});
  }
  return {it->second, Shape::uniform};
}

Slot Decoder::vector_constant(uint64_t bits, unsigned element_bits) {
  element_bits = storage_bits(element_bits);
  auto [it, inserted] = vector_constant_index_.try_emplace({bits, element_bits}, 0);
  if (inserted) {
    it->second = allocate(element_bits / 8 * kLanes, 64);
    vector_constants_.push_back({it->second, bits, element_bits});
  }
  return {it->second, Shape::vector};
}

std::optional<int64_t> Decoder::immediate(const Operand& operand) {
  if (operand.kind == OperandKind::integer) return static_cast<int64_t>(operand.bits);
  return std::nullopt;
}

uint64_t Decoder::immediate_bits(const Operand& operand, Type type) const {
  if (operand.kind == OperandKind::floating) {
    if (type == Type::f32 && !operand.is_f32) {
      return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits)));
    }
    if (type == Type::f64 && operand.is_f32) {
      return std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(operand.bits))));
    }
  }
  return operand.bits;
}

bool Decoder::is_lane_varying(ptx::SpecialRegister special) {
  using S = ptx::SpecialRegister;
  switch (special) {
    case S::tid_x:
    case S::tid_y:
    case S::tid_z:
    case S::laneid:
    case S::lanemask_eq:
    case S::lanemask_le:
    case S::lanemask_lt:
    case S::lanemask_ge:
    case S::lanemask_gt:
      return true;
    default:
      return false;
  }
}

bool Decoder::varies_in_aligned_block(ptx::SpecialRegister special) {
  return is_lane_varying(special) && special != ptx::SpecialRegister::tid_y && special != ptx::SpecialRegister::tid_z;
}

bool Decoder::is_dynamic(ptx::SpecialRegister special) {
  using S = ptx::SpecialRegister;
  switch (special) {
    case S::clock:
    case S::clock_hi:
    case S::clock64:
    case S::globaltimer:
    case S::globaltimer_lo:
    case S::globaltimer_hi:
      return true;
    default:
      return false;
  }
}

Slot Decoder::special_register(ptx::SpecialRegister special) {
  const std::string_view spelling = ptx::special_register_text(special);
  if (spelling.starts_with("%envreg") || spelling.starts_with("%pm")) {
    throw std::runtime_error(fmt::format("the special register {} is not modelled", spelling));
  }
  auto [it, inserted] = special_index_.try_emplace(special);
  if (inserted) {
    const bool varying = general_ ? is_lane_varying(special) : varies_in_aligned_block(special);
    it->second = scratch(32, varying ? Shape::vector : Shape::uniform);
    code_.specials.push_back({special, it->second.offset, it->second.shape});
  }
  return it->second;
}

std::pair<Slot, StateSpace> Decoder::variable_address(const Operand& operand) {
  const auto addend = static_cast<int64_t>(operand.bits);
  auto address_slot = [&](FunctionCode::AddressKind kind, uint64_t value) {
    auto [it, inserted] = address_index_.try_emplace({static_cast<int>(kind), value, addend});
    if (inserted) {
      it->second = scratch(64, Shape::uniform);
      code_.addresses.push_back({kind, it->second.offset, value, addend});
      if (kind == FunctionCode::AddressKind::shared_variable) {
        code_.shared_variables.push_back(static_cast<uint32_t>(value));
      }
    }
    return it->second;
  };
  const uint32_t position = ptx::VariableRef::position(operand.index);
  if (ptx::VariableRef::is_module(operand.index)) {
    const ptx::Variable& variable = module().variables[position];
    const uint64_t where = program_.variable_address[position];
    if (variable.space == StateSpace::shared) {
      return {address_slot(FunctionCode::AddressKind::shared_variable, where), StateSpace::shared};
    }
    return {constant(where + static_cast<uint64_t>(addend)), variable.space};
  }
  const ptx::Variable& variable = function().variables[position];
  if (variable.space == StateSpace::shared) {
    return {address_slot(FunctionCode::AddressKind::shared_variable, program_.function_shared[code_.index][position]),
            StateSpace::shared};
  }
  if (function().is_entry &&
      std::find(function().parameters.begin(), function().parameters.end(), position) != function().parameters.end()) {
    const auto which = std::find(function().parameters.begin(), function().parameters.end(), position);
    const auto order = static_cast<size_t>(which - function().parameters.begin());
    return {address_slot(FunctionCode::AddressKind::parameter, code_.parameter_offset[order]), StateSpace::param};
  }
  return {address_slot(FunctionCode::AddressKind::local, code_.local_offset[position]), StateSpace::local};
}

Slot Decoder::source(const Operand& operand, Type type) {
  switch (operand.kind) {
    case OperandKind::reg:
      if (operand.negated) return predicate(operand);
      return code_.registers[operand.index];
    case OperandKind::integer:
      if (type == Type::pred) return constant(operand.bits != 0 ? kFullMask : 0);
      return constant(operand.bits);
    case OperandKind::floating:
      return constant(immediate_bits(operand, type));
    case OperandKind::special:
      if (is_dynamic(static_cast<ptx::SpecialRegister>(operand.index))) {
        throw std::runtime_error("a clock register as an operand of anything but mov");
      }
      return special_register(static_cast<ptx::SpecialRegister>(operand.index));
    case OperandKind::variable:
      return variable_address(operand).first;
    case OperandKind::function:
      // A function "address" is its index + 1, tagged so that calls through wild pointers are recognised.
      code_.calls_indirectly = true;
      return constant(kFunctionPointerTag | operand.index);
    case OperandKind::label:
    case OperandKind::target_list:
    case OperandKind::address:
    case OperandKind::vector:
    case OperandKind::predicate_pair:
    case OperandKind::sink:
      break;
  }
  throw std::runtime_error("operand form");
}

Slot Decoder::vector_source(const Operand& operand, Type type) {
  const unsigned bits = storage_bits(operand_bits(operand, type));
  if (operand.kind == OperandKind::integer || operand.kind == OperandKind::floating) {
    if (bits == 1) return source(operand, type);
    return vector_constant(immediate_bits(operand, type), bits);
  }
  const Slot slot = source(operand, type);
  if (slot.shape == Shape::vector || bits == 1) return slot;
  if (bits == 128) throw std::runtime_error("128-bit uniform operand");
  const Slot wide = scratch(bits);
  Inst& inst = emit(broadcast_handlers(bits));
  inst.dst = wide.offset;
  inst.src[0] = slot.offset;
  return wide;
}

Slot Decoder::destination(const Operand& operand, Type type) {
  if (operand.kind == OperandKind::sink) return scratch(std::max(type_bits(type), 1u));
  if (operand.kind != OperandKind::reg) throw std::runtime_error("destination is not a register");
  return code_.registers[operand.index];
}

Slot Decoder::vector_destination(const Operand& operand, Type type) {
  const Slot slot = destination(operand, type);
  if (slot.shape != Shape::vector) throw std::logic_error("uniform destination of an opcode without uniform handlers");
  return slot;
}

unsigned Decoder::operand_bits(const Operand& operand, Type type) const {
  if (operand.kind == OperandKind::reg) return type_bits(function().registers[operand.index].type);
  if (operand.kind == OperandKind::special) return 32;
  return type_bits(type);
}

Slot Decoder::predicate(const Operand& operand) {
  if (operand.kind == OperandKind::integer) return source(operand, Type::pred);
  const Slot slot = code_.registers[operand.index];
  if (!operand.negated) return slot;
  const Slot inverted = scratch(1);
  Inst& inst = emit({&negate_predicate, &negate_predicate});
  inst.dst = inverted.offset;
  inst.src[0] = slot.offset;
  return inverted;
}

void Decoder::memory_address(const Operand& operand, StateSpace space, MemoryOp& op) {
  if (operand.kind != OperandKind::address || operand.elements.empty()) throw std::runtime_error("memory operand");
  const Operand& base = operand.elements[0];
  op.space = space;
  op.offset = static_cast<int64_t>(operand.bits);
  if (base.kind == OperandKind::variable) {
    auto [slot, where] = variable_address(base);
    op.address = slot;
    op.address_bits = 64;
    if (where == StateSpace::local && (space == StateSpace::param || space == StateSpace::param_func)) {
      op.space = StateSpace::local;  // call parameters live in the thread's local memory
    }
    if (space == StateSpace::generic) {
      // A variable named directly in a generic access: PTX takes its address in its own space.
      op.space = where;
    }
    return;
  }
  if (base.kind == OperandKind::integer) {
    op.address = constant(base.bits);
    op.address_bits = 64;
    return;
  }
  op.address = source(base, Type::b64);
  op.address_bits = operand_bits(base, Type::b64);
  if (!general_ && base.kind == OperandKind::reg && op.address.shape == Shape::vector && facts_.varying[base.index]) {
    op.stride = facts_.stride[base.index];
  }
}

Inst& Decoder::emit(HandlerPair handlers) {
  Inst inst;
  inst.full = handlers.full;
  inst.masked = handlers.masked;
  inst.site = site_;
  code_.code.push_back(inst);
  return code_.code.back();
}

void Decoder::unsupported(std::string reason) {
  Inst& inst = emit({&unsupported_handler, &unsupported_handler});
  inst.extra = keep(std::move(reason));
}

void Decoder::build_blocks() {
  const auto& instructions = function().instructions;
  const auto count = static_cast<uint32_t>(instructions.size());
  std::vector<bool> leader(count + 1, false);
  leader[0] = true;
  for (const auto& label : function().labels) {
    if (!label.is_prototype && label.targets.empty() && label.instruction <= count) leader[label.instruction] = true;
  }
  for (uint32_t i = 0; i < count; ++i) {
    if (is_control(instructions[i].op) && instructions[i].op != ptx::Op::call) leader[i + 1] = true;
  }
  std::vector<uint32_t> block_of(count + 1, 0);
  for (uint32_t i = 0; i < count; ++i) {
    if (leader[i]) {
      code_.blocks.emplace_back();
      code_.blocks.back().first = i;
    }
    block_of[i] = static_cast<uint32_t>(code_.blocks.size()) - 1;
    code_.blocks.back().last = i + 1;
  }
  // A final empty block: falling off the end of a function is a return.
  code_.blocks.emplace_back();
  code_.blocks.back().first = code_.blocks.back().last = count;
  block_of[count] = static_cast<uint32_t>(code_.blocks.size()) - 1;
  code_.label_block.resize(function().labels.size(), 0);
  for (size_t l = 0; l < function().labels.size(); ++l) {
    const uint32_t at = function().labels[l].instruction;
    code_.label_block[l] = at <= count ? block_of[at] : ptx::kNone;
  }
  for (uint32_t b = 0; b + 1 < code_.blocks.size(); ++b) {
    BasicBlock& block = code_.blocks[b];
    const auto& last = instructions[block.last - 1];
    const bool guarded = last.guard != ptx::kNone;
    auto add = [&](uint32_t successor) {
      if (std::find(block.successors.begin(), block.successors.end(), successor) == block.successors.end()) {
        block.successors.push_back(successor);
      }
    };
    switch (last.op) {
      case ptx::Op::bra:
        add(code_.label_block[last.operands.at(0).index]);
        if (guarded) add(b + 1);
        break;
      case ptx::Op::brx_idx:
        for (uint32_t target : function().labels[last.operands.at(1).index].targets) add(code_.label_block[target]);
        if (guarded) add(b + 1);
        break;
      case ptx::Op::exit:
      case ptx::Op::ret:
        if (guarded) add(b + 1);
        break;
      default:
        add(b + 1);
    }
  }
}

void Decoder::find_post_dominators() {
  // Cooper, Harvey and Kennedy's iterative scheme on the reversed graph; node `exit` is virtual.
  const auto n = static_cast<uint32_t>(code_.blocks.size());
  const uint32_t exit = n;
  std::vector<std::vector<uint32_t>> successors(n + 1), predecessors(n + 1);
  auto link = [&](uint32_t from, uint32_t to) {
    successors[from].push_back(to);
    predecessors[to].push_back(from);
  };
  for (uint32_t b = 0; b < n; ++b) {
    for (uint32_t s : code_.blocks[b].successors) link(b, s);
    bool leaves = code_.blocks[b].successors.empty();
    if (code_.blocks[b].last > code_.blocks[b].first) {
      const auto op = function().instructions[code_.blocks[b].last - 1].op;
      leaves = leaves || op == ptx::Op::exit || op == ptx::Op::ret;
    }
    if (leaves) link(b, exit);
  }
  std::vector<uint32_t> order, number(n + 1, ptx::kNone);
  std::vector<std::pair<uint32_t, size_t>> stack{{exit, 0}};
  std::vector<bool> seen(n + 1, false);
  seen[exit] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    if (next < predecessors[node].size()) {
      const uint32_t p = predecessors[node][next++];
      if (!seen[p]) {
        seen[p] = true;
        stack.emplace_back(p, 0);
      }
    } else {
      number[node] = static_cast<uint32_t>(order.size());
      order.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> dominator(n + 1, ptx::kNone);
  dominator[exit] = exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = order.size(); i-- > 0;) {
      const uint32_t node = order[i];
      if (node == exit) continue;
      uint32_t best = ptx::kNone;
      for (uint32_t s : successors[node]) {
        if (number[s] == ptx::kNone || dominator[s] == ptx::kNone) continue;
        if (best == ptx::kNone) {
          best = s;
          continue;
        }
        uint32_t a = s, b = best;
        while (a != b) {
          while (number[a] < number[b]) a = dominator[a];
          while (number[b] < number[a]) b = dominator[b];
        }
        best = a;
      }
      if (best != dominator[node]) {
        dominator[node] = best;
        changed = true;
      }
    }
  }
  for (uint32_t b = 0; b < n; ++b) {
    code_.blocks[b].post_dominator = dominator[b] == exit ? ptx::kNone : dominator[b];
  }
  for (uint32_t b = 0; b < n; ++b) {
    const uint32_t p = code_.blocks[b].post_dominator;
    if (code_.blocks[b].successors.size() > 1 && p != ptx::kNone) code_.blocks[p].is_join = true;
  }
}

void Decoder::classify_registers() {
  facts_ = analyse_registers(function(), code_.blocks);
  lifetimes_ = find_lifetimes(function(), code_.blocks);
  for (const ptx::Instruction& instruction : function().instructions) {
    if (!observed() || instruction.op != ptx::Op::wgmma_mma_async) continue;
    tensor_core_registers_.resize(function().registers.size());
    for (size_t o = 0; o < 2; ++o) {
      for (const Operand& element : instruction.operands[o].elements) {
        if (element.kind == OperandKind::reg) tensor_core_registers_[element.index] = true;
      }
    }
  }
  code_.registers.assign(function().registers.size(), {kNoSlot, Shape::vector});
  // Scalars first: they share a few cache lines.
  for (const bool scalars : {true, false}) {
    for (size_t r = 0; r < code_.registers.size(); ++r) {
      const unsigned bits = type_bits(function().registers[r].type);
      // A predicate is one word of lane bits either way; 128-bit values have no scalar handlers.
      const bool scalar = !general_ && !facts_.varying[r] && bits != 1 && bits != 128;
      // Block-local vectors come last, see share_slots(). General code keeps a slot per register, so that a warp can
      // move to it anywhere.
      if (!general_ && !scalar && bits > 1 && lifetimes_[r].block_local()) continue;
      if (scalar == scalars) code_.registers[r] = scratch(bits, scalar ? Shape::uniform : Shape::vector);
    }
  }
  if (!general_) share_slots();
}

void Decoder::share_slots() {
  std::map<unsigned, std::vector<Slot>> free;  // by storage bits
  std::vector<uint32_t> by_first, by_last;
  for (uint32_t r = 0; r < lifetimes_.size(); ++r) {
    if (code_.registers[r].offset != kNoSlot) continue;
    by_first.push_back(r);
    by_last.push_back(r);
  }
  std::sort(by_first.begin(), by_first.end(),
            [&](uint32_t a, uint32_t b) { return lifetimes_[a].first < lifetimes_[b].first; });
  std::sort(by_last.begin(), by_last.end(),
            [&](uint32_t a, uint32_t b) { return lifetimes_[a].last < lifetimes_[b].last; });
  size_t released = 0;
  for (const uint32_t r : by_first) {
    // A slot is free only after the instruction that uses it last: handlers may write a result before they read.
    for (; released < by_last.size() && lifetimes_[by_last[released]].last < lifetimes_[r].first; ++released) {
      const uint32_t done = by_last[released];
      free[storage_bits(type_bits(function().registers[done].type))].push_back(code_.registers[done]);
    }
    const unsigned bits = storage_bits(type_bits(function().registers[r].type));
    std::vector<Slot>& reusable = free[bits];
    if (reusable.empty()) {
      code_.registers[r] = scratch(bits);
    } else {
      code_.registers[r] = reusable.back();
      reusable.pop_back();
    }
  }
}

void Decoder::watch_registers(const ptx::Instruction& instruction) {
  if (instruction.op == ptx::Op::wgmma_mma_async) return;
  RegisterUse use;
  const auto collect = [&](const Operand& operand, std::vector<uint32_t>& into, const auto& self) -> void {
    if (operand.kind == OperandKind::reg && tensor_core_registers_[operand.index]) {
      into.push_back(code_.registers[operand.index].offset);
    }
    for (const Operand& element : operand.elements) self(element, into, self);
  };
  const bool defines = writes_first_operand(instruction);
  for (size_t o = 0; o < instruction.operands.size(); ++o)
    collect(instruction.operands[o], defines && o == 0 ? use.writes : use.reads, collect);
  if (use.reads.empty() && use.writes.empty()) return;
  emit({&observe_registers, &observe_registers}).extra = keep(std::move(use));
}

void Decoder::decode_instruction(uint32_t index) {
  const ptx::Instruction& instruction = function().instructions[index];
  site_ = index;
  approximate_ = false;
  const bool guard = instruction.guard != ptx::kNone && !is_control(instruction.op);
  if (definedness_ != nullptr) definedness_->before_guard(instruction);
  const size_t start = code_.code.size();
  if (guard) {
    Inst& inst = emit({&guard_handler, &guard_handler});
    inst.src[0] = code_.registers[instruction.guard].offset;
    inst.flags = instruction.guard_negated ? 1 : 0;
    inst.aux = next_guard_++;
    code_.guards.push_back({inst.aux, index});
  }
  if (observed() && !tensor_core_registers_.empty()) watch_registers(instruction);
  if (definedness_ != nullptr) definedness_->before(instruction);
  const Binder binder = BinderTable::instance().get(instruction.op);
  if (binder == nullptr) {
    unsupported("the emulator does not execute this opcode");
  } else {
    const size_t before = code_.code.size();
    try {
      binder(*this, instruction);
    } catch (const std::length_error&) {
      throw;  // concerns the function, not the instruction
    } catch (const std::exception& reason) {
      code_.code.resize(before);
      unsupported(reason.what());
    }
  }
  if (definedness_ != nullptr && !is_control(instruction.op)) definedness_->after(instruction);
  if (approximate_) code_.approximate.push_back(index);
  if (guard) code_.code[start].imm = static_cast<int64_t>(code_.code.size() - start - 1);
}

void Decoder::run() {
  code_.code.reserve(function().instructions.size() * 2 + 16);
  build_blocks();
  find_post_dominators();
  classify_registers();
  definedness_ = DefinednessCode::create(*this);
  code_.constants_offset = (next_offset_ + 63) / 64 * 64;
  next_offset_ = code_.constants_offset;
  for (uint32_t b = 0; b < code_.blocks.size(); ++b) {
    BasicBlock& block = code_.blocks[b];
    block_ = b;
    block.first_inst = static_cast<uint32_t>(code_.code.size());
    site_ = std::min<uint32_t>(block.first, static_cast<uint32_t>(function().instructions.size()) - 1);
    Inst& enter = emit({&block_enter_full, &block_enter_masked});
    enter.aux = next_counter_++;
    enter.imm = std::max<int64_t>(1, block.last - block.first);
    for (uint32_t i = block.first; i < block.last; ++i) decode_instruction(i);
  }
  emit({&return_handler, &return_handler});  // the function's end
  patch_branches();
  definedness_.reset();
  fuse_multiply_adds(*this);
  if (first_) {
    program_.counters = next_counter_;
    program_.guard_counters = next_guard_;
  }
  code_.frame_bytes = (next_offset_ + 127) / 128 * 128;
  code_.constants.assign(code_.frame_bytes - code_.constants_offset, std::byte{0});
  for (const auto& [offset, value] : uniform_constants_) {
    std::memcpy(code_.constants.data() + offset - code_.constants_offset, &value.first, 8);
    if (value.second != 0) std::memcpy(code_.constants.data() + offset - code_.constants_offset + 8, &value.second, 8);
  }
  for (const auto& constant : vector_constants_) {
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      std::memcpy(
          code_.constants.data() + constant.offset - code_.constants_offset + lane * (constant.element_bits / 8),
          &constant.bits, constant.element_bits / 8);
    }
  }
}

void Decoder::patch_branches() {
  // Branch targets are block numbers until the code has its final place.
  for (Inst& inst : code_.code) {
    if ((inst.flags & kBranchFlag) == 0) continue;
    const auto* branch = static_cast<const BranchInfo*>(inst.extra);
    auto* mutable_branch = const_cast<BranchInfo*>(branch);
    for (auto& target : mutable_branch->targets)
      target.inst = code_.code.data() + code_.blocks[target.block].first_inst;
    if (mutable_branch->join_block != ptx::kNone) {
      mutable_branch->join = code_.code.data() + code_.blocks[mutable_branch->join_block].first_inst;
    }
    mutable_branch->next = &inst + 1;
  }
}

BinderTable& BinderTable::instance() {
  static BinderTable table;
  return table;
}

}  // namespace ptxbench::emulator
