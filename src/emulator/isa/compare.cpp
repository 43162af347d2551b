#include "emulator/isa/alu.h"
#include "emulator/isa/half_float.h"

/// Comparison and selection (PTX ISA "Comparison and Selection Instructions", half precision ones included), testp.
namespace ptxbench::emulator {
namespace {

// Base comparisons; the rest are these with operands swapped or the result inverted.
struct Equal {
  template <class T>
  static bool apply(T a, T b) {
    return a == b;
  }
};
struct Less {
  template <class T>
  static bool apply(T a, T b) {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  static bool apply(T a, T b) {
    return a <= b;
  }
};
struct Unequal {  // ordered: false for NaN
  template <class T>
  static bool apply(T a, T b) {
    return a < b || a > b;
  }
};
struct Ordered {
  template <class T>
  static bool apply(T a, T b) {
    return a == a && b == b;
  }
};

template <class Base>
struct Flushed {
  static bool apply(float a, float b) { return Base::apply(flush(a), flush(b)); }
};
/// Compares f16 or bf16 encodings; Part 0 and 1 are the halves of a packed register, Ftz flushes first.
template <class Base, class Format, bool Ftz>
struct HalfCompare {
  static float value(uint16_t bits) { return Format::value(Ftz ? Format::flush(bits) : bits); }
  static bool apply(uint16_t a, uint16_t b) { return Base::apply(value(a), value(b)); }
};
template <class Base, class Format, bool Ftz, unsigned Part>
struct PackedCompare {
  static bool apply(uint32_t a, uint32_t b) {
    return HalfCompare<Base, Format, Ftz>::apply(static_cast<uint16_t>(a >> (16 * Part)),
                                                 static_cast<uint16_t>(b >> (16 * Part)));
  }
};

enum Combine : uint32_t { kPlain = 0, kAnd = 1, kOr = 2, kXor = 3 };
constexpr uint32_t kInvertResult = 1, kInvertCombined = 2, kHasQ = 4;

template <class Compare, class T, unsigned Shapes>
uint32_t compare_lanes(Warp& warp, const Inst& inst) {
  const LaneSource<T, (Shapes & 1) != 0> a(warp, inst.src[0]);
  const LaneSource<T, (Shapes & 2) != 0> b(warp, inst.src[1]);
  uint32_t mask = 0;
  if constexpr (Shapes == 3) {
    mask = Compare::apply(a[0], b[0]) ? kFullMask : 0;
  } else {
    mask = collect_lanes([&](unsigned lane) { return Compare::apply(a[lane], b[lane]); });
  }
  return mask ^ (0u - (inst.flags & kInvertResult));
}

template <class Compare, class T, unsigned Shapes>
const Inst* setp_plain(Warp& warp, const Inst& inst) {
  write_predicate(warp, inst.dst, compare_lanes<Compare, T, Shapes>(warp, inst));
  return &inst + 1;
}

uint32_t combine(uint32_t how, uint32_t value, uint32_t other) {
  switch (how) {
    case kAnd:
      return value & other;
    case kOr:
      return value | other;
    case kXor:
      return value ^ other;
    default:
      return value;
  }
}

/// p = cmp BoolOp c, q = !cmp BoolOp c.
template <class Compare, class T, unsigned Shapes>
const Inst* setp_combined(Warp& warp, const Inst& inst) {
  const uint32_t result = compare_lanes<Compare, T, Shapes>(warp, inst);
  const uint32_t other =
      inst.aux == kPlain ? 0
                         : *warp.slot<uint32_t>(inst.src[2]) ^ ((inst.flags & kInvertCombined) != 0 ? kFullMask : 0);
  if ((inst.flags & kHasQ) != 0) write_predicate(warp, inst.src[3], combine(inst.aux, ~result, other));
  write_predicate(warp, inst.dst, combine(inst.aux, result, other));
  return &inst + 1;
}

struct SetpHandlers {
  Handler plain = nullptr, combined = nullptr;
};
template <class Compare, class T>
SetpHandlers setp_handlers(unsigned shapes) {
  static constexpr SetpHandlers table[4] = {{&setp_plain<Compare, T, 0>, &setp_combined<Compare, T, 0>},
                                            {&setp_plain<Compare, T, 1>, &setp_combined<Compare, T, 1>},
                                            {&setp_plain<Compare, T, 2>, &setp_combined<Compare, T, 2>},
                                            {&setp_plain<Compare, T, 3>, &setp_combined<Compare, T, 3>}};
  return table[shapes];
}

enum class Base : uint8_t { equal, less, less_equal, unequal, ordered };
struct Comparison {
  Base base = Base::equal;
  bool swap = false, invert = false;
};

Comparison integer_comparison(const Instruction& instruction) {
  const auto has = [&](Mod mod) { return instruction.has(mod); };
  if (has(Mod::eq)) return {Base::equal, false, false};
  if (has(Mod::ne)) return {Base::equal, false, true};
  if (has(Mod::lt) || has(Mod::lo)) return {Base::less, false, false};
  if (has(Mod::gt) || has(Mod::hi)) return {Base::less, true, false};
  if (has(Mod::le) || has(Mod::ls)) return {Base::less, true, true};
  if (has(Mod::ge) || has(Mod::hs)) return {Base::less, false, true};
  throw std::runtime_error("comparison operator");
}

Comparison float_comparison(const Instruction& instruction) {
  const auto has = [&](Mod mod) { return instruction.has(mod); };
  if (has(Mod::eq)) return {Base::equal, false, false};
  if (has(Mod::ne)) return {Base::unequal, false, false};
  if (has(Mod::lt)) return {Base::less, false, false};
  if (has(Mod::gt)) return {Base::less, true, false};
  if (has(Mod::le)) return {Base::less_equal, false, false};
  if (has(Mod::ge)) return {Base::less_equal, true, false};
  if (has(Mod::equ)) return {Base::unequal, false, true};
  if (has(Mod::neu)) return {Base::equal, false, true};
  if (has(Mod::ltu)) return {Base::less_equal, true, true};   // not (b <= a)
  if (has(Mod::gtu)) return {Base::less_equal, false, true};  // not (a <= b)
  if (has(Mod::leu)) return {Base::less, true, true};         // not (b < a)
  if (has(Mod::geu)) return {Base::less, false, true};        // not (a < b)
  if (has(Mod::num)) return {Base::ordered, false, false};
  if (has(Mod::nan)) return {Base::ordered, false, true};
  throw std::runtime_error("comparison operator");
}

template <class T>
SetpHandlers integer_handlers(Base base, unsigned shapes) {
  return base == Base::equal ? setp_handlers<Equal, std::make_unsigned_t<T>>(shapes) : setp_handlers<Less, T>(shapes);
}
template <template <class> class Wrap, class T>
SetpHandlers wrapped_handlers(Base base, unsigned shapes) {
  switch (base) {
    case Base::equal:
      return setp_handlers<Wrap<Equal>, T>(shapes);
    case Base::less:
      return setp_handlers<Wrap<Less>, T>(shapes);
    case Base::less_equal:
      return setp_handlers<Wrap<LessEqual>, T>(shapes);
    case Base::unequal:
      return setp_handlers<Wrap<Unequal>, T>(shapes);
    case Base::ordered:
      return setp_handlers<Wrap<Ordered>, T>(shapes);
  }
  return {};
}
template <class Compare>
using AsIs = Compare;
template <class Compare>
using HalfIeee = HalfCompare<Compare, F16, false>;
template <class Compare>
using HalfFtz = HalfCompare<Compare, F16, true>;
template <class Compare>
using Brain = HalfCompare<Compare, BF16, false>;
template <class Compare>
using HalfLow = PackedCompare<Compare, F16, false, 0>;
template <class Compare>
using HalfHigh = PackedCompare<Compare, F16, false, 1>;
template <class Compare>
using HalfFtzLow = PackedCompare<Compare, F16, true, 0>;
template <class Compare>
using HalfFtzHigh = PackedCompare<Compare, F16, true, 1>;
template <class Compare>
using BrainLow = PackedCompare<Compare, BF16, false, 0>;
template <class Compare>
using BrainHigh = PackedCompare<Compare, BF16, false, 1>;

bool is_packed(Type type) { return type == Type::f16x2 || type == Type::bf16x2; }
bool is_float(Type type) {
  return type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16 || is_packed(type);
}

/// `part`: half of a packed comparison.
SetpHandlers select_handlers(Type type, Base base, unsigned shapes, bool ftz, unsigned part) {
  switch (type) {
    case Type::b16:
    case Type::u16:
      return integer_handlers<uint16_t>(base, shapes);
    case Type::s16:
      return integer_handlers<int16_t>(base, shapes);
    case Type::b32:
    case Type::u32:
      return integer_handlers<uint32_t>(base, shapes);
    case Type::s32:
      return integer_handlers<int32_t>(base, shapes);
    case Type::b64:
    case Type::u64:
      return integer_handlers<uint64_t>(base, shapes);
    case Type::s64:
      return integer_handlers<int64_t>(base, shapes);
    case Type::f32:
      return ftz ? wrapped_handlers<Flushed, float>(base, shapes) : wrapped_handlers<AsIs, float>(base, shapes);
    case Type::f64:
      return wrapped_handlers<AsIs, double>(base, shapes);
    case Type::f16:
      return ftz ? wrapped_handlers<HalfFtz, uint16_t>(base, shapes)
                 : wrapped_handlers<HalfIeee, uint16_t>(base, shapes);
    case Type::bf16:
      return wrapped_handlers<Brain, uint16_t>(base, shapes);
    case Type::f16x2:
      if (ftz)
        return part == 0 ? wrapped_handlers<HalfFtzLow, uint32_t>(base, shapes)
                         : wrapped_handlers<HalfFtzHigh, uint32_t>(base, shapes);
      return part == 0 ? wrapped_handlers<HalfLow, uint32_t>(base, shapes)
                       : wrapped_handlers<HalfHigh, uint32_t>(base, shapes);
    case Type::bf16x2:
      return part == 0 ? wrapped_handlers<BrainLow, uint32_t>(base, shapes)
                       : wrapped_handlers<BrainHigh, uint32_t>(base, shapes);
    default:
      unsupported_type(type);
  }
}

/// What setp and set have in common: operands a, b and the optional combination with c.
struct CompareOperands {
  Type type = Type::none;
  Comparison comparison;
  Slot a, b;
  uint32_t combine = kPlain;
  PredicateSource c;
  bool ftz = false;
};

CompareOperands compare_operands(Decoder& decoder, const Instruction& instruction, Type type) {
  CompareOperands operands;
  operands.type = type;
  operands.comparison = is_float(type) ? float_comparison(instruction) : integer_comparison(instruction);
  operands.ftz = instruction.has(Mod::ftz);
  operands.a = decoder.source(instruction.operands.at(1), type);
  operands.b = decoder.source(instruction.operands.at(2), type);
  if (operands.comparison.swap) std::swap(operands.a, operands.b);
  if (instruction.operands.size() > 3) {
    operands.combine = instruction.has(Mod::and_) ? kAnd : instruction.has(Mod::or_) ? kOr : kXor;
    operands.c = predicate_source(decoder, instruction.operands[3]);
  }
  return operands;
}

void emit_setp(Decoder& decoder, const CompareOperands& operands, uint32_t p, std::optional<uint32_t> q,
               unsigned part = 0) {
  const unsigned shapes =
      (operands.a.shape == Shape::uniform ? 1u : 0u) | (operands.b.shape == Shape::uniform ? 2u : 0u);
  const SetpHandlers handlers = select_handlers(operands.type, operands.comparison.base, shapes, operands.ftz, part);
  const Handler handler = q || operands.combine != kPlain ? handlers.combined : handlers.plain;
  Inst& inst = decoder.emit({handler, handler});
  inst.dst = p;
  inst.src[0] = operands.a.offset;
  inst.src[1] = operands.b.offset;
  inst.src[2] = operands.c.offset;
  inst.src[3] = q.value_or(0);
  inst.aux = operands.combine;
  inst.flags = (operands.comparison.invert ? kInvertResult : 0) | (operands.c.invert != 0 ? kInvertCombined : 0) |
               (q ? kHasQ : 0);
}

void bind_setp(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const CompareOperands operands = compare_operands(decoder, instruction, type);
  const PredicateDestinations destinations = predicate_destinations(decoder, instruction.operands.at(0));
  if (is_packed(type)) {
    // p is about the low halves, q about the high ones.
    if (!destinations.has_q) throw std::runtime_error("packed setp with one destination");
    // The destination that is also the combined predicate has to be written last.
    const bool p_last = operands.combine != kPlain && operands.c.offset == destinations.p.offset;
    if (p_last) emit_setp(decoder, operands, destinations.q.offset, std::nullopt, 1);
    emit_setp(decoder, operands, destinations.p.offset, std::nullopt, 0);
    if (!p_last) emit_setp(decoder, operands, destinations.q.offset, std::nullopt, 1);
    return;
  }
  emit_setp(decoder, operands, destinations.p.offset,
            destinations.has_q ? std::optional<uint32_t>(destinations.q.offset) : std::nullopt);
}

// --- selection by predicate -----------------------------------------------------------------------------------------

/// d = p ? a : b. src[2] = predicate, flags bit 0: negated.
template <class T, unsigned Shapes, bool Masked>
const Inst* selp(Warp& warp, const Inst& inst) {
  const LaneSource<T, (Shapes & 1) != 0> a(warp, inst.src[0]);
  const LaneSource<T, (Shapes & 2) != 0> b(warp, inst.src[1]);
  const uint32_t predicate = *warp.slot<uint32_t>(inst.src[2]) ^ (0u - (inst.flags & 1));
  T* d = warp.slot<T>(inst.dst);
  const uint32_t* mask = warp.lane_mask.data();
#pragma GCC ivdep
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const T value = (predicate & kLaneBit[lane]) != 0 ? a[lane] : b[lane];
    d[lane] = Masked ? select_lane(mask[lane], value, d[lane]) : value;
  }
  return &inst + 1;
}
template <class T>
const Inst* selp_uniform(Warp& warp, const Inst& inst) {
  const uint32_t predicate = *warp.slot<uint32_t>(inst.src[2]) ^ (0u - (inst.flags & 1));
  *warp.slot<T>(inst.dst) = *warp.slot<T>((predicate & warp.mask) != 0 ? inst.src[0] : inst.src[1]);
  return &inst + 1;
}

template <class T>
void emit_selp(Decoder& decoder, Slot destination, Slot a, Slot b, PredicateSource p) {
  static constexpr HandlerPair table[4] = {{&selp<T, 0, false>, &selp<T, 0, true>},
                                           {&selp<T, 1, false>, &selp<T, 1, true>},
                                           {&selp<T, 2, false>, &selp<T, 2, true>},
                                           {&selp<T, 3, false>, &selp<T, 3, true>}};
  const unsigned shapes = (a.shape == Shape::uniform ? 1u : 0u) | (b.shape == Shape::uniform ? 2u : 0u);
  const bool uniform = destination.shape == Shape::uniform;
  if (uniform && shapes != 3) throw std::logic_error("uniform destination with per-lane sources");
  Inst& inst = decoder.emit(uniform ? HandlerPair{&selp_uniform<T>, &selp_uniform<T>} : table[shapes]);
  inst.dst = destination.offset;
  inst.src[0] = a.offset;
  inst.src[1] = b.offset;
  inst.src[2] = p.offset;
  inst.flags = p.invert & 1;
}

void emit_selp(Decoder& decoder, unsigned bits, Slot destination, Slot a, Slot b, PredicateSource p) {
  switch (bits) {
    case 16:
      return emit_selp<uint16_t>(decoder, destination, a, b, p);
    case 32:
      return emit_selp<uint32_t>(decoder, destination, a, b, p);
    case 64:
      return emit_selp<uint64_t>(decoder, destination, a, b, p);
    default:
      throw std::runtime_error("selection width");
  }
}

void bind_selp(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const Slot a = decoder.source(instruction.operands.at(1), type);
  const Slot b = decoder.source(instruction.operands.at(2), type);
  const PredicateSource p = predicate_source(decoder, instruction.operands.at(3));
  emit_selp(decoder, type_bits(type), decoder.destination(instruction.operands.at(0), type), a, b, p);
}

struct MergeHalves {
  static uint32_t apply(uint32_t low, uint32_t high) { return low | high; }
};

/// The value set writes for true; packed destinations say it for the low half.
uint64_t true_value(Type type, bool packed_source) {
  switch (type) {
    case Type::u32:
    case Type::s32:
      return packed_source ? 0xffffu : 0xffffffffu;
    case Type::u16:
    case Type::s16:
      return 0xffffu;
    case Type::f32:
      return 0x3f800000u;
    case Type::f16:
    case Type::f16x2:
      return 0x3c00u;
    case Type::bf16:
    case Type::bf16x2:
      return 0x3f80u;
    default:
      unsupported_type(type);
  }
}

void bind_set(Decoder& decoder, const Instruction& instruction) {
  const Type result = require_type(instruction, 0), type = require_type(instruction, 1);
  const CompareOperands operands = compare_operands(decoder, instruction, type);
  const Slot destination = decoder.destination(instruction.operands.at(0), result);
  const bool packed = is_packed(type);
  const uint64_t value = true_value(result, packed);
  const Slot zero = decoder.constant(0);
  const Slot low_predicate = decoder.scratch(1);
  emit_setp(decoder, operands, low_predicate.offset, std::nullopt, 0);
  if (!packed) {
    emit_selp(decoder, type_bits(result), destination, decoder.constant(value), zero, {low_predicate.offset, 0});
    return;
  }
  const Slot high_predicate = decoder.scratch(1);
  emit_setp(decoder, operands, high_predicate.offset, std::nullopt, 1);
  const Slot low = decoder.scratch(32, destination.shape), high = decoder.scratch(32, destination.shape);
  emit_selp(decoder, 32, low, decoder.constant(value), zero, {low_predicate.offset, 0});
  emit_selp(decoder, 32, high, decoder.constant(value << 16), zero, {high_predicate.offset, 0});
  emit_slots<MergeHalves, uint32_t, uint32_t, uint32_t>(decoder, destination, {low, high});
}

/// d = c >= 0 ? a : b. For f32, -0 counts as 0 and NaN selects b.
template <class T, class C, bool Ftz>
struct Slct {
  static T apply(T a, T b, C c) {
    if constexpr (Ftz) return flush(c) >= C{0} ? a : b;
    return c >= C{0} ? a : b;
  }
};
template <class T>
void emit_slct(Decoder& decoder, const Instruction& instruction, Type type, Type selector) {
  const std::array<Type, 3> types{type, type, selector};
  if (selector == Type::s32) {
    emit_any<Slct<T, int32_t, false>, T, T, T, int32_t>(decoder, instruction, type, types);
  } else if (instruction.has(Mod::ftz)) {
    emit_any<Slct<T, float, true>, T, T, T, float>(decoder, instruction, type, types);
  } else {
    emit_any<Slct<T, float, false>, T, T, T, float>(decoder, instruction, type, types);
  }
}
void bind_slct(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction, 0), selector = require_type(instruction, 1);
  switch (type_bits(type)) {
    case 16:
      return emit_slct<uint16_t>(decoder, instruction, type, selector);
    case 32:
      return emit_slct<uint32_t>(decoder, instruction, type, selector);
    case 64:
      return emit_slct<uint64_t>(decoder, instruction, type, selector);
    default:
      unsupported_type(type);
  }
}

// --- testp ----------------------------------------------------------------------------------------------------------

enum TestClass : uint64_t { kFinite, kInfinite, kNumber, kNotANumber, kNormal, kSubnormal };
uint64_t test_class(const uint64_t* operands, uint64_t options) {
  const bool wide = (options & 8) != 0;
  const uint64_t fraction = wide ? operands[0] & 0xfffffffffffffull : operands[0] & 0x7fffff;
  const uint64_t exponent = wide ? (operands[0] >> 52) & 0x7ff : (operands[0] >> 23) & 0xff;
  const uint64_t top = wide ? 0x7ff : 0xff;
  switch (options & 7) {
    case kFinite:
      return exponent != top;
    case kInfinite:
      return exponent == top && fraction == 0;
    case kNumber:
      return exponent != top || fraction == 0;
    case kNotANumber:
      return exponent == top && fraction != 0;
    case kNormal:
      return exponent != top && (exponent != 0 || fraction == 0);  // zero counts as normal
    default:
      return exponent == 0 && fraction != 0;
  }
}
void bind_testp(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  uint64_t options = kSubnormal;
  if (instruction.has(Mod::finite))
    options = kFinite;
  else if (instruction.has(Mod::infinite))
    options = kInfinite;
  else if (instruction.has(Mod::number))
    options = kNumber;
  else if (instruction.has(Mod::notanumber))
    options = kNotANumber;
  else if (instruction.has(Mod::normal))
    options = kNormal;
  if (type == Type::f64) options |= 8;
  emit_calls(decoder, instruction.operands.at(0), Type::pred, {{&instruction.operands.at(1), type}}, &test_class,
             options);
}

}  // namespace

void register_compare(BinderTable& table) {
  table.set(Op::setp, &bind_setp);
  table.set(Op::set, &bind_set);
  table.set(Op::selp, &bind_selp);
  table.set(Op::slct, &bind_slct);
  table.set(Op::testp, &bind_testp);
}

}  // namespace ptxbench::emulator
