#include <algorithm>

#include "emulator/isa/alu.h"
#include "emulator/isa/arithmetic.h"

/// Bit counting, bit fields, small dot products (PTX ISA "Integer Arithmetic Instructions").
namespace ptxbench::emulator {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;

template <class T>
struct Popc {
  static uint32_t apply(T a) { return static_cast<uint32_t>(std::popcount(a)); }
};
template <class T>
struct Clz {
  static uint32_t apply(T a) { return static_cast<uint32_t>(std::countl_zero(a)); }
};
template <class T>
struct Brev {
  static T apply(T a) {
    uint64_t v = a;
    v = ((v >> 1) & 0x5555555555555555u) | ((v & 0x5555555555555555u) << 1);
    v = ((v >> 2) & 0x3333333333333333u) | ((v & 0x3333333333333333u) << 2);
    v = ((v >> 4) & 0x0f0f0f0f0f0f0f0fu) | ((v & 0x0f0f0f0f0f0f0f0fu) << 4);
    return static_cast<T>(__builtin_bswap64(v) >> (64 - 8 * sizeof(T)));
  }
};
template <class T, bool ShiftAmount>
struct Bfind {
  static uint32_t apply(T a) {
    Unsigned<T> bits = static_cast<Unsigned<T>>(a);
    if constexpr (std::is_signed_v<T>) {
      if (a < 0) bits = ~bits;
    }
    if (bits == 0) return 0xffffffffu;
    const auto top = static_cast<uint32_t>(8 * sizeof(T) - 1);
    const uint32_t position = top - static_cast<uint32_t>(std::countl_zero(bits));
    return ShiftAmount ? top - position : position;
  }
};
template <class T>
struct Bfe {
  static T apply(T a, uint32_t position, uint32_t length) {
    constexpr unsigned kBits = 8 * sizeof(T);
    const uint32_t pos = position & 0xff, len = length & 0xff;
    using U = Unsigned<T>;
    if (len == 0) return 0;
    if constexpr (std::is_signed_v<T>) {
      // Bits beyond the register read as copies of the source's sign; so does the field's own sign bit upwards.
      const T shifted = static_cast<T>(a >> std::min(pos, kBits - 1));
      if (len >= kBits || pos + len >= kBits) return shifted;
      return static_cast<T>(static_cast<T>(static_cast<U>(shifted) << (kBits - len)) >> (kBits - len));
    } else {
      const U shifted = pos >= kBits ? U{0} : static_cast<U>(a >> pos);
      return len >= kBits ? shifted : static_cast<U>(shifted & ((U{1} << len) - 1));
    }
  }
};
template <class T>
struct Bfi {
  static T apply(T a, T b, uint32_t position, uint32_t length) {
    constexpr unsigned kBits = 8 * sizeof(T);
    const uint32_t pos = position & 0xff, len = length & 0xff;
    if (pos >= kBits || len == 0) return b;
    const T ones = len >= kBits ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << len) - 1);
    const T field = static_cast<T>(ones << pos);
    return (b & ~field) | (static_cast<T>(a << pos) & field);
  }
};

template <bool Clamp>
struct Bmsk {
  static uint32_t apply(uint32_t a, uint32_t b) {
    if constexpr (Clamp) {
      if (a >= 32) return 0;
      const uint32_t width = std::min(b, 32u);
      const uint32_t ones = width == 32 ? 0xffffffffu : (1u << width) - 1;
      return ones << a;
    } else {
      const uint32_t width = b & 31;
      return ((1u << width) - 1) << (a & 31);
    }
  }
};
template <class T, bool Clamp>
struct Szext {
  static T apply(T a, uint32_t b) {
    const uint32_t n = Clamp ? std::min(b, 32u) : b & 31;
    if (n == 0) return 0;
    if (n == 32) return a;
    if constexpr (std::is_signed_v<T>) return static_cast<int32_t>(static_cast<uint32_t>(a) << (32 - n)) >> (32 - n);
    return a & static_cast<T>((1u << n) - 1);
  }
};

/// Find n-th set bit, as the PTX pseudo code: offset 0 asks about bit `base` itself, the sign of offset is the
/// direction.
struct Fns {
  static uint32_t apply(uint32_t mask, uint32_t base, int32_t offset) {
    if (base >= 32) return 0xffffffffu;
    if (offset == 0) return ((mask >> base) & 1) != 0 ? base : 0xffffffffu;
    const int64_t step = offset < 0 ? -1 : 1;
    const int64_t wanted = offset < 0 ? -int64_t{offset} : int64_t{offset};
    int64_t count = 0;
    for (int64_t position = base; position >= 0 && position < 32; position += step) {
      if (((mask >> position) & 1) != 0 && ++count == wanted) return static_cast<uint32_t>(position);
    }
    return 0xffffffffu;
  }
};

template <bool SignedA, bool SignedB>
struct Dp4a {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    int32_t sum = 0;
    for (unsigned i = 0; i < 4; ++i) {
      const auto x = static_cast<uint8_t>(a >> (8 * i)), y = static_cast<uint8_t>(b >> (8 * i));
      sum += (SignedA ? static_cast<int8_t>(x) : x) * (SignedB ? static_cast<int8_t>(y) : y);
    }
    return c + static_cast<uint32_t>(sum);
  }
};
template <bool SignedA, bool SignedB, bool High>
struct Dp2a {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    int32_t sum = 0;
    for (unsigned i = 0; i < 2; ++i) {
      const auto x = static_cast<uint16_t>(a >> (16 * i));
      const auto y = static_cast<uint8_t>(b >> (8 * i + (High ? 16 : 0)));
      sum += (SignedA ? static_cast<int16_t>(x) : x) * (SignedB ? static_cast<int8_t>(y) : y);
    }
    return c + static_cast<uint32_t>(sum);
  }
};

// --- binders --------------------------------------------------------------------------------------------------------

template <template <class> class Operation>
void bind_count(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (type_bits(type) == 32) {
    emit_any<Operation<uint32_t>, uint32_t, uint32_t>(decoder, instruction, Type::u32, {type});
  } else {
    emit_any<Operation<uint64_t>, uint32_t, uint64_t>(decoder, instruction, Type::u32, {type});
  }
}

void bind_brev(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (type_bits(type) == 32) {
    emit_any<Brev<uint32_t>, uint32_t, uint32_t>(decoder, instruction, type, {type});
  } else {
    emit_any<Brev<uint64_t>, uint64_t, uint64_t>(decoder, instruction, type, {type});
  }
}

template <class T>
void emit_bfind(Decoder& decoder, const Instruction& instruction, Type type) {
  instruction.has(Mod::shiftamt) ? emit_any<Bfind<T, true>, uint32_t, T>(decoder, instruction, Type::u32, {type})
                                 : emit_any<Bfind<T, false>, uint32_t, T>(decoder, instruction, Type::u32, {type});
}
void bind_bfind(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  switch (type) {
    case Type::u32:
      return emit_bfind<uint32_t>(decoder, instruction, type);
    case Type::s32:
      return emit_bfind<int32_t>(decoder, instruction, type);
    case Type::u64:
      return emit_bfind<uint64_t>(decoder, instruction, type);
    case Type::s64:
      return emit_bfind<int64_t>(decoder, instruction, type);
    default:
      unsupported_type(type);
  }
}

template <class T>
void emit_bfe(Decoder& decoder, const Instruction& instruction, Type type) {
  emit_any<Bfe<T>, T, T, uint32_t, uint32_t>(decoder, instruction, type, {type, Type::u32, Type::u32});
}
void bind_bfe(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  switch (type) {
    case Type::u32:
      return emit_bfe<uint32_t>(decoder, instruction, type);
    case Type::s32:
      return emit_bfe<int32_t>(decoder, instruction, type);
    case Type::u64:
      return emit_bfe<uint64_t>(decoder, instruction, type);
    case Type::s64:
      return emit_bfe<int64_t>(decoder, instruction, type);
    default:
      unsupported_type(type);
  }
}

void bind_bfi(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const std::array<Type, 4> types{type, type, Type::u32, Type::u32};
  if (type_bits(type) == 32) {
    emit_any<Bfi<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, types);
  } else {
    emit_any<Bfi<uint64_t>, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>(decoder, instruction, type, types);
  }
}

void bind_bmsk(Decoder& decoder, const Instruction& instruction) {
  instruction.has(Mod::clamp)
      ? emit_any<Bmsk<true>, uint32_t, uint32_t, uint32_t>(decoder, instruction, Type::b32, {Type::b32, Type::u32})
      : emit_any<Bmsk<false>, uint32_t, uint32_t, uint32_t>(decoder, instruction, Type::b32, {Type::b32, Type::u32});
}

template <class T>
void emit_szext(Decoder& decoder, const Instruction& instruction, Type type) {
  instruction.has(Mod::clamp)
      ? emit_any<Szext<T, true>, T, T, uint32_t>(decoder, instruction, type, {type, Type::u32})
      : emit_any<Szext<T, false>, T, T, uint32_t>(decoder, instruction, type, {type, Type::u32});
}
void bind_szext(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (type == Type::s32)
    emit_szext<int32_t>(decoder, instruction, type);
  else if (type == Type::u32)
    emit_szext<uint32_t>(decoder, instruction, type);
  else
    unsupported_type(type);
}

void bind_fns(Decoder& decoder, const Instruction& instruction) {
  emit_any<Fns, uint32_t, uint32_t, uint32_t, int32_t>(decoder, instruction, Type::b32,
                                                       {Type::b32, Type::b32, Type::s32});
}

template <class Operation>
void emit_dot(Decoder& decoder, const Instruction& instruction) {
  emit_any<Operation, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, Type::b32,
                                                              {Type::b32, Type::b32, Type::b32});
}
void bind_dp4a(Decoder& decoder, const Instruction& instruction) {
  const bool a = instruction.type(0) == Type::s32, b = instruction.type(1) == Type::s32;
  if (a)
    b ? emit_dot<Dp4a<true, true>>(decoder, instruction) : emit_dot<Dp4a<true, false>>(decoder, instruction);
  else
    b ? emit_dot<Dp4a<false, true>>(decoder, instruction) : emit_dot<Dp4a<false, false>>(decoder, instruction);
}
template <bool High>
void emit_dp2a(Decoder& decoder, const Instruction& instruction) {
  const bool a = instruction.type(0) == Type::s32, b = instruction.type(1) == Type::s32;
  if (a)
    b ? emit_dot<Dp2a<true, true, High>>(decoder, instruction)
      : emit_dot<Dp2a<true, false, High>>(decoder, instruction);
  else
    b ? emit_dot<Dp2a<false, true, High>>(decoder, instruction)
      : emit_dot<Dp2a<false, false, High>>(decoder, instruction);
}
void bind_dp2a(Decoder& decoder, const Instruction& instruction) {
  instruction.has(Mod::hi) ? emit_dp2a<true>(decoder, instruction) : emit_dp2a<false>(decoder, instruction);
}

}  // namespace

void register_integer_bits(BinderTable& table) {
  table.set(Op::popc, &bind_count<Popc>);
  table.set(Op::clz, &bind_count<Clz>);
  table.set(Op::bfind, &bind_bfind);
  table.set(Op::brev, &bind_brev);
  table.set(Op::bfe, &bind_bfe);
  table.set(Op::bfi, &bind_bfi);
  table.set(Op::bmsk, &bind_bmsk);
  table.set(Op::szext, &bind_szext);
  table.set(Op::fns, &bind_fns);
  table.set(Op::dp4a, &bind_dp4a);
  table.set(Op::dp2a, &bind_dp2a);
}

}  // namespace ptxbench::emulator
