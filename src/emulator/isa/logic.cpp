#include <algorithm>

#include "emulator/isa/alu.h"

/// Logic and shift instructions, lop3 and prmt (PTX ISA "Logic and Shift Instructions", "prmt").
namespace ptxbench::emulator {
namespace {

template <class T>
struct And {
  static T apply(T a, T b) { return static_cast<T>(a & b); }
};
template <class T>
struct Or {
  static T apply(T a, T b) { return static_cast<T>(a | b); }
};
template <class T>
struct Xor {
  static T apply(T a, T b) { return static_cast<T>(a ^ b); }
};
template <class T>
struct Not {
  static T apply(T a) { return static_cast<T>(~a); }
};
template <class T>
struct Cnot {
  static T apply(T a) { return a == 0 ? T{1} : T{0}; }
};
/// Shift amounts above the width act as the width.
template <class T>
struct Shl {
  static T apply(T a, uint32_t b) { return b >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << b); }
};
template <class T>
struct Shr {
  static T apply(T a, uint32_t b) {
    constexpr uint32_t kBits = 8 * sizeof(T);
    if constexpr (std::is_signed_v<T>) return static_cast<T>(a >> std::min(b, kBits - 1));
    return b >= kBits ? T{0} : static_cast<T>(a >> b);
  }
};
template <bool Left, bool Clamp>
struct Shf {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = (uint64_t{b} << 32) | a;
    const uint32_t n = Clamp ? std::min(c, 32u) : c & 31;
    return static_cast<uint32_t>(Left ? (both << n) >> 32 : both >> n);
  }
};

// --- predicates -----------------------------------------------------------------------------------------------------

enum class PredicateOp : uint8_t { and_, or_, xor_, copy };

/// flags bit 0, 1: the source is negated.
template <PredicateOp Operation>
const Inst* combine_predicates(Warp& warp, const Inst& inst) {
  const uint32_t a = *warp.slot<uint32_t>(inst.src[0]) ^ (0u - (inst.flags & 1));
  const uint32_t b = *warp.slot<uint32_t>(inst.src[1]) ^ (0u - ((inst.flags >> 1) & 1));
  uint32_t value = a;
  if constexpr (Operation == PredicateOp::and_) value = a & b;
  if constexpr (Operation == PredicateOp::or_) value = a | b;
  if constexpr (Operation == PredicateOp::xor_) value = a ^ b;
  write_predicate(warp, inst.dst, value);
  return &inst + 1;
}

template <PredicateOp Operation>
void bind_predicates(Decoder& decoder, const Instruction& instruction, bool negate_first = false) {
  const PredicateSource a = predicate_source(decoder, instruction.operands.at(1));
  const PredicateSource b =
      instruction.operands.size() > 2 ? predicate_source(decoder, instruction.operands[2]) : PredicateSource{a};
  const Slot destination = decoder.destination(instruction.operands.at(0), Type::pred);
  Inst& inst = decoder.emit({&combine_predicates<Operation>, &combine_predicates<Operation>});
  inst.dst = destination.offset;
  inst.src[0] = a.offset;
  inst.src[1] = b.offset;
  inst.flags = ((a.invert & 1) ^ (negate_first ? 1u : 0u)) | ((b.invert & 1) << 1);
}

// --- binders --------------------------------------------------------------------------------------------------------

template <template <class> class Operation, PredicateOp Predicate>
void bind_bitwise(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  switch (type) {
    case Type::pred:
      return bind_predicates<Predicate>(decoder, instruction);
    case Type::b16:
      emit_any<Operation<uint16_t>, uint16_t, uint16_t, uint16_t>(decoder, instruction, type, {type, type});
      return;
    case Type::b32:
      emit_lanes<Operation<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type});
      return;
    case Type::b64:
      emit_lanes<Operation<uint64_t>, uint64_t, uint64_t, uint64_t>(decoder, instruction, type, {type, type});
      return;
    default:
      unsupported_type(type);
  }
}

template <template <class> class Operation>
void bind_unary(Decoder& decoder, const Instruction& instruction, Type type) {
  switch (type) {
    case Type::b16:
      emit_any<Operation<uint16_t>, uint16_t, uint16_t>(decoder, instruction, type, {type});
      return;
    case Type::b32:
      emit_any<Operation<uint32_t>, uint32_t, uint32_t>(decoder, instruction, type, {type});
      return;
    case Type::b64:
      emit_any<Operation<uint64_t>, uint64_t, uint64_t>(decoder, instruction, type, {type});
      return;
    default:
      unsupported_type(type);
  }
}

void bind_not(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (type == Type::pred) return bind_predicates<PredicateOp::copy>(decoder, instruction, true);
  bind_unary<Not>(decoder, instruction, type);
}

void bind_cnot(Decoder& decoder, const Instruction& instruction) {
  bind_unary<Cnot>(decoder, instruction, require_type(instruction));
}

void bind_shl(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  switch (type_bits(type)) {
    case 16:
      emit_any<Shl<uint16_t>, uint16_t, uint16_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
      return;
    case 32:
      emit_lanes<Shl<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
      return;
    case 64:
      emit_lanes<Shl<uint64_t>, uint64_t, uint64_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
      return;
    default:
      unsupported_type(type);
  }
}

void bind_shr(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const bool arithmetic = is_signed(type);
  switch (type_bits(type)) {
    case 16:
      arithmetic ? emit_any<Shr<int16_t>, int16_t, int16_t, uint32_t>(decoder, instruction, type, {type, Type::u32})
                 : emit_any<Shr<uint16_t>, uint16_t, uint16_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
      return;
    case 32:
      arithmetic
          ? emit_lanes<Shr<int32_t>, int32_t, int32_t, uint32_t>(decoder, instruction, type, {type, Type::u32})
          : emit_lanes<Shr<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
      return;
    case 64:
      arithmetic ? emit_any<Shr<int64_t>, int64_t, int64_t, uint32_t>(decoder, instruction, type, {type, Type::u32})
                 : emit_any<Shr<uint64_t>, uint64_t, uint64_t, uint32_t>(decoder, instruction, type, {type, Type::u32});
      return;
    default:
      unsupported_type(type);
  }
}

template <bool Left, bool Clamp>
void emit_shf(Decoder& decoder, const Instruction& instruction) {
  emit_any<Shf<Left, Clamp>, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, Type::b32,
                                                                     {Type::b32, Type::b32, Type::u32});
}
void bind_shf(Decoder& decoder, const Instruction& instruction) {
  const bool clamp = instruction.has(Mod::clamp);
  if (instruction.has(Mod::l)) {
    clamp ? emit_shf<true, true>(decoder, instruction) : emit_shf<true, false>(decoder, instruction);
  } else {
    clamp ? emit_shf<false, true>(decoder, instruction) : emit_shf<false, false>(decoder, instruction);
  }
}

// --- lop3 -----------------------------------------------------------------------------------------------------------

struct Xor3 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) { return a ^ b ^ c; }
};
struct AndOr {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) { return (a & b) | c; }
};
struct OrAnd {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) { return a | (b & c); }
};

/// Bit i of the table is the result for a = bit 2, b = bit 1, c = bit 0 of i.
uint32_t evaluate_lut(uint32_t lut, uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result = 0;
  for (unsigned row = 0; row < 8; ++row) {
    const uint32_t wanted = 0u - ((lut >> row) & 1);
    result |= wanted & ((row & 4) != 0 ? a : ~a) & ((row & 2) != 0 ? b : ~b) & ((row & 1) != 0 ? c : ~c);
  }
  return result;
}

const Inst* lop3_any(Warp& warp, const Inst& inst) {
  const uint32_t* a = warp.slot<uint32_t>(inst.src[0]);
  const uint32_t* b = warp.slot<uint32_t>(inst.src[1]);
  const uint32_t* c = warp.slot<uint32_t>(inst.src[2]);
  uint32_t* d = warp.slot<uint32_t>(inst.dst);
  const uint32_t lut = inst.aux;
  const uint32_t* mask = warp.lane_mask.data();
#pragma GCC ivdep
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    d[lane] = select_lane(mask[lane], evaluate_lut(lut, a[lane], b[lane], c[lane]), d[lane]);
  }
  return &inst + 1;
}

const Inst* lop3_uniform(Warp& warp, const Inst& inst) {
  *warp.slot<uint32_t>(inst.dst) = evaluate_lut(inst.aux, *warp.slot<uint32_t>(inst.src[0]),
                                                *warp.slot<uint32_t>(inst.src[1]), *warp.slot<uint32_t>(inst.src[2]));
  return &inst + 1;
}

/// p = (d != 0) BoolOp q; d is the register just written, per lane or uniform (flags bit 1). flags bit 0: q is negated.
template <bool And, bool Uniform>
const Inst* lop3_predicate(Warp& warp, const Inst& inst) {
  const LaneSource<uint32_t, Uniform> value(warp, inst.src[0]);
  const uint32_t q = *warp.slot<uint32_t>(inst.src[1]) ^ (0u - (inst.flags & 1));
  const uint32_t nonzero = collect_lanes([&](unsigned lane) { return value[lane] != 0; });
  write_predicate(warp, inst.dst, And ? nonzero & q : nonzero | q);
  return &inst + 1;
}

void emit_lop3(Decoder& decoder, const Instruction& instruction, Slot destination) {
  const auto lut = static_cast<uint32_t>(Decoder::immediate(instruction.operands.at(4)).value_or(-1));
  if (lut > 255) throw std::runtime_error("lop3 look-up table is not an immediate byte");
  const Type type = Type::b32;
  const auto shaped = [&]<class Operation>(Operation) {
    const std::array<Slot, 3> sources{decoder.source(instruction.operands[1], type),
                                      decoder.source(instruction.operands[2], type),
                                      decoder.source(instruction.operands[3], type)};
    emit_slots<Operation, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, destination, sources);
  };
  if (lut == 0x96) return shaped(Xor3{});
  if (lut == 0xea) return shaped(AndOr{});
  if (lut == 0xf8) return shaped(OrAnd{});
  const bool uniform = destination.shape == Shape::uniform;
  std::array<Slot, 3> sources{};
  for (size_t s = 0; s < 3; ++s) {
    sources[s] = uniform ? decoder.source(instruction.operands[s + 1], type)
                         : decoder.vector_source(instruction.operands[s + 1], type);
  }
  const Handler handler = uniform ? &lop3_uniform : &lop3_any;
  Inst& inst = decoder.emit({handler, handler});
  inst.dst = destination.offset;
  for (size_t s = 0; s < 3; ++s) inst.src[s] = sources[s].offset;
  inst.aux = lut;
}

void bind_lop3(Decoder& decoder, const Instruction& instruction) {
  const Operand& target = instruction.operands.at(0);
  const bool with_predicate = instruction.has(Mod::and_) || instruction.has(Mod::or_);
  if (!with_predicate) return emit_lop3(decoder, instruction, decoder.destination(target, Type::b32));
  if (target.kind != OperandKind::predicate_pair) throw std::runtime_error("lop3 with BoolOp but no d|p destination");
  const Slot destination = decoder.destination(target.elements.at(0), Type::b32);
  const Slot predicate = decoder.destination(target.elements.at(1), Type::pred);
  const PredicateSource q = predicate_source(decoder, instruction.operands.at(5));
  emit_lop3(decoder, instruction, destination);
  const bool uniform = destination.shape == Shape::uniform;
  const Handler handler = instruction.has(Mod::and_)
                              ? (uniform ? &lop3_predicate<true, true> : &lop3_predicate<true, false>)
                              : (uniform ? &lop3_predicate<false, true> : &lop3_predicate<false, false>);
  Inst& inst = decoder.emit({handler, handler});
  inst.dst = predicate.offset;
  inst.src[0] = destination.offset;
  inst.src[1] = q.offset;
  inst.flags = q.invert & 1;
}

// --- prmt -----------------------------------------------------------------------------------------------------------

/// Selector nibbles: bits 2..0 choose a byte of {b, a}, bit 3 replicates its sign bit.
struct Prmt {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    const uint64_t both = (uint64_t{b} << 32) | a;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const uint32_t selector = c >> (4 * i);
      const auto byte = static_cast<uint32_t>(both >> ((selector & 7) * 8)) & 0xff;
      const uint32_t sign = (byte >> 7) * 0xff;
      result |= ((selector & 8) != 0 ? sign : byte) << (8 * i);
    }
    return result;
  }
};

/// Special modes reduce to the general one with a selector computed from c's two low bits.
enum class PrmtMode : uint8_t { f4e, b4e, rc8, ecl, ecr, rc16 };
constexpr uint32_t prmt_selector(PrmtMode mode, uint32_t c) {
  uint32_t selector = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    uint32_t byte = 0;
    switch (mode) {
      case PrmtMode::f4e:
        byte = c + i;
        break;
      case PrmtMode::b4e:
        byte = (c - i) & 7;
        break;
      case PrmtMode::rc8:
        byte = c;
        break;
      case PrmtMode::ecl:
        byte = i < c ? c : i;
        break;
      case PrmtMode::ecr:
        byte = i < c ? i : c;
        break;
      case PrmtMode::rc16:
        byte = (c & 1) * 2 + (i & 1);
        break;
    }
    selector |= (byte & 7) << (4 * i);
  }
  return selector;
}
template <PrmtMode Mode>
struct PrmtSpecial {
  static constexpr std::array<uint32_t, 4> kSelectors{prmt_selector(Mode, 0), prmt_selector(Mode, 1),
                                                      prmt_selector(Mode, 2), prmt_selector(Mode, 3)};
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) { return Prmt::apply(a, b, kSelectors[c & 3]); }
};

template <PrmtMode Mode>
void emit_prmt(Decoder& decoder, const Instruction& instruction) {
  emit_any<PrmtSpecial<Mode>, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, Type::b32,
                                                                      {Type::b32, Type::b32, Type::b32});
}

void bind_prmt(Decoder& decoder, const Instruction& instruction) {
  if (instruction.has(Mod::f4e)) return emit_prmt<PrmtMode::f4e>(decoder, instruction);
  if (instruction.has(Mod::b4e)) return emit_prmt<PrmtMode::b4e>(decoder, instruction);
  if (instruction.has(Mod::rc8)) return emit_prmt<PrmtMode::rc8>(decoder, instruction);
  if (instruction.has(Mod::ecl)) return emit_prmt<PrmtMode::ecl>(decoder, instruction);
  if (instruction.has(Mod::ecr)) return emit_prmt<PrmtMode::ecr>(decoder, instruction);
  if (instruction.has(Mod::rc16)) return emit_prmt<PrmtMode::rc16>(decoder, instruction);
  emit_lanes<Prmt, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, Type::b32,
                                                           {Type::b32, Type::b32, Type::b32});
}

}  // namespace

void register_logic(BinderTable& table) {
  table.set(Op::and_, &bind_bitwise<And, PredicateOp::and_>);
  table.set(Op::or_, &bind_bitwise<Or, PredicateOp::or_>);
  table.set(Op::xor_, &bind_bitwise<Xor, PredicateOp::xor_>);
  table.set(Op::not_, &bind_not);
  table.set(Op::cnot, &bind_cnot);
  table.set(Op::shl, &bind_shl);
  table.set(Op::shr, &bind_shr);
  table.set(Op::shf, &bind_shf);
  table.set(Op::lop3, &bind_lop3);
  table.set(Op::prmt, &bind_prmt);
}

}  // namespace ptxbench::emulator
