#include <chrono>

#include "emulator/address_space.h"
#include "emulator/isa/alu.h"

/// mov in all forms, address conversions, special registers that change while a kernel runs (PTX ISA "Data Movement and
/// Conversion Instructions": mov, cvta, isspacep, mapa, getctarank, createpolicy).
namespace ptxbench::emulator {
namespace {

template <class T>
struct Copy {
  static T apply(T a) { return a; }
};

template <class T>
void emit_copy(Decoder& decoder, Slot destination, Slot source) {
  emit_slots<Copy<T>, T, T>(decoder, destination, {source});
}

void emit_copy(Decoder& decoder, unsigned bits, Slot destination, Slot source) {
  switch (bits) {
    case 16:
      return emit_copy<uint16_t>(decoder, destination, source);
    case 32:
      return emit_copy<uint32_t>(decoder, destination, source);
    case 64:
      return emit_copy<uint64_t>(decoder, destination, source);
    default:
      throw std::runtime_error("mov width");
  }
}

/// The low (0) or high (1) 64 bits of a 128-bit slot: planes of 32 lanes, or two words of a uniform slot.
Slot plane(Slot slot, unsigned which) {
  slot.offset += which * (slot.shape == Shape::uniform ? 8 : 8 * kLanes);
  return slot;
}

const Inst* copy_predicate(Warp& warp, const Inst& inst) {
  write_predicate(warp, inst.dst, *warp.slot<uint32_t>(inst.src[0]) ^ (0u - (inst.flags & 1)));
  return &inst + 1;
}

// --- packing and unpacking ------------------------------------------------------------------------------------------

template <class R, class P, unsigned Bits>
struct Pack2 {
  static constexpr R kMask = static_cast<R>((uint64_t{1} << Bits) - 1);
  static R apply(P a, P b) {
    return static_cast<R>((static_cast<R>(a) & kMask) | static_cast<R>((static_cast<R>(b) & kMask) << Bits));
  }
};
template <class R, unsigned Bits>
struct Pack4 {
  static constexpr R kMask = static_cast<R>((uint64_t{1} << Bits) - 1);
  static R apply(uint16_t a, uint16_t b, uint16_t c, uint16_t d) {
    return (a & kMask) | ((b & kMask) << Bits) | ((c & kMask) << (2 * Bits)) | ((d & kMask) << (3 * Bits));
  }
};
template <class P, class S, unsigned Shift, unsigned Bits>
struct Piece {
  static P apply(S value) { return static_cast<P>((value >> Shift) & static_cast<S>((uint64_t{1} << Bits) - 1)); }
};

void emit_pack4(Decoder& decoder, Slot destination, const std::vector<Operand>& elements, size_t first, unsigned bits) {
  std::array<Slot, 4> pieces{};
  const bool uniform = destination.shape == Shape::uniform;
  const Type type = bits == 8 ? Type::b8 : Type::b16;
  for (size_t i = 0; i < 4; ++i) {
    pieces[i] = uniform ? decoder.source(elements[first + i], type) : decoder.vector_source(elements[first + i], type);
  }
  HandlerPair handlers;
  if (uniform) {
    handlers.full =
        bits == 8
            ? &detail::UniformHandler<Pack4<uint32_t, 8>, uint32_t, uint16_t, uint16_t, uint16_t, uint16_t>::handler
            : &detail::UniformHandler<Pack4<uint64_t, 16>, uint64_t, uint16_t, uint16_t, uint16_t, uint16_t>::handler;
    handlers.masked = handlers.full;
  } else {
    handlers = bits == 8 ? vector_handlers<Pack4<uint32_t, 8>, uint32_t, uint16_t, uint16_t, uint16_t, uint16_t>()
                         : vector_handlers<Pack4<uint64_t, 16>, uint64_t, uint16_t, uint16_t, uint16_t, uint16_t>();
  }
  Inst& inst = decoder.emit(handlers);
  inst.dst = destination.offset;
  for (size_t i = 0; i < 4; ++i) inst.src[i] = pieces[i].offset;
}

void bind_pack(Decoder& decoder, const Instruction& instruction, unsigned bits) {
  const Operand& target = instruction.operands[0];
  const auto& elements = instruction.operands[1].elements;
  const Slot destination = decoder.destination(target, instruction.type());
  const auto piece = [&](size_t i, Type type) { return decoder.source(elements[i], type); };
  if (elements.size() == 2) {
    switch (bits) {
      case 16:
        emit_slots<Pack2<uint16_t, uint16_t, 8>, uint16_t, uint16_t, uint16_t>(
            decoder, destination, {piece(0, Type::b8), piece(1, Type::b8)});
        return;
      case 32:
        emit_slots<Pack2<uint32_t, uint16_t, 16>, uint32_t, uint16_t, uint16_t>(
            decoder, destination, {piece(0, Type::b16), piece(1, Type::b16)});
        return;
      case 64:
        emit_slots<Pack2<uint64_t, uint32_t, 32>, uint64_t, uint32_t, uint32_t>(
            decoder, destination, {piece(0, Type::b32), piece(1, Type::b32)});
        return;
      case 128:
        emit_copy<uint64_t>(decoder, plane(destination, 0), piece(0, Type::b64));
        emit_copy<uint64_t>(decoder, plane(destination, 1), piece(1, Type::b64));
        return;
      default:
        break;
    }
  }
  if (elements.size() == 4 && (bits == 32 || bits == 64))
    return emit_pack4(decoder, destination, elements, 0, bits / 4);
  if (elements.size() == 8 && bits == 64) {
    const Slot low = decoder.scratch(32, destination.shape), high = decoder.scratch(32, destination.shape);
    emit_pack4(decoder, low, elements, 0, 8);
    emit_pack4(decoder, high, elements, 4, 8);
    emit_slots<Pack2<uint64_t, uint32_t, 32>, uint64_t, uint32_t, uint32_t>(decoder, destination, {low, high});
    return;
  }
  throw std::runtime_error("mov that packs " + std::to_string(elements.size()) + " elements");
}

template <class P, class S, unsigned Bits, size_t... I>
void emit_pieces(Decoder& decoder, const std::vector<Operand>& elements, Slot source, Type type,
                 std::index_sequence<I...>) {
  const auto one = [&]<size_t Index>(std::integral_constant<size_t, Index>) {
    if (elements[Index].kind == OperandKind::sink) return;
    emit_slots<Piece<P, S, Index * Bits, Bits>, P, S>(decoder, decoder.destination(elements[Index], type), {source});
  };
  (one(std::integral_constant<size_t, I>{}), ...);
}

void bind_unpack(Decoder& decoder, const Instruction& instruction, unsigned bits) {
  const auto& elements = instruction.operands[0].elements;
  const Slot source = decoder.source(instruction.operands[1], instruction.type());
  const size_t count = elements.size();
  if (bits == 16 && count == 2)
    return emit_pieces<uint16_t, uint16_t, 8>(decoder, elements, source, Type::b8, std::make_index_sequence<2>{});
  if (bits == 32 && count == 2)
    return emit_pieces<uint16_t, uint32_t, 16>(decoder, elements, source, Type::b16, std::make_index_sequence<2>{});
  if (bits == 32 && count == 4)
    return emit_pieces<uint16_t, uint32_t, 8>(decoder, elements, source, Type::b8, std::make_index_sequence<4>{});
  if (bits == 64 && count == 2)
    return emit_pieces<uint32_t, uint64_t, 32>(decoder, elements, source, Type::b32, std::make_index_sequence<2>{});
  if (bits == 64 && count == 4)
    return emit_pieces<uint16_t, uint64_t, 16>(decoder, elements, source, Type::b16, std::make_index_sequence<4>{});
  if (bits == 64 && count == 8)
    return emit_pieces<uint16_t, uint64_t, 8>(decoder, elements, source, Type::b8, std::make_index_sequence<8>{});
  if (bits == 128 && count == 2) {
    for (unsigned i = 0; i < 2; ++i) {
      if (elements[i].kind == OperandKind::sink) continue;
      emit_copy<uint64_t>(decoder, decoder.destination(elements[i], Type::b64), plane(source, i));
    }
    return;
  }
  throw std::runtime_error("mov that unpacks " + std::to_string(count) + " elements");
}

// --- clocks ---------------------------------------------------------------------------------------------------------

/// A clock that follows the work done: deterministic for a given schedule, and growing at every read so that delay
/// loops end.
uint64_t read_clock(Warp& warp) {
  constexpr uint64_t kCyclesPerInstruction = 2, kCyclesPerRead = 16;
  return warp.cluster->instructions * kCyclesPerInstruction + ++warp.cluster->clock_reads * kCyclesPerRead;
}

uint64_t read_timer() {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

/// aux = special register; flags bit 0: uniform destination, bit 1: 64-bit.
const Inst* read_dynamic(Warp& warp, const Inst& inst) {
  using S = ptx::SpecialRegister;
  uint64_t value = 0;
  switch (static_cast<S>(inst.aux)) {
    case S::clock:
      value = read_clock(warp) & 0xffffffffu;
      break;
    case S::clock_hi:
      value = read_clock(warp) >> 32;
      break;
    case S::clock64:
      value = read_clock(warp);
      break;
    case S::globaltimer:
      value = read_timer();
      break;
    case S::globaltimer_lo:
      value = read_timer() & 0xffffffffu;
      break;
    default:
      value = read_timer() >> 32;
      break;
  }
  if ((inst.flags & 1) != 0) {
    *warp.slot<uint64_t>(inst.dst) = value;
    return &inst + 1;
  }
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if ((inst.flags & 2) != 0) {
      warp.slot<uint64_t>(inst.dst)[lane] = value;
    } else {
      warp.slot<uint32_t>(inst.dst)[lane] = static_cast<uint32_t>(value);
    }
  }
  return &inst + 1;
}

void bind_dynamic(Decoder& decoder, const Instruction& instruction, unsigned bits) {
  if (bits != 32 && bits != 64) throw std::runtime_error("clock register in a 16-bit mov");
  const Slot destination = decoder.destination(instruction.operands[0], instruction.type());
  Inst& inst = decoder.emit({&read_dynamic, &read_dynamic});
  inst.dst = destination.offset;
  inst.aux = instruction.operands[1].index;
  inst.flags = (destination.shape == Shape::uniform ? 1u : 0u) | (bits == 64 ? 2u : 0u);
}

void bind_mov(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const Operand& target = instruction.operands.at(0);
  const Operand& value = instruction.operands.at(1);
  const unsigned bits = type_bits(type);
  if (type == Type::pred) {
    const PredicateSource source = predicate_source(decoder, value);
    const Slot destination = decoder.destination(target, type);
    Inst& inst = decoder.emit({&copy_predicate, &copy_predicate});
    inst.dst = destination.offset;
    inst.src[0] = source.offset;
    inst.flags = source.invert & 1;
    return;
  }
  if (value.kind == OperandKind::vector) return bind_pack(decoder, instruction, bits);
  if (target.kind == OperandKind::vector) return bind_unpack(decoder, instruction, bits);
  if (value.kind == OperandKind::special && Decoder::is_dynamic(static_cast<ptx::SpecialRegister>(value.index))) {
    return bind_dynamic(decoder, instruction, bits);
  }
  const Slot source = decoder.source(value, type);
  const Slot destination = decoder.destination(target, type);
  if (bits == 128) {
    emit_copy<uint64_t>(decoder, plane(destination, 0), plane(source, 0));
    emit_copy<uint64_t>(decoder, plane(destination, 1), plane(source, 1));
    return;
  }
  if (value.kind == OperandKind::special && source.shape == Shape::vector && bits != 32) {
    // Per-lane special registers are 32 bits wide.
    if (bits == 16)
      emit_slots<Piece<uint16_t, uint32_t, 0, 16>, uint16_t, uint32_t>(decoder, destination, {source});
    else
      emit_slots<Piece<uint64_t, uint32_t, 0, 32>, uint64_t, uint32_t>(decoder, destination, {source});
    return;
  }
  emit_copy(decoder, bits, destination, source);
}

// --- addresses ------------------------------------------------------------------------------------------------------

struct AddAddress {
  static uint64_t apply(uint64_t a, uint64_t window) { return a + window; }
};

uint64_t window_of(ptx::StateSpace space) {
  switch (space) {
    case ptx::StateSpace::shared:
    case ptx::StateSpace::shared_cta:
    case ptx::StateSpace::shared_cluster:
      return kSharedWindow;
    case ptx::StateSpace::local:
      return kLocalWindow;
    default:
      return 0;
  }
}

void bind_cvta(Decoder& decoder, const Instruction& instruction) {
  if (require_type(instruction) != Type::u64) throw std::runtime_error("cvta of 32-bit addresses");
  uint64_t window = window_of(instruction.space());
  if (instruction.has(Mod::to)) window = 0 - window;
  const Slot source = decoder.source(instruction.operands.at(1), Type::u64);
  const Slot destination = decoder.destination(instruction.operands.at(0), Type::u64);
  if (window == 0) {
    emit_copy<uint64_t>(decoder, destination, source);
  } else {
    emit_slots<AddAddress, uint64_t, uint64_t, uint64_t>(decoder, destination, {source, decoder.constant(window)});
  }
}

bool lies_in(const Warp& warp, ptx::StateSpace space, uint64_t address) {
  const Launch& launch = *warp.cluster->launch;
  const bool in_shared = address >= kSharedWindow && address < kSharedWindow + kSmallWindowBytes;
  const bool in_local = address >= kLocalWindow && address < kLocalWindow + kSmallWindowBytes;
  const bool in_param = address >= launch.parameters && address < launch.parameters + launch.kernel->parameter_bytes;
  switch (space) {
    case ptx::StateSpace::shared:
    case ptx::StateSpace::shared_cta:
      return in_shared && ((address - kSharedWindow) >> kCtaRankShift) == warp.cta->rank;
    case ptx::StateSpace::shared_cluster:
      return in_shared;
    case ptx::StateSpace::local:
      return in_local;
    case ptx::StateSpace::param:
    case ptx::StateSpace::param_entry:
      return in_param;
    case ptx::StateSpace::const_: {
      const auto allocation = launch.memory->find(address);
      return allocation != nullptr && allocation->kind == AllocationKind::module && allocation->read_only;
    }
    default:
      return !in_shared && !in_local;
  }
}

/// aux = state space; flags bit 0: uniform address.
const Inst* test_space(Warp& warp, const Inst& inst) {
  uint32_t mask = 0;
  const auto* address = warp.slot<const uint64_t>(inst.src[0]);
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    if (lies_in(warp, static_cast<ptx::StateSpace>(inst.aux), address[(inst.flags & 1) != 0 ? 0 : lane]))
      mask |= kLaneBit[lane];
  }
  write_predicate(warp, inst.dst, mask);
  return &inst + 1;
}

void bind_isspacep(Decoder& decoder, const Instruction& instruction) {
  const Operand& address = instruction.operands.at(1);
  if (decoder.operand_bits(address, Type::b64) != 64) throw std::runtime_error("isspacep of a 32-bit address");
  const Slot source = decoder.source(address, Type::b64);
  const Slot destination = decoder.destination(instruction.operands.at(0), Type::pred);
  Inst& inst = decoder.emit({&test_space, &test_space});
  inst.dst = destination.offset;
  inst.src[0] = source.offset;
  inst.aux = static_cast<uint32_t>(instruction.space());
  inst.flags = source.shape == Shape::uniform ? 1 : 0;
}

/// The rank sits above the CTA's own offset in shared::cluster and generic addresses alike.
template <class T>
struct Mapa {
  static T apply(T address, uint32_t rank) {
    return static_cast<T>((address & ~(T{0xff} << kCtaRankShift)) | (static_cast<T>(rank) << kCtaRankShift));
  }
};
template <class T>
struct GetCtaRank {
  static uint32_t apply(T address) { return static_cast<uint32_t>(address >> kCtaRankShift) & 0xff; }
};

void bind_mapa(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const bool generic = instruction.space() == ptx::StateSpace::generic;
  if (generic && instruction.operands.at(1).kind == OperandKind::variable) {
    throw std::runtime_error("mapa of a variable without .shared::cluster");
  }
  if (type == Type::u64) {
    emit_any<Mapa<uint64_t>, uint64_t, uint64_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
  } else {
    emit_any<Mapa<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
  }
}

void bind_getctarank(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (type == Type::u64) {
    emit_any<GetCtaRank<uint64_t>, uint32_t, uint64_t>(decoder, instruction, Type::u32, {type});
  } else {
    emit_any<GetCtaRank<uint32_t>, uint32_t, uint32_t>(decoder, instruction, Type::u32, {type});
  }
}

/// Cache policies are opaque and have no effect on results.
void bind_createpolicy(Decoder& decoder, const Instruction& instruction) {
  constexpr uint64_t kOpaquePolicy = 0x1000000000000000ull;
  emit_copy<uint64_t>(decoder, decoder.destination(instruction.operands.at(0), Type::b64),
                      decoder.constant(kOpaquePolicy));
}

}  // namespace

void register_move(BinderTable& table) {
  table.set(Op::mov, &bind_mov);
  table.set(Op::cvta, &bind_cvta);
  table.set(Op::isspacep, &bind_isspacep);
  table.set(Op::mapa, &bind_mapa);
  table.set(Op::getctarank, &bind_getctarank);
  table.set(Op::createpolicy, &bind_createpolicy);
}

}  // namespace ptxbench::emulator
