#include <cmath>

#include "emulator/isa/alu.h"
#include "emulator/isa/arithmetic.h"
#include "emulator/isa/half_float.h"

/// f16, f16x2, bf16 and bf16x2 arithmetic (PTX ISA "Half Precision Floating-Point Instructions"). Sums and products are
/// formed in f32, which has more than twice the precision plus two bits: rounding twice gives the once-rounded result.
namespace ptxbench::emulator {
namespace {

constexpr unsigned kFtz = 1, kSat = 2, kRelu = 4, kNan = 8, kXorSign = 16;

/// Modifiers of a result that still has f32's precision. Clamping commutes with rounding: the limits are representable.
template <class F, unsigned M>
uint16_t finish(float value) {
  if constexpr ((M & kSat) != 0) value = saturate(value);
  if constexpr ((M & kRelu) != 0) value = value > 0 || is_nan(value) ? value : 0.0f;
  if constexpr ((M & kFtz) != 0) return F::encode_flushed(value);
  return F::encode(value);
}
/// Results that are encodings already.
template <class F, unsigned M>
uint16_t finish(uint16_t bits) {
  return (M & kFtz) != 0 ? F::flush(bits) : bits;
}
template <class F, unsigned M>
uint16_t prepare(uint16_t bits) {
  return (M & kFtz) != 0 ? F::flush(bits) : bits;
}

template <class F>
struct Add {
  static float apply(uint16_t a, uint16_t b) { return F::value(a) + F::value(b); }
};
template <class F>
struct Sub {
  static float apply(uint16_t a, uint16_t b) { return F::value(a) - F::value(b); }
};
template <class F>
struct Mul {
  static float apply(uint16_t a, uint16_t b) { return F::value(a) * F::value(b); }
};
template <class F>
struct Fma {
  static float apply(uint16_t a, uint16_t b, uint16_t c) { return F::fma(a, b, c); }
};
template <class F>
struct Neg {
  static uint16_t apply(uint16_t a) {
    return is_nan(F::value(a)) ? kCanonicalNan16 : static_cast<uint16_t>(a ^ 0x8000);
  }
};
template <class F>
struct Abs {
  static uint16_t apply(uint16_t a) {
    return is_nan(F::value(a)) ? kCanonicalNan16 : static_cast<uint16_t>(a & 0x7fff);
  }
};
template <class F>
struct Ex2 {
  static uint16_t apply(uint16_t a) { return F::encode(std::exp2(F::value(a))); }
};
template <class F>
struct Tanh {
  static uint16_t apply(uint16_t a) { return F::encode(std::tanh(F::value(a))); }
};
template <class F, bool Maximum, unsigned M>
struct Extreme {
  static uint16_t apply(uint16_t a, uint16_t b) {
    const bool a_nan = is_nan(F::value(a)), b_nan = is_nan(F::value(b));
    if ((M & kNan) != 0 ? a_nan || b_nan : a_nan && b_nan) return kCanonicalNan16;
    const uint16_t sign = (M & kXorSign) != 0 ? (a ^ b) & 0x8000 : 0;
    const uint16_t x = (M & kXorSign) != 0 ? a & 0x7fff : a, y = (M & kXorSign) != 0 ? b & 0x7fff : b;
    uint16_t result;
    if (a_nan || b_nan) {
      result = a_nan ? y : x;
    } else {
      const float p = F::value(x), q = F::value(y);
      const bool first = Maximum ? p > q : p < q, second = Maximum ? q > p : q < p;
      result = first ? x : second ? y : static_cast<uint16_t>(Maximum ? x & y : x | y);
    }
    return (M & kXorSign) != 0 ? static_cast<uint16_t>((result & 0x7fff) | sign) : result;
  }
};

/// One value per register.
template <class Base, class F, unsigned M>
struct Scalar {
  template <class... Args>
  static uint16_t apply(Args... args) {
    return finish<F, M>(Base::apply(prepare<F, M>(args)...));
  }
};
/// Two values per register.
template <class Base, class F, unsigned M>
struct Packed {
  template <class... Args>
  static uint32_t apply(Args... args) {
    const uint32_t low = Scalar<Base, F, M>::apply(static_cast<uint16_t>(args)...);
    const uint32_t high = Scalar<Base, F, M>::apply(static_cast<uint16_t>(args >> 16)...);
    return low | (high << 16);
  }
};

template <class Base, class F, unsigned M, size_t Count>
void emit_half(Decoder& decoder, const Instruction& instruction, bool packed) {
  const Type type = instruction.type();
  const auto emit = [&]<class T, class Operation>(T, Operation) {
    if constexpr (Count == 1) emit_any<Operation, T, T>(decoder, instruction, type, {type});
    if constexpr (Count == 2) emit_any<Operation, T, T, T>(decoder, instruction, type, {type, type});
    if constexpr (Count == 3) emit_any<Operation, T, T, T, T>(decoder, instruction, type, {type, type, type});
  };
  if (packed)
    emit(uint32_t{}, Packed<Base, F, M>{});
  else
    emit(uint16_t{}, Scalar<Base, F, M>{});
}

template <template <class> class Base, size_t Count>
void bind_arithmetic(Decoder& decoder, const Instruction& instruction, bool packed, bool brain) {
  const bool ftz = instruction.has(Mod::ftz), sat = instruction.has(Mod::sat), relu = instruction.has(Mod::relu);
  if (instruction.has(Mod::oob)) throw std::runtime_error("fma.oob");
  if (brain) {
    if (sat || ftz) throw std::runtime_error("bf16 arithmetic with .sat or .ftz");
    if constexpr (Count == 3) {
      if (relu) return emit_half<Base<BF16>, BF16, kRelu, Count>(decoder, instruction, packed);
    }
    return emit_half<Base<BF16>, BF16, 0, Count>(decoder, instruction, packed);
  }
  if constexpr (Count == 3) {
    if (relu) {
      return ftz ? emit_half<Base<F16>, F16, kRelu | kFtz, Count>(decoder, instruction, packed)
                 : emit_half<Base<F16>, F16, kRelu, Count>(decoder, instruction, packed);
    }
  }
  if (sat) {
    return ftz ? emit_half<Base<F16>, F16, kSat | kFtz, Count>(decoder, instruction, packed)
               : emit_half<Base<F16>, F16, kSat, Count>(decoder, instruction, packed);
  }
  return ftz ? emit_half<Base<F16>, F16, kFtz, Count>(decoder, instruction, packed)
             : emit_half<Base<F16>, F16, 0, Count>(decoder, instruction, packed);
}

template <template <class> class Base>
void bind_unary(Decoder& decoder, const Instruction& instruction, bool packed, bool brain) {
  if (brain) return emit_half<Base<BF16>, BF16, 0, 1>(decoder, instruction, packed);
  instruction.has(Mod::ftz) ? emit_half<Base<F16>, F16, kFtz, 1>(decoder, instruction, packed)
                            : emit_half<Base<F16>, F16, 0, 1>(decoder, instruction, packed);
}

template <class F, bool Maximum>
void bind_extreme(Decoder& decoder, const Instruction& instruction, bool packed) {
  const bool nan = instruction.has(Mod::NaN), sign = instruction.has(Mod::xorsign), ftz = instruction.has(Mod::ftz);
  switch ((nan ? 4 : 0) | (sign ? 2 : 0) | (ftz ? 1 : 0)) {
    case 0:
      return emit_half<Extreme<F, Maximum, 0>, F, 0, 2>(decoder, instruction, packed);
    case 1:
      return emit_half<Extreme<F, Maximum, 0>, F, kFtz, 2>(decoder, instruction, packed);
    case 2:
      return emit_half<Extreme<F, Maximum, kXorSign>, F, 0, 2>(decoder, instruction, packed);
    case 3:
      return emit_half<Extreme<F, Maximum, kXorSign>, F, kFtz, 2>(decoder, instruction, packed);
    case 4:
      return emit_half<Extreme<F, Maximum, kNan>, F, 0, 2>(decoder, instruction, packed);
    case 5:
      return emit_half<Extreme<F, Maximum, kNan>, F, kFtz, 2>(decoder, instruction, packed);
    case 6:
      return emit_half<Extreme<F, Maximum, kNan | kXorSign>, F, 0, 2>(decoder, instruction, packed);
    default:
      return emit_half<Extreme<F, Maximum, kNan | kXorSign>, F, kFtz, 2>(decoder, instruction, packed);
  }
}

}  // namespace

void bind_half(Decoder& decoder, const Instruction& instruction) {
  const Type type = instruction.type();
  const bool packed = type == Type::f16x2 || type == Type::bf16x2;
  const bool brain = type == Type::bf16 || type == Type::bf16x2;
  switch (instruction.op) {
    case Op::add:
      return bind_arithmetic<Add, 2>(decoder, instruction, packed, brain);
    case Op::sub:
      return bind_arithmetic<Sub, 2>(decoder, instruction, packed, brain);
    case Op::mul:
      return bind_arithmetic<Mul, 2>(decoder, instruction, packed, brain);
    case Op::fma:
      return bind_arithmetic<Fma, 3>(decoder, instruction, packed, brain);
    case Op::neg:
      return bind_unary<Neg>(decoder, instruction, packed, brain);
    case Op::abs:
      return bind_unary<Abs>(decoder, instruction, packed, brain);
    case Op::min:
      return brain ? bind_extreme<BF16, false>(decoder, instruction, packed)
                   : bind_extreme<F16, false>(decoder, instruction, packed);
    case Op::max:
      return brain ? bind_extreme<BF16, true>(decoder, instruction, packed)
                   : bind_extreme<F16, true>(decoder, instruction, packed);
    case Op::ex2:
      decoder.approximate();
      // ex2.approx.ftz.bf16 is the only bf16 form: its subnormals are flushed.
      return brain ? emit_half<Ex2<BF16>, BF16, kFtz, 1>(decoder, instruction, packed)
                   : bind_unary<Ex2>(decoder, instruction, packed, false);
    case Op::tanh:
      decoder.approximate();
      return bind_unary<Tanh>(decoder, instruction, packed, brain);
    default:
      throw std::runtime_error("half-precision opcode");
  }
}

void register_half(BinderTable&) {}  // all half-precision opcodes are shared: see arithmetic.cpp

}  // namespace ptxbench::emulator
