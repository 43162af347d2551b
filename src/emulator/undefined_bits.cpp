#include "emulator/undefined_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

bool is_integer(Type type) {
  switch (type) {
    case Type::b8:
    case Type::b16:
    case Type::b32:
    case Type::b64:
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
    case Type::s8:
    case Type::s16:
    case Type::s32:
    case Type::s64:
      return true;
    default:
      return false;
  }
}
bool is_signed_type(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
bool is_pair(Type type) {
  return type == Type::f16x2 || type == Type::bf16x2 || type == Type::u16x2 || type == Type::s16x2;
}
bool is_narrow_pair(Type type) { return type == Type::e4m3x2 || type == Type::e5m2x2; }

bool same_register(const Operand& a, const Operand& b) {
  return a.kind == OperandKind::reg && b.kind == OperandKind::reg && a.index == b.index && a.negated == b.negated;
}

uint64_t sign_extend(uint64_t bits, unsigned width) {
  if (width == 0 || width >= 64) return bits;
  const uint64_t sign = 1ull << (width - 1);
  return ((bits & low_bits(width)) ^ sign) - sign;
}

/// Trailing bits that are certainly zero.
unsigned known_zeros(Bits bits) { return static_cast<unsigned>(std::countr_zero(bits.value | bits.undefined)); }

Mod comparison_of(const Instruction& instruction) {
  static constexpr Mod kComparisons[] = {Mod::eq,  Mod::ne,  Mod::lt,  Mod::le,  Mod::gt,  Mod::ge,
                                         Mod::ls,  Mod::hs,  Mod::lo,  Mod::hi,  Mod::equ, Mod::neu,
                                         Mod::ltu, Mod::leu, Mod::gtu, Mod::geu, Mod::num, Mod::nan};
  for (const Mod mod : instruction.mods) {
    if (std::find(std::begin(kComparisons), std::end(kComparisons), mod) != std::end(kComparisons)) return mod;
  }
  return Mod::none;
}

Mod boolean_of(const Instruction& instruction) {
  for (const Mod mod : {Mod::and_, Mod::or_, Mod::xor_}) {
    if (instruction.has(mod)) return mod;
  }
  return Mod::none;
}

/// An f16 or bf16 as a float; subnormals of f16 included.
float half_value(uint64_t bits, bool is_bf16) {
  const auto word = static_cast<uint32_t>(bits & 0xffff);
  if (is_bf16) return std::bit_cast<float>(word << 16);
  const uint32_t exponent = word >> 10 & 0x1f, fraction = word & 0x3ff;
  float magnitude = std::ldexp(static_cast<float>(fraction | (exponent != 0 ? 0x400 : 0)),
                               static_cast<int>(std::max(exponent, 1u)) - 25);
  if (exponent == 0x1f) magnitude = fraction != 0 ? std::numeric_limits<float>::quiet_NaN() : HUGE_VALF;
  return (word & 0x8000) != 0 ? -magnitude : magnitude;
}

template <class T>
bool compares(Mod comparison, T a, T b) {
  switch (comparison) {
    case Mod::eq:
      return a == b;
    case Mod::ne:
      return a < b || a > b;
    case Mod::lt:
    case Mod::lo:
      return a < b;
    case Mod::le:
    case Mod::ls:
      return a <= b;
    case Mod::gt:
    case Mod::hi:
      return a > b;
    case Mod::ge:
    case Mod::hs:
      return a >= b;
    // The unordered ones are true for NaN.
    case Mod::equ:
      return !(a < b || a > b);
    case Mod::neu:
      return !(a == b);
    case Mod::ltu:
      return !(a >= b);
    case Mod::leu:
      return !(a > b);
    case Mod::gtu:
      return !(a <= b);
    case Mod::geu:
      return !(a < b);
    case Mod::num:
      return a == a && b == b;
    case Mod::nan:
      return a != a || b != b;
    default:
      return false;
  }
}

/// The comparison of a setp whose operands are known.
bool comparison_result(const FlowRule& rule, uint64_t a, uint64_t b) {
  if (rule.is_float) {
    if (rule.width == 32) {
      float x = std::bit_cast<float>(static_cast<uint32_t>(a)), y = std::bit_cast<float>(static_cast<uint32_t>(b));
      if (rule.flushes) {
        x = std::fpclassify(x) == FP_SUBNORMAL ? 0.0f : x;
        y = std::fpclassify(y) == FP_SUBNORMAL ? 0.0f : y;
      }
      return compares(rule.predicate, x, y);
    }
    if (rule.width == 64) return compares(rule.predicate, std::bit_cast<double>(a), std::bit_cast<double>(b));
    return compares(rule.predicate, half_value(a, rule.is_bf16), half_value(b, rule.is_bf16));
  }
  if (rule.is_signed) {
    return compares(rule.predicate, static_cast<int64_t>(sign_extend(a, rule.width)),
                    static_cast<int64_t>(sign_extend(b, rule.width)));
  }
  return compares(rule.predicate, a, b);
}

FlowRule convert_rule(const Instruction& instruction) {
  FlowRule rule;
  const Type to = instruction.type(0), from = instruction.type(1);
  rule.width = type_bits(from);
  rule.out_width = type_bits(to);
  if (is_integer(to) && is_integer(from)) {
    // Saturation looks at all bits; so does what follows then.
    rule.flow = instruction.has(Mod::sat) ? Flow::any : Flow::convert;
    rule.is_signed = is_signed_type(from);
    return rule;
  }
  if (instruction.operands.size() == 3 && (is_pair(to) || is_narrow_pair(to))) rule.flow = Flow::join_halves;
  if (instruction.operands.size() == 2 && (is_pair(to) || is_narrow_pair(to)) &&
      (is_pair(from) || is_narrow_pair(from)))
    rule.flow = Flow::halves;
  return rule;
}

}  // namespace

FlowRule flow_of(const Instruction& instruction) {
  FlowRule rule;
  const Type type = instruction.type();
  const auto& o = instruction.operands;
  rule.width = rule.out_width = type_bits(type);
  const bool integer = is_integer(type);
  const auto logic = [&](uint8_t table) {
    rule.flow = Flow::logic;
    rule.table = table;
  };
  switch (instruction.op) {
    case Op::mov:
      rule.flow = Flow::repack;
      break;
    case Op::and_:
      logic(0xc0);
      break;
    case Op::or_:
      logic(0xfc);
      break;
    case Op::xor_:
      logic(0x3c);
      rule.cancels = same_register(o.at(1), o.at(2));
      break;
    case Op::not_:
      logic(0x0f);
      break;
    case Op::lop3:
      if (o.at(0).kind == OperandKind::reg) logic(static_cast<uint8_t>(o.at(4).bits));
      break;
    case Op::selp:
      rule.flow = Flow::select;
      break;
    case Op::slct:
      rule.flow = Flow::select_sign;
      rule.is_signed = instruction.type(1) == Type::s32;
      break;
    case Op::add:
    case Op::sub:
    case Op::addc:
    case Op::subc:
      if (is_pair(type)) rule.flow = Flow::halves;
      if (!integer || instruction.has(Mod::sat)) break;
      rule.flow = Flow::sum;
      rule.cancels = instruction.op == Op::sub && same_register(o.at(1), o.at(2));
      break;
    case Op::neg:
      if (is_pair(type)) rule.flow = Flow::halves;
      if (integer) rule.flow = Flow::sum;
      break;
    case Op::mul:
    case Op::mad:
    case Op::madc:
      if (is_pair(type)) rule.flow = Flow::halves;
      if (!integer || instruction.has(Mod::hi) || instruction.has(Mod::sat)) break;
      rule.flow = Flow::product;
      if (instruction.has(Mod::wide)) rule.out_width = 2 * rule.width;
      break;
    case Op::abs:
    case Op::min:
    case Op::max:
    case Op::fma:
    case Op::ex2:
    case Op::tanh:
      if (is_pair(type)) rule.flow = Flow::halves;
      break;
    case Op::shl:
      rule.flow = Flow::shift_left;
      break;
    case Op::shr:
      rule.flow = Flow::shift_right;
      rule.is_signed = is_signed_type(type);
      break;
    case Op::shf:
      rule.flow = Flow::funnel;
      rule.right = instruction.has(Mod::r);
      rule.wrap = instruction.has(Mod::wrap);
      break;
    case Op::bfe:
      rule.flow = Flow::extract;
      rule.is_signed = is_signed_type(type);
      break;
    case Op::bfi:
      rule.flow = Flow::insert;
      break;
    case Op::prmt:
      if (instruction.mods.size() == 1) rule.flow = Flow::permute;
      break;
    case Op::brev:
      rule.flow = Flow::reverse;
      break;
    case Op::cnot:
      rule.flow = Flow::zero_test;
      break;
    case Op::cvt:
      return convert_rule(instruction);
    case Op::setp:
      if (is_pair(type)) {
        rule.flow = Flow::compare_pair;
        break;
      }
      rule.flow = Flow::compare;
      rule.is_signed = is_signed_type(type);
      rule.predicate = comparison_of(instruction);
      rule.is_float = !integer;
      rule.is_bf16 = type == Type::bf16;
      rule.flushes = instruction.has(Mod::ftz);
      rule.boolean = boolean_of(instruction);
      break;
    default:
      break;
  }
  return rule;
}

uint64_t logic_undefined(uint8_t table, Bits a, Bits b, Bits c) {
  uint64_t can_be_zero = 0, can_be_one = 0;
  for (unsigned row = 0; row < 8; ++row) {
    const auto possible = [&](Bits bits, bool one) { return bits.undefined | (one ? bits.value : ~bits.value); };
    const uint64_t here = possible(a, (row & 4) != 0) & possible(b, (row & 2) != 0) & possible(c, (row & 1) != 0);
    (((table >> row) & 1) != 0 ? can_be_one : can_be_zero) |= here;
  }
  return can_be_zero & can_be_one;
}

bool comparison_undefined(Mod comparison, bool is_signed, unsigned width, Bits a, Bits b) {
  const uint64_t mask = low_bits(width);
  a = {a.value & mask, a.undefined & mask};
  b = {b.value & mask, b.undefined & mask};
  if ((a.undefined | b.undefined) == 0) return false;
  if (comparison == Mod::eq || comparison == Mod::ne) {
    // Two bits that are known and differ decide it.
    return ((a.value ^ b.value) & ~(a.undefined | b.undefined)) == 0;
  }
  // Signed order is unsigned order with the sign bits turned round.
  if (is_signed) {
    const uint64_t sign = 1ull << (width - 1);
    a.value ^= sign;
    b.value ^= sign;
  }
  const auto least = [](Bits bits) { return bits.value & ~bits.undefined; };
  const auto most = [](Bits bits) { return bits.value | bits.undefined; };
  switch (comparison) {
    case Mod::lt:
    case Mod::lo:
    case Mod::ge:
    case Mod::hs:
      return !(most(a) < least(b) || least(a) >= most(b));
    case Mod::gt:
    case Mod::hi:
    case Mod::le:
    case Mod::ls:
      return !(least(a) > most(b) || most(a) <= least(b));
    default:
      return true;
  }
}

void propagate(const FlowRule& rule, std::span<const Bits> sources, std::span<const uint8_t> source_widths,
               std::span<uint64_t> results, std::span<const uint8_t> result_widths) {
  const auto at = [&](size_t i) { return i < sources.size() ? sources[i] : Bits{}; };
  const auto spoil = [&](bool spoiled) {
    for (size_t r = 0; r < results.size(); ++r) results[r] = spoiled ? low_bits(result_widths[r]) : 0;
  };
  const auto cut = [&](Bits bits) {
    return Bits{bits.value & low_bits(rule.width), bits.undefined & low_bits(rule.width)};
  };
  bool any = false;
  for (size_t i = 0; i < sources.size(); ++i) any = any || (sources[i].undefined & low_bits(source_widths[i])) != 0;
  if (!any || rule.cancels || results.empty()) {
    spoil(false);
    return;
  }
  const uint64_t mask = low_bits(rule.out_width);
  uint64_t& first = results[0];
  switch (rule.flow) {
    case Flow::any:
      // Where the rule knows how much of a wider register is read, the rest does not matter.
      if (sources.size() == 1 && rule.width != 0 && rule.width < source_widths[0]) {
        spoil(cut(sources[0]).undefined != 0);
      } else {
        spoil(true);
      }
      return;
    case Flow::repack: {
      unsigned position = 0;
      std::fill(results.begin(), results.end(), 0);
      for (size_t s = 0; s < sources.size(); ++s) {
        for (unsigned bit = 0; bit < source_widths[s]; ++bit, ++position) {
          if ((sources[s].undefined >> bit & 1) == 0) continue;
          unsigned rest = position;
          for (size_t r = 0; r < results.size(); ++r) {
            if (rest < result_widths[r]) {
              results[r] |= 1ull << rest;
              break;
            }
            rest -= result_widths[r];
          }
        }
      }
      return;
    }
    case Flow::logic:
      first = logic_undefined(rule.table, at(0), at(1), at(2)) & mask;
      return;
    case Flow::select: {
      const Bits p = at(2);
      const uint64_t chosen = (p.value & 1) != 0 ? at(0).undefined : at(1).undefined;
      first = (p.undefined & 1) == 0 ? chosen : at(0).undefined | at(1).undefined | (at(0).value ^ at(1).value);
      first &= mask;
      return;
    }
    case Flow::select_sign: {
      const Bits c = at(2);
      const bool open = rule.is_signed ? (c.undefined >> 31 & 1) != 0 : (c.undefined & 0xffffffff) != 0;
      const bool high =
          rule.is_signed ? (c.value >> 31 & 1) == 0 : std::bit_cast<float>(static_cast<uint32_t>(c.value)) >= 0.0f;
      first = open ? at(0).undefined | at(1).undefined | (at(0).value ^ at(1).value) : (high ? at(0) : at(1)).undefined;
      first &= mask;
      return;
    }
    case Flow::sum: {
      uint64_t undefined = 0;
      for (size_t i = 0; i < sources.size(); ++i) undefined |= sources[i].undefined & low_bits(source_widths[i]);
      first = upwards(undefined & mask) & mask;
      return;
    }
    case Flow::product: {
      const Bits a = cut(at(0)), b = cut(at(1));
      unsigned lowest = 64;
      // A factor's undefined bit k reaches bit k plus the zeros at the other factor's end; a factor 0 stops it.
      if (a.undefined != 0 && (b.value | b.undefined) != 0)
        lowest = std::min(lowest, static_cast<unsigned>(std::countr_zero(a.undefined)) + known_zeros(b));
      if (b.undefined != 0 && (a.value | a.undefined) != 0)
        lowest = std::min(lowest, static_cast<unsigned>(std::countr_zero(b.undefined)) + known_zeros(a));
      for (size_t i = 2; i < sources.size(); ++i) {
        const uint64_t undefined = sources[i].undefined & low_bits(source_widths[i]);
        if (undefined != 0) lowest = std::min(lowest, static_cast<unsigned>(std::countr_zero(undefined)));
      }
      first = lowest >= 64 ? 0 : upwards(1ull << lowest) & mask;
      return;
    }
    case Flow::shift_left:
    case Flow::shift_right: {
      const Bits a = cut(at(0)), amount = {at(1).value & 0xffffffff, at(1).undefined & 0xffffffff};
      if (amount.undefined != 0) {
        // Zero shifted by anything is zero.
        first = (a.value | a.undefined) == 0 ? 0 : mask;
        return;
      }
      const auto n = static_cast<unsigned>(std::min<uint64_t>(amount.value, rule.width));
      if (rule.flow == Flow::shift_left) {
        first = n >= rule.width ? 0 : (a.undefined << n) & mask;
      } else if (rule.is_signed) {
        const auto wide = static_cast<int64_t>(sign_extend(a.undefined, rule.width));
        first = static_cast<uint64_t>(wide >> std::min(n, 63u)) & mask;
      } else {
        first = n >= 64 ? 0 : (a.undefined >> n) & mask;
      }
      return;
    }
    case Flow::funnel: {
      const Bits a = cut(at(0)), b = cut(at(1));
      const uint64_t counted = rule.wrap ? 31 : 0xffffffff;
      if ((at(2).undefined & counted) != 0) {
        first = mask;
        return;
      }
      const uint64_t n = rule.wrap ? at(2).value & 31 : std::min<uint64_t>(at(2).value & 0xffffffff, 32);
      const uint64_t both = b.undefined << 32 | a.undefined;
      first = (rule.right ? both >> n : (n == 0 ? b.undefined : both >> (32 - n))) & mask;
      return;
    }
    case Flow::extract: {
      if (((at(1).undefined | at(2).undefined) & 0xff) != 0) {
        first = mask;
        return;
      }
      const Bits a = cut(at(0));
      const auto position = static_cast<unsigned>(at(1).value & 0xff),
                 length = static_cast<unsigned>(at(2).value & 0xff);
      if (length == 0) {
        first = 0;
        return;
      }
      const unsigned top = std::min(position + length - 1, rule.width - 1);
      const uint64_t field = position >= rule.width ? 0 : (a.undefined >> position) & low_bits(length);
      const bool sign = rule.is_signed && (a.undefined >> top & 1) != 0;
      const unsigned inside = position >= rule.width ? 0 : std::min(length, rule.width - position);
      first = (field & low_bits(inside)) | (sign ? ~low_bits(inside) : 0);
      first &= mask;
      return;
    }
    case Flow::insert: {
      if (((at(2).undefined | at(3).undefined) & 0xff) != 0) {
        first = mask;
        return;
      }
      const auto position = static_cast<unsigned>(at(2).value & 0xff),
                 length = static_cast<unsigned>(at(3).value & 0xff);
      const uint64_t field = position >= rule.width ? 0 : low_bits(length) << position;
      const uint64_t moved = position >= 64 ? 0 : at(0).undefined << position;
      first = ((moved & field) | (at(1).undefined & ~field)) & mask;
      return;
    }
    case Flow::permute: {
      if ((at(2).undefined & 0xffff) != 0) {
        first = mask;
        return;
      }
      const uint64_t both = (at(1).undefined & 0xffffffff) << 32 | (at(0).undefined & 0xffffffff);
      first = 0;
      for (unsigned byte = 0; byte < 4; ++byte) {
        const uint64_t selector = at(2).value >> (4 * byte) & 0xf;
        uint64_t chosen = both >> (8 * (selector & 7)) & 0xff;
        if ((selector & 8) != 0) chosen = (chosen & 0x80) != 0 ? 0xff : 0;
        first |= chosen << (8 * byte);
      }
      return;
    }
    case Flow::reverse: {
      first = 0;
      for (unsigned bit = 0; bit < rule.width; ++bit) first |= (at(0).undefined >> bit & 1) << (rule.width - 1 - bit);
      return;
    }
    case Flow::zero_test: {
      const Bits a = cut(at(0));
      first = a.undefined != 0 && (a.value & ~a.undefined) == 0 ? 1 : 0;
      return;
    }
    case Flow::convert: {
      const uint64_t undefined = at(0).undefined & low_bits(rule.width);
      uint64_t moved = rule.is_signed ? sign_extend(undefined, rule.width) : undefined;
      // Of a narrow type in a wider register the rest is zeros or copies of its sign.
      if (rule.out_width < result_widths[0]) {
        moved = rule.is_signed ? sign_extend(moved, rule.out_width) : moved & low_bits(rule.out_width);
      }
      first = moved & low_bits(result_widths[0]);
      return;
    }
    case Flow::join_halves: {
      const unsigned half = rule.out_width / 2;
      first = (at(0).undefined != 0 ? low_bits(half) << half : 0) | (at(1).undefined != 0 ? low_bits(half) : 0);
      return;
    }
    case Flow::halves: {
      const unsigned in = rule.width / 2, out = rule.out_width / 2;
      first = 0;
      for (const Bits& bits : sources) {
        if ((bits.undefined & low_bits(in)) != 0) first |= low_bits(out);
        if ((bits.undefined >> in & low_bits(in)) != 0) first |= low_bits(out) << out;
      }
      return;
    }
    case Flow::compare: {
      const Bits a = cut(at(0)), b = cut(at(1));
      const bool open = rule.is_float ? (a.undefined | b.undefined) != 0
                                      : comparison_undefined(rule.predicate, rule.is_signed, rule.width, a, b);
      const Bits c = at(2), open_bit = {0, open ? 1u : 0u};
      for (size_t r = 0; r < results.size(); ++r) {
        // p = comparison op c, q = !comparison op c; each side may decide the result alone.
        Bits side = open_bit;
        if (!open) side.value = comparison_result(rule, a.value, b.value) != (r == 1) ? 1 : 0;
        switch (rule.boolean) {
          case Mod::and_:
            results[r] = logic_undefined(0xc0, side, c, {}) & 1;
            break;
          case Mod::or_:
            results[r] = logic_undefined(0xfc, side, c, {}) & 1;
            break;
          default:
            results[r] = (side.undefined | c.undefined) & 1;
        }
      }
      return;
    }
    case Flow::compare_pair: {
      const unsigned half = 16;
      uint64_t undefined = at(0).undefined | at(1).undefined;
      const bool third = (at(2).undefined & 1) != 0;
      for (size_t r = 0; r < results.size(); ++r) {
        const uint64_t part = results.size() == 1 ? undefined : undefined >> (half * r) & low_bits(half);
        results[r] = part != 0 || third ? 1 : 0;
      }
      return;
    }
  }
}

}  // namespace ptxbench::emulator
