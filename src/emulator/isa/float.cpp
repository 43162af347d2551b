#include <cmath>

#include "emulator/isa/alu.h"
#include "emulator/isa/arithmetic.h"
#include "emulator/isa/half_float.h"
#include "emulator/isa/rounding.h"

/// f32 and f64 arithmetic (PTX ISA "Floating-Point Instructions"). f32 results are canonical NaNs; f64 keeps payloads,
/// as the ISA says of double precision. Which NaN operand wins, and that neg and abs leave a NaN's sign alone, was
/// observed on an H200 (tests/isa).
namespace ptxbench::emulator {
namespace {

struct Add {
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct Fma {
  static float apply(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
  static double apply(double a, double b, double c) { return __builtin_fma(a, b, c); }
};
/// f64: the second operand's NaN wins over the first one's, the addend's over the first factor's.
inline double quiet(double value) { return double_of(bits_of(value) | 0x0008000000000000ull); }
template <class Base>
struct SecondNan {
  static double apply(double a, double b) { return is_nan(b) ? quiet(b) : Base::apply(a, b); }
};
struct FmaWide {
  static double apply(double a, double b, double c) {
    return is_nan(b) ? quiet(b) : is_nan(c) ? quiet(c) : Fma::apply(a, b, c);
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
};
struct Rcp {
  template <class T>
  static T apply(T a) {
    return T{1} / a;
  }
};
struct Sqrt {
  static float apply(float a) { return __builtin_sqrtf(a); }
  static double apply(double a) { return __builtin_sqrt(a); }
};

/// f32's canonical NaN, and `.sat`.
template <class Base, bool Sat>
struct Single {
  template <class... Args>
  static float apply(Args... args) {
    const float result = Base::apply(args...);
    return Sat ? saturate(result) : canonical(result);
  }
};
/// `.ftz` of approximations, whose tiny results need no exact treatment.
template <class Base, bool Ftz>
struct Approximate {
  template <class... Args>
  static float apply(Args... args) {
    return canonical(Ftz ? flush(Base::apply(flush(args)...)) : Base::apply(args...));
  }
};

// --- minimum and maximum --------------------------------------------------------------------------------------------

template <bool Maximum>
float pick(float a, float b) {
  const bool first = Maximum ? a > b : a < b;
  const bool second = Maximum ? b > a : b < a;
  // Equal operands differ at most in the sign of zero: -0 is below +0.
  const float tie = float_of(Maximum ? bits_of(a) & bits_of(b) : bits_of(a) | bits_of(b));
  const float ordered = first ? a : second ? b : tie;
  return is_nan(a) ? b : is_nan(b) ? a : ordered;
}
template <bool Maximum>
double pick(double a, double b) {
  const bool first = Maximum ? a > b : a < b;
  const bool second = Maximum ? b > a : b < a;
  const double tie = double_of(Maximum ? bits_of(a) & bits_of(b) : bits_of(a) | bits_of(b));
  const double ordered = first ? a : second ? b : tie;
  if (is_nan(a)) return is_nan(b) ? double_of(bits_of(b) | 0x0008000000000000ull) : b;
  return is_nan(b) ? a : ordered;
}
template <bool Maximum, bool PropagateNan, bool XorSign, bool Ftz>
struct Extreme {
  static float apply(float x, float y) {
    const float a = Ftz ? flush(x) : x, b = Ftz ? flush(y) : y;
    float result;
    if constexpr (XorSign) {
      const uint32_t sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
      result = pick<Maximum>(float_of(bits_of(a) & 0x7fffffffu), float_of(bits_of(b) & 0x7fffffffu));
      result = float_of((bits_of(result) & 0x7fffffffu) | sign);
    } else {
      result = pick<Maximum>(a, b);
    }
    if constexpr (PropagateNan) result = is_nan(a) || is_nan(b) ? float_of(kCanonicalNan32) : result;
    return canonical(result);
  }
};
template <bool Maximum>
struct ExtremeWide {
  static double apply(double a, double b) { return pick<Maximum>(a, b); }
};

// --- sign -----------------------------------------------------------------------------------------------------------

// Executed as additions of zero, hence the canonical NaN of f32.
template <bool Negate, bool Ftz>
struct Sign {
  static float apply(float a) {
    const float value = canonical(Ftz ? flush(a) : a);
    if (is_nan(value)) return value;
    return float_of(Negate ? bits_of(value) ^ 0x80000000u : bits_of(value) & 0x7fffffffu);
  }
};
template <bool Negate>
struct SignWide {
  static uint64_t apply(uint64_t a) {
    const uint64_t changed = Negate ? a ^ 0x8000000000000000ull : a & 0x7fffffffffffffffull;
    return (a & 0x7fffffffffffffffull) > 0x7ff0000000000000ull ? a | 0x0008000000000000ull : changed;
  }
};
struct Copysign {
  static uint32_t apply(uint32_t a, uint32_t b) { return (b & 0x7fffffffu) | (a & 0x80000000u); }
};
struct CopysignWide {
  static uint64_t apply(uint64_t a, uint64_t b) { return (b & 0x7fffffffffffffffull) | (a & 0x8000000000000000ull); }
};

// --- approximations -------------------------------------------------------------------------------------------------
// Computed in f64 and rounded once, well inside the documented errors; the hardware's own last bits differ.

/// a * (1 / b): zero for divisors above 2^126, as documented (the reciprocal underflows).
struct DivApprox {
  static float apply(float a, float b) {
    const bool huge = std::fabs(b) > 0x1p126f && std::fabs(b) < INFINITY;
    const float reciprocal = huge ? std::copysign(0.0f, b) : 1.0f / b;
    return huge ? a * reciprocal : a / b;
  }
};
struct RsqrtApprox {
  static float apply(float a) {
    const float value = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a)));
    return value;
  }
};
/// Range reduction as in the instruction sequence: the angle in turns, rounded toward zero.
inline double reduced_angle(float a) {
  constexpr double kTwoPi = 6.283185307179586476925;
  const double exact = static_cast<double>(a) * static_cast<double>(0.15915494f);
  const auto nearest = static_cast<float>(exact);
  const bool away = std::fabs(static_cast<double>(nearest)) > std::fabs(exact);
  const float turns = away ? float_of(bits_of(nearest) - 1) : nearest;
  return (static_cast<double>(turns) - std::nearbyint(static_cast<double>(turns))) * kTwoPi;
}
struct SinApprox {
  static float apply(float a) { return static_cast<float>(std::sin(reduced_angle(a))); }
};
struct CosApprox {
  static float apply(float a) { return static_cast<float>(std::cos(reduced_angle(a))); }
};
struct Lg2Approx {
  static float apply(float a) { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct TanhApprox {
  static float apply(float a) { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};
/// 2^a by a polynomial on [-1/2, 1/2] in f64; vectorises. Relative error below 1e-10 before the final rounding.
struct Ex2Approx {
  static float apply(float a) {
    const float bounded = a > 160.0f ? 160.0f : a < -160.0f ? -160.0f : a;
    const double x = static_cast<double>(is_nan(a) ? 0.0f : bounded);
    constexpr double kShift = 0x1.8p52;
    const double shifted = x + kShift;
    const double whole = shifted - kShift;
    const double y = (x - whole) * 0.693147180559945309417;
    double p = 1.0 / 362880;
    p = p * y + 1.0 / 40320;
    p = p * y + 1.0 / 5040;
    p = p * y + 1.0 / 720;
    p = p * y + 1.0 / 120;
    p = p * y + 1.0 / 24;
    p = p * y + 1.0 / 6;
    p = p * y + 0.5;
    p = p * y + 1.0;
    p = p * y + 1.0;
    const double scale = double_of((bits_of(shifted) << 52) + 0x3ff0000000000000ull);
    return is_nan(a) ? a : static_cast<float>(p * scale);
  }
};

/// The "gross" f64 approximations work on the upper 32 bits alone: 20 fraction bits in and out, subnormals flushed.
uint64_t upper_half(double value) {
  if (is_nan(value)) return 0x7fffffff00000000ull;
  const uint64_t bits = bits_of(value);
  if ((bits & 0x7ff0000000000000ull) == 0) return bits & 0x8000000000000000ull;
  if ((bits & 0x7ff0000000000000ull) == 0x7ff0000000000000ull) return bits;
  return (bits + 0x80000000ull) & 0xffffffff00000000ull;
}
double upper_operand(uint64_t bits) {
  const uint64_t upper = bits & 0xffffffff00000000ull;
  return double_of((upper & 0x7ff0000000000000ull) == 0 ? upper & 0x8000000000000000ull : upper);
}
struct RcpGross {
  static uint64_t apply(uint64_t a) { return upper_half(1.0 / upper_operand(a)); }
};
struct RsqrtGross {
  static uint64_t apply(uint64_t a) { return upper_half(1.0 / __builtin_sqrt(upper_operand(a))); }
};
struct RsqrtWide {
  static double apply(double a) { return 1.0 / __builtin_sqrt(a); }
};

// --- binders --------------------------------------------------------------------------------------------------------

template <class Operation, size_t Count, bool EveryShape>
Inst& emit_f32(Decoder& decoder, const Instruction& instruction) {
  constexpr Type kType = Type::f32;
  const auto source = [&](size_t i) { return decoder.source(instruction.operands.at(i), kType); };
  if constexpr (Count == 1) {
    return emit_any<Operation, float, float>(decoder, instruction, kType, {kType});
  } else if constexpr (Count == 2) {
    if constexpr (EveryShape) {
      return emit_slots<Operation, float, float, float>(decoder, decoder.destination(instruction.operands.at(0), kType),
                                                        {source(1), source(2)});
    }
    return emit_any<Operation, float, float, float>(decoder, instruction, kType, {kType, kType});
  } else {
    if constexpr (EveryShape) {
      return emit_slots<Operation, float, float, float, float>(
          decoder, decoder.destination(instruction.operands.at(0), kType), {source(1), source(2), source(3)});
    }
    return emit_any<Operation, float, float, float, float>(decoder, instruction, kType, {kType, kType, kType});
  }
}

/// `Hot` operations get loops for every operand shape.
template <class Base, size_t Count, bool Hot>
void bind_f32(Decoder& decoder, const Instruction& instruction) {
  Inst& inst = instruction.has(Mod::sat) ? emit_f32<Single<Base, true>, Count, false>(decoder, instruction)
                                         : emit_f32<Single<Base, false>, Count, Hot>(decoder, instruction);
  apply_rounding(decoder, inst, round_mode(instruction), instruction.has(Mod::ftz));
}

template <class Base, size_t Count>
void bind_f64(Decoder& decoder, const Instruction& instruction) {
  constexpr Type kType = Type::f64;
  const auto finish = [&](Inst& inst) { apply_rounding(decoder, inst, round_mode(instruction)); };
  if constexpr (Count == 1) finish(emit_any<Base, double, double>(decoder, instruction, kType, {kType}));
  if constexpr (Count == 2) finish(emit_any<Base, double, double, double>(decoder, instruction, kType, {kType, kType}));
  if constexpr (Count == 3) {
    finish(emit_any<Base, double, double, double, double>(decoder, instruction, kType, {kType, kType, kType}));
  }
}

template <class Base, size_t Count, bool Hot, class Wide = Base>
void bind_exact(Decoder& decoder, const Instruction& instruction) {
  instruction.type() == Type::f64 ? bind_f64<Wide, Count>(decoder, instruction)
                                  : bind_f32<Base, Count, Hot>(decoder, instruction);
}

template <class Base, size_t Count>
void bind_approximate(Decoder& decoder, const Instruction& instruction) {
  decoder.approximate();
  instruction.has(Mod::ftz) ? emit_f32<Approximate<Base, true>, Count, false>(decoder, instruction)
                            : emit_f32<Approximate<Base, false>, Count, false>(decoder, instruction);
}

template <bool Maximum>
void bind_extreme(Decoder& decoder, const Instruction& instruction) {
  if (instruction.operands.size() != 3) throw std::runtime_error("three-input minimum or maximum (sm_100)");
  if (instruction.type() == Type::f64) {
    emit_any<ExtremeWide<Maximum>, double, double, double>(decoder, instruction, Type::f64, {Type::f64, Type::f64});
    return;
  }
  const bool nan = instruction.has(Mod::NaN), sign = instruction.has(Mod::xorsign), ftz = instruction.has(Mod::ftz);
  const auto emit = [&]<class Operation>(Operation) {
    emit_any<Operation, float, float, float>(decoder, instruction, Type::f32, {Type::f32, Type::f32});
  };
  switch ((nan ? 4 : 0) | (sign ? 2 : 0) | (ftz ? 1 : 0)) {
    case 0:
      emit_lanes<Extreme<Maximum, false, false, false>, float, float, float>(decoder, instruction, Type::f32,
                                                                             {Type::f32, Type::f32});
      return;
    case 1:
      emit_lanes<Extreme<Maximum, false, false, true>, float, float, float>(decoder, instruction, Type::f32,
                                                                            {Type::f32, Type::f32});
      return;
    case 2:
      return emit(Extreme<Maximum, false, true, false>{});
    case 3:
      return emit(Extreme<Maximum, false, true, true>{});
    case 4:
      return emit(Extreme<Maximum, true, false, false>{});
    case 5:
      return emit(Extreme<Maximum, true, false, true>{});
    case 6:
      return emit(Extreme<Maximum, true, true, false>{});
    default:
      return emit(Extreme<Maximum, true, true, true>{});
  }
}

template <bool Negate>
void bind_sign(Decoder& decoder, const Instruction& instruction) {
  if (instruction.type() == Type::f64) {
    emit_any<SignWide<Negate>, uint64_t, uint64_t>(decoder, instruction, Type::f64, {Type::f64});
  } else if (instruction.has(Mod::ftz)) {
    emit_any<Sign<Negate, true>, float, float>(decoder, instruction, Type::f32, {Type::f32});
  } else {
    emit_any<Sign<Negate, false>, float, float>(decoder, instruction, Type::f32, {Type::f32});
  }
}

void bind_div(Decoder& decoder, const Instruction& instruction) {
  if (instruction.has(Mod::approx)) return bind_approximate<DivApprox, 2>(decoder, instruction);
  if (instruction.has(Mod::full)) return bind_approximate<Div, 2>(decoder, instruction);
  bind_exact<Div, 2, false>(decoder, instruction);
}

void bind_rcp(Decoder& decoder, const Instruction& instruction) {
  if (!instruction.has(Mod::approx)) return bind_exact<Rcp, 1, false>(decoder, instruction);
  if (instruction.type() != Type::f64) return bind_approximate<Rcp, 1>(decoder, instruction);
  decoder.approximate();
  emit_any<RcpGross, uint64_t, uint64_t>(decoder, instruction, Type::f64, {Type::f64});
}

void bind_sqrt(Decoder& decoder, const Instruction& instruction) {
  if (instruction.has(Mod::approx)) return bind_approximate<Sqrt, 1>(decoder, instruction);
  bind_exact<Sqrt, 1, false>(decoder, instruction);
}

void bind_rsqrt(Decoder& decoder, const Instruction& instruction) {
  if (instruction.type() != Type::f64) return bind_approximate<RsqrtApprox, 1>(decoder, instruction);
  decoder.approximate();
  if (instruction.has(Mod::ftz)) {
    emit_any<RsqrtGross, uint64_t, uint64_t>(decoder, instruction, Type::f64, {Type::f64});
  } else {
    emit_any<RsqrtWide, double, double>(decoder, instruction, Type::f64, {Type::f64});
  }
}

void bind_copysign(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (type == Type::f64) {
    emit_any<CopysignWide, uint64_t, uint64_t, uint64_t>(decoder, instruction, type, {type, type});
  } else {
    emit_any<Copysign, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type});
  }
}

const Inst* run_rounded(Warp& warp, const Inst& inst) {
  const auto& inner = *static_cast<const HandlerPair*>(inst.extra);
  const FloatScope scope(inst.aux);
  return warp.mask == kFullMask ? inner.full(warp, inst) : inner.masked(warp, inst);
}

}  // namespace

void apply_rounding(Decoder& decoder, Inst& inst, RoundMode mode, bool ftz) {
  if (mode == RoundMode::nearest && !ftz) return;
  inst.extra = decoder.keep(HandlerPair{inst.full, inst.masked});
  inst.aux = kDefaultMxcsr | (static_cast<uint32_t>(mode) << 13) | (ftz ? kFlushSubnormals : 0);
  inst.full = inst.masked = &run_rounded;
}

void bind_float(Decoder& decoder, const Instruction& instruction) {
  switch (instruction.op) {
    case Op::add:
      return bind_exact<Add, 2, true, SecondNan<Add>>(decoder, instruction);
    case Op::sub:
      return bind_exact<Sub, 2, true, SecondNan<Sub>>(decoder, instruction);
    case Op::mul:
      return bind_exact<Mul, 2, true, SecondNan<Mul>>(decoder, instruction);
    case Op::fma:
    case Op::mad:
      return bind_exact<Fma, 3, true, FmaWide>(decoder, instruction);
    case Op::div:
      return bind_div(decoder, instruction);
    case Op::abs:
      return bind_sign<false>(decoder, instruction);
    case Op::neg:
      return bind_sign<true>(decoder, instruction);
    case Op::min:
      return bind_extreme<false>(decoder, instruction);
    case Op::max:
      return bind_extreme<true>(decoder, instruction);
    case Op::ex2:
      return bind_approximate<Ex2Approx, 1>(decoder, instruction);
    case Op::tanh:
      return bind_approximate<TanhApprox, 1>(decoder, instruction);
    default:
      throw std::runtime_error("floating-point opcode");
  }
}

void register_float(BinderTable& table) {
  table.set(Op::rcp, &bind_rcp);
  table.set(Op::sqrt, &bind_sqrt);
  table.set(Op::rsqrt, &bind_rsqrt);
  table.set(Op::sin, &bind_approximate<SinApprox, 1>);
  table.set(Op::cos, &bind_approximate<CosApprox, 1>);
  table.set(Op::lg2, &bind_approximate<Lg2Approx, 1>);
  table.set(Op::copysign, &bind_copysign);
}

}  // namespace ptxbench::emulator
