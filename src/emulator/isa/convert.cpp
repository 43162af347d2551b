#include <cmath>

#include "emulator/isa/alu.h"
#include "emulator/isa/convert_scalar.h"
#include "emulator/isa/half_float.h"
#include "emulator/isa/rounding.h"
#include "emulator/tensor/numeric_formats.h"

/// cvt and cvt.pack (PTX ISA "Data Movement and Conversion Instructions"). Frequent pairs have lane loops; all others
/// go value by value through convert_scalar.h.
namespace ptxbench::emulator {
namespace {

// --- integers to integers -------------------------------------------------------------------------------------------

/// Keeps the low bits that Narrow holds and extends them as Narrow's signedness says.
template <class Destination, class Source, class Narrow>
struct Extend {
  static Destination apply(Source a) { return static_cast<Destination>(static_cast<Narrow>(a)); }
};

template <class Destination, class Source, class Narrow>
bool emit_extend(Decoder& decoder, Slot destination, Slot source) {
  if constexpr (sizeof(Narrow) > sizeof(Source) || sizeof(Narrow) > sizeof(Destination)) {
    return false;
  } else {
    emit_slots<Extend<Destination, Source, Narrow>, Destination, Source>(decoder, destination, {source});
    return true;
  }
}

template <class Destination, class Source>
bool emit_extend(Decoder& decoder, Slot destination, Slot source, unsigned bits, bool sign) {
  switch (bits) {
    case 8:
      return sign ? emit_extend<Destination, Source, int8_t>(decoder, destination, source)
                  : emit_extend<Destination, Source, uint8_t>(decoder, destination, source);
    case 16:
      return sign ? emit_extend<Destination, Source, int16_t>(decoder, destination, source)
                  : emit_extend<Destination, Source, uint16_t>(decoder, destination, source);
    case 32:
      return sign ? emit_extend<Destination, Source, int32_t>(decoder, destination, source)
                  : emit_extend<Destination, Source, uint32_t>(decoder, destination, source);
    default:
      return emit_extend<Destination, Source, uint64_t>(decoder, destination, source);
  }
}

template <class Destination>
bool emit_extend(Decoder& decoder, Slot destination, Slot source, unsigned source_bits, unsigned bits, bool sign) {
  if (source_bits <= 16) return emit_extend<Destination, uint16_t>(decoder, destination, source, bits, sign);
  if (source_bits == 32) return emit_extend<Destination, uint32_t>(decoder, destination, source, bits, sign);
  return emit_extend<Destination, uint64_t>(decoder, destination, source, bits, sign);
}

/// False if the pair needs the slow path.
bool extend_integers(Decoder& decoder, const Instruction& instruction, Type to, Type from) {
  const Operand& target = instruction.operands[0];
  const Operand& value = instruction.operands[1];
  const unsigned target_bits = decoder.operand_bits(target, to), value_bits = decoder.operand_bits(value, from);
  const bool widens = type_bits(from) < type_bits(to);
  // A negative value in an unsigned type that is narrower than its register: two different extensions in a row.
  if (widens && is_signed(from) && !is_signed(to) && target_bits > type_bits(to)) return false;
  const unsigned bits = std::min(type_bits(from), type_bits(to));
  const bool sign = widens ? is_signed(from) : is_signed(to);
  const Slot source = decoder.source(value, from);
  const Slot destination = decoder.destination(target, to);
  if (target_bits <= 16) return emit_extend<uint16_t>(decoder, destination, source, value_bits, bits, sign);
  if (target_bits == 32) return emit_extend<uint32_t>(decoder, destination, source, value_bits, bits, sign);
  return emit_extend<uint64_t>(decoder, destination, source, value_bits, bits, sign);
}

// --- floats and integers --------------------------------------------------------------------------------------------

template <CvtRounding Mode>
float round_whole(float a) {
  switch (Mode) {
    case CvtRounding::rni:
      return __builtin_nearbyintf(a);
    case CvtRounding::rmi:
      return __builtin_floorf(a);
    case CvtRounding::rpi:
      return __builtin_ceilf(a);
    default:
      return __builtin_truncf(a);
  }
}

template <CvtRounding Mode, bool Ftz>
struct FloatToS32 {
  static int32_t apply(float a) {
    const float whole = round_whole<Mode>(Ftz ? flush(a) : a);
    const bool fits = whole >= -0x1p31f && whole < 0x1p31f;
    const auto value = static_cast<int32_t>(fits ? whole : 0.0f);
    const int32_t limit = whole >= 0x1p31f ? INT32_MAX : whole < 0 ? INT32_MIN : 0;
    return fits ? value : limit;
  }
};
template <CvtRounding Mode, bool Ftz>
struct FloatToU32 {
  static uint32_t apply(float a) {
    const float whole = round_whole<Mode>(Ftz ? flush(a) : a);
    const bool upper = whole >= 0x1p31f;
    const float shifted = upper ? whole - 0x1p31f : whole;
    const bool fits = shifted >= 0 && shifted < 0x1p31f;
    const auto value = static_cast<uint32_t>(static_cast<int32_t>(fits ? shifted : 0.0f)) ^ (upper ? 0x80000000u : 0u);
    return fits ? value : whole > 0 ? 0xffffffffu : 0u;
  }
};
template <class F, class I>
struct FromInteger {
  static F apply(I a) { return static_cast<F>(a); }
};
template <CvtRounding Mode, bool Ftz>
struct RoundF32 {
  static float apply(float a) { return canonical(round_whole<Mode>(Ftz ? flush(a) : a)); }
};

// --- floats to floats -----------------------------------------------------------------------------------------------

struct NarrowF64 {
  static float apply(double a) { return static_cast<float>(a); }  // NaN payloads are cut, not replaced
};
struct WidenF32 {
  static double apply(float a) { return static_cast<double>(a); }
};
struct WidenF16 {
  static float apply(uint16_t a) { return canonical(f16_value(a)); }
};
struct WidenBf16 {
  static float apply(uint16_t a) { return bf16_value(a); }  // a shift: NaN payloads stay
};
inline float relu(float a) { return a > 0 || is_nan(a) ? a : 0.0f; }
template <class F, bool Relu>
struct NarrowHalf {
  static uint16_t apply(float a) { return F::encode(Relu ? relu(a) : a); }
};
/// The first operand becomes the upper half.
template <class F, bool Relu>
struct NarrowPair {
  static uint32_t apply(float a, float b) {
    return (static_cast<uint32_t>(F::encode(Relu ? relu(a) : a)) << 16) | F::encode(Relu ? relu(b) : b);
  }
};
struct Tf32Away {
  static uint32_t apply(float a) { return f32_to_tf32_rna(a); }
};

template <bool E5m2>
uint32_t encode_fp8(float a) {
  return E5m2 ? f32_to_e5m2_rn_satfinite(a) : f32_to_e4m3_rn_satfinite(a);
}
template <bool E5m2, bool Relu>
struct Fp8FromF32 {
  static uint16_t apply(float a, float b) {
    return static_cast<uint16_t>((encode_fp8<E5m2>(Relu ? relu(a) : a) << 8) | encode_fp8<E5m2>(Relu ? relu(b) : b));
  }
};
template <bool E5m2, bool Relu>
struct Fp8FromHalves {
  static uint16_t apply(uint32_t a) {
    return Fp8FromF32<E5m2, Relu>::apply(f16_value(static_cast<uint16_t>(a >> 16)),
                                         f16_value(static_cast<uint16_t>(a)));
  }
};
template <bool E5m2, bool Relu>
struct HalvesFromFp8 {
  static uint32_t half(unsigned byte) {
    const float value = E5m2 ? e5m2_to_f32(static_cast<uint8_t>(byte)) : e4m3_to_f32(static_cast<uint8_t>(byte));
    return f16_bits(Relu ? relu(value) : value);
  }
  static uint32_t apply(uint16_t a) { return half(a & 0xff) | (half(a >> 8) << 16); }
};

// --- slow path ------------------------------------------------------------------------------------------------------

uint64_t convert_one(const uint64_t* operands, uint64_t options) {
  return convert_value(operands[0], Conversion::unpack(options));
}
uint64_t convert_pair(const uint64_t* operands, uint64_t options) {
  const Conversion conversion = Conversion::unpack(options);
  return (convert_value(operands[0], conversion) << 16) | convert_value(operands[1], conversion);
}

CvtRounding rounding_of(const Instruction& instruction) {
  static constexpr std::pair<Mod, CvtRounding> kModes[] = {
      {Mod::rn, CvtRounding::rn},   {Mod::rz, CvtRounding::rz},   {Mod::rm, CvtRounding::rm},
      {Mod::rp, CvtRounding::rp},   {Mod::rna, CvtRounding::rna}, {Mod::rni, CvtRounding::rni},
      {Mod::rzi, CvtRounding::rzi}, {Mod::rmi, CvtRounding::rmi}, {Mod::rpi, CvtRounding::rpi}};
  for (const auto& [mod, mode] : kModes) {
    if (instruction.has(mod)) return mode;
  }
  if (instruction.has(Mod::rs)) throw std::runtime_error("stochastic rounding (sm_100)");
  return CvtRounding::none;
}

// --- fast paths -----------------------------------------------------------------------------------------------------

/// The operand registers are exactly as wide as the types (8-bit values live in 16-bit slots).
bool plain_registers(const Decoder& decoder, const Instruction& instruction, Type to, Type from) {
  return decoder.operand_bits(instruction.operands[0], to) == type_bits(to) &&
         decoder.operand_bits(instruction.operands[1], from) == type_bits(from);
}

template <class Operation, class R, class A>
bool fast(Decoder& decoder, const Instruction& instruction, Type to, Type from, RoundMode mode = RoundMode::nearest) {
  Inst& inst = emit_slots<Operation, R, A>(decoder, decoder.destination(instruction.operands[0], to),
                                           {decoder.source(instruction.operands[1], from)});
  apply_rounding(decoder, inst, mode);
  return true;
}

template <template <CvtRounding, bool> class Operation, class R>
bool fast_rounded(Decoder& decoder, const Instruction& instruction, const Conversion& c) {
  const auto pick = [&]<CvtRounding Mode>(std::integral_constant<CvtRounding, Mode>) {
    return c.ftz ? fast<Operation<Mode, true>, R, float>(decoder, instruction, c.to, c.from)
                 : fast<Operation<Mode, false>, R, float>(decoder, instruction, c.to, c.from);
  };
  switch (c.rounding) {
    case CvtRounding::rni:
      return pick(std::integral_constant<CvtRounding, CvtRounding::rni>{});
    case CvtRounding::rzi:
      return pick(std::integral_constant<CvtRounding, CvtRounding::rzi>{});
    case CvtRounding::rmi:
      return pick(std::integral_constant<CvtRounding, CvtRounding::rmi>{});
    case CvtRounding::rpi:
      return pick(std::integral_constant<CvtRounding, CvtRounding::rpi>{});
    default:
      return false;
  }
}

template <class F>
bool fast_from_integer(Decoder& decoder, const Instruction& instruction, const Conversion& c, RoundMode mode) {
  switch (c.from) {
    case Type::u32:
      return fast<FromInteger<F, uint32_t>, F, uint32_t>(decoder, instruction, c.to, c.from, mode);
    case Type::s32:
      return fast<FromInteger<F, int32_t>, F, int32_t>(decoder, instruction, c.to, c.from, mode);
    case Type::u64:
      return fast<FromInteger<F, uint64_t>, F, uint64_t>(decoder, instruction, c.to, c.from, mode);
    case Type::s64:
      return fast<FromInteger<F, int64_t>, F, int64_t>(decoder, instruction, c.to, c.from, mode);
    default:
      return false;
  }
}

bool fast_conversion(Decoder& decoder, const Instruction& instruction, const Conversion& c) {
  if (is_integer(c.to) && is_integer(c.from)) return !c.sat && extend_integers(decoder, instruction, c.to, c.from);
  if (!plain_registers(decoder, instruction, c.to, c.from) || c.sat || c.satfinite) return false;
  if (c.from == Type::f32 && c.to == Type::s32) return fast_rounded<FloatToS32, int32_t>(decoder, instruction, c);
  if (c.from == Type::f32 && c.to == Type::u32) return fast_rounded<FloatToU32, uint32_t>(decoder, instruction, c);
  if (c.from == Type::f32 && c.to == Type::f32) return fast_rounded<RoundF32, float>(decoder, instruction, c);
  const RoundMode mode = round_mode(instruction);
  if (c.to == Type::f32 && is_integer(c.from)) return fast_from_integer<float>(decoder, instruction, c, mode);
  if (c.to == Type::f64 && is_integer(c.from)) return fast_from_integer<double>(decoder, instruction, c, mode);
  if (c.ftz) return false;
  if (c.to == Type::f32 && c.from == Type::f64)
    return fast<NarrowF64, float, double>(decoder, instruction, c.to, c.from, mode);
  if (c.to == Type::f64 && c.from == Type::f32)
    return fast<WidenF32, double, float>(decoder, instruction, c.to, c.from);
  if (c.to == Type::f32 && c.from == Type::f16)
    return fast<WidenF16, float, uint16_t>(decoder, instruction, c.to, c.from);
  if (c.to == Type::f32 && c.from == Type::bf16)
    return fast<WidenBf16, float, uint16_t>(decoder, instruction, c.to, c.from);
  if (c.rounding != CvtRounding::rn || c.from != Type::f32) return false;
  if (c.to == Type::f16) {
    return c.relu ? fast<NarrowHalf<F16, true>, uint16_t, float>(decoder, instruction, c.to, c.from)
                  : fast<NarrowHalf<F16, false>, uint16_t, float>(decoder, instruction, c.to, c.from);
  }
  if (c.to == Type::bf16) {
    return c.relu ? fast<NarrowHalf<BF16, true>, uint16_t, float>(decoder, instruction, c.to, c.from)
                  : fast<NarrowHalf<BF16, false>, uint16_t, float>(decoder, instruction, c.to, c.from);
  }
  return false;
}

template <class F>
void emit_pair(Decoder& decoder, const Instruction& instruction, const Conversion& c) {
  const Type pair = c.to == Type::f16 ? Type::f16x2 : Type::bf16x2;
  if (c.rounding == CvtRounding::rn && !c.satfinite) {
    c.relu
        ? emit_lanes<NarrowPair<F, true>, uint32_t, float, float>(decoder, instruction, pair, {Type::f32, Type::f32})
        : emit_lanes<NarrowPair<F, false>, uint32_t, float, float>(decoder, instruction, pair, {Type::f32, Type::f32});
    return;
  }
  emit_calls(decoder, instruction.operands[0], pair,
             {{&instruction.operands[1], Type::f32}, {&instruction.operands.at(2), Type::f32}}, &convert_pair,
             c.pack());
}

template <bool E5m2>
void emit_fp8(Decoder& decoder, const Instruction& instruction, Type from, bool relu_result) {
  constexpr Type kPair = E5m2 ? Type::e5m2x2 : Type::e4m3x2;
  if (from == Type::f32) {
    relu_result ? emit_any<Fp8FromF32<E5m2, true>, uint16_t, float, float>(decoder, instruction, kPair, {from, from})
                : emit_any<Fp8FromF32<E5m2, false>, uint16_t, float, float>(decoder, instruction, kPair, {from, from});
  } else if (from == Type::f16x2) {
    relu_result ? emit_any<Fp8FromHalves<E5m2, true>, uint16_t, uint32_t>(decoder, instruction, kPair, {from})
                : emit_any<Fp8FromHalves<E5m2, false>, uint16_t, uint32_t>(decoder, instruction, kPair, {from});
  } else {
    unsupported_type(from);
  }
}

template <bool E5m2>
void emit_from_fp8(Decoder& decoder, const Instruction& instruction, Type from, bool relu_result) {
  relu_result ? emit_any<HalvesFromFp8<E5m2, true>, uint32_t, uint16_t>(decoder, instruction, Type::f16x2, {from})
              : emit_any<HalvesFromFp8<E5m2, false>, uint32_t, uint16_t>(decoder, instruction, Type::f16x2, {from});
}

bool is_scalar(Type type) {
  return is_integer(type) || type == Type::f16 || type == Type::bf16 || type == Type::f32 || type == Type::f64;
}

void bind_cvt(Decoder& decoder, const Instruction& instruction) {
  Conversion c;
  c.to = require_type(instruction, 0);
  c.from = require_type(instruction, 1);
  c.rounding = rounding_of(instruction);
  c.ftz = instruction.has(Mod::ftz);
  c.sat = instruction.has(Mod::sat);
  c.relu = instruction.has(Mod::relu);
  c.satfinite = instruction.has(Mod::satfinite);
  const Operand& target = instruction.operands.at(0);
  const Operand& value = instruction.operands.at(1);
  c.register_bits = static_cast<uint8_t>(decoder.operand_bits(target, c.to));
  switch (c.to) {
    case Type::f16x2:
      if (c.from == Type::e4m3x2) return emit_from_fp8<false>(decoder, instruction, c.from, c.relu);
      if (c.from == Type::e5m2x2) return emit_from_fp8<true>(decoder, instruction, c.from, c.relu);
      if (c.from != Type::f32) unsupported_type(c.from);
      c.to = Type::f16;
      return emit_pair<F16>(decoder, instruction, c);
    case Type::bf16x2:
      if (c.from != Type::f32) unsupported_type(c.from);
      c.to = Type::bf16;
      return emit_pair<BF16>(decoder, instruction, c);
    case Type::e4m3x2:
      return emit_fp8<false>(decoder, instruction, c.from, c.relu);
    case Type::e5m2x2:
      return emit_fp8<true>(decoder, instruction, c.from, c.relu);
    case Type::tf32:
      if (c.from != Type::f32) unsupported_type(c.from);
      if (c.rounding == CvtRounding::rna && !c.satfinite) {
        emit_any<Tf32Away, uint32_t, float>(decoder, instruction, Type::b32, {Type::f32});
        return;
      }
      break;
    default:
      if (!is_scalar(c.to)) unsupported_type(c.to);
      if (!is_scalar(c.from)) unsupported_type(c.from);
      if (fast_conversion(decoder, instruction, c)) return;
  }
  emit_calls(decoder, target, c.to, {{&value, c.from}}, &convert_one, c.pack());
}

// --- cvt.pack -------------------------------------------------------------------------------------------------------

uint64_t saturate_to(uint64_t value, unsigned bits, bool sign) {
  const int64_t v = static_cast<int32_t>(value);
  const int64_t low = sign ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = (int64_t{1} << (sign ? bits - 1 : bits)) - 1;
  return zero_extend(static_cast<uint64_t>(std::min(std::max(v, low), high)), bits);
}
/// options: element width, bit 8 = signed. The pair sits in the low bits, `c` moves up above it.
uint64_t pack_pair(const uint64_t* operands, uint64_t options) {
  const auto bits = static_cast<unsigned>(options & 0xff);
  const bool sign = (options & 0x100) != 0;
  const uint64_t pair = (saturate_to(operands[0], bits, sign) << bits) | saturate_to(operands[1], bits, sign);
  return bits == 16 ? pair : ((operands[2] << (2 * bits)) | pair) & 0xffffffffu;
}
void bind_cvt_pack(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction, 0);
  const bool sign = is_signed(type) || type == Type::s4;
  const uint64_t options = type_bits(type) | (sign ? 0x100u : 0u);
  const auto& operands = instruction.operands;
  if (type_bits(type) == 16) {
    emit_calls(decoder, operands.at(0), Type::b32, {{&operands.at(1), Type::s32}, {&operands.at(2), Type::s32}},
               &pack_pair, options);
  } else {
    emit_calls(decoder, operands.at(0), Type::b32,
               {{&operands.at(1), Type::s32}, {&operands.at(2), Type::s32}, {&operands.at(3), Type::b32}}, &pack_pair,
               options);
  }
}

}  // namespace

void register_convert(BinderTable& table) {
  table.set(Op::cvt, &bind_cvt);
  table.set(Op::cvt_pack, &bind_cvt_pack);
}

}  // namespace ptxbench::emulator
