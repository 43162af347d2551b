#include <algorithm>
#include <limits>

#include "emulator/isa/alu.h"

/// Operations across the lanes of a warp (PTX ISA "Parallel Synchronization and Communication Instructions": vote.sync,
/// match.sync, redux.sync, elect.sync, activemask, bar.warp.sync; "shfl.sync"). An instruction that names lanes which
/// have not reached it waits; the scheduler joins the fragments of a warp that wait at one instruction.
namespace ptxbench::emulator {
namespace {

/// Lanes a `.sync` instruction waits for: the union of the active lanes' membermasks. Each lane may name its own group.
struct MemberMask {
  Slot slot;
  uint32_t operator()(Warp& warp, unsigned lane) const {
    const auto* masks = warp.slot<const uint32_t>(slot.offset);
    return slot.shape == Shape::uniform ? masks[0] : masks[lane];
  }
  uint32_t all(Warp& warp) const {
    const auto* masks = warp.slot<const uint32_t>(slot.offset);
    if (slot.shape == Shape::uniform) return masks[0];
    uint32_t together = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) together |= masks[lane] & warp.lane_mask[lane];
    return together;
  }
};

MemberMask member_mask(Decoder& decoder, const Operand& operand) { return {decoder.source(operand, Type::b32)}; }

/// True: all named lanes that still live are here. False: the fragment was blocked and the handler must return null.
bool gathered(Warp& warp, const Inst& inst, const MemberMask& members) {
  const uint32_t named = members.all(warp);
  if ((named & warp.live & ~warp.mask) == 0) return true;
  warp.fragment().wait_mask = named;
  warp.fragment().wait_address = reinterpret_cast<uintptr_t>(&inst);
  warp.fragment().at_warp_barrier = false;
  warp.block(FragmentState::warp_sync, &inst);
  return false;
}

/// Calls `use(group, members)` for each set of active lanes that share a membermask, members cut to the active lanes.
template <class Use>
void for_each_group(Warp& warp, const MemberMask& members, Use use) {
  if (members.slot.shape == Shape::uniform) {
    use(warp.mask, members(warp, 0) & warp.mask);
    return;
  }
  for (uint32_t rest = warp.mask; rest != 0;) {
    const uint32_t mask = members(warp, static_cast<unsigned>(std::countr_zero(rest)));
    uint32_t group = 0;
    for (uint32_t m = rest; m != 0; m &= m - 1) {
      const auto lane = static_cast<unsigned>(std::countr_zero(m));
      if (members(warp, lane) == mask) group |= kLaneBit[lane];
    }
    rest &= ~group;
    use(group, mask & warp.mask);
  }
}

template <class Use>
void for_each_lane(uint32_t lanes, Use use) {
  for (; lanes != 0; lanes &= lanes - 1) use(static_cast<unsigned>(std::countr_zero(lanes)));
}

// --- vote -----------------------------------------------------------------------------------------------------------

enum class Vote : uint8_t { all, any, uni, ballot };
struct VoteInfo {
  Vote mode = Vote::all;
  MemberMask members;
  PredicateSource predicate;
};

const Inst* vote(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const VoteInfo*>(inst.extra);
  if (!gathered(warp, inst, info.members)) return nullptr;
  const uint32_t predicate = *warp.slot<uint32_t>(info.predicate.offset) ^ info.predicate.invert;
  uint32_t result = 0;
  for_each_group(warp, info.members, [&](uint32_t group, uint32_t members) {
    const uint32_t yes = predicate & members;
    switch (info.mode) {
      case Vote::all:
        result |= yes == members ? group : 0;
        break;
      case Vote::any:
        result |= yes != 0 ? group : 0;
        break;
      case Vote::uni:
        result |= yes == members || yes == 0 ? group : 0;
        break;
      case Vote::ballot:
        for_each_lane(group, [&](unsigned lane) { warp.slot<uint32_t>(inst.dst)[lane] = yes; });
        break;
    }
  });
  if (info.mode != Vote::ballot) write_predicate(warp, inst.dst, result);
  return &inst + 1;
}

void bind_vote(Decoder& decoder, const Instruction& instruction) {
  VoteInfo info;
  info.mode = instruction.has(Mod::ballot) ? Vote::ballot
              : instruction.has(Mod::all)  ? Vote::all
              : instruction.has(Mod::any)  ? Vote::any
                                           : Vote::uni;
  info.predicate = predicate_source(decoder, instruction.operands.at(1));
  info.members = member_mask(decoder, instruction.operands.at(2));
  const Operand& target = instruction.operands.at(0);
  const Slot destination = info.mode == Vote::ballot ? decoder.vector_destination(target, Type::b32)
                                                     : decoder.destination(target, Type::pred);
  const VoteInfo* kept = decoder.keep(info);
  Inst& inst = decoder.emit({&vote, &vote});
  inst.dst = destination.offset;
  inst.extra = kept;
}

// --- shfl -----------------------------------------------------------------------------------------------------------

enum class Shuffle : uint8_t { up, down, bfly, idx };
struct ShuffleInfo {
  Shuffle mode = Shuffle::idx;
  MemberMask members;
  Slot b, c;
  bool has_predicate = false, fixed = false;
  uint32_t predicate = 0;              ///< slot
  std::array<uint8_t, kLanes> from{};  ///< if b and c are constants
  uint32_t in_range = 0;
};

/// Source lane of `lane`, or `lane` itself and false if it lies outside the segment.
std::pair<unsigned, bool> shuffle_source(Shuffle mode, unsigned lane, uint32_t b, uint32_t c) {
  const uint32_t offset = b & 0x1f, clamp = c & 0x1f, segment = (c >> 8) & 0x1f;
  const uint32_t last = (lane & segment) | (clamp & ~segment), first = lane & segment;
  uint32_t j = lane;
  bool inside = true;
  switch (mode) {
    case Shuffle::up:
      inside = static_cast<int32_t>(lane) - static_cast<int32_t>(offset) >= static_cast<int32_t>(last);
      j = lane - offset;
      break;
    case Shuffle::down:
      j = lane + offset;
      inside = j <= last;
      break;
    case Shuffle::bfly:
      j = lane ^ offset;
      inside = j <= last;
      break;
    case Shuffle::idx:
      j = first | (offset & ~segment);
      inside = j <= last;
      break;
  }
  return {inside ? j & 0x1f : lane, inside};
}

const Inst* shuffle_full_fixed(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const ShuffleInfo*>(inst.extra);
  const auto* a = warp.slot<const uint32_t>(inst.src[0]);
  alignas(64) std::array<uint32_t, kLanes> moved;
  for (unsigned lane = 0; lane < kLanes; ++lane) moved[lane] = a[info.from[lane]];
  std::memcpy(warp.regs + inst.dst, moved.data(), sizeof moved);
  if (info.has_predicate) *warp.slot<uint32_t>(info.predicate) = info.in_range;
  return &inst + 1;
}

const Inst* shuffle(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const ShuffleInfo*>(inst.extra);
  if (!gathered(warp, inst, info.members)) return nullptr;
  const auto* a = warp.slot<const uint32_t>(inst.src[0]);
  const auto* b = warp.slot<const uint32_t>(info.b.offset);
  const auto* c = warp.slot<const uint32_t>(info.c.offset);
  std::array<uint32_t, kLanes> moved{};
  uint32_t in_range = 0;
  for_each_lane(warp.mask, [&](unsigned lane) {
    const auto [from, inside] = shuffle_source(info.mode, lane, b[info.b.shape == Shape::uniform ? 0 : lane],
                                               c[info.c.shape == Shape::uniform ? 0 : lane]);
    moved[lane] = a[from];
    if (inside) in_range |= kLaneBit[lane];
  });
  auto* d = warp.slot<uint32_t>(inst.dst);
  for_each_lane(warp.mask, [&](unsigned lane) { d[lane] = moved[lane]; });
  if (info.has_predicate) write_predicate(warp, info.predicate, in_range);
  return &inst + 1;
}

void bind_shuffle(Decoder& decoder, const Instruction& instruction) {
  ShuffleInfo info;
  info.mode = instruction.has(Mod::up)     ? Shuffle::up
              : instruction.has(Mod::down) ? Shuffle::down
              : instruction.has(Mod::bfly) ? Shuffle::bfly
                                           : Shuffle::idx;
  const Operand* target = &instruction.operands.at(0);
  if (target->kind == OperandKind::predicate_pair) {
    info.has_predicate = true;
    info.predicate = decoder.destination(target->elements.at(1), Type::pred).offset;
    target = &target->elements[0];
  }
  const Slot source = decoder.vector_source(instruction.operands.at(1), Type::b32);
  info.b = decoder.source(instruction.operands.at(2), Type::b32);
  info.c = decoder.source(instruction.operands.at(3), Type::b32);
  info.members = member_mask(decoder, instruction.operands.at(4));
  const auto b = Decoder::immediate(instruction.operands[2]), c = Decoder::immediate(instruction.operands[3]);
  if (b && c) {
    info.fixed = true;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const auto [from, inside] = shuffle_source(info.mode, lane, static_cast<uint32_t>(*b), static_cast<uint32_t>(*c));
      info.from[lane] = static_cast<uint8_t>(from);
      if (inside) info.in_range |= kLaneBit[lane];
    }
  }
  const Slot destination = decoder.vector_destination(*target, Type::b32);
  const ShuffleInfo* kept = decoder.keep(info);
  Inst& inst = decoder.emit({info.fixed ? &shuffle_full_fixed : &shuffle, &shuffle});
  inst.dst = destination.offset;
  inst.src[0] = source.offset;
  inst.extra = kept;
}

// --- match and redux ------------------------------------------------------------------------------------------------

struct MatchInfo {
  MemberMask members;
  bool all = false, has_predicate = false, wide = false;
  uint32_t predicate = 0;
};

const Inst* match(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const MatchInfo*>(inst.extra);
  if (!gathered(warp, inst, info.members)) return nullptr;
  const auto value = [&](unsigned lane) -> uint64_t {
    return info.wide ? warp.slot<uint64_t>(inst.src[0])[lane] : warp.slot<uint32_t>(inst.src[0])[lane];
  };
  std::array<uint32_t, kLanes> result{};
  uint32_t agreed = 0;
  for_each_group(warp, info.members, [&](uint32_t group, uint32_t members) {
    for_each_lane(group, [&](unsigned lane) {
      uint32_t same = 0;
      for_each_lane(members, [&](unsigned other) { same |= value(other) == value(lane) ? kLaneBit[other] : 0; });
      if (info.all) {
        result[lane] = same == members ? members : 0;
        agreed |= same == members ? kLaneBit[lane] : 0;
      } else {
        result[lane] = same;
      }
    });
  });
  for_each_lane(warp.mask, [&](unsigned lane) { warp.slot<uint32_t>(inst.dst)[lane] = result[lane]; });
  if (info.has_predicate) write_predicate(warp, info.predicate, agreed);
  return &inst + 1;
}

void bind_match(Decoder& decoder, const Instruction& instruction) {
  MatchInfo info;
  info.all = instruction.has(Mod::all);
  const Type type = require_type(instruction);
  info.wide = type_bits(type) == 64;
  const Operand* target = &instruction.operands.at(0);
  if (target->kind == OperandKind::predicate_pair) {
    info.has_predicate = true;
    info.predicate = decoder.destination(target->elements.at(1), Type::pred).offset;
    target = &target->elements[0];
  }
  const Slot source = decoder.vector_source(instruction.operands.at(1), type);
  info.members = member_mask(decoder, instruction.operands.at(2));
  const Slot destination = decoder.vector_destination(*target, Type::b32);
  const MatchInfo* kept = decoder.keep(info);
  Inst& inst = decoder.emit({&match, &match});
  inst.dst = destination.offset;
  inst.src[0] = source.offset;
  inst.extra = kept;
}

enum class Redux : uint8_t { add, min_u, min_s, max_u, max_s, and_, or_, xor_ };
struct ReduxInfo {
  MemberMask members;
  Redux op = Redux::add;
};

uint32_t reduce(Redux op, uint32_t a, uint32_t b) {
  switch (op) {
    case Redux::add:
      return a + b;
    case Redux::min_u:
      return std::min(a, b);
    case Redux::max_u:
      return std::max(a, b);
    case Redux::min_s:
      return static_cast<uint32_t>(std::min(static_cast<int32_t>(a), static_cast<int32_t>(b)));
    case Redux::max_s:
      return static_cast<uint32_t>(std::max(static_cast<int32_t>(a), static_cast<int32_t>(b)));
    case Redux::and_:
      return a & b;
    case Redux::or_:
      return a | b;
    case Redux::xor_:
      return a ^ b;
  }
  return 0;
}

const Inst* redux(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const ReduxInfo*>(inst.extra);
  if (!gathered(warp, inst, info.members)) return nullptr;
  std::array<uint32_t, kLanes> result{};
  for_each_group(warp, info.members, [&](uint32_t group, uint32_t members) {
    uint32_t total = 0;
    bool first = true;
    for_each_lane(members, [&](unsigned lane) {
      const uint32_t value = warp.slot<uint32_t>(inst.src[0])[lane];
      total = first ? value : reduce(info.op, total, value);
      first = false;
    });
    for_each_lane(group, [&](unsigned lane) { result[lane] = total; });
  });
  for_each_lane(warp.mask, [&](unsigned lane) { warp.slot<uint32_t>(inst.dst)[lane] = result[lane]; });
  return &inst + 1;
}

void bind_redux(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (type == Type::f32) throw std::runtime_error("redux.sync on f32 (sm_100)");
  ReduxInfo info;
  const bool is_signed_type = type == Type::s32;
  if (instruction.has(Mod::add))
    info.op = Redux::add;
  else if (instruction.has(Mod::min))
    info.op = is_signed_type ? Redux::min_s : Redux::min_u;
  else if (instruction.has(Mod::max))
    info.op = is_signed_type ? Redux::max_s : Redux::max_u;
  else if (instruction.has(Mod::and_))
    info.op = Redux::and_;
  else if (instruction.has(Mod::or_))
    info.op = Redux::or_;
  else if (instruction.has(Mod::xor_))
    info.op = Redux::xor_;
  else
    throw std::runtime_error("redux.sync operation");
  const Slot source = decoder.vector_source(instruction.operands.at(1), type);
  info.members = member_mask(decoder, instruction.operands.at(2));
  const Slot destination = decoder.vector_destination(instruction.operands.at(0), type);
  const ReduxInfo* kept = decoder.keep(info);
  Inst& inst = decoder.emit({&redux, &redux});
  inst.dst = destination.offset;
  inst.src[0] = source.offset;
  inst.extra = kept;
}

// --- elect, activemask, bar.warp.sync -------------------------------------------------------------------------------

struct ElectInfo {
  MemberMask members;
  uint32_t predicate = 0;
};

const Inst* elect(Warp& warp, const Inst& inst) {
  const auto& info = *static_cast<const ElectInfo*>(inst.extra);
  if (!gathered(warp, inst, info.members)) return nullptr;
  uint32_t elected = 0;
  for_each_group(warp, info.members, [&](uint32_t group, uint32_t members) {
    if (members == 0) return;
    const auto leader = static_cast<uint32_t>(std::countr_zero(members));
    elected |= kLaneBit[leader];
    for_each_lane(group, [&](unsigned lane) { warp.slot<uint32_t>(inst.dst)[lane] = leader; });
  });
  write_predicate(warp, info.predicate, elected);
  return &inst + 1;
}

void bind_elect(Decoder& decoder, const Instruction& instruction) {
  const Operand& target = instruction.operands.at(0);
  if (target.kind != OperandKind::predicate_pair) throw std::runtime_error("elect.sync without d|p destination");
  ElectInfo info;
  const Slot destination = decoder.vector_destination(target.elements.at(0), Type::b32);
  info.predicate = decoder.destination(target.elements.at(1), Type::pred).offset;
  info.members = member_mask(decoder, instruction.operands.at(1));
  const ElectInfo* kept = decoder.keep(info);
  Inst& inst = decoder.emit({&elect, &elect});
  inst.dst = destination.offset;
  inst.extra = kept;
}

const Inst* activemask(Warp& warp, const Inst& inst) {
  for_each_lane(warp.mask, [&](unsigned lane) { warp.slot<uint32_t>(inst.dst)[lane] = warp.mask; });
  return &inst + 1;
}

void bind_activemask(Decoder& decoder, const Instruction& instruction) {
  const Slot destination = decoder.vector_destination(instruction.operands.at(0), Type::b32);
  decoder.emit({&activemask, &activemask}).dst = destination.offset;
}

/// The barrier completes when its last lane arrives, so arrival and departure are reported together.
const Inst* warp_barrier(Warp& warp, const Inst& inst) {
  const auto& members = *static_cast<const MemberMask*>(inst.extra);
  if (!gathered(warp, inst, members)) {
    warp.fragment().at_warp_barrier = true;
    return nullptr;
  }
  if (warp.touches != nullptr) {
    for_each_group(warp, members, [&](uint32_t group, uint32_t) {
      if (group == warp.live) warp.touches->shared.warp_met(warp.index);
    });
  }
  if (Observer* observer = warp.cluster->launch->observer) {
    for_each_group(warp, members, [&](uint32_t group, uint32_t) {
      BarrierEvent event;
      event.agent = agent_of(warp, group);
      event.site = site_of(warp, inst);
      event.kind = BarrierKind::warp;
      for (const BarrierAction action : {BarrierAction::arrive, BarrierAction::wait_begin, BarrierAction::wait_end}) {
        event.action = action;
        observer->on_barrier(event);
      }
    });
  }
  return &inst + 1;
}

void bind_warp_barrier(Decoder& decoder, const Instruction& instruction) {
  const MemberMask* kept = decoder.keep(member_mask(decoder, instruction.operands.at(0)));
  decoder.emit({&warp_barrier, &warp_barrier}).extra = kept;
}

}  // namespace

void register_warp(BinderTable& table) {
  table.set(Op::vote_sync, &bind_vote);
  table.set(Op::shfl_sync, &bind_shuffle);
  table.set(Op::match_sync, &bind_match);
  table.set(Op::redux_sync, &bind_redux);
  table.set(Op::elect_sync, &bind_elect);
  table.set(Op::activemask, &bind_activemask);
  table.set(Op::bar_warp_sync, &bind_warp_barrier);
}

}  // namespace ptxbench::emulator
