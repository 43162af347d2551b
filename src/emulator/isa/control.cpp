#include "emulator/isa/control.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/memory_access.h"

namespace ptxbench::emulator {
namespace {

/// Registers of a warp's activations together: beyond it a recursion counts as unbounded.
constexpr uint64_t kMaxRegisterBytes = 256u << 20;

uint32_t guard_mask(Warp& warp, uint32_t slot, bool negated) {
  if (slot == ptx::kNone) return kFullMask;
  const uint32_t value = *warp.slot<uint32_t>(slot);
  return negated ? ~value : value;
}

const Inst* bra(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const BranchInfo*>(inst.extra);
  const uint32_t taken = warp.mask & guard_mask(warp, info.guard, info.guard_negated);
  if (taken == warp.mask) return info.targets[0].inst;
  if (taken == 0) return info.next;
  return warp.diverge(taken, info.targets[0].inst, info.next, info.join);
}

const Inst* jump(Warp&, const Inst& inst) { return static_cast<const BranchInfo*>(inst.extra)->targets[0].inst; }

const Inst* brx(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const BranchInfo*>(inst.extra);
  uint32_t left = warp.mask & guard_mask(warp, info.guard, info.guard_negated);
  const uint32_t skipping = warp.mask & ~left;
  auto index_of = [&](unsigned lane) {
    return info.index.shape == Shape::uniform ? *warp.slot<uint32_t>(info.index.offset)
                                              : warp.slot<uint32_t>(info.index.offset)[lane];
  };
  const Inst* own = skipping != 0 ? info.next : nullptr;
  while (left != 0) {
    const uint32_t index = index_of(static_cast<unsigned>(std::countr_zero(left)));
    if (index >= info.targets.size()) {
      return warp.fault(inst, "sync.divergent",
                        fmt::format("brx.idx index {} is outside its table of {} targets", index, info.targets.size()),
                        "the behaviour is undefined: keep the index below the number of targets");
    }
    uint32_t lanes = 0;
    for (uint32_t m = left; m != 0; m &= m - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(m));
      if (index_of(lane) == index) lanes |= 1u << lane;
    }
    left &= ~lanes;
    if (lanes == warp.mask) return info.targets[index].inst;
    if (left == 0 && own == nullptr) return info.targets[index].inst;  // the last group keeps the running fragment
    warp.diverge(lanes, info.targets[index].inst, nullptr, info.join);
  }
  return own;
}

const Inst* exit_lanes(Warp& warp, const Inst& inst, uint32_t lanes) {
  if (Observer* observer = warp.cluster->launch->observer)
    observer->on_exit(agent_of(warp, lanes), site_of(warp, inst));
  warp.side_effect();
  warp.live &= ~lanes;
  if (warp.touches != nullptr && warp.live != 0 && !warp.touches->shared.lanes_leave(warp.index)) give_up_proof(warp);
  const uint32_t rest = warp.mask & ~lanes;
  if (rest == 0) warp.remove_current_fragment();
  warp.drop_lanes(lanes);
  if (warp.live == 0) {
    --warp.cta->live_warps;
    --warp.cluster->live_warps;
  }
  recheck_barriers(*warp.cta);
  if (rest == 0) return warp.leave(Stop::exited, nullptr);
  warp.set_mask(rest);
  return &inst + 1;
}

const Inst* exit_handler(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const BranchInfo*>(inst.extra);
  const uint32_t lanes = warp.mask & guard_mask(warp, info.guard, info.guard_negated);
  return lanes == 0 ? &inst + 1 : exit_lanes(warp, inst, lanes);
}

void copy_locals(Warp& warp, uint32_t lanes, uint64_t to, uint64_t from, uint32_t bytes) {
  for (uint32_t m = lanes; m != 0; m &= m - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(m));
    std::memcpy(warp.local_pointer(lane, to), warp.local_pointer(lane, from), bytes);
  }
}

/// Nothing makes the two ends of a call agree on the size of a parameter: what both have is copied.
uint32_t common_bytes(const FunctionCode& callee, uint32_t variable, uint32_t caller_bytes) {
  return static_cast<uint32_t>(std::min<uint64_t>(caller_bytes, callee.source->variables[variable].size));
}

const Inst* return_lanes(Warp& warp, const Inst& inst, uint32_t lanes) {
  if (warp.frame->caller == nullptr) return exit_lanes(warp, inst, lanes);
  Frame* callee = warp.frame;
  const auto& call = *static_cast<const CallInfo*>(callee->call_site->extra);
  const FunctionCode& code = *callee->function;
  for (size_t r = 0; r < call.return_offsets.size() && r < code.source->returns.size(); ++r) {
    copy_locals(warp, lanes, callee->caller->local_base + call.return_offsets[r],
                callee->local_base + code.local_offset[code.source->returns[r]],
                common_bytes(code, code.source->returns[r], call.return_bytes[r]));
  }
  // Lanes that return leave every join inside the callee; the call's own join collects them.
  int32_t j = warp.fragment().join;
  std::vector<int32_t> inner;
  while (j >= 0 && !warp.joins[static_cast<size_t>(j)].is_call) {
    inner.push_back(j);
    j = warp.joins[static_cast<size_t>(j)].parent;
  }
  const uint32_t rest = warp.mask & ~lanes;
  Join& join = warp.joins[static_cast<size_t>(j)];
  join.arrived |= lanes;
  join.pending &= ~lanes;
  const bool complete = join.pending == 0;
  for (int32_t i : inner) {
    Join& other = warp.joins[static_cast<size_t>(i)];
    if (!other.in_use) continue;
    other.pending &= ~lanes;
    if (other.pending == 0) warp.release_join(i);
  }
  if (complete) {
    Join done = warp.joins[static_cast<size_t>(j)];
    warp.joins[static_cast<size_t>(j)].in_use = false;
    warp.fragment().join = done.parent;
    warp.pop_frame(callee);
    warp.use_frame(done.frame);
    warp.set_mask(done.arrived);
    warp.update_join_target();
    return done.target;
  }
  if (rest != 0) {
    warp.set_mask(rest);
    return &inst + 1;
  }
  warp.remove_current_fragment();
  return warp.leave(Stop::switched, nullptr);
}

const Inst* ret_handler(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const BranchInfo*>(inst.extra);
  const uint32_t lanes = warp.mask & guard_mask(warp, info.guard, info.guard_negated);
  return lanes == 0 ? &inst + 1 : return_lanes(warp, inst, lanes);
}

const Inst* call_handler(Warp& warp, const Inst& inst) {
  const auto& call = *static_cast<const CallInfo*>(inst.extra);
  const uint32_t lanes = warp.mask & guard_mask(warp, call.guard, call.guard_negated);
  if (lanes == 0) return &inst + 1;
  uint32_t target = call.callee;
  if (target == ptx::kNone) {
    auto pointer_of = [&](unsigned lane) {
      return call.pointer.shape == Shape::uniform ? *warp.slot<uint64_t>(call.pointer.offset)
                                                  : warp.slot<uint64_t>(call.pointer.offset)[lane];
    };
    const uint64_t pointer = pointer_of(static_cast<unsigned>(std::countr_zero(lanes)));
    for (uint32_t m = lanes; m != 0; m &= m - 1) {
      if (pointer_of(static_cast<unsigned>(std::countr_zero(m))) != pointer) {
        return warp.fault(inst, "unsupported.instruction",
                          "an indirect call whose target differs between lanes of a warp");
      }
    }
    const auto& functions = warp.cluster->launch->program->functions;
    if ((pointer & ~0xffffffffull) != kFunctionPointerTag || (pointer & 0xffffffffu) >= functions.size() ||
        functions[pointer & 0xffffffffu] == nullptr || functions[pointer & 0xffffffffu]->source->is_entry) {
      return warp.fault(inst, "memory.out-of-bounds",
                        fmt::format("indirect call to {:#x}, which is no function", pointer));
    }
    target = static_cast<uint32_t>(pointer & 0xffffffffu);
  }
  const FunctionCode* callee = warp.cluster->launch->program->functions[target].get();
  if (callee == nullptr) {
    if (Builtin builtin = find_builtin(call.name)) return builtin(warp, inst, call, lanes);
    return warp.fault(inst, "unsupported.instruction", fmt::format("call of the external function {}", call.name),
                      "only vprintf and __assertfail exist on the emulated device; define the function in the module");
  }
  Frame* caller = warp.frame;
  // A return address takes space too, which bounds recursion without locals; the emulator's own memory for registers
  // is bounded beside it.
  const uint32_t local_base = caller->local_base + std::max(call.caller_local_bytes, 16u);
  const bool too_deep = warp.frames.size() * uint64_t{callee->frame_bytes} > kMaxRegisterBytes;
  if (too_deep || uint64_t{local_base} + callee->local_bytes > warp.local_stride) {
    return warp.fault(inst, "launch.stack-overflow",
                      fmt::format("the call of {} needs {} bytes of stack per thread, {} are there", call.name,
                                  local_base + callee->local_bytes, warp.local_stride),
                      "bound the recursion or raise cudaLimitStackSize");
  }
  Join join;
  join.target = &inst + 1;
  join.frame = caller;
  join.pending = lanes;
  join.arrived = warp.mask & ~lanes;
  join.parent = warp.fragment().join;
  join.is_call = true;
  warp.fragment().join = warp.new_join(join);
  for (size_t a = 0; a < call.argument_offsets.size() && a < callee->source->parameters.size(); ++a) {
    copy_locals(warp, lanes, local_base + callee->local_offset[callee->source->parameters[a]],
                caller->local_base + call.argument_offsets[a],
                common_bytes(*callee, callee->source->parameters[a], call.argument_bytes[a]));
  }
  Frame* frame = warp.push_frame(*callee, local_base);
  frame->caller = caller;
  frame->call_site = &inst;
  warp.use_frame(frame);
  warp.set_mask(lanes);
  warp.join_target = nullptr;
  return frame->function->code.data();
}

// --- binders
// ----------------------------------------------------------------------------------------------------------

void bind_bra(Decoder& decoder, const ptx::Instruction& instruction) {
  BranchInfo info;
  info.targets.push_back({decoder.block_of_label(instruction.operands.at(0).index), nullptr});
  if (instruction.guard != ptx::kNone) {
    info.guard = decoder.register_slot(instruction.guard).offset;
    info.guard_negated = instruction.guard_negated;
    info.join_block = decoder.current_post_dominator();
  }
  Inst& inst = instruction.guard == ptx::kNone ? decoder.emit({&jump, &jump}) : decoder.emit({&bra, &bra});
  inst.flags = kBranchFlag;
  inst.extra = decoder.keep(std::move(info));
}

void bind_brx(Decoder& decoder, const ptx::Instruction& instruction) {
  BranchInfo info;
  info.index = decoder.source(instruction.operands.at(0), ptx::Type::u32);
  for (uint32_t label : decoder.function().labels[instruction.operands.at(1).index].targets) {
    info.targets.push_back({decoder.block_of_label(label), nullptr});
  }
  if (instruction.guard != ptx::kNone) {
    info.guard = decoder.register_slot(instruction.guard).offset;
    info.guard_negated = instruction.guard_negated;
  }
  info.join_block = decoder.current_post_dominator();
  Inst& inst = decoder.emit({&brx, &brx});
  inst.flags = kBranchFlag;
  inst.extra = decoder.keep(std::move(info));
}

void bind_leave(Decoder& decoder, const ptx::Instruction& instruction) {
  BranchInfo info;
  if (instruction.guard != ptx::kNone) {
    info.guard = decoder.register_slot(instruction.guard).offset;
    info.guard_negated = instruction.guard_negated;
  }
  const Handler handler = instruction.op == ptx::Op::exit ? &exit_handler : &ret_handler;
  Inst& inst = decoder.emit({handler, handler});
  inst.extra = decoder.keep(std::move(info));
}

void bind_call(Decoder& decoder, const ptx::Instruction& instruction) {
  // operands: returns vector, target, arguments vector, optional prototype (see ptx::Instruction::operands)
  CallInfo call;
  const ptx::Operand& target = instruction.operands.at(1);
  if (target.kind == ptx::OperandKind::function) {
    call.callee = target.index;
    call.name = decoder.module().functions[target.index].name;
    decoder.code().callees.push_back(target.index);
  } else {
    call.name = "(indirect)";
    call.pointer = decoder.source(target, ptx::Type::b64);
    decoder.code().calls_indirectly = true;
  }
  auto locals = [&](const ptx::Operand& list, std::vector<uint64_t>& offsets, std::vector<uint32_t>& bytes) {
    for (const ptx::Operand& element : list.elements) {
      if (element.kind != ptx::OperandKind::variable || ptx::VariableRef::is_module(element.index)) {
        throw std::runtime_error("call arguments that are not .param variables");
      }
      const uint32_t variable = ptx::VariableRef::position(element.index);
      if (decoder.code().local_offset[variable] == kNone64) {
        throw std::runtime_error("call arguments that are not .param variables of the calling function's body");
      }
      offsets.push_back(decoder.code().local_offset[variable]);
      bytes.push_back(static_cast<uint32_t>(decoder.function().variables[variable].size));
    }
  };
  locals(instruction.operands.at(0), call.return_offsets, call.return_bytes);
  locals(instruction.operands.at(2), call.argument_offsets, call.argument_bytes);
  if (instruction.guard != ptx::kNone) {
    call.guard = decoder.register_slot(instruction.guard).offset;
    call.guard_negated = instruction.guard_negated;
  }
  call.caller_local_bytes = (decoder.code().local_bytes + 15) / 16 * 16;
  Inst& inst = decoder.emit({&call_handler, &call_handler});
  inst.extra = decoder.keep(std::move(call));
}

const Inst* trap_handler(Warp& warp, const Inst& inst) {
  return warp.fault(inst, "launch.trap", "the kernel executed trap",
                    "a trap reports a failed check in the kernel: see the code before it");
}
void bind_trap(Decoder& decoder, const ptx::Instruction&) { decoder.emit({&trap_handler, &trap_handler}); }

const Inst* nop(Warp&, const Inst& inst) { return &inst + 1; }
void bind_nop(Decoder& decoder, const ptx::Instruction&) { decoder.emit({&nop, &nop}); }

}  // namespace

const Inst* block_enter_full(Warp& warp, const Inst& inst) {
  if (warp.quantum <= 0) return warp.leave(Stop::yield, &inst);
  if (&inst == warp.join_target && !warp.reach_join(inst)) return nullptr;
  warp.quantum -= static_cast<int32_t>(inst.imm);
  uint64_t* count = warp.block_counts + size_t{inst.aux} * 2;
  count[0] += 1;
  count[1] += kLanes;
  return &inst + 1;
}

const Inst* block_enter_masked(Warp& warp, const Inst& inst) {
  if (warp.quantum <= 0) return warp.leave(Stop::yield, &inst);
  if (&inst == warp.join_target && !warp.reach_join(inst)) return nullptr;
  warp.quantum -= static_cast<int32_t>(inst.imm);
  uint64_t* count = warp.block_counts + size_t{inst.aux} * 2;
  count[0] += 1;
  count[1] += static_cast<uint64_t>(std::popcount(warp.mask));
  return &inst + 1;
}

const Inst* guard_handler(Warp& warp, const Inst& inst) {
  const uint32_t value = *warp.slot<uint32_t>(inst.src[0]);
  const uint32_t lanes = warp.mask & (inst.flags != 0 ? ~value : value);
  if (lanes == 0) return &inst + 1 + inst.imm;
  uint64_t* count = warp.guard_counts + size_t{inst.aux} * 2;
  count[0] += 1;
  count[1] += static_cast<uint64_t>(std::popcount(lanes));
  const Inst* const end = &inst + 1 + inst.imm;
  const uint32_t whole = warp.mask;
  const bool partial = lanes != whole;
  if (partial) warp.set_mask(lanes);
  for (const Inst* next = &inst + 1; next != end;) {
    const Inst* after = warp.mask == kFullMask ? next->full(warp, *next) : next->masked(warp, *next);
    if (after == nullptr) {
      // A retry has to pass the guard again.
      if (warp.resume == next) {
        warp.resume = &inst;
        if (warp.stop == Stop::blocked) {
          count[0] -= 1;
          count[1] -= static_cast<uint64_t>(std::popcount(lanes));
        }
      }
      if (!partial || warp.stop == Stop::exited || warp.stop == Stop::switched) return nullptr;
      if (warp.stop == Stop::blocked && warp.fragment().state == FragmentState::warp_sync) {
        // Lanes that the guard lets pass do not wait for the others: they may be the ones that are waited for.
        Fragment rest = warp.fragment();
        rest.pc = end;
        rest.mask = whole & ~lanes;
        rest.state = FragmentState::ready;
        rest.at_warp_barrier = false;
        warp.fragments.push_back(rest);
        warp.parted = true;
        return nullptr;
      }
      warp.set_mask(whole);
      return nullptr;
    }
    next = after;
  }
  if (partial) warp.set_mask(whole);
  return end;
}

const Inst* return_handler(Warp& warp, const Inst& inst) { return return_lanes(warp, inst, warp.mask); }

const Inst* unsupported_handler(Warp& warp, const Inst& inst) {
  return warp.fault(inst, "unsupported.instruction", *static_cast<const std::string*>(inst.extra),
                    "the emulator cannot judge this kernel; see docs/ptx-coverage.md");
}

void register_control(BinderTable& table) {
  table.set(ptx::Op::bra, &bind_bra);
  table.set(ptx::Op::brx_idx, &bind_brx);
  table.set(ptx::Op::exit, &bind_leave);
  table.set(ptx::Op::ret, &bind_leave);
  table.set(ptx::Op::call, &bind_call);
  table.set(ptx::Op::trap, &bind_trap);
  table.set(ptx::Op::brkpt, &bind_nop);
  table.set(ptx::Op::pmevent, &bind_nop);
}

}  // namespace ptxbench::emulator
