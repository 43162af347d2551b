#include <bit>

#include "emulator/definedness_parts.h"
#include "emulator/isa/engine.h"

/// DefinednessMode::watch: has anything been read that nobody wrote?
namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::Type;

namespace {

/// The bytes of one access by all lanes, where they are one piece: one look-up instead of 32.
bool one_piece(Warp& warp, const MemoryOp& op, uint64_t& address, uint32_t& bytes) {
  if (op.space == StateSpace::local) return false;
  if (op.address.shape == Shape::uniform) {
    address = lane_address(warp, op, 0);
    bytes = op.bytes;
  } else {
    if (warp.mask != kFullMask || op.stride != static_cast<int64_t>(op.bytes)) return false;
    address = lane_address(warp, op, 0);
    bytes = op.bytes * kLanes;
    if (lane_address(warp, op, kLanes - 1) - address != uint64_t{op.bytes} * (kLanes - 1)) return false;
  }
  return true;
}

template <bool Reads, bool Writes>
const Inst* watch_access(Warp& warp, const Inst& inst) {
  Definedness& definedness = *warp.cluster->launch->definedness;
  // Once is enough: the run will be repeated.
  if (definedness.met()) return &inst + 1;
  const auto& op = *static_cast<const MemoryOp*>(inst.extra);
  uint64_t address = 0;
  uint32_t bytes = 0;
  const auto touch = [&](const Definedness::View& view, uint32_t count) {
    if (Reads && !definedness.written(view, count)) definedness.meet();
    if (Writes) Definedness::mark(view, count);
  };
  if (one_piece(warp, op, address, bytes)) {
    const Located where = locate(op.space, address);
    if (where.space != Space::local) {
      touch(definedness.view(*warp.cluster, where.space, where.address, bytes), bytes);
      return &inst + 1;
    }
  }
  for_each_lane(warp.mask, [&](unsigned lane) {
    touch(view_of(definedness, warp, locate(op.space, lane_address(warp, op, lane)), lane, op.bytes), op.bytes);
  });
  return &inst + 1;
}

/// The CTA's own shared memory. Most kernels soon have written all of it, which is quickly seen.
template <bool Reads, bool Writes>
const Inst* watch_shared(Warp& warp, const Inst& inst) {
  if (warp.cta->definedness->unwritten == 0) [[likely]]
    return &inst + 1;
  return watch_access<Reads, Writes>(warp, inst);
}

template <bool Reads, bool Writes>
HandlerPair watch_handlers(const MemoryOp& op) {
  // PTX ISA "State Spaces: Shared": .shared alone means ::cta.
  const bool own = op.space == StateSpace::shared || op.space == StateSpace::shared_cta;
  const Handler handler = own ? &watch_shared<Reads, Writes> : &watch_access<Reads, Writes>;
  return {handler, handler};
}

/// ldmatrix, stmatrix: the lanes below inst.aux give a row each.
template <bool Reads>
const Inst* watch_rows(Warp& warp, const Inst& inst) {
  Definedness& definedness = *warp.cluster->launch->definedness;
  if (definedness.met() || warp.cta->definedness->unwritten == 0) return &inst + 1;
  const auto& op = *static_cast<const MemoryOp*>(inst.extra);
  const uint32_t rows = inst.aux >= kLanes ? kFullMask : (1u << inst.aux) - 1;
  for_each_lane(warp.mask & rows, [&](unsigned lane) {
    const auto view = view_of(definedness, warp, locate(op.space, lane_address(warp, op, lane)), lane, op.bytes);
    if (Reads && !definedness.written(view, op.bytes)) definedness.meet();
    if (!Reads) Definedness::mark(view, op.bytes);
  });
  return &inst + 1;
}

struct RegisterSlots {
  std::vector<uint32_t> slots;  ///< of lane masks: lanes that wrote the register
  ValueOperand condition;       ///< wgmma's scale-d
  bool conditional = false, negated = false;
};

const Inst* watch_reads(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const RegisterSlots*>(inst.extra);
  if (info.conditional) {
    const auto lane = static_cast<unsigned>(std::countr_zero(warp.mask));
    if ((info.condition.get(warp, lane) != 0) == info.negated) return &inst + 1;
  }
  for (const uint32_t slot : info.slots) {
    if ((warp.mask & ~*warp.slot<uint32_t>(slot)) != 0) warp.cluster->launch->definedness->meet();
  }
  return &inst + 1;
}

const Inst* watch_writes(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const RegisterSlots*>(inst.extra);
  for (const uint32_t slot : info.slots) *warp.slot<uint32_t>(slot) |= warp.mask;
  return &inst + 1;
}
class WatchCode final : public DefinednessCode {
 public:
  WatchCode(Decoder& decoder, std::vector<bool> suspects) : decoder_(decoder), suspects_(std::move(suspects)) {
    masks_.resize(suspects_.size(), 0);
    for (size_t r = 0; r < suspects_.size(); ++r) {
      if (suspects_[r]) masks_[r] = decoder_.scratch(1).offset;
    }
  }

  void before_guard(const Instruction& instruction) override {
    if (instruction.guard != ptx::kNone && suspects_[instruction.guard])
      emit({&watch_reads, &watch_reads}, {{masks_[instruction.guard]}, {}, false, false});
  }

  void before(const Instruction& instruction) override {
    RegisterSlots reads;
    const bool wgmma = instruction.op == Op::wgmma_mma_async;
    for (size_t o = defines_first(instruction) ? 1 : 0; o < instruction.operands.size(); ++o) {
      for_each_register(instruction.operands[o], [&](uint32_t reg) { add(reads, reg); });
    }
    if (!reads.slots.empty()) emit({&watch_reads, &watch_reads}, std::move(reads));
    if (wgmma) {
      RegisterSlots accumulators;
      for_each_write(instruction, [&](uint32_t reg) { add(accumulators, reg); });
      if (!accumulators.slots.empty()) {
        const Operand* scale = scale_d(instruction);
        if (scale != nullptr) {
          Operand plain = *scale;
          plain.negated = false;
          accumulators.conditional = true;
          accumulators.negated = scale->negated;
          accumulators.condition = value_operand(decoder_, plain, Type::pred);
        }
        emit({&watch_reads, &watch_reads}, std::move(accumulators));
      }
    }
    if (instruction.op == Op::call) emit_call_results(decoder_, instruction);
    // The handlers of a proof tell about every access themselves (memory_access.h, note_touch).
    if (decoder_.program().touching) return;
    if (const WrittenMemory written = written_by(instruction); written.bytes != 0) {
      MemoryOp op = address_operand(decoder_, instruction.operands.at(written.operand), written.space, written.bytes,
                                    AccessKind::write);
      emit_access(watch_handlers<false, true>(op), op);
    }
    if (instruction.op == Op::ldmatrix || instruction.op == Op::stmatrix) {
      const bool load = instruction.op == Op::ldmatrix;
      const MemoryOp op =
          address_operand(decoder_, instruction.operands.at(load ? 1 : 0), instruction.space(), 16, AccessKind::read);
      Inst& inst = load ? emit_access({&watch_rows<true>, &watch_rows<true>}, op)
                        : emit_access({&watch_rows<false>, &watch_rows<false>}, op);
      inst.aux = instruction.has(Mod::x4) ? 32 : instruction.has(Mod::x2) ? 16 : 8;
    }
    MemoryOp op;
    if (!is_access(instruction.op) || !memory_op(decoder_, instruction, op)) return;
    const bool write = instruction.op == Op::st;
    const bool read = instruction.op == Op::ld || instruction.op == Op::ldu;
    emit_access(write  ? watch_handlers<false, true>(op)
                : read ? watch_handlers<true, false>(op)
                       : watch_handlers<true, true>(op),
                op);
  }

  void after(const Instruction& instruction) override {
    RegisterSlots writes;
    for_each_write(instruction, [&](uint32_t reg) { add(writes, reg); });
    if (!writes.slots.empty()) emit({&watch_writes, &watch_writes}, std::move(writes));
  }

  static const Operand* scale_d(const Instruction& instruction) {
    for (size_t o = 3; o < instruction.operands.size(); ++o) {
      const Operand& operand = instruction.operands[o];
      if (operand.kind == OperandKind::reg || operand.kind == OperandKind::integer) return &operand;
    }
    return nullptr;
  }

 private:
  void add(RegisterSlots& slots, uint32_t reg) const {
    if (suspects_[reg]) slots.slots.push_back(masks_[reg]);
  }
  void emit(HandlerPair handlers, RegisterSlots slots) {
    const RegisterSlots* kept = decoder_.keep(std::move(slots));
    decoder_.emit(handlers).extra = kept;
  }
  Inst& emit_access(HandlerPair handlers, const MemoryOp& op) {
    const MemoryOp* kept = decoder_.keep(op);
    Inst& inst = decoder_.emit(handlers);
    inst.extra = kept;
    return inst;
  }

  Decoder& decoder_;
  std::vector<bool> suspects_;
  std::vector<uint32_t> masks_;
};

}  // namespace

std::unique_ptr<DefinednessCode> make_watch_code(Decoder& decoder, std::vector<bool> suspects) {
  return std::make_unique<WatchCode>(decoder, std::move(suspects));
}

}  // namespace ptxbench::emulator
