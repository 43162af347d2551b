#include <algorithm>
#include <limits>

#include "emulator/isa/alu.h"
#include "emulator/isa/arithmetic.h"

/// Integer arithmetic (PTX ISA "Integer Arithmetic Instructions" and "Extended-Precision Integer Arithmetic
/// Instructions").
namespace ptxbench::emulator {
namespace {

template <class T>
using Unsigned = std::make_unsigned_t<T>;
/// Arithmetic of narrow types is done in 32 bits: C++ would promote to int, whose overflow is undefined.
template <class T>
using Work = std::conditional_t<(sizeof(T) < 4), uint32_t, Unsigned<T>>;
__extension__ using Int128 = __int128;
__extension__ using Uint128 = unsigned __int128;
template <class T>
using Twice =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, Int128, Uint128>>>;

template <class T>
T wrap(Work<T> value) {
  return static_cast<T>(value);
}

template <class T>
struct Add {
  static T apply(T a, T b) { return wrap<T>(static_cast<Work<T>>(a) + static_cast<Work<T>>(b)); }
};
template <class T>
struct Sub {
  static T apply(T a, T b) { return wrap<T>(static_cast<Work<T>>(a) - static_cast<Work<T>>(b)); }
};
template <class T>
struct MulLo {
  static T apply(T a, T b) { return wrap<T>(static_cast<Work<T>>(a) * static_cast<Work<T>>(b)); }
};
template <class T>
T high_product(T a, T b) {
  return static_cast<T>((static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b)) >> (8 * sizeof(T)));
}
template <class T>
struct MulHi {
  static T apply(T a, T b) { return high_product(a, b); }
};
template <class T>
struct MulWide {
  static Twice<T> apply(T a, T b) { return static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b); }
};
template <class T>
struct MadLo {
  static T apply(T a, T b, T c) {
    return wrap<T>(static_cast<Work<T>>(a) * static_cast<Work<T>>(b) + static_cast<Work<T>>(c));
  }
};
template <class T>
struct MadHi {
  static T apply(T a, T b, T c) { return wrap<T>(static_cast<Work<T>>(high_product(a, b)) + static_cast<Work<T>>(c)); }
};
template <class T>
struct MadWide {
  static Twice<T> apply(T a, T b, Twice<T> c) {
    using U = Unsigned<Twice<T>>;
    return static_cast<Twice<T>>(static_cast<U>(static_cast<Twice<T>>(a) * static_cast<Twice<T>>(b)) +
                                 static_cast<U>(c));
  }
};

int32_t saturate(int64_t value) {
  return static_cast<int32_t>(
      std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}
struct AddSat {
  static int32_t apply(int32_t a, int32_t b) { return saturate(int64_t{a} + b); }
};
struct SubSat {
  static int32_t apply(int32_t a, int32_t b) { return saturate(int64_t{a} - b); }
};
struct MadHiSat {
  static int32_t apply(int32_t a, int32_t b, int32_t c) { return saturate(int64_t{high_product(a, b)} + c); }
};

/// 24-bit operands: the product has 48 bits; lo keeps bits 31..0, hi bits 47..16.
template <class T>
int64_t product24(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    return sign_extend(static_cast<uint32_t>(a), 24) * sign_extend(static_cast<uint32_t>(b), 24);
  } else {
    return static_cast<int64_t>(a & 0xffffffu) * static_cast<int64_t>(b & 0xffffffu);
  }
}
template <class T, bool High>
struct Mul24 {
  static T apply(T a, T b) { return static_cast<T>(product24(a, b) >> (High ? 16 : 0)); }
};
template <class T, bool High>
struct Mad24 {
  static T apply(T a, T b, T c) {
    return static_cast<T>(static_cast<uint32_t>(product24(a, b) >> (High ? 16 : 0)) + static_cast<uint32_t>(c));
  }
};
struct Mad24HiSat {
  static int32_t apply(int32_t a, int32_t b, int32_t c) {
    return saturate(int64_t{static_cast<int32_t>(product24(a, b) >> 16)} + c);
  }
};

template <class T>
struct Sad {
  static T apply(T a, T b, T c) {
    const Work<T> difference =
        a < b ? static_cast<Work<T>>(b) - static_cast<Work<T>>(a) : static_cast<Work<T>>(a) - static_cast<Work<T>>(b);
    return wrap<T>(static_cast<Work<T>>(c) + difference);
  }
};

/// Division by zero is unspecified in PTX; the sequences that ptxas expands div and rem into give all ones.
template <class T>
struct Div {
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return wrap<T>(Work<T>{0} - static_cast<Work<T>>(a));
    }
    return static_cast<T>(a / b);
  }
};
template <class T>
struct Rem {
  static T apply(T a, T b) {
    if (b == 0) return static_cast<T>(~T{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return 0;
    }
    return static_cast<T>(a % b);
  }
};

template <class T>
struct Abs {
  static T apply(T a) { return a < 0 ? wrap<T>(Work<T>{0} - static_cast<Work<T>>(a)) : a; }
};
template <class T>
struct Neg {
  static T apply(T a) { return wrap<T>(Work<T>{0} - static_cast<Work<T>>(a)); }
};
template <class T>
struct Min {
  static T apply(T a, T b) { return a < b ? a : b; }
};
template <class T>
struct Max {
  static T apply(T a, T b) { return a < b ? b : a; }
};
template <class Base>
struct Relu {
  static int32_t apply(int32_t a, int32_t b) { return std::max(Base::apply(a, b), int32_t{0}); }
};
/// `Base` on the two halves of 32-bit registers.
template <class Base, class T, bool ClampAtZero = false>
struct Halves {
  static uint32_t apply(uint32_t a, uint32_t b) {
    T low = Base::apply(static_cast<T>(a), static_cast<T>(b));
    T high = Base::apply(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
    if constexpr (ClampAtZero) {
      low = std::max(low, T{0});
      high = std::max(high, T{0});
    }
    return static_cast<uint32_t>(static_cast<uint16_t>(low)) |
           (static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16);
  }
};

// --- the condition code ---------------------------------------------------------------------------------------------

/// Carry in and out are lane masks. `Subtract` keeps the borrow, inverted with respect to a carry as PTX describes it:
/// CC.CF is the carry of add and the borrow of sub.
template <class T, bool Subtract, bool ReadCarry, bool WriteCarry>
const Inst* carry_chain(Warp& warp, const Inst& inst) {
  const T* a = warp.slot<T>(inst.src[0]);
  const T* b = warp.slot<T>(inst.src[1]);
  T* d = warp.slot<T>(inst.dst);
  const uint32_t carry_in = ReadCarry ? *warp.slot<uint32_t>(inst.aux) : 0;
  uint32_t carry_out = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const T x = a[lane], y = b[lane];
    const T in = (carry_in >> lane) & 1;
    T first, second;
    bool out, out_again;
    if constexpr (Subtract) {
      out = __builtin_sub_overflow(x, y, &first);
      out_again = __builtin_sub_overflow(first, in, &second);
    } else {
      out = __builtin_add_overflow(x, y, &first);
      out_again = __builtin_add_overflow(first, in, &second);
    }
    if (warp.lane_mask[lane] != 0) d[lane] = second;
    carry_out |= out || out_again ? kLaneBit[lane] : 0;
  }
  if constexpr (WriteCarry) write_predicate(warp, inst.aux, carry_out);
  return &inst + 1;
}

template <class T, bool Subtract>
Handler carry_handler(bool read, bool write) {
  if (read) return write ? &carry_chain<T, Subtract, true, true> : &carry_chain<T, Subtract, true, false>;
  return write ? &carry_chain<T, Subtract, false, true> : &carry_chain<T, Subtract, false, false>;
}

void emit_carry(Decoder& decoder, Slot destination, Slot a, Slot b, unsigned bits, bool subtract, bool read,
                bool write) {
  const uint32_t carry = decoder.carry_flag().offset;
  const Handler handler =
      bits == 32
          ? (subtract ? carry_handler<uint32_t, true>(read, write) : carry_handler<uint32_t, false>(read, write))
          : (subtract ? carry_handler<uint64_t, true>(read, write) : carry_handler<uint64_t, false>(read, write));
  Inst& inst = decoder.emit({handler, handler});
  inst.dst = destination.offset;
  inst.src[0] = a.offset;
  inst.src[1] = b.offset;
  inst.aux = carry;
}

void bind_carry_add(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const bool subtract = instruction.op == Op::sub || instruction.op == Op::subc;
  const bool read = instruction.op == Op::addc || instruction.op == Op::subc;
  const Slot a = decoder.vector_source(instruction.operands.at(1), type);
  const Slot b = decoder.vector_source(instruction.operands.at(2), type);
  emit_carry(decoder, decoder.vector_destination(instruction.operands.at(0), type), a, b, type_bits(type), subtract,
             read, instruction.has(Mod::cc));
}

void bind_carry_mad(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const Slot a = decoder.vector_source(instruction.operands.at(1), type);
  const Slot b = decoder.vector_source(instruction.operands.at(2), type);
  const Slot c = decoder.vector_source(instruction.operands.at(3), type);
  const Slot product = decoder.scratch(type_bits(type));
  const bool high = instruction.has(Mod::hi);
  const std::array<Slot, 2> factors{a, b};
  switch (type) {
    case Type::u32:
      high ? emit_slots<MulHi<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, product, factors)
           : emit_slots<MulLo<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, product, factors);
      break;
    case Type::s32:
      high ? emit_slots<MulHi<int32_t>, int32_t, int32_t, int32_t>(decoder, product, factors)
           : emit_slots<MulLo<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, product, factors);
      break;
    case Type::u64:
      high ? emit_slots<MulHi<uint64_t>, uint64_t, uint64_t, uint64_t>(decoder, product, factors)
           : emit_slots<MulLo<uint64_t>, uint64_t, uint64_t, uint64_t>(decoder, product, factors);
      break;
    case Type::s64:
      high ? emit_slots<MulHi<int64_t>, int64_t, int64_t, int64_t>(decoder, product, factors)
           : emit_slots<MulLo<uint64_t>, uint64_t, uint64_t, uint64_t>(decoder, product, factors);
      break;
    default:
      unsupported_type(type);
  }
  emit_carry(decoder, decoder.vector_destination(instruction.operands.at(0), type), product, c, type_bits(type), false,
             instruction.op == Op::madc, instruction.has(Mod::cc));
}

// --- binders --------------------------------------------------------------------------------------------------------

/// Two operands, sign-agnostic: hot widths get all shapes.
template <template <class> class Operation>
void bind_wrapping(Decoder& decoder, const Instruction& instruction, Type type) {
  switch (type_bits(type)) {
    case 16:
      emit_any<Operation<uint16_t>, uint16_t, uint16_t, uint16_t>(decoder, instruction, type, {type, type});
      return;
    case 32:
      emit_lanes<Operation<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type});
      return;
    case 64:
      emit_lanes<Operation<uint64_t>, uint64_t, uint64_t, uint64_t>(decoder, instruction, type, {type, type});
      return;
    default:
      unsupported_type(type);
  }
}

template <template <class> class Operation, class... Extra>
void bind_signed_pair(Decoder& decoder, const Instruction& instruction, Type type) {
  switch (type) {
    case Type::u16:
      emit_any<Operation<uint16_t>, uint16_t, uint16_t, uint16_t>(decoder, instruction, type, {type, type});
      return;
    case Type::s16:
      emit_any<Operation<int16_t>, int16_t, int16_t, int16_t>(decoder, instruction, type, {type, type});
      return;
    case Type::u32:
      emit_any<Operation<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type});
      return;
    case Type::s32:
      emit_any<Operation<int32_t>, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type});
      return;
    case Type::u64:
      emit_any<Operation<uint64_t>, uint64_t, uint64_t, uint64_t>(decoder, instruction, type, {type, type});
      return;
    case Type::s64:
      emit_any<Operation<int64_t>, int64_t, int64_t, int64_t>(decoder, instruction, type, {type, type});
      return;
    default:
      unsupported_type(type);
  }
}

template <template <class> class Operation>
void bind_signed_triple(Decoder& decoder, const Instruction& instruction, Type type) {
  const std::array<Type, 3> types{type, type, type};
  switch (type) {
    case Type::u16:
      emit_any<Operation<uint16_t>, uint16_t, uint16_t, uint16_t, uint16_t>(decoder, instruction, type, types);
      return;
    case Type::s16:
      emit_any<Operation<int16_t>, int16_t, int16_t, int16_t, int16_t>(decoder, instruction, type, types);
      return;
    case Type::u32:
      emit_any<Operation<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, types);
      return;
    case Type::s32:
      emit_any<Operation<int32_t>, int32_t, int32_t, int32_t, int32_t>(decoder, instruction, type, types);
      return;
    case Type::u64:
      emit_any<Operation<uint64_t>, uint64_t, uint64_t, uint64_t, uint64_t>(decoder, instruction, type, types);
      return;
    case Type::s64:
      emit_any<Operation<int64_t>, int64_t, int64_t, int64_t, int64_t>(decoder, instruction, type, types);
      return;
    default:
      unsupported_type(type);
  }
}

template <class Operation>
void bind_packed(Decoder& decoder, const Instruction& instruction, Type type) {
  emit_any<Operation, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type});
}

}  // namespace

void bind_integer_add(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (instruction.has(Mod::cc)) return bind_carry_add(decoder, instruction);
  if (instruction.has(Mod::sat)) {
    emit_any<AddSat, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type});
  } else if (type == Type::u16x2 || type == Type::s16x2) {
    bind_packed<Halves<Add<uint16_t>, uint16_t>>(decoder, instruction, type);
  } else {
    bind_wrapping<Add>(decoder, instruction, type);
  }
}

void bind_integer_sub(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (instruction.has(Mod::cc)) return bind_carry_add(decoder, instruction);
  if (instruction.has(Mod::sat)) {
    emit_any<SubSat, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type});
  } else {
    bind_wrapping<Sub>(decoder, instruction, type);
  }
}

void bind_integer_mul(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (instruction.has(Mod::lo)) return bind_wrapping<MulLo>(decoder, instruction, type);
  if (instruction.has(Mod::hi)) return bind_signed_pair<MulHi>(decoder, instruction, type);
  if (!instruction.has(Mod::wide)) throw std::runtime_error("mul without .lo, .hi or .wide");
  switch (type) {
    case Type::u16:
      emit_any<MulWide<uint16_t>, uint32_t, uint16_t, uint16_t>(decoder, instruction, Type::u32, {type, type});
      return;
    case Type::s16:
      emit_any<MulWide<int16_t>, int32_t, int16_t, int16_t>(decoder, instruction, Type::s32, {type, type});
      return;
    case Type::u32:
      emit_lanes<MulWide<uint32_t>, uint64_t, uint32_t, uint32_t>(decoder, instruction, Type::u64, {type, type});
      return;
    case Type::s32:
      emit_lanes<MulWide<int32_t>, int64_t, int32_t, int32_t>(decoder, instruction, Type::s64, {type, type});
      return;
    default:
      unsupported_type(type);
  }
}

void bind_integer_mad(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  if (instruction.has(Mod::cc) || instruction.op == Op::madc) return bind_carry_mad(decoder, instruction);
  if (instruction.has(Mod::sat)) {
    emit_any<MadHiSat, int32_t, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type, type});
  } else if (instruction.has(Mod::hi)) {
    bind_signed_triple<MadHi>(decoder, instruction, type);
  } else if (instruction.has(Mod::wide)) {
    switch (type) {
      case Type::u16:
        emit_any<MadWide<uint16_t>, uint32_t, uint16_t, uint16_t, uint32_t>(decoder, instruction, Type::u32,
                                                                            {type, type, Type::u32});
        return;
      case Type::s16:
        emit_any<MadWide<int16_t>, int32_t, int16_t, int16_t, int32_t>(decoder, instruction, Type::s32,
                                                                       {type, type, Type::s32});
        return;
      case Type::u32:
        emit_lanes<MadWide<uint32_t>, uint64_t, uint32_t, uint32_t, uint64_t>(decoder, instruction, Type::u64,
                                                                              {type, type, Type::u64});
        return;
      case Type::s32:
        emit_lanes<MadWide<int32_t>, int64_t, int32_t, int32_t, int64_t>(decoder, instruction, Type::s64,
                                                                         {type, type, Type::s64});
        return;
      default:
        unsupported_type(type);
    }
  } else if (instruction.has(Mod::lo)) {
    switch (type_bits(type)) {
      case 16:
        emit_any<MadLo<uint16_t>, uint16_t, uint16_t, uint16_t, uint16_t>(decoder, instruction, type,
                                                                          {type, type, type});
        return;
      case 32:
        emit_lanes<MadLo<uint32_t>, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, type,
                                                                            {type, type, type});
        return;
      case 64:
        emit_any<MadLo<uint64_t>, uint64_t, uint64_t, uint64_t, uint64_t>(decoder, instruction, type,
                                                                          {type, type, type});
        return;
      default:
        unsupported_type(type);
    }
  } else {
    throw std::runtime_error("mad without .lo, .hi or .wide");
  }
}

namespace {

void bind_mul24(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const bool high = instruction.has(Mod::hi);
  if (type == Type::u32) {
    high ? emit_any<Mul24<uint32_t, true>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type})
         : emit_any<Mul24<uint32_t, false>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type});
  } else if (type == Type::s32) {
    high ? emit_any<Mul24<int32_t, true>, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type})
         : emit_any<Mul24<int32_t, false>, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type});
  } else {
    unsupported_type(type);
  }
}

void bind_mad24(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const bool high = instruction.has(Mod::hi);
  const std::array<Type, 3> types{type, type, type};
  if (instruction.has(Mod::sat)) {
    emit_any<Mad24HiSat, int32_t, int32_t, int32_t, int32_t>(decoder, instruction, type, types);
  } else if (type == Type::u32) {
    high ? emit_any<Mad24<uint32_t, true>, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, types)
         : emit_any<Mad24<uint32_t, false>, uint32_t, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, types);
  } else if (type == Type::s32) {
    high ? emit_any<Mad24<int32_t, true>, int32_t, int32_t, int32_t, int32_t>(decoder, instruction, type, types)
         : emit_any<Mad24<int32_t, false>, int32_t, int32_t, int32_t, int32_t>(decoder, instruction, type, types);
  } else {
    unsupported_type(type);
  }
}

void bind_sad(Decoder& decoder, const Instruction& instruction) {
  bind_signed_triple<Sad>(decoder, instruction, require_type(instruction));
}

}  // namespace

void bind_integer_div(Decoder& decoder, const Instruction& instruction) {
  bind_signed_pair<Div>(decoder, instruction, require_type(instruction));
}

void bind_integer_abs(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  switch (type) {
    case Type::s16:
      emit_any<Abs<int16_t>, int16_t, int16_t>(decoder, instruction, type, {type});
      return;
    case Type::s32:
      emit_any<Abs<int32_t>, int32_t, int32_t>(decoder, instruction, type, {type});
      return;
    case Type::s64:
      emit_any<Abs<int64_t>, int64_t, int64_t>(decoder, instruction, type, {type});
      return;
    default:
      unsupported_type(type);
  }
}

void bind_integer_neg(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  switch (type) {
    case Type::s16:
      emit_any<Neg<int16_t>, int16_t, int16_t>(decoder, instruction, type, {type});
      return;
    case Type::s32:
      emit_lanes<Neg<int32_t>, int32_t, int32_t>(decoder, instruction, type, {type});
      return;
    case Type::s64:
      emit_any<Neg<int64_t>, int64_t, int64_t>(decoder, instruction, type, {type});
      return;
    default:
      unsupported_type(type);
  }
}

namespace {

template <template <class> class Operation>
void bind_min_max(Decoder& decoder, const Instruction& instruction) {
  const Type type = require_type(instruction);
  const bool relu = instruction.has(Mod::relu);
  switch (type) {
    case Type::u16x2:
      bind_packed<Halves<Operation<uint16_t>, uint16_t>>(decoder, instruction, type);
      return;
    case Type::s16x2:
      relu ? bind_packed<Halves<Operation<int16_t>, int16_t, true>>(decoder, instruction, type)
           : bind_packed<Halves<Operation<int16_t>, int16_t>>(decoder, instruction, type);
      return;
    case Type::s32:
      if (relu) {
        emit_any<Relu<Operation<int32_t>>, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type});
      } else {
        emit_lanes<Operation<int32_t>, int32_t, int32_t, int32_t>(decoder, instruction, type, {type, type});
      }
      return;
    case Type::u32:
      emit_lanes<Operation<uint32_t>, uint32_t, uint32_t, uint32_t>(decoder, instruction, type, {type, type});
      return;
    default:
      bind_signed_pair<Operation>(decoder, instruction, type);
  }
}

}  // namespace

void bind_integer_min(Decoder& decoder, const Instruction& instruction) { bind_min_max<Min>(decoder, instruction); }
void bind_integer_max(Decoder& decoder, const Instruction& instruction) { bind_min_max<Max>(decoder, instruction); }

namespace {

void bind_rem(Decoder& decoder, const Instruction& instruction) {
  bind_signed_pair<Rem>(decoder, instruction, require_type(instruction));
}

}  // namespace

void register_integer(BinderTable& table) {
  register_arithmetic(table);
  register_integer_bits(table);
  table.set(Op::addc, &bind_carry_add);
  table.set(Op::subc, &bind_carry_add);
  table.set(Op::madc, &bind_carry_mad);
  table.set(Op::mul24, &bind_mul24);
  table.set(Op::mad24, &bind_mad24);
  table.set(Op::sad, &bind_sad);
  table.set(Op::rem, &bind_rem);
}

}  // namespace ptxbench::emulator
