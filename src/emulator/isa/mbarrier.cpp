#include "emulator/isa/mbarrier.h"

#include <cstring>

#include "emulator/scheduler.h"

namespace ptxbench::emulator {

using ptx::Mod;
using ptx::StateSpace;
using ptx::Type;

namespace {

std::byte* barrier_word(Cluster& cluster, const Origin& origin, uint64_t address) {
  if ((address & 7) != 0) {
    engine_fault(cluster, origin, "memory.misaligned",
                 fmt::format("the mbarrier at {} is not aligned to 8 bytes", describe_shared(cluster, address)),
                 "declare the barrier as a 64-bit shared variable", address);
    return nullptr;
  }
  std::byte* word = cluster.shared_pointer(address, 8);
  if (word == nullptr) {
    engine_fault(cluster, origin, "memory.out-of-bounds",
                 fmt::format("the mbarrier address {:#x} is outside the shared memory of the cluster's CTAs", address),
                 "pass the address of a barrier in shared memory", address);
  }
  return word;
}

uint64_t read_word(const std::byte* pointer) {
  uint64_t word = 0;
  std::memcpy(&word, pointer, 8);
  return word;
}

/// The barrier's word if it is live and as the last operation left it.
std::byte* live_word(Cluster& cluster, const Origin& origin, uint64_t address, MbarrierRecord*& record) {
  std::byte* pointer = barrier_word(cluster, origin, address);
  if (pointer == nullptr) return nullptr;
  auto found = cluster.async.mbarriers.find(address);
  if (found == cluster.async.mbarriers.end()) {
    engine_fault(cluster, origin, "mbarrier.uninitialised",
                 fmt::format("there is no initialised mbarrier at {}", describe_shared(cluster, address)),
                 "execute mbarrier.init, then a fence and a block or cluster barrier, before the first use", address);
    return nullptr;
  }
  record = &found->second;
  if (read_word(pointer) != record->word) {
    engine_fault(cluster, origin, "mbarrier.overwritten",
                 fmt::format("the mbarrier at {} was overwritten by an ordinary store or copy since its last use",
                             describe_shared(cluster, address)),
                 "keep data out of the barrier's 8 bytes; execute mbarrier.inval before reusing them", address);
    return nullptr;
  }
  return pointer;
}

void write_word(std::byte* pointer, MbarrierRecord& record, const MbarrierState& state) {
  record.word = state.encode();
  std::memcpy(pointer, &record.word, 8);
}

MbarrierEvent event_of(const Origin& origin, MbarrierAction action, uint64_t address, uint64_t phase) {
  MbarrierEvent event;
  event.agent = origin.agent;
  event.site = origin.site;
  event.action = action;
  event.address = address;
  event.phase = phase;
  return event;
}

void send_change(Observer& observer, const Origin& origin, uint64_t address, const MbarrierChange& change,
                 uint64_t phase) {
  auto send = [&](MbarrierAction action, uint32_t count, int64_t bytes) {
    MbarrierEvent event = event_of(origin, action, address, phase);
    event.count = count;
    event.bytes = bytes;
    event.semantics = change.semantics;
    event.scope = change.scope;
    event.completed_by = change.operation;
    observer.on_mbarrier(event);
  };
  if (change.expect_bytes != 0) send(MbarrierAction::expect_tx, 0, change.expect_bytes);
  if (change.complete_bytes != 0) send(MbarrierAction::complete_tx, 0, change.complete_bytes);
  if (change.arrivals != 0)
    send(change.drop ? MbarrierAction::arrive_drop : MbarrierAction::arrive, change.arrivals, 0);
}

std::string state_text(const MbarrierState& state) {
  return fmt::format("{} of {} arrivals pending, {} bytes pending", state.pending, state.expected, state.transactions);
}

}  // namespace

bool mbarrier_check(Cluster& cluster, const Origin& origin, uint64_t address) {
  MbarrierRecord* record = nullptr;
  return live_word(cluster, origin, address, record) != nullptr;
}

bool mbarrier_apply(Cluster& cluster, const Origin& origin, uint64_t address, const MbarrierChange& change,
                    uint64_t* before) {
  MbarrierRecord* record = nullptr;
  std::byte* pointer = live_word(cluster, origin, address, record);
  if (pointer == nullptr) return false;
  MbarrierState state = MbarrierState::decode(record->word);
  if (before != nullptr) *before = record->word;
  if (Observer* observer = cluster.launch->observer) send_change(*observer, origin, address, change, record->phases);
  const int64_t transactions = int64_t{state.transactions} + change.expect_bytes - change.complete_bytes;
  if (transactions > int64_t{kMbarrierMaxCount} || transactions < -int64_t{kMbarrierMaxCount}) {
    engine_fault(cluster, origin, "mbarrier.tx-overflow",
                 fmt::format("the transaction count of the mbarrier at {} would become {}; it must stay within +-{}",
                             describe_shared(cluster, address), transactions, kMbarrierMaxCount),
                 "announce with expect_tx exactly the bytes that the copies of one phase bring", address);
    return false;
  }
  if (change.arrivals > state.pending) {
    engine_fault(
        cluster, origin, "mbarrier.underflow",
        fmt::format("{} arrival(s) at the mbarrier at {} in a phase with {} of {} still pending", change.arrivals,
                    describe_shared(cluster, address), state.pending, state.expected),
        "initialise the barrier with the number of arrivals that one phase really gets, and let no thread arrive "
        "twice in a phase",
        address);
    return false;
  }
  if (state.pending + change.more_pending > kMbarrierMaxCount) {
    engine_fault(cluster, origin, "mbarrier.count",
                 fmt::format("the pending count of the mbarrier at {} exceeds {}", describe_shared(cluster, address),
                             kMbarrierMaxCount),
                 "wait for the phase before adding arrivals", address);
    return false;
  }
  state.transactions = static_cast<int32_t>(transactions);
  state.pending += change.more_pending;
  state.pending -= change.arrivals;
  if (change.drop) state.expected -= std::min(state.expected, change.arrivals);
  if (state.pending == 0 && state.transactions == 0) {
    if (change.no_complete) {
      engine_fault(cluster, origin, "mbarrier.no-complete",
                   fmt::format("an arrival with .noComplete completes the phase of the mbarrier at {}",
                               describe_shared(cluster, address)),
                   "use the form without .noComplete for an arrival that may be the last of its phase", address);
      return false;
    }
    ++record->phases;
    state.phase = static_cast<uint32_t>(record->phases) & 3;
    state.pending = state.expected;
  }
  write_word(pointer, *record, state);
  ++cluster.progress;
  return true;
}

bool mbarrier_phase_done(Cluster& cluster, uint64_t shared_address, uint32_t parity) {
  const std::byte* pointer = cluster.shared_pointer(shared_address, 8);
  // A word that is no barrier any more ends the wait as well: the instruction runs again and reports it.
  if (pointer == nullptr) return true;
  const MbarrierState state = MbarrierState::decode(read_word(pointer));
  return !state.live || (state.phase & 1) != (parity & 1);
}

std::string mbarrier_describe(Cluster& cluster, uint64_t shared_address) {
  const std::byte* pointer = cluster.shared_pointer(shared_address, 8);
  if (pointer == nullptr) return "not in shared memory";
  const auto found = cluster.async.mbarriers.find(shared_address);
  if (found == cluster.async.mbarriers.end()) return "not initialised";
  return fmt::format("phase {} is current, {}", found->second.phases,
                     state_text(MbarrierState::decode(read_word(pointer))));
}

namespace {

// --- instructions
// -------------------------------------------------------------------------------------------------------

struct BarrierOperand {
  MemoryOp address;
  bool remote_allowed = false;
};

struct InitOp {
  BarrierOperand barrier;
  ValueOperand count;
  bool invalidate = false;
};

struct ChangeOp {
  BarrierOperand barrier;
  MbarrierChange change;  ///< the static part
  bool arrives = false;
  bool has_value = false;
  ValueOperand value;  ///< arrival count or bytes
  bool value_is_bytes = false;
  bool completes_bytes = false;
  bool has_destination = false;
  uint32_t destination = 0;
};

struct WaitOp {
  BarrierOperand barrier;
  ValueOperand phase;  ///< parity or state token
  bool by_parity = false;
  bool suspends = false;
  uint32_t destination = 0;
  Semantics semantics{};
  Scope scope{};
};

struct PendingCountOp {
  ValueOperand state;
  uint32_t destination = 0;
};

/// The shared::cluster address of a lane's barrier operand. False: a fault was recorded.
bool barrier_address(Warp& warp, const Inst& inst, const BarrierOperand& operand, unsigned lane, uint64_t& address) {
  const uint64_t raw = lane_address(warp, operand.address, lane);
  const Located where = locate(operand.address.space, raw);
  if (where.space != Space::shared) {
    warp.fault(inst, "mbarrier.space", fmt::format("the mbarrier address {:#x} is not in shared memory", raw),
               "mbarrier objects live in shared memory only", raw, 1u << lane);
    return false;
  }
  address = where.address;
  if (!operand.remote_allowed && (address >> kCtaRankShift) != warp.cta->rank) {
    warp.fault(
        inst, "mbarrier.remote",
        fmt::format("the mbarrier at {} belongs to another CTA; this form works on the executing CTA's barriers only",
                    describe_shared(*warp.cluster, address)),
        "wait in the CTA that owns the barrier; remote arrivals need the .shared::cluster form", address, 1u << lane);
    return false;
  }
  return true;
}

const Inst* initialise(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const InitOp*>(inst.extra);
  Cluster& cluster = *warp.cluster;
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    const Origin origin = origin_of(warp, inst, 1u << lane);
    uint64_t address = 0;
    if (!barrier_address(warp, inst, op.barrier, lane, address)) return nullptr;
    std::byte* pointer = barrier_word(cluster, origin, address);
    if (pointer == nullptr) return warp.leave(Stop::fault, nullptr);
    const auto count = static_cast<uint32_t>(op.invalidate ? 0 : op.count.get(warp, lane));
    if (!op.invalidate && (count == 0 || count > kMbarrierMaxCount)) {
      return warp.fault(inst, "mbarrier.count",
                        fmt::format("mbarrier.init with count {}; it must be 1 to {}", count, kMbarrierMaxCount),
                        "initialise with the number of arrivals that complete a phase", address, 1u << lane);
    }
    if (op.invalidate && !mbarrier_check(cluster, origin, address)) return warp.leave(Stop::fault, nullptr);
    const auto found = cluster.async.mbarriers.find(address);
    if (Observer* observer = cluster.launch->observer) {
      MbarrierEvent event = event_of(origin, op.invalidate ? MbarrierAction::invalidate : MbarrierAction::init, address,
                                     found == cluster.async.mbarriers.end() ? 0 : found->second.phases);
      event.count = count;
      event.semantics = Semantics::weak;
      observer->on_mbarrier(event);
    }
    if (op.invalidate) {
      cluster.async.mbarriers.erase(found);
      std::memset(pointer, 0, 8);
    } else {
      MbarrierState state;
      state.pending = state.expected = count;
      state.live = true;
      MbarrierRecord& record = cluster.async.mbarriers[address];
      record.phases = 0;
      write_word(pointer, record, state);
    }
    ++cluster.progress;
  }
  return &inst + 1;
}

const Inst* change_barrier(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const ChangeOp*>(inst.extra);
  for (uint32_t lanes = warp.mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = first_lane(lanes);
    uint64_t address = 0;
    if (!barrier_address(warp, inst, op.barrier, lane, address)) return nullptr;
    MbarrierChange change = op.change;
    if (op.arrives) change.arrivals = 1;
    if (op.has_value) {
      const auto value = static_cast<uint32_t>(op.value.get(warp, lane));
      if (op.value_is_bytes) {
        if (value > kMbarrierMaxCount) {
          return warp.fault(
              inst, "mbarrier.tx-overflow",
              fmt::format("{} transaction bytes in one operation; at most {} are possible", value, kMbarrierMaxCount),
              "split the transfer over several phases", address, 1u << lane);
        }
        (op.completes_bytes ? change.complete_bytes : change.expect_bytes) = value;
      } else {
        if (value == 0 || value > kMbarrierMaxCount) {
          return warp.fault(inst, "mbarrier.count",
                            fmt::format("an arrival with count {}; it must be 1 to {}", value, kMbarrierMaxCount),
                            "pass the number of arrivals this operation stands for", address, 1u << lane);
        }
        change.arrivals = value;
      }
    }
    uint64_t token = 0;
    if (!mbarrier_apply(*warp.cluster, origin_of(warp, inst, 1u << lane), address, change, &token)) {
      return warp.leave(Stop::fault, nullptr);
    }
    if (op.has_destination) warp.slot<uint64_t>(op.destination)[lane] = token;
  }
  return &inst + 1;
}

void send_wait(Warp& warp, const Inst& inst, const WaitOp& op, uint64_t address, bool success, uint32_t lanes) {
  Observer* observer = warp.cluster->launch->observer;
  if (observer == nullptr) return;
  MbarrierEvent event =
      event_of(origin_of(warp, inst, lanes), success ? MbarrierAction::wait_success : MbarrierAction::wait_failure,
               address, warp.cluster->async.mbarriers[address].phases);
  event.semantics = op.semantics;
  event.scope = op.scope;
  observer->on_mbarrier(event);
}

const Inst* wait_barrier(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const WaitOp*>(inst.extra);
  Fragment& fragment = warp.fragment();
  const bool gave_up = fragment.timed_out;
  fragment.timed_out = false;
  uint32_t left = warp.mask, succeeded = 0;
  bool one_target = true;
  uint64_t address = 0, hash = 0;
  uint32_t parity = 0;
  while (left != 0) {
    // Lanes that wait for the same phase of the same barrier are handled together; usually that is all of them.
    const unsigned lane = first_lane(left);
    if (!barrier_address(warp, inst, op.barrier, lane, address)) return nullptr;
    const uint64_t phase = op.phase.get(warp, lane);
    uint32_t group = left;
    if (op.barrier.address.address.shape != Shape::uniform || op.phase.slot.shape != Shape::uniform) {
      group = 0;
      const uint64_t raw = lane_address(warp, op.barrier.address, lane);
      for_each_lane(left, [&](unsigned other) {
        if (lane_address(warp, op.barrier.address, other) == raw && op.phase.get(warp, other) == phase)
          group |= 1u << other;
      });
    }
    left &= ~group;
    one_target = one_target && group == warp.mask;
    const Origin origin = origin_of(warp, inst, group);
    MbarrierRecord* record = nullptr;
    if (live_word(*warp.cluster, origin, address, record) == nullptr) return warp.leave(Stop::fault, nullptr);
    // The hardware looks at bit 0 of a parity operand only.
    parity = static_cast<uint32_t>(op.by_parity ? phase : MbarrierState::decode(phase).phase) & 1;
    const bool done = (record->phases & 1) != parity;
    if (done) succeeded |= group;
    hash = (hash ^ record->word ^ address) * 0x9e3779b97f4a7c15ull;
    if (done || !op.suspends || !one_target || gave_up) send_wait(warp, inst, op, address, done, group);
  }
  if (succeeded == 0 && one_target && op.suspends && !gave_up) {
    fragment.wait_address = address;
    fragment.wait_parity = parity;
    return warp.block(FragmentState::mbarrier, &inst);
  }
  write_predicate(warp, op.destination, succeeded);
  if (succeeded != warp.mask && !gave_up) warp.poll(hash);
  return &inst + 1;
}

const Inst* pending_count(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const PendingCountOp*>(inst.extra);
  uint32_t* destination = warp.slot<uint32_t>(op.destination);
  for_each_lane(warp.mask,
                [&](unsigned lane) { destination[lane] = MbarrierState::decode(op.state.get(warp, lane)).pending; });
  return &inst + 1;
}

// --- binders
// ------------------------------------------------------------------------------------------------------------

BarrierOperand barrier_operand(Decoder& decoder, const ptx::Instruction& instruction, const ptx::Operand& operand) {
  BarrierOperand barrier;
  const StateSpace space = instruction.space();
  barrier.address = address_operand(decoder, operand, space, 8, AccessKind::atomic);
  barrier.remote_allowed = space == StateSpace::shared_cluster;
  return barrier;
}

void bind_init(Decoder& decoder, const ptx::Instruction& instruction) {
  InitOp op;
  op.barrier = barrier_operand(decoder, instruction, instruction.operands.at(0));
  op.invalidate = instruction.op == ptx::Op::mbarrier_inval;
  if (!op.invalidate) op.count = value_operand(decoder, instruction.operands.at(1), Type::u32);
  decoder.emit({&initialise, &initialise}).extra = decoder.keep(std::move(op));
}

void bind_change(Decoder& decoder, const ptx::Instruction& instruction) {
  const bool arrives = instruction.op == ptx::Op::mbarrier_arrive || instruction.op == ptx::Op::mbarrier_arrive_drop;
  const auto& operands = instruction.operands;
  ChangeOp op;
  size_t next = 0;
  if (arrives) {
    const ptx::Operand& destination = operands.at(next++);
    if (destination.kind != ptx::OperandKind::sink) {
      op.has_destination = true;
      op.destination = decoder.vector_destination(destination, Type::b64).offset;
    }
  }
  op.barrier = barrier_operand(decoder, instruction, operands.at(next++));
  op.arrives = arrives;
  op.value_is_bytes = !arrives || instruction.has(Mod::expect_tx);
  op.completes_bytes = instruction.op == ptx::Op::mbarrier_complete_tx;
  op.has_value = operands.size() > next;
  if (op.has_value) op.value = value_operand(decoder, operands[next], Type::u32);
  op.change.drop = instruction.op == ptx::Op::mbarrier_arrive_drop;
  op.change.no_complete = instruction.has(Mod::noComplete);
  op.change.semantics =
      arrives ? (instruction.has(Mod::relaxed) ? Semantics::relaxed : Semantics::release) : Semantics::relaxed;
  op.change.scope = scope_of(instruction, Scope::none);
  decoder.emit({&change_barrier, &change_barrier}).extra = decoder.keep(std::move(op));
}

void bind_wait(Decoder& decoder, const ptx::Instruction& instruction) {
  WaitOp op;
  op.destination = decoder.vector_destination(instruction.operands.at(0), Type::pred).offset;
  op.barrier = barrier_operand(decoder, instruction, instruction.operands.at(1));
  op.by_parity = instruction.has(Mod::parity);
  op.phase = value_operand(decoder, instruction.operands.at(2), op.by_parity ? Type::u32 : Type::b64);
  op.suspends = instruction.op == ptx::Op::mbarrier_try_wait;
  op.semantics = instruction.has(Mod::relaxed) ? Semantics::relaxed : Semantics::acquire;
  op.scope = scope_of(instruction, Scope::none);
  decoder.emit({&wait_barrier, &wait_barrier}).extra = decoder.keep(std::move(op));
}

void bind_pending_count(Decoder& decoder, const ptx::Instruction& instruction) {
  PendingCountOp op;
  op.destination = decoder.vector_destination(instruction.operands.at(0), Type::u32).offset;
  op.state = value_operand(decoder, instruction.operands.at(1), Type::b64);
  decoder.emit({&pending_count, &pending_count}).extra = decoder.keep(std::move(op));
}

}  // namespace

void register_mbarrier(BinderTable& table) {
  table.set(ptx::Op::mbarrier_init, &bind_init);
  table.set(ptx::Op::mbarrier_inval, &bind_init);
  table.set(ptx::Op::mbarrier_arrive, &bind_change);
  table.set(ptx::Op::mbarrier_arrive_drop, &bind_change);
  table.set(ptx::Op::mbarrier_expect_tx, &bind_change);
  table.set(ptx::Op::mbarrier_complete_tx, &bind_change);
  table.set(ptx::Op::mbarrier_test_wait, &bind_wait);
  table.set(ptx::Op::mbarrier_try_wait, &bind_wait);
  table.set(ptx::Op::mbarrier_pending_count, &bind_pending_count);
}

}  // namespace ptxbench::emulator
