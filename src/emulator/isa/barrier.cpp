#include "emulator/isa/engine.h"
#include "emulator/memory_access.h"

/// bar and barrier (PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier"): the sixteen
/// named barriers of a CTA. They count threads in whole warps: a warp's 32 are added once every live lane of it has
/// arrived.
namespace ptxbench::emulator {
namespace {

using ptx::Mod;
using ptx::Type;

enum class Reduction : uint8_t { none, popc, all, any };

struct BarrierOp {
  ValueOperand id, count;
  bool has_count = false;
  bool waits = true;  ///< sync and red; arrive does not
  bool aligned = false;
  Reduction reduction = Reduction::none;
  ValueOperand predicate;
  uint32_t destination = 0;
};

uint32_t expected_threads(const Cta& cta, const CtaBarrier& barrier) {
  return barrier.expected != 0 ? barrier.expected : cta.live_warps * kLanes;
}

void count_warp(CtaBarrier& barrier, const Warp& warp) {
  const uint32_t bit = 1u << warp.index;
  if ((barrier.counted & bit) != 0 || barrier.arrived[warp.index] == 0) return;
  if ((warp.live & ~barrier.arrived[warp.index]) != 0) return;
  barrier.counted |= bit;
  barrier.count += kLanes;
}

uint32_t exited_warps(const Cta& cta) {
  uint32_t exited = 0;
  for (const Warp* warp : cta.warps) exited |= warp->live == 0 ? 1u << warp->index : 0;
  return exited;
}

bool complete_if_full(Cta& cta, CtaBarrier& barrier) {
  if (!barrier.active || barrier.count == 0 || barrier.count < expected_threads(cta, barrier)) return false;
  if (Touches* touches = cta.warps.front()->touches; touches != nullptr) {
    // Who arrives waits as well in launches that are proved; a barrier of some warps only is no order to rely on.
    const uint32_t exited = exited_warps(cta);
    const uint32_t all = kFullMask >> (kLanes - cta.warps.size());
    if ((barrier.counted | exited) == all && !touches->shared.close(exited)) give_up_proof(*cta.warps.front());
  }
  ++barrier.generation;
  barrier.last_popc = barrier.red_popc;
  barrier.last_and = barrier.red_and;
  barrier.last_or = barrier.red_or;
  barrier.red_popc = 0;
  barrier.red_and = true;
  barrier.red_or = false;
  barrier.arrived.fill(0);
  barrier.counted = barrier.count = barrier.expected = 0;
  barrier.active = barrier.reducing = false;
  ++cta.cluster->progress;
  return true;
}

void send(Warp& warp, const Inst& inst, BarrierAction action, uint32_t id, uint64_t generation, uint32_t lanes,
          bool aligned) {
  Observer* observer = warp.cluster->launch->observer;
  if (observer == nullptr) return;
  BarrierEvent event;
  event.agent = agent_of(warp, lanes);
  event.site = site_of(warp, inst);
  event.kind = BarrierKind::cta;
  event.action = action;
  event.id = id;
  event.generation = generation;
  event.aligned = aligned;
  event.semantics = Semantics::acq_rel;
  observer->on_barrier(event);
}

/// An operand that must have one value for all active lanes.
bool one_value(Warp& warp, const ValueOperand& operand, uint32_t& value) {
  value = static_cast<uint32_t>(operand.get(warp, first_lane(warp.mask)));
  if (operand.slot.shape == Shape::uniform) return true;
  bool same = true;
  for_each_lane(warp.mask,
                [&](unsigned lane) { same = same && static_cast<uint32_t>(operand.get(warp, lane)) == value; });
  return same;
}

const Inst* arrive(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const BarrierOp*>(inst.extra);
  uint32_t id = 0, count = 0;
  if (!one_value(warp, op.id, id) || (op.has_count && !one_value(warp, op.count, count))) {
    return warp.fault(inst, op.aligned ? "sync.divergent" : "unsupported.instruction",
                      "the lanes of one warp name different barriers or thread counts in one instruction",
                      "branch so that each barrier instruction has one barrier and one count per warp");
  }
  if (id > 15) {
    return warp.fault(inst, "sync.barrier-id", fmt::format("barrier {} does not exist: a CTA has barriers 0 to 15", id),
                      "use a barrier number from 0 to 15");
  }
  if (op.has_count && (count == 0 || count % kLanes != 0)) {
    return warp.fault(inst, "sync.barrier-count",
                      fmt::format("barrier {} is given {} threads, which is not a positive multiple of 32", id, count),
                      "a barrier counts whole warps: pass 32 times the number of participating warps");
  }
  Cta& cta = *warp.cta;
  CtaBarrier& barrier = cta.barriers[id];
  const bool reducing = op.reduction != Reduction::none;
  if (barrier.active) {
    const uint32_t expected = expected_threads(cta, barrier);
    const uint32_t wanted = count != 0 ? count : cta.live_warps * kLanes;
    if (expected != wanted || barrier.reducing != reducing) {
      return warp.fault(
          inst, "sync.barrier-mismatch",
          barrier.reducing != reducing
              ? fmt::format("barrier {} is used by barrier.red and by another barrier instruction in one phase", id)
              : fmt::format("barrier {} waits for {} threads in this phase, but this instruction says {}", id, expected,
                            wanted),
          "all participants of one barrier phase must use the same kind of instruction and the same thread count");
    }
  } else {
    barrier.active = true;
    barrier.reducing = reducing;
    barrier.expected = count;
  }
  if ((barrier.counted >> warp.index & 1) != 0) {
    // The hardware only counts: a warp that arrives again before the phase ends is counted again.
    barrier.counted &= ~(1u << warp.index);
    barrier.arrived[warp.index] = 0;
  }
  if (reducing) {
    for_each_lane(warp.mask, [&](unsigned lane) {
      const bool value = op.predicate.get(warp, lane) != 0;
      barrier.red_popc += value ? 1 : 0;
      barrier.red_and = barrier.red_and && value;
      barrier.red_or = barrier.red_or || value;
    });
  }
  barrier.arrived[warp.index] |= warp.mask;
  count_warp(barrier, warp);
  const uint64_t generation = barrier.generation;
  warp.side_effect();
  send(warp, inst, BarrierAction::arrive, id, generation, warp.mask, op.aligned);
  const bool complete = complete_if_full(cta, barrier);
  if (!op.waits) return &inst + 1;
  Fragment& fragment = warp.fragment();
  fragment.wait_id = id;
  fragment.wait_generation = generation;
  fragment.wait_mask = warp.mask;
  if (complete) return &inst + 1;
  send(warp, inst, BarrierAction::wait_begin, id, generation, warp.mask, op.aligned);
  return warp.block(FragmentState::barrier, &inst + 1);
}

/// Second half of sync and red: runs once the phase is over, for the lanes that arrived (a guard does not see the
/// resumption).
const Inst* leave_barrier(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const BarrierOp*>(inst.extra);
  const Fragment& fragment = warp.fragment();
  const uint32_t lanes = fragment.wait_mask & warp.mask;
  send(warp, inst, BarrierAction::wait_end, fragment.wait_id, fragment.wait_generation + 1, lanes, op.aligned);
  const CtaBarrier& barrier = warp.cta->barriers[fragment.wait_id];
  switch (op.reduction) {
    case Reduction::none:
      break;
    case Reduction::popc: {
      uint32_t* destination = warp.slot<uint32_t>(op.destination);
      for_each_lane(lanes, [&](unsigned lane) { destination[lane] = barrier.last_popc; });
      break;
    }
    case Reduction::all:
    case Reduction::any: {
      const bool value = op.reduction == Reduction::all ? barrier.last_and : barrier.last_or;
      uint32_t& destination = *warp.slot<uint32_t>(op.destination);
      destination = value ? destination | lanes : destination & ~lanes;
      break;
    }
  }
  return &inst + 1;
}

void bind_barrier(Decoder& decoder, const ptx::Instruction& instruction) {
  BarrierOp op;
  op.aligned = instruction.op == ptx::Op::bar || instruction.has(Mod::aligned);
  op.waits = !instruction.has(Mod::arrive);
  const auto& operands = instruction.operands;
  size_t next = 0;
  if (instruction.has(Mod::red)) {
    op.reduction = instruction.has(Mod::popc)   ? Reduction::popc
                   : instruction.has(Mod::and_) ? Reduction::all
                                                : Reduction::any;
    op.destination =
        decoder.vector_destination(operands.at(next++), op.reduction == Reduction::popc ? Type::u32 : Type::pred)
            .offset;
    op.predicate = {decoder.predicate(operands.back()), 1};
    op.has_count = operands.size() == 4;
  } else {
    op.has_count = operands.size() == 2;
  }
  op.id = value_operand(decoder, operands.at(next++), Type::u32);
  if (op.has_count) op.count = value_operand(decoder, operands.at(next), Type::u32);
  const bool waits = op.waits;
  const auto* kept = decoder.keep(std::move(op));
  decoder.emit({&arrive, &arrive}).extra = kept;
  if (waits) decoder.emit({&leave_barrier, &leave_barrier}).extra = kept;
}

}  // namespace

void recheck_barriers(Cta& cta) {
  for (CtaBarrier& barrier : cta.barriers) {
    if (!barrier.active) continue;
    for (const Warp* warp : cta.warps) count_warp(barrier, *warp);
    complete_if_full(cta, barrier);
  }
  recheck_cluster_barrier(*cta.cluster);
}

void register_barrier(BinderTable& table) {
  table.set(ptx::Op::bar, &bind_barrier);
  table.set(ptx::Op::barrier, &bind_barrier);
}

}  // namespace ptxbench::emulator
