#include "emulator/definedness_code.h"

#include <algorithm>
#include <cstring>

#include "emulator/definedness.h"
#include "emulator/isa/engine.h"
#include "emulator/tensor/mma_sync.h"
#include "emulator/undefined_bits.h"

namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::Type;

namespace {

void for_each_register(const Operand& operand, const auto& use) {
  if (operand.kind == OperandKind::reg) use(operand.index);
  for (const Operand& element : operand.elements) for_each_register(element, use);
}

/// Whether operand 0 is a destination: registers or predicates.
bool defines_first(const Instruction& instruction) {
  if (instruction.form == nullptr || instruction.operands.empty()) return false;
  std::string_view contract = instruction.form->operands;
  while (!contract.empty() && contract.front() == ' ') contract.remove_prefix(1);
  return !contract.empty() && std::string_view("dDeEPQ").find(contract.front()) != std::string_view::npos;
}

bool is_control(Op op) {
  return op == Op::bra || op == Op::brx_idx || op == Op::exit || op == Op::ret || op == Op::call;
}

/// Sources in operand order; wgmma's accumulators are both.
void for_each_read(const Instruction& instruction, const auto& use) {
  for (size_t o = defines_first(instruction) && instruction.op != Op::wgmma_mma_async ? 1 : 0;
       o < instruction.operands.size(); ++o) {
    for_each_register(instruction.operands[o], use);
  }
}
void for_each_write(const Instruction& instruction, const auto& use) {
  if (defines_first(instruction)) for_each_register(instruction.operands[0], use);
}

/// The memory operand of ld, st, atom, red: which operand it is.
size_t address_position(const Instruction& instruction) {
  return instruction.op == Op::st || instruction.op == Op::red ? 0 : 1;
}

bool is_access(Op op) { return op == Op::ld || op == Op::ldu || op == Op::st || op == Op::atom || op == Op::red; }

/// Address and size of an access; false if it is to memory that is always initialised.
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

Definedness::View view_of(Definedness& definedness, Warp& warp, const Located& where, unsigned lane, uint32_t bytes) {
  return where.space == Space::local ? Definedness::local_view(warp, lane, where.address, bytes)
                                     : definedness.view(*warp.cluster, where.space, where.address, bytes);
}

// --- watching --------------------------------------------------------------------------------------------------------

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

struct LocalRange {
  uint64_t offset = 0;
  uint32_t bytes = 0;
};

/// Results of a call: library functions write them, and a function's own replace this (Definedness::copy_local).
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

void emit_results(Decoder& decoder, const Instruction& instruction) {
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

/// A piece of memory that an instruction other than a store writes: position of the operand and bytes; 0 if none.
struct Written {
  size_t operand = 0;
  uint32_t bytes = 0;
  StateSpace space = StateSpace::shared;
};
Written written_by(const Instruction& instruction) {
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
    if (instruction.op == Op::call) emit_results(decoder_, instruction);
    // The handlers of a proof tell about every access themselves (memory_access.h, note_touch).
    if (decoder_.program().touching) return;
    if (const Written written = written_by(instruction); written.bytes != 0) {
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

// --- tracking --------------------------------------------------------------------------------------------------------

struct TrackedSource {
  uint32_t plane = ptx::kNone;  ///< kNone: always defined
  uint8_t width = 64;
  bool inverted = false;
  bool has_value = false;
  ValueOperand value;
};

/// The data flow of one instruction.
struct TrackedFlow {
  FlowRule rule;
  std::vector<TrackedSource> sources;
  std::vector<uint8_t> source_widths, result_widths;
  std::vector<uint32_t> results;  ///< planes, kNone for the sink
};

struct TrackedUse {
  UndefinedUse kind{};
  uint32_t plane = 0;
  uint64_t bits = ~0ull;  ///< that matter
};

struct TrackedAccess {
  MemoryOp memory;
  std::vector<std::vector<uint32_t>> data;  ///< per element one plane, or two of 128 bits; kNone: constant or sink
  std::vector<uint8_t> widths;              ///< of each element's register
  std::vector<TrackedSource> compare;       ///< atom.cas
  std::vector<std::vector<uint32_t>> results;
  std::vector<TrackedSource> values;  ///< atom: operands with their values
  bool sign_extends = false;
};

struct Context {
  Warp& warp;
  const Inst& inst;
  Definedness& definedness;
  FrameDefinedness& frame;
  Agent agent;
  Site site;
  Context(Warp& w, const Inst& i)
      : warp(w),
        inst(i),
        definedness(*w.cluster->launch->definedness),
        frame(definedness.frame_of(w)),
        agent(agent_of(w, w.mask)),
        site(site_of(w, i)) {}
  /// Lanes that do not exist need no definition.
  uint32_t whole_mask() const { return warp.mask | ~warp.live; }
  Agent lane_agent(unsigned lane) const {
    Agent one = agent;
    one.lanes = 1u << lane;
    return one;
  }
  /// Origin of a register's undefined bits; a register nobody wrote gets this instruction as its origin.
  OriginId origin(uint32_t plane, unsigned lane) const {
    frame.spread(plane);
    OriginId& id = frame.origin[size_t{plane} * kLanes + lane];
    if (id == 0) id = definedness.new_origin({site, lane_agent(lane), true, Space::registers, plane, 0});
    return id;
  }
  bool clean(uint32_t plane) const { return plane == ptx::kNone || frame.state[plane] == FrameDefinedness::defined; }
  void define(uint32_t plane) const {
    if (plane != ptx::kNone) frame.define(plane, whole_mask());
  }
};

uint64_t value_of(Warp& warp, const TrackedSource& source, unsigned lane) {
  if (!source.has_value) return 0;
  const uint64_t value = source.value.get(warp, lane);
  return source.inverted ? value ^ 1 : value;
}

const Inst* track_flow(Warp& warp, const Inst& inst) {
  const auto& flow = *static_cast<const TrackedFlow*>(inst.extra);
  Context context(warp, inst);
  const bool clean = std::all_of(flow.sources.begin(), flow.sources.end(),
                                 [&](const TrackedSource& source) { return context.clean(source.plane); });
  if (clean) {
    for (const uint32_t plane : flow.results) context.define(plane);
    return &inst + 1;
  }
  std::array<Bits, 16> bits;
  std::array<uint64_t, 16> results{};
  const size_t sources = flow.sources.size(), outputs = flow.results.size();
  for_each_lane(warp.mask, [&](unsigned lane) {
    OriginId from = 0;
    for (size_t s = 0; s < sources; ++s) {
      const TrackedSource& source = flow.sources[s];
      bits[s].value = value_of(warp, source, lane);
      bits[s].undefined =
          source.plane == ptx::kNone ? 0 : context.frame.get(source.plane, lane) & low_bits(source.width);
      if (bits[s].undefined != 0 && from == 0) from = context.origin(source.plane, lane);
    }
    propagate(flow.rule, {bits.data(), sources}, flow.source_widths, {results.data(), outputs}, flow.result_widths);
    // The result's origin is the first source that has one; selp's is that of the side it took.
    if (flow.rule.flow == Flow::select && outputs != 0 && results[0] != 0 && bits[2].undefined == 0) {
      const size_t side = (bits[2].value & 1) != 0 ? 0 : 1;
      from = context.origin(flow.sources[side].plane, lane);
    }
    for (size_t r = 0; r < outputs; ++r) {
      if (flow.results[r] != ptx::kNone)
        context.frame.set(flow.results[r], lane, results[r], results[r] != 0 ? from : 0);
    }
  });
  for (const uint32_t plane : flow.results) {
    if (plane != ptx::kNone) context.frame.define(plane, ~warp.live);
  }
  return &inst + 1;
}

const Inst* track_uses(Warp& warp, const Inst& inst) {
  const auto& uses = *static_cast<const std::vector<TrackedUse>*>(inst.extra);
  Context context(warp, inst);
  for (const TrackedUse& use : uses) {
    if (context.clean(use.plane)) continue;
    uint32_t lanes = 0;
    OriginId from = 0;
    for_each_lane(warp.mask, [&](unsigned lane) {
      if ((context.frame.get(use.plane, lane) & use.bits) == 0) return;
      const OriginId origin = context.origin(use.plane, lane);
      if (from == 0) from = origin;
      if (origin == from) lanes |= 1u << lane;
      // Said once: what follows from it is no news.
      context.frame.set(use.plane, lane, 0, 0);
    });
    if (lanes == 0) continue;
    Agent agent = context.agent;
    agent.lanes = lanes;
    context.definedness.report(use.kind, agent, context.site, from);
  }
  return &inst + 1;
}

void collect(std::span<const std::byte> bytes, uint32_t first, uint32_t count, std::span<uint64_t> words) {
  std::fill(words.begin(), words.end(), 0);
  for (uint32_t i = 0; i < count; ++i) {
    words[i / 8] |= std::to_integer<uint64_t>(bytes[first + i]) << (8 * (i % 8));
  }
}

const Inst* track_load(Warp& warp, const Inst& inst) {
  const auto& access = *static_cast<const TrackedAccess*>(inst.extra);
  Context context(warp, inst);
  const MemoryOp& op = access.memory;
  std::array<std::byte, 32> undefined{};
  bool any = false;
  std::array<std::array<std::byte, 32>, kLanes> all;
  std::array<OriginId, kLanes> origins{};
  for_each_lane(warp.mask, [&](unsigned lane) {
    const Located where = locate(op.space, lane_address(warp, op, lane));
    const auto view = view_of(context.definedness, warp, where, lane, op.bytes);
    const bool some = context.definedness.read(view, op.bytes, undefined.data(), origins[lane],
                                               context.lane_agent(lane), context.site);
    any = any || some;
    all[lane] = undefined;
  });
  for (unsigned e = 0; e < op.elements; ++e) {
    const auto& planes = access.data[e];
    if (planes.empty()) continue;
    if (!any) {
      for (const uint32_t plane : planes) context.define(plane);
      continue;
    }
    for_each_lane(warp.mask, [&](unsigned lane) {
      std::array<uint64_t, 2> words{};
      collect(all[lane], e * op.element_bytes, op.element_bytes, words);
      const unsigned bits = op.element_bytes * 8;
      if (access.sign_extends && bits < 64 && (words[0] >> (bits - 1) & 1) != 0) words[0] |= ~low_bits(bits);
      for (size_t p = 0; p < planes.size(); ++p) {
        const uint64_t cut = words[p] & low_bits(access.widths[e]);
        context.frame.set(planes[p], lane, cut, cut != 0 ? origins[lane] : OriginId{0});
      }
    });
    for (const uint32_t plane : planes) context.frame.define(plane, ~warp.live);
  }
  return &inst + 1;
}

/// The undefined bytes that a lane's registers would store.
OriginId gather(Context& context, const TrackedAccess& access, unsigned lane, std::span<std::byte> undefined) {
  OriginId from = 0;
  const MemoryOp& op = access.memory;
  for (unsigned e = 0; e < op.elements; ++e) {
    for (size_t p = 0; p < access.data[e].size(); ++p) {
      const uint32_t plane = access.data[e][p];
      const uint32_t count = std::min<uint32_t>(8, op.element_bytes - static_cast<uint32_t>(8 * p));
      const uint64_t bits = context.clean(plane) ? 0 : context.frame.get(plane, lane) & low_bits(8 * count);
      if (bits != 0 && from == 0) from = context.origin(plane, lane);
      std::memcpy(undefined.data() + e * op.element_bytes + 8 * p, &bits, count);
    }
  }
  return from;
}

const Inst* track_store(Warp& warp, const Inst& inst) {
  const auto& access = *static_cast<const TrackedAccess*>(inst.extra);
  Context context(warp, inst);
  const MemoryOp& op = access.memory;
  for_each_lane(warp.mask, [&](unsigned lane) {
    std::array<std::byte, 32> undefined{};
    const OriginId from = gather(context, access, lane, undefined);
    const Located where = locate(op.space, lane_address(warp, op, lane));
    context.definedness.write(view_of(context.definedness, warp, where, lane, op.bytes), op.bytes, undefined.data(),
                              from, context.lane_agent(lane), context.site);
  });
  return &inst + 1;
}

/// st.async and red.async: kept until the operation is issued, a few handlers further on.
const Inst* track_remote(Warp& warp, const Inst& inst) {
  const auto& access = *static_cast<const TrackedAccess*>(inst.extra);
  Context context(warp, inst);
  for_each_lane(warp.mask, [&](unsigned lane) {
    WarpDefinedness::Remote& remote = warp.definedness->remote[lane];
    remote = {};
    remote.origin = gather(context, access, lane, remote.undefined);
  });
  return &inst + 1;
}

/// PTX ISA "atom", "red". Lanes act one after another, as their handler does it.
struct TrackedAtomic {
  TrackedAccess access;
  Mod what = Mod::none;
  bool integer = false, pairs = false;
};

const Inst* track_atomic(Warp& warp, const Inst& inst) {
  const auto& atomic = *static_cast<const TrackedAtomic*>(inst.extra);
  const TrackedAccess& access = atomic.access;
  Context context(warp, inst);
  const MemoryOp& op = access.memory;
  const uint64_t mask = low_bits(op.element_bytes * 8);
  for_each_lane(warp.mask, [&](unsigned lane) {
    const Located where = locate(op.space, lane_address(warp, op, lane));
    const auto view = view_of(context.definedness, warp, where, lane, op.bytes);
    std::array<std::byte, 32> old{}, fresh{}, given{};
    OriginId from = 0;
    const bool exchange = atomic.what == Mod::exch && access.results.empty();
    if (!exchange) context.definedness.read(view, op.bytes, old.data(), from, context.lane_agent(lane), context.site);
    const OriginId value_from = gather(context, access, lane, given);
    const OriginId old_from = from;
    if (from == 0) from = value_from;
    bool compares_undefined = false;
    for (const TrackedSource& source : access.compare) {
      if (context.clean(source.plane) || (context.frame.get(source.plane, lane) & mask) == 0) continue;
      compares_undefined = true;
      if (from == 0) from = context.origin(source.plane, lane);
    }
    for (unsigned e = 0; e < op.elements; ++e) {
      for (uint32_t p = 0; p < op.element_bytes; p += 8) {
        const uint32_t count = std::min<uint32_t>(8, op.element_bytes - p);
        std::array<uint64_t, 1> was{}, now{};
        collect(old, e * op.element_bytes + p, count, was);
        collect(given, e * op.element_bytes + p, count, now);
        uint64_t result = 0;
        switch (atomic.what) {
          case Mod::exch:
            result = now[0];
            break;
          case Mod::cas:
            result = was[0] != 0 || compares_undefined ? mask : now[0];
            break;
          case Mod::and_:
          case Mod::or_: {
            // A known 0 of and, a known 1 of or decides the bit.
            const uint64_t value = value_of(warp, access.values[e], lane);
            const uint64_t decides = (atomic.what == Mod::and_ ? ~value : value) & ~now[0];
            result = (was[0] & ~decides) | now[0];
            break;
          }
          case Mod::xor_:
            result = was[0] | now[0];
            break;
          case Mod::add:
            if (atomic.integer) {
              result = upwards(was[0] | now[0]) & mask;
              break;
            }
            [[fallthrough]];
          default:
            for (unsigned part = 0; part < (atomic.pairs ? 2u : 1u); ++part) {
              const uint64_t bits = atomic.pairs ? 0xffffull << (16 * part) : mask;
              if (((was[0] | now[0]) & bits) != 0) result |= bits;
            }
        }
        std::memcpy(fresh.data() + e * op.element_bytes + p, &result, count);
      }
    }
    context.definedness.write(view, op.bytes, fresh.data(), from, context.lane_agent(lane), context.site);
    for (unsigned e = 0; e < access.results.size(); ++e) {
      std::array<uint64_t, 2> words{};
      collect(old, e * op.element_bytes, op.element_bytes, words);
      for (size_t p = 0; p < access.results[e].size(); ++p) {
        if (access.results[e][p] != ptx::kNone)
          context.frame.set(access.results[e][p], lane, words[p], words[p] != 0 ? old_from : OriginId{0});
      }
    }
  });
  return &inst + 1;
}

// --- instructions of whole warps: operands are saved when a lane arrives, results follow once all have

struct TrackedGroup {
  Op op{};
  Mod mode = Mod::none;
  TrackedSource source;                 ///< shfl, match, redux: the value; vote: the predicate
  ValueOperand second, third, members;  ///< shfl: b, c
  bool has_second = false, has_members = false;
  uint32_t result = ptx::kNone, predicate = ptx::kNone;
  uint8_t width = 32;
};

const Inst* save_operands(Warp& warp, const Inst& inst) {
  const auto& group = *static_cast<const TrackedGroup*>(inst.extra);
  Context context(warp, inst);
  WarpDefinedness& state = *warp.definedness;
  for_each_lane(warp.mask, [&](unsigned lane) {
    const uint32_t plane = group.source.plane;
    const uint64_t undefined = context.clean(plane) ? 0 : context.frame.get(plane, lane) & low_bits(group.source.width);
    state.saved_undefined[lane] = undefined;
    state.saved_origin[lane] = undefined != 0 ? context.origin(plane, lane) : OriginId{0};
    state.saved_value[lane] = value_of(warp, group.source, lane);
    if (group.op == Op::shfl_sync) {
      state.saved_second[lane] = (group.second.get(warp, lane) & 0xffffffff) | group.third.get(warp, lane) << 32;
    } else {
      state.saved_second[lane] = group.has_members ? group.members.get(warp, lane) & 0xffffffff : kFullMask;
    }
  });
  return &inst + 1;
}

/// PTX ISA "shfl.sync": the lane read, or the own one where that lies outside the segment.
unsigned shuffle_lane(Mod mode, unsigned lane, uint32_t b, uint32_t c) {
  const uint32_t offset = b & 0x1f, clamp = c & 0x1f, segment = c >> 8 & 0x1f;
  const uint32_t first = lane & segment, last = first | (clamp & ~segment);
  int64_t from = 0;
  bool inside = false;
  switch (mode) {
    case Mod::up:
      from = int64_t{lane} - offset;
      inside = from >= int64_t{last};
      break;
    case Mod::down:
      from = int64_t{lane} + offset;
      inside = from <= int64_t{last};
      break;
    case Mod::bfly:
      from = lane ^ offset;
      inside = from <= int64_t{last};
      break;
    default:
      from = first | (offset & ~segment);
      inside = from <= int64_t{last};
  }
  return inside ? static_cast<unsigned>(from) & 31 : lane;
}

const Inst* track_group(Warp& warp, const Inst& inst) {
  const auto& group = *static_cast<const TrackedGroup*>(inst.extra);
  Context context(warp, inst);
  const WarpDefinedness& state = *warp.definedness;
  uint64_t some = 0;
  for_each_lane(warp.mask, [&](unsigned lane) { some |= state.saved_undefined[lane]; });
  context.define(group.predicate);
  if (group.result == ptx::kNone) return &inst + 1;
  if (some == 0) {
    context.define(group.result);
    return &inst + 1;
  }
  const uint64_t all = low_bits(group.width);
  for_each_lane(warp.mask, [&](unsigned lane) {
    uint64_t result = 0;
    OriginId from = 0;
    if (group.op == Op::shfl_sync) {
      const unsigned other = shuffle_lane(group.mode, lane, static_cast<uint32_t>(state.saved_second[lane]),
                                          static_cast<uint32_t>(state.saved_second[lane] >> 32));
      // A lane that is not here gives what its register holds, which is undefined by the ISA.
      const bool here = (warp.mask >> other & 1) != 0;
      result = here ? state.saved_undefined[other] : 0;
      from = here ? state.saved_origin[other] : OriginId{0};
    } else {
      uint64_t undefined = 0, open = 0;
      bool known_true = false, known_false = false;
      for_each_lane(static_cast<uint32_t>(state.saved_second[lane]) & warp.mask, [&](unsigned other) {
        if (state.saved_undefined[other] != 0) {
          undefined |= state.saved_undefined[other];
          open |= 1ull << other;
          if (from == 0) from = state.saved_origin[other];
        } else {
          ((state.saved_value[other] & 1) != 0 ? known_true : known_false) = true;
        }
      });
      if (open != 0) {
        switch (group.mode) {
          case Mod::ballot:
            result = open;
            break;
          case Mod::all:
            result = group.op == Op::vote_sync && known_false ? 0 : all;
            break;
          case Mod::any:
            result = group.op == Op::vote_sync && known_true ? 0 : all;
            break;
          case Mod::uni:
            result = known_true && known_false ? 0 : all;
            break;
          case Mod::and_:
          case Mod::or_:
          case Mod::xor_:
            result = undefined & all;
            break;
          default:
            result = all;
        }
      }
    }
    context.frame.set(group.result, lane, result, result != 0 ? from : OriginId{0});
    if (group.op == Op::match_sync && group.predicate != ptx::kNone && result != 0)
      context.frame.set(group.predicate, lane, 1, from);
  });
  context.frame.define(group.result, ~warp.live);
  return &inst + 1;
}

struct TrackedMatrix {
  MemoryOp address;
  unsigned count = 1;
  bool transpose = false, load = true;
  std::array<uint32_t, 4> planes{};
};

const Inst* save_rows(Warp& warp, const Inst& inst) {
  const auto& matrix = *static_cast<const TrackedMatrix*>(inst.extra);
  for_each_lane(warp.mask, [&](unsigned lane) {
    warp.definedness->saved_value[lane] =
        locate(matrix.address.space, lane_address(warp, matrix.address, lane)).address;
  });
  return &inst + 1;
}

/// ldmatrix and stmatrix move undefined bits and origins as they move the data (two bytes are one element).
const Inst* track_matrix(Warp& warp, const Inst& inst) {
  const auto& matrix = *static_cast<const TrackedMatrix*>(inst.extra);
  Context context(warp, inst);
  constexpr unsigned kRows = 8;
  for (unsigned m = 0; m < matrix.count; ++m) {
    std::array<std::byte*, kRows> undefined{}, origin{};
    bool reachable = true;
    for (unsigned r = 0; r < kRows; ++r) {
      const unsigned lane = m * kRows + r;
      const auto view =
          context.definedness.view(*warp.cluster, Space::shared, warp.definedness->saved_value[lane] & 0xffffffff, 16);
      if (view.written == nullptr) {
        reachable = false;
        break;
      }
      if (matrix.load) {
        context.definedness.settle_mirror(view, 16, context.lane_agent(lane), context.site);
      } else {
        Definedness::mark(view, 16);
      }
      undefined[r] = view.undefined;
      origin[r] = view.origin;
    }
    if (!reachable) continue;
    const uint32_t plane = matrix.planes[m];
    alignas(64) std::array<uint32_t, kLanes> bits{}, ids{};
    if (matrix.load) {
      if (plane == ptx::kNone) continue;
      ldmatrix_b16(undefined.data(), matrix.transpose, bits.data());
      if (std::all_of(bits.begin(), bits.end(), [](uint32_t one) { return one == 0; })) {
        context.define(plane);
        continue;
      }
      ldmatrix_b16(origin.data(), matrix.transpose, ids.data());
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        const uint32_t id = (bits[lane] & 0xffff) != 0 ? ids[lane] & 0xffff : ids[lane] >> 16;
        context.frame.set(plane, lane, bits[lane], bits[lane] != 0 ? static_cast<OriginId>(id) : OriginId{0});
      }
      continue;
    }
    if (!context.clean(plane)) {
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        bits[lane] = static_cast<uint32_t>(context.frame.get(plane, lane));
        if (bits[lane] != 0) ids[lane] = context.origin(plane, lane) * 0x10001u;
      }
    }
    stmatrix_b16(bits.data(), matrix.transpose, undefined.data());
    stmatrix_b16(ids.data(), matrix.transpose, origin.data());
  }
  return &inst + 1;
}

struct TrackedProduct {
  std::vector<uint32_t> d, a, b, c;  ///< planes
  bool packed = false;               ///< f16 accumulators, two in a register
  bool tall = true;                  ///< m16: odd registers hold the lower eight rows
  uint8_t width = 32;
};

/// mma (PTX ISA, "Matrix Fragments for mma.m8n8k4" to "m16n8k256"): lane l holds row l / 4 of A (odd registers: eight
/// further down), column l / 4 of B, and columns 2 (l % 4) and the next of row l / 4 of C and D. An undefined element
/// of A spoils its row, one of B its column.
const Inst* track_product(Warp& warp, const Inst& inst) {
  const auto& product = *static_cast<const TrackedProduct*>(inst.extra);
  Context context(warp, inst);
  bool clean = true;
  for (const auto* planes : {&product.a, &product.b, &product.c}) {
    for (const uint32_t plane : *planes) clean = clean && context.clean(plane);
  }
  if (clean) {
    for (const uint32_t plane : product.d) context.define(plane);
    return &inst + 1;
  }
  std::array<OriginId, 16> row{};
  std::array<OriginId, 8> column{};
  const uint64_t mask = low_bits(product.width);
  const auto spoil = [&](const std::vector<uint32_t>& planes, const auto& place) {
    for (size_t i = 0; i < planes.size(); ++i) {
      if (context.clean(planes[i])) continue;
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if ((context.frame.get(planes[i], lane) & mask) == 0) continue;
        OriginId& id = place(i, lane);
        if (id == 0) id = context.origin(planes[i], lane);
      }
    }
  };
  spoil(product.a,
        [&](size_t i, unsigned lane) -> OriginId& { return row[lane / 4 + (product.tall ? 8 * (i % 2) : 0)]; });
  spoil(product.b, [&](size_t, unsigned lane) -> OriginId& { return column[lane / 4]; });
  for (size_t r = 0; r < product.d.size(); ++r) {
    std::array<uint64_t, kLanes> bits{};
    std::array<OriginId, kLanes> from{};
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const size_t m = lane / 4 + 8 * (product.packed ? r : r / 2);
      const uint64_t old = context.clean(product.c[r]) ? 0 : context.frame.get(product.c[r], lane) & mask;
      if (old != 0) from[lane] = context.origin(product.c[r], lane);
      for (unsigned half = 0; half < (product.packed ? 2u : 1u); ++half) {
        const uint64_t part = product.packed ? 0xffffull << (16 * half) : mask;
        const unsigned n = 2 * (lane % 4) + (product.packed ? half : static_cast<unsigned>(r % 2));
        const OriginId id = row[m] != 0 ? row[m] : column[n];
        if ((old & part) != 0 || id != 0) bits[lane] |= part;
        if (from[lane] == 0) from[lane] = id;
      }
    }
    if (product.d[r] == ptx::kNone) continue;
    for (unsigned lane = 0; lane < kLanes; ++lane)
      context.frame.set(product.d[r], lane, bits[lane], bits[lane] != 0 ? from[lane] : OriginId{0});
    context.frame.define(product.d[r], 0);
  }
  return &inst + 1;
}

const Inst* track_transpose(Warp& warp, const Inst& inst) {
  const auto& planes = *static_cast<const std::array<uint32_t, 2>*>(inst.extra);
  Context context(warp, inst);
  if (context.clean(planes[1])) {
    context.define(planes[0]);
    return &inst + 1;
  }
  alignas(64) std::array<uint32_t, kLanes> bits{}, ids{}, moved{}, moved_ids{};
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    bits[lane] = static_cast<uint32_t>(context.frame.get(planes[1], lane));
    if (bits[lane] != 0) ids[lane] = context.origin(planes[1], lane) * 0x10001u;
  }
  movmatrix_b16(bits.data(), moved.data());
  movmatrix_b16(ids.data(), moved_ids.data());
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const uint32_t id = (moved[lane] & 0xffff) != 0 ? moved_ids[lane] & 0xffff : moved_ids[lane] >> 16;
    context.frame.set(planes[0], lane, moved[lane], moved[lane] != 0 ? static_cast<OriginId>(id) : OriginId{0});
  }
  return &inst + 1;
}

/// An instruction whose data flow is not modelled: results count as defined, and the answer as incomplete if a source
/// was not.
struct TrackedUnknown {
  std::vector<uint32_t> sources, results;
  std::string name;
};

const Inst* track_unknown(Warp& warp, const Inst& inst) {
  const auto& unknown = *static_cast<const TrackedUnknown*>(inst.extra);
  Context context(warp, inst);
  for (const uint32_t plane : unknown.sources) {
    if (context.clean(plane)) continue;
    bool some = false;
    for_each_lane(warp.mask, [&](unsigned lane) { some = some || context.frame.get(plane, lane) != 0; });
    if (some) {
      context.definedness.add_gap("undefined values reached " + unknown.name + ", through which they are not followed");
    }
  }
  for (const uint32_t plane : unknown.results) context.define(plane);
  return &inst + 1;
}

/// Memory that an instruction other than a store writes with known values.
const Inst* track_written(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MemoryOp*>(inst.extra);
  Context context(warp, inst);
  for_each_lane(warp.mask, [&](unsigned lane) {
    const Located where = locate(op.space, lane_address(warp, op, lane));
    context.definedness.define(view_of(context.definedness, warp, where, lane, op.bytes), op.bytes, context.agent,
                               context.site);
  });
  return &inst + 1;
}

class TrackCode final : public DefinednessCode {
 public:
  explicit TrackCode(Decoder& decoder) : decoder_(decoder), carry_(plane_count(decoder.function()) - 1) {}

  void before_guard(const Instruction& instruction) override {
    if (instruction.guard == ptx::kNone) return;
    const bool branches = is_control(instruction.op);
    emit_uses({{branches ? UndefinedUse::branch : UndefinedUse::guard, instruction.guard, 1}});
  }

  void before(const Instruction& instruction) override {
    uses(instruction);
    if (const Written written = written_by(instruction); written.bytes != 0) {
      const MemoryOp op = address_operand(decoder_, instruction.operands.at(written.operand), written.space,
                                          written.bytes, AccessKind::write);
      emit(&track_written, op);
    }
    switch (instruction.op) {
      case Op::ld:
      case Op::ldu:
      case Op::st:
      case Op::atom:
      case Op::red:
        access(instruction);
        return;
      case Op::st_async:
      case Op::red_async:
        remote(instruction);
        return;
      case Op::call:
        emit_results(decoder_, instruction);
        return;
      case Op::shfl_sync:
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
        emit(&save_operands, group(instruction));
        return;
      case Op::ldmatrix:
      case Op::stmatrix:
        emit(&save_rows, matrix(instruction));
        return;
      default:
        break;
    }
    if (is_plain(instruction)) flow(instruction);
  }

  void after(const Instruction& instruction) override {
    switch (instruction.op) {
      case Op::shfl_sync:
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
        emit(&track_group, group(instruction));
        return;
      case Op::ldmatrix:
      case Op::stmatrix:
        emit(&track_matrix, matrix(instruction));
        return;
      case Op::movmatrix:
        emit(&track_transpose,
             std::array<uint32_t, 2>{plane_of(instruction.operands.at(0)), plane_of(instruction.operands.at(1))});
        return;
      case Op::mma:
        product(instruction);
        return;
      case Op::wgmma_mma_async:
        return;
      default:
        break;
    }
    if (is_plain(instruction) || is_memory(instruction.op)) return;
    // Results of synchronising instructions are known: their operands are uses.
    TrackedUnknown rest;
    for_each_write(instruction, [&](uint32_t reg) { add_planes(reg, rest.results); });
    if (!is_synchronising(instruction.op)) {
      for_each_read(instruction, [&](uint32_t reg) { add_planes(reg, rest.sources); });
      rest.name = std::string(ptx::opcode_text(instruction.op));
    }
    if (!rest.results.empty() || !rest.sources.empty()) emit(&track_unknown, std::move(rest));
  }

 private:
  static bool is_memory(Op op) { return is_access(op) || op == Op::st_async || op == Op::red_async; }

  static bool is_synchronising(Op op) {
    switch (op) {
      case Op::bar:
      case Op::barrier:
      case Op::bar_warp_sync:
      case Op::elect_sync:
      case Op::activemask:
      case Op::mbarrier_init:
      case Op::mbarrier_inval:
      case Op::mbarrier_expect_tx:
      case Op::mbarrier_complete_tx:
      case Op::mbarrier_arrive:
      case Op::mbarrier_arrive_drop:
      case Op::mbarrier_pending_count:
      case Op::mbarrier_test_wait:
      case Op::mbarrier_try_wait:
      case Op::cp_async:
      case Op::cp_async_mbarrier_arrive:
      case Op::cp_async_bulk:
      case Op::cp_reduce_async_bulk:
      case Op::cp_async_bulk_tensor:
      case Op::cp_reduce_async_bulk_tensor:
      case Op::cp_async_bulk_prefetch:
      case Op::cp_async_bulk_prefetch_tensor:
      case Op::tensormap_replace:
      case Op::tensormap_cp_fenceproxy:
      case Op::fence_proxy:
      case Op::prefetch:
      case Op::prefetchu:
      case Op::applypriority:
      case Op::discard:
      case Op::nanosleep:
        return true;
      default:
        return false;
    }
  }

  /// One lane's registers in, the same lane's registers out.
  static bool is_plain(const Instruction& instruction) {
    if (!defines_first(instruction) || is_memory(instruction.op) || is_synchronising(instruction.op)) return false;
    switch (instruction.op) {
      case Op::shfl_sync:
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
      case Op::ldmatrix:
      case Op::movmatrix:
      case Op::mma:
      case Op::mma_sp:
      case Op::mma_sp_ordered:
      case Op::wgmma_mma_async:
      case Op::wgmma_mma_async_sp:
      case Op::wmma_load_a:
      case Op::wmma_load_b:
      case Op::wmma_load_c:
      case Op::wmma_mma:
      case Op::multimem:
      case Op::call:
        return false;
      default:
        return true;
    }
  }

  unsigned register_bits(uint32_t reg) const { return type_bits(decoder_.function().registers[reg].type); }
  uint32_t plane_of(const Operand& operand) const {
    return operand.kind == OperandKind::reg ? operand.index : ptx::kNone;
  }
  void add_planes(uint32_t reg, std::vector<uint32_t>& planes) const {
    planes.push_back(reg);
    if (register_bits(reg) == 128) planes.push_back(high_plane(decoder_.function(), reg));
  }

  template <class T>
  void emit(Handler handler, T description) {
    const T* kept = decoder_.keep(std::move(description));
    decoder_.emit({handler, handler}).extra = kept;
  }
  void emit_uses(std::vector<TrackedUse> uses) {
    if (!uses.empty()) emit(&track_uses, std::move(uses));
  }

  /// A source with its value where an instruction's flow may need it.
  TrackedSource source(const Operand& operand, Type type) {
    TrackedSource source;
    Operand plain = operand;
    plain.negated = false;
    source.inverted = operand.negated;
    if (operand.kind == OperandKind::reg) {
      source.plane = operand.index;
      source.width = static_cast<uint8_t>(std::min(64u, register_bits(operand.index)));
      if (register_bits(operand.index) == 128) return source;
    } else if (operand.kind == OperandKind::integer && type != Type::pred) {
      type = Type::b64;
    } else if (operand.kind == OperandKind::special) {
      const auto special = static_cast<ptx::SpecialRegister>(operand.index);
      if (Decoder::is_dynamic(special)) return source;
    }
    try {
      source.value = value_operand(decoder_, plain, type);
      source.has_value = true;
    } catch (const std::exception&) {
      // The instruction itself will say why it cannot be decoded.
    }
    return source;
  }

  void add_sources(TrackedFlow& flow, const Operand& operand, Type type, unsigned width) {
    if (operand.kind == OperandKind::vector) {
      for (const Operand& element : operand.elements)
        add_sources(flow, element, type, width / static_cast<unsigned>(operand.elements.size()));
      return;
    }
    if (operand.kind == OperandKind::reg && register_bits(operand.index) == 128) {
      for (const uint32_t plane : {operand.index, high_plane(decoder_.function(), operand.index)}) {
        TrackedSource half;
        half.plane = plane;
        flow.sources.push_back(half);
        flow.source_widths.push_back(64);
      }
      return;
    }
    const bool predicate = operand.kind == OperandKind::reg && register_bits(operand.index) == 1;
    flow.sources.push_back(source(operand, predicate ? Type::pred : type));
    const unsigned own = operand.kind == OperandKind::reg ? register_bits(operand.index) : 64;
    flow.source_widths.push_back(static_cast<uint8_t>(flow.rule.flow == Flow::repack ? std::min(width, own) : own));
  }

  void add_results(TrackedFlow& flow, const Operand& operand, unsigned width) {
    if (operand.kind == OperandKind::vector || operand.kind == OperandKind::predicate_pair) {
      for (const Operand& element : operand.elements)
        add_results(flow, element, width / static_cast<unsigned>(operand.elements.size()));
      return;
    }
    if (operand.kind != OperandKind::reg) {
      flow.results.push_back(ptx::kNone);
      flow.result_widths.push_back(static_cast<uint8_t>(std::clamp(width, 1u, 64u)));
      return;
    }
    const unsigned own = register_bits(operand.index);
    add_planes(operand.index, flow.results);
    flow.result_widths.push_back(static_cast<uint8_t>(
        std::min(64u, flow.rule.flow == Flow::repack && own != 1 ? std::min(own, std::max(width, 1u)) : own)));
    if (own == 128) flow.result_widths.push_back(64);
  }

  void flow(const Instruction& instruction) {
    TrackedFlow flow;
    flow.rule = flow_of(instruction);
    const Type type = instruction.type();
    const unsigned width = type_bits(type);
    add_results(flow, instruction.operands[0], width);
    for (size_t o = 1; o < instruction.operands.size(); ++o) {
      const Operand& operand = instruction.operands[o];
      // The address forms of createpolicy and mapa's variables hold nothing undefined but their base.
      if (operand.kind == OperandKind::label || operand.kind == OperandKind::target_list) continue;
      if (operand.kind == OperandKind::address) continue;
      Type read_as = type;
      if (instruction.op == Op::cvt) read_as = instruction.type(1);
      if (instruction.op == Op::set) read_as = instruction.type(1);
      if (instruction.op == Op::slct && o == 3) read_as = instruction.type(1);
      const bool last_predicate = (instruction.op == Op::selp || instruction.op == Op::setp) && o == 3;
      if (last_predicate || type == Type::pred) read_as = Type::pred;
      add_sources(flow, operand, read_as, width);
    }
    // Extended-precision arithmetic (PTX ISA): the carry flag is one more source and result.
    const bool reads_carry = instruction.op == Op::addc || instruction.op == Op::subc || instruction.op == Op::madc;
    if (reads_carry) {
      TrackedSource carry;
      carry.plane = carry_;
      carry.width = 1;
      flow.sources.push_back(carry);
      flow.source_widths.push_back(1);
    }
    if (flow.sources.size() > 16 || flow.results.size() > 16) return;
    if (instruction.has(Mod::cc)) {
      // The carry depends on everything; the sum's own rule on less.
      TrackedFlow carried = flow;
      carried.rule = FlowRule{};
      carried.results = {carry_};
      carried.result_widths = {1};
      // Before the sum, which may overwrite its sources; its own carry-in was read into the sum's flow first.
      if (reads_carry) {
        flow.results.push_back(carry_);
        flow.result_widths.push_back(1);
        flow.rule = FlowRule{};
      } else {
        emit(&track_flow, std::move(carried));
      }
    }
    emit(&track_flow, std::move(flow));
  }

  void access(const Instruction& instruction) {
    TrackedAccess access;
    const bool tracked = memory_op(decoder_, instruction, access.memory);
    const bool load = instruction.op == Op::ld || instruction.op == Op::ldu;
    const size_t data = load ? 0 : address_position(instruction) + 1;
    const auto elements = [](const Operand& operand) {
      return operand.kind == OperandKind::vector ? operand.elements : std::vector<Operand>{operand};
    };
    const auto planes = [&](const Operand& operand) {
      std::vector<uint32_t> list;
      if (operand.kind == OperandKind::reg) add_planes(operand.index, list);
      return list;
    };
    if (!tracked) {
      // Parameters and constants.
      if (!load) return;
      TrackedUnknown defined;
      for (const Operand& element : elements(instruction.operands[0])) {
        if (element.kind == OperandKind::reg) add_planes(element.index, defined.results);
      }
      emit(&track_unknown, std::move(defined));
      return;
    }
    if (load || instruction.op == Op::st) {
      for (const Operand& element : elements(instruction.operands.at(data))) {
        access.data.push_back(planes(element));
        access.widths.push_back(
            static_cast<uint8_t>(element.kind == OperandKind::reg ? std::min(64u, register_bits(element.index)) : 64u));
      }
      const Type type = instruction.type();
      access.sign_extends = type == Type::s8 || type == Type::s16 || type == Type::s32;
      emit(load ? &track_load : &track_store, std::move(access));
      return;
    }
    TrackedAtomic atomic;
    for (const Mod mod :
         {Mod::exch, Mod::cas, Mod::add, Mod::and_, Mod::or_, Mod::xor_, Mod::inc, Mod::dec, Mod::min, Mod::max}) {
      if (instruction.has(mod)) {
        atomic.what = mod;
        break;
      }
    }
    const Type type = instruction.type();
    atomic.integer = type == Type::u32 || type == Type::s32 || type == Type::u64 || type == Type::s64;
    atomic.pairs = type == Type::f16x2 || type == Type::bf16x2;
    size_t next = address_position(instruction) + 1;
    if (atomic.what == Mod::cas) access.compare.push_back(source(instruction.operands.at(next++), type));
    for (const Operand& element : elements(instruction.operands.at(next))) {
      access.data.push_back(planes(element));
      access.values.push_back(source(element, type));
    }
    if (instruction.op == Op::atom) {
      for (const Operand& element : elements(instruction.operands.at(0))) access.results.push_back(planes(element));
    }
    atomic.access = std::move(access);
    emit(&track_atomic, std::move(atomic));
  }

  void remote(const Instruction& instruction) {
    TrackedAccess access;
    const Operand& value = instruction.operands.at(1);
    const auto list = value.kind == OperandKind::vector ? value.elements : std::vector<Operand>{value};
    for (const Operand& element : list) {
      access.data.emplace_back();
      if (element.kind == OperandKind::reg) add_planes(element.index, access.data.back());
    }
    access.memory.element_bytes = type_bits(instruction.type()) / 8;
    access.memory.elements = static_cast<unsigned>(list.size());
    emit(&track_remote, std::move(access));
  }

  TrackedGroup group(const Instruction& instruction) {
    TrackedGroup group;
    group.op = instruction.op;
    const auto& operands = instruction.operands;
    const Operand* target = &operands.at(0);
    if (target->kind == OperandKind::predicate_pair) {
      group.predicate = plane_of(target->elements.at(1));
      target = &target->elements[0];
    }
    group.result = plane_of(*target);
    group.source = source(operands.at(1), group.op == Op::vote_sync ? Type::pred : instruction.type());
    size_t members = 2;
    if (group.op == Op::shfl_sync) {
      group.second = value_operand(decoder_, operands.at(2), Type::u32);
      group.third = value_operand(decoder_, operands.at(3), Type::u32);
      members = 4;
    }
    group.members = value_operand(decoder_, operands.at(members), Type::u32);
    group.has_members = true;
    for (const Mod mod : {Mod::up, Mod::down, Mod::bfly, Mod::idx, Mod::ballot, Mod::all, Mod::any, Mod::uni, Mod::and_,
                          Mod::or_, Mod::xor_}) {
      if (instruction.has(mod)) group.mode = mod;
    }
    const bool predicate = group.op == Op::vote_sync && group.mode != Mod::ballot;
    group.width = predicate ? 1 : 32;
    return group;
  }

  TrackedMatrix matrix(const Instruction& instruction) {
    TrackedMatrix matrix;
    matrix.load = instruction.op == Op::ldmatrix;
    matrix.count = instruction.has(Mod::x4) ? 4 : instruction.has(Mod::x2) ? 2 : 1;
    matrix.transpose = instruction.has(Mod::trans);
    matrix.address = address_operand(decoder_, instruction.operands.at(matrix.load ? 1 : 0), instruction.space(), 16,
                                     AccessKind::read);
    const Operand& list = instruction.operands.at(matrix.load ? 0 : 1);
    for (unsigned m = 0; m < matrix.count; ++m) {
      matrix.planes[m] = plane_of(list.kind == OperandKind::vector ? list.elements.at(m) : list);
    }
    return matrix;
  }

  void product(const Instruction& instruction) {
    TrackedProduct product;
    const auto fragment = [&](const Operand& operand) {
      std::vector<uint32_t> planes;
      if (operand.kind == OperandKind::vector) {
        for (const Operand& element : operand.elements) planes.push_back(plane_of(element));
      } else {
        planes.push_back(plane_of(operand));
      }
      return planes;
    };
    const auto& operands = instruction.operands;
    product.d = fragment(operands.at(0));
    product.a = fragment(operands.at(1));
    product.b = fragment(operands.at(2));
    product.c = fragment(operands.at(3));
    for (const Mod mod : instruction.mods) {
      if (const ptx::MatrixShape shape = ptx::mod_shape(mod); shape.m != 0) product.tall = shape.m == 16;
    }
    product.packed = instruction.type(0) == Type::f16;
    product.width = instruction.type(0) == Type::f64 ? 64 : 32;
    if (product.c.size() != product.d.size()) return;
    emit(&track_product, std::move(product));
  }

  /// What the instruction does with an operand that must be known.
  void uses(const Instruction& instruction) {
    std::vector<TrackedUse> list;
    const auto& operands = instruction.operands;
    const auto use = [&](UndefinedUse kind, const Operand& operand, uint64_t bits = ~0ull) {
      for_each_register(operand, [&](uint32_t reg) {
        list.push_back({kind, reg, bits & low_bits(register_bits(reg))});
      });
    };
    const size_t first = defines_first(instruction) ? 1 : 0;
    size_t end = operands.size();
    if (instruction.has(Mod::L2_cache_hint) && end != 0) --end;  // a hint
    switch (instruction.op) {
      case Op::brx_idx:
        use(UndefinedUse::branch, operands.at(0));
        break;
      case Op::call:
        if (operands.at(1).kind == OperandKind::reg) use(UndefinedUse::address, operands[1]);
        break;
      case Op::shfl_sync:
        use(UndefinedUse::control, operands.at(2), 0x1f);
        use(UndefinedUse::control, operands.at(3), 0x1f1f);
        use(UndefinedUse::control, operands.at(4));
        break;
      case Op::vote_sync:
      case Op::match_sync:
      case Op::redux_sync:
        use(UndefinedUse::control, operands.at(2));
        break;
      case Op::elect_sync:
        use(UndefinedUse::control, operands.at(1));
        break;
      case Op::bar_warp_sync:
      case Op::bar:
      case Op::barrier:
      case Op::mbarrier_init:
      case Op::mbarrier_inval:
      case Op::mbarrier_expect_tx:
      case Op::mbarrier_complete_tx:
      case Op::mbarrier_arrive:
      case Op::mbarrier_arrive_drop:
      case Op::cp_async_mbarrier_arrive:
        for (size_t o = first; o < operands.size(); ++o) use(UndefinedUse::barrier, operands[o]);
        break;
      case Op::mbarrier_test_wait:
      case Op::mbarrier_try_wait:
        // Of a parity only bit 0 counts; the time limit is a hint.
        use(UndefinedUse::barrier, operands.at(1));
        use(UndefinedUse::barrier, operands.at(2), instruction.has(Mod::parity) ? 1 : ~0ull);
        break;
      case Op::mbarrier_pending_count:
        use(UndefinedUse::barrier, operands.at(1));
        break;
      case Op::wgmma_mma_async:
        for (size_t o = 1; o < operands.size(); ++o) {
          if (operands[o].kind == OperandKind::reg)
            use(register_bits(operands[o].index) == 1 ? UndefinedUse::control : UndefinedUse::address, operands[o]);
        }
        break;
      case Op::prefetch:
      case Op::prefetchu:
      case Op::applypriority:
      case Op::discard:
      case Op::nanosleep:
      case Op::cp_async_bulk_prefetch:
      case Op::cp_async_bulk_prefetch_tensor:
        break;
      default:
        for (size_t o = first; o < end; ++o) {
          if (operands[o].kind == OperandKind::address) {
            use(UndefinedUse::address, operands[o]);
          } else if (is_synchronising(instruction.op)) {
            use(UndefinedUse::control, operands[o]);
          }
        }
    }
    emit_uses(std::move(list));
  }

  Decoder& decoder_;
  uint32_t carry_;
};

}  // namespace

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
      return std::make_unique<WatchCode>(decoder,
                                         maybe_unassigned(decoder.function(), decoder.code().blocks, lifetimes));
    }
    case DefinednessMode::track:
      return std::make_unique<TrackCode>(decoder);
    default:
      return nullptr;
  }
}

}  // namespace ptxbench::emulator
