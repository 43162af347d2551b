#pragma once

#include <bit>
#include <cstdint>
#include <string>

#include "emulator/decoder.h"
#include "emulator/isa/memory_semantics.h"
#include "emulator/memory_access.h"
#include "emulator/warp.h"

/// What the asynchronous and synchronising instruction families share: operands read lane by lane, convergence of
/// `.aligned` instructions, and the origin of an operation whose effects (and faults) come after its issue.
namespace ptxbench::emulator {

/// A source operand that a handler reads lane by lane.
struct ValueOperand {
  Slot slot;
  unsigned bits = 32;
  uint64_t get(Warp& warp, unsigned lane) const {
    const bool uniform = slot.shape == Shape::uniform;
    switch (bits) {
      case 1:
        return *warp.slot<uint32_t>(slot.offset) >> lane & 1;
      case 8:
      case 16:
        return uniform ? *warp.slot<uint16_t>(slot.offset) : warp.slot<uint16_t>(slot.offset)[lane];
      case 32:
        return uniform ? *warp.slot<uint32_t>(slot.offset) : warp.slot<uint32_t>(slot.offset)[lane];
      default:
        return uniform ? *warp.slot<uint64_t>(slot.offset) : warp.slot<uint64_t>(slot.offset)[lane];
    }
  }
};
ValueOperand value_operand(Decoder& decoder, const ptx::Operand& operand, ptx::Type type);
/// `[base+offset]` of `bytes` bytes in `space`; the pieces an engine needs beyond it are left at their defaults.
MemoryOp address_operand(Decoder& decoder, const ptx::Operand& operand, ptx::StateSpace space, uint32_t bytes,
                         AccessKind kind = AccessKind::read);

/// Calls `visit(lane)` for every set bit, lowest first.
template <class Visit>
void for_each_lane(uint32_t lanes, Visit visit) {
  for (; lanes != 0; lanes &= lanes - 1) visit(static_cast<unsigned>(std::countr_zero(lanes)));
}
inline unsigned first_lane(uint32_t lanes) { return static_cast<unsigned>(std::countr_zero(lanes)); }

/// Writes the predicates of the active lanes.
inline void write_predicate(Warp& warp, uint32_t slot, uint32_t value) {
  uint32_t& mask = *warp.slot<uint32_t>(slot);
  mask = (mask & ~warp.mask) | (value & warp.mask);
}

/// The masked handler of a `.sync.aligned` instruction that needs all 32 lanes: diverged lanes wait for their siblings;
/// where some have exited nobody can come any more and the instruction faults with `rule`.
const Inst* converge(Warp& warp, const Inst& inst, const char* rule);

Semantics semantics_of(const ptx::Instruction& instruction, Semantics otherwise);

/// Where an operation came from, for events and faults after its issue.
struct Origin {
  Agent agent;
  Site site;
  uint32_t cta[3]{};
};
Origin origin_of(const Warp& warp, const Inst& inst, uint32_t lanes);
/// Records a fault of an operation in flight; the first one of a cluster counts.
void engine_fault(Cluster& cluster, const Origin& origin, std::string rule, std::string message, std::string remedy,
                  uint64_t address = 0);
/// After submitting operations: null (leave the run loop) if one of them faulted at once, else the next instruction.
inline const Inst* next_unless_faulted(Warp& warp, const Inst& inst) {
  return warp.cluster->fault ? warp.leave(Stop::fault, nullptr) : &inst + 1;
}

/// Re-examines the cluster barrier after threads exited.
void recheck_cluster_barrier(Cluster& cluster);

/// "CTA rank 1, shared + 0x40" for messages.
std::string describe_shared(const Cluster& cluster, uint64_t address);

}  // namespace ptxbench::emulator
