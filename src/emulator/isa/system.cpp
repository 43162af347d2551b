#include "emulator/isa/system.h"

#include <algorithm>

#include "emulator/isa/engine.h"
#include "emulator/scheduler.h"

/// Fences, griddepcontrol, nanosleep, setmaxnreg and the cache-control instructions.
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;
using ptx::StateSpace;

namespace {

// --- fences: one run of the emulator is sequentially consistent, so they only tell the observer
// --------------------------

struct FenceOp {
  FenceKind kind{};
  Semantics semantics{};
  Scope scope{};
  bool global_space = true, shared_space = true;
  bool has_map = false;
  MemoryOp map;
};

const Inst* fence(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const FenceOp*>(inst.extra);
  if (op.has_map) {
    // The acquired range must be memory; lanes usually name the same map.
    for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
      const unsigned lane = first_lane(lanes);
      const uint64_t address = lane_address(warp, op.map, lane);
      if (lane == first_lane(warp.mask) &&
          resolve_address(warp, inst, op.map.space, address, 128, 128, false, lane) == nullptr) {
        return nullptr;
      }
    }
  }
  Observer* observer = warp.cluster->launch->observer;
  if (observer == nullptr) return &inst + 1;
  FenceEvent event;
  event.site = site_of(warp, inst);
  event.kind = op.kind;
  event.semantics = op.semantics;
  event.scope = op.scope;
  event.global_space = op.global_space;
  event.shared_space = op.shared_space;
  uint32_t left = warp.mask;
  while (left != 0) {
    uint32_t group = left;
    if (op.has_map) {
      const uint64_t address = lane_address(warp, op.map, first_lane(left));
      group = 0;
      for_each_lane(left,
                    [&](unsigned lane) { group |= lane_address(warp, op.map, lane) == address ? 1u << lane : 0; });
      event.tensor_map = {locate(op.map.space, address).address, 128};
    }
    event.agent = agent_of(warp, group);
    observer->on_fence(event);
    left &= ~group;
  }
  return &inst + 1;
}

void emit_fence(Decoder& decoder, FenceOp op) { decoder.emit({&fence, &fence}).extra = decoder.keep(std::move(op)); }

void name_spaces(const ptx::Instruction& instruction, FenceOp& op) {
  const StateSpace space = instruction.space();
  op.global_space = space == StateSpace::generic || space == StateSpace::global;
  op.shared_space = space != StateSpace::global;
}

void bind_fence(Decoder& decoder, const ptx::Instruction& instruction) {
  FenceOp op;
  op.kind = FenceKind::thread;
  op.semantics = semantics_of(instruction, Semantics::acq_rel);
  op.scope = scope_of(instruction, Scope::sys);
  if (instruction.has(Mod::sync_restrict_shared_cta) || instruction.has(Mod::sync_restrict_shared_cluster)) {
    op.global_space = false;
  }
  emit_fence(decoder, std::move(op));
}

void bind_membar(Decoder& decoder, const ptx::Instruction& instruction) {
  FenceOp op;
  if (instruction.has(Mod::proxy)) {
    op.kind = instruction.has(Mod::alias) ? FenceKind::proxy_alias : FenceKind::proxy_async;
    op.semantics = Semantics::acq_rel;
    op.scope = Scope::sys;
    name_spaces(instruction, op);
  } else {
    // membar is a synonym of fence.sc at the same scope.
    op.kind = FenceKind::thread;
    op.semantics = Semantics::sc;
    op.scope = scope_of(instruction, Scope::sys);
  }
  emit_fence(decoder, std::move(op));
}

void bind_mbarrier_init_fence(Decoder& decoder, const ptx::Instruction&) {
  FenceOp op;
  op.kind = FenceKind::mbarrier_init;
  op.semantics = Semantics::release;
  op.scope = Scope::cluster;
  op.global_space = false;
  emit_fence(decoder, std::move(op));
}

void bind_proxy_fence(Decoder& decoder, const ptx::Instruction& instruction) {
  FenceOp op;
  op.scope = scope_of(instruction, Scope::sys);
  op.semantics = semantics_of(instruction, Semantics::acq_rel);
  if (instruction.has(Mod::tensormap_generic)) {
    op.kind = FenceKind::proxy_tensor_map;
    op.shared_space = false;
    if (instruction.has(Mod::acquire)) {
      op.has_map = true;
      op.map = address_operand(decoder, instruction.operands.at(0), StateSpace::generic, 128);
    }
  } else if (instruction.has(Mod::alias)) {
    op.kind = FenceKind::proxy_alias;
  } else {
    op.kind = FenceKind::proxy_async;
    name_spaces(instruction, op);
    if (instruction.has(Mod::async_generic)) op.global_space = false;  // sync_restrict::shared forms
  }
  emit_fence(decoder, std::move(op));
}

// --- grid dependencies: launches of the emulator run one after another, so the predecessor is complete
// -------------------

const Inst* grid_dependency(Warp& warp, const Inst& inst) {
  if (Observer* observer = warp.cluster->launch->observer) {
    BarrierEvent event;
    event.agent = agent_of(warp, warp.mask);
    event.site = site_of(warp, inst);
    event.kind = BarrierKind::grid_dependency;
    event.action = inst.aux != 0 ? BarrierAction::wait_end : BarrierAction::arrive;
    event.semantics = inst.aux != 0 ? Semantics::acquire : Semantics::weak;
    observer->on_barrier(event);
  }
  return &inst + 1;
}

void bind_grid_dependency(Decoder& decoder, const ptx::Instruction& instruction) {
  decoder.emit({&grid_dependency, &grid_dependency}).aux = instruction.has(Mod::wait) ? 1 : 0;
}

// --- nanosleep
// ----------------------------------------------------------------------------------------------------------

const Inst* nanosleep(Warp& warp, const Inst& inst) {
  // Time is not modelled. Sleeping uses up a part of the warp's turn; it is neither progress nor a sign of waiting,
  // which only the reads around it show.
  warp.forfeit(256);
  return &inst + 1;
}
void bind_nanosleep(Decoder& decoder, const ptx::Instruction&) { decoder.emit({&nanosleep, &nanosleep}); }

// --- setmaxnreg
// ---------------------------------------------------------------------------------------------------------

const Inst* set_registers(Warp& warp, const Inst& inst) {
  const auto wanted = static_cast<uint32_t>(inst.imm);
  const bool increase = inst.aux != 0;
  if (warp.registers_per_thread == 0) return &inst + 1;  // entry_registers(): ptxas ignores the instruction
  const uint32_t current = warp.registers_per_thread;
  if (increase ? wanted < current : wanted > current) {
    return warp.fault(
        inst, "launch.setmaxnreg",
        fmt::format("setmaxnreg.{} to {} registers, but the warp holds {}", increase ? "inc" : "dec", wanted, current),
        "use .dec to a smaller and .inc to a larger count than the warp holds (launch bounds decide the first)");
  }
  if (increase) {
    const uint32_t needed = (wanted - current) * kLanes;
    if (warp.cta->register_pool < needed) {
      warp.fragment().wait_id = needed;
      return warp.block(FragmentState::register_pool, &inst);
    }
    warp.cta->register_pool -= needed;
  } else {
    warp.cta->register_pool += (current - wanted) * kLanes;
  }
  warp.registers_per_thread = wanted;
  warp.side_effect();
  return &inst + 1;
}

const Inst* set_registers_masked(Warp& warp, const Inst& inst) { return converge(warp, inst, "sync.divergent"); }

void bind_set_registers(Decoder& decoder, const ptx::Instruction& instruction) {
  const auto count = Decoder::immediate(instruction.operands.at(0));
  if (!count) throw std::runtime_error("setmaxnreg with a register operand");
  Inst& inst = decoder.emit({&set_registers, &set_registers_masked});
  inst.imm = *count;
  inst.aux = instruction.has(Mod::inc) ? 1 : 0;
}

// --- caches: hints without effect on values
// -----------------------------------------------------------------------------

struct CacheOp {
  MemoryOp address;
  uint32_t alignment = 1;
  bool must_exist = false;
};

const Inst* cache_hint(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const CacheOp*>(inst.extra);
  if (!op.must_exist) return &inst + 1;  // a prefetch never faults
  LanePointers pointers;
  return resolve_lanes(warp, inst, op.address, pointers, op.alignment) ? &inst + 1 : nullptr;
}

/// discard.L2 makes the 128 bytes indeterminate: leaving them as they are is one of the allowed outcomes, and the
/// observer learns of a write.
const Inst* discard(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const CacheOp*>(inst.extra);
  LanePointers pointers;
  if (!resolve_lanes(warp, inst, op.address, pointers, op.alignment)) return nullptr;
  observe_access(warp, inst, op.address);
  warp.side_effect();
  return &inst + 1;
}

void bind_prefetch(Decoder& decoder, const ptx::Instruction& instruction) {
  CacheOp op;
  op.address = address_operand(decoder, instruction.operands.at(0), instruction.space(), 1);
  decoder.emit({&cache_hint, &cache_hint}).extra = decoder.keep(std::move(op));
}

void bind_line(Decoder& decoder, const ptx::Instruction& instruction) {
  CacheOp op;
  const bool writes = instruction.op == Op::discard;
  op.address = address_operand(decoder, instruction.operands.at(0), StateSpace::global, 128,
                               writes ? AccessKind::write : AccessKind::read);
  op.alignment = 128;
  op.must_exist = true;
  const Handler handler = writes ? &discard : &cache_hint;
  decoder.emit({handler, handler}).extra = decoder.keep(std::move(op));
}

}  // namespace

uint32_t entry_registers(const ptx::Function& kernel) {
  if (kernel.maxnreg != 0) return kernel.maxnreg / 8 * 8;
  const uint32_t* bound = kernel.reqntid[0] != 0 ? kernel.reqntid : kernel.maxntid;
  if (bound[0] == 0) return 0;
  // The directives may hold any number; a block has at most 1024 threads.
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) threads = std::min<uint64_t>(1024, threads * std::clamp(bound[i], 1u, 1024u));
  const uint64_t rounded = (threads + kLanes - 1) / kLanes * kLanes;
  const uint64_t share = DeviceLimits::kRegistersPerSm / (rounded * std::max(1u, kernel.minnctapersm));
  return static_cast<uint32_t>(std::min<uint64_t>(255, share) / 8 * 8);
}

bool registers_available(const Warp& warp, const Fragment& fragment) {
  return warp.cta->register_pool >= fragment.wait_id;
}

void register_system(BinderTable& table) {
  table.set(Op::fence, &bind_fence);
  table.set(Op::membar, &bind_membar);
  table.set(Op::fence_mbarrier_init, &bind_mbarrier_init_fence);
  table.set(Op::fence_proxy, &bind_proxy_fence);
  table.set(Op::griddepcontrol, &bind_grid_dependency);
  table.set(Op::nanosleep, &bind_nanosleep);
  table.set(Op::setmaxnreg, &bind_set_registers);
  table.set(Op::prefetch, &bind_prefetch);
  table.set(Op::prefetchu, &bind_prefetch);
  table.set(Op::applypriority, &bind_line);
  table.set(Op::discard, &bind_line);
}

}  // namespace ptxbench::emulator
