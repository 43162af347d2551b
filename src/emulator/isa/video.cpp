#include <algorithm>

#include "emulator/isa/alu.h"

/// Video instructions (PTX ISA "Video Instructions"): scalar ones with byte and half-word selectors, and SIMD ones on
/// two or four elements. Rare in today's code, so they run lane by lane.
namespace ptxbench::emulator {
namespace {

/// What an instruction's modifiers say, packed into the options of the lane function.
struct Video {
  Op op{};
  bool signed_d = false, signed_a = false, signed_b = false, sat = false, wrap = false;
  uint8_t select_a = 0, select_b = 0;  ///< 0: whole register, 1..4: byte, 5..6: half word
  uint8_t combine = 0;                 ///< 0 none, 1 add, 2 min, 3 max
  uint8_t compare = 0;                 ///< vset: eq ne lt le gt ge

  uint64_t pack() const {
    return static_cast<uint64_t>(op) | uint64_t{signed_d} << 16 | uint64_t{signed_a} << 17 | uint64_t{signed_b} << 18 |
           uint64_t{sat} << 19 | uint64_t{wrap} << 20 | uint64_t{select_a} << 24 | uint64_t{select_b} << 28 |
           uint64_t{combine} << 32 | uint64_t{compare} << 44;
  }
  static Video unpack(uint64_t bits) {
    Video v;
    v.op = static_cast<Op>(bits & 0xffff);
    v.signed_d = ((bits >> 16) & 1) != 0;
    v.signed_a = ((bits >> 17) & 1) != 0;
    v.signed_b = ((bits >> 18) & 1) != 0;
    v.sat = ((bits >> 19) & 1) != 0;
    v.wrap = ((bits >> 20) & 1) != 0;
    v.select_a = static_cast<uint8_t>((bits >> 24) & 0xf);
    v.select_b = static_cast<uint8_t>((bits >> 28) & 0xf);
    v.combine = static_cast<uint8_t>((bits >> 32) & 0xf);
    v.compare = static_cast<uint8_t>((bits >> 44) & 0xf);
    return v;
  }
};

int64_t element(uint64_t value, unsigned position, unsigned bits, bool sign) {
  const uint64_t raw = zero_extend(value >> position, bits);
  return sign ? sign_extend(raw, bits) : static_cast<int64_t>(raw);
}
int64_t select(uint64_t value, unsigned selector, bool sign) {
  if (selector == 0) return element(value, 0, 32, sign);
  if (selector <= 4) return element(value, (selector - 1) * 8, 8, sign);
  return element(value, (selector - 5) * 16, 16, sign);
}
int64_t clamp_to(int64_t value, unsigned bits, bool sign) {
  const int64_t low = sign ? -(int64_t{1} << (bits - 1)) : 0;
  const int64_t high = (int64_t{1} << (sign ? bits - 1 : bits)) - 1;
  return std::clamp(value, low, high);
}
bool compare(uint8_t how, int64_t a, int64_t b) {
  switch (how) {
    case 0:
      return a == b;
    case 1:
      return a != b;
    case 2:
      return a < b;
    case 3:
      return a <= b;
    case 4:
      return a > b;
    default:
      return a >= b;
  }
}

uint64_t video_scalar(const uint64_t* operands, uint64_t options) {
  const Video v = Video::unpack(options);
  const int64_t a = select(operands[0], v.select_a, v.signed_a), b = select(operands[1], v.select_b, v.signed_b);
  const int64_t c = element(operands[2], 0, 32, v.signed_d);
  int64_t value = 0;
  switch (v.op) {
    case Op::vadd:
      value = a + b;
      break;
    case Op::vsub:
      value = a - b;
      break;
    case Op::vabsdiff:
      value = std::abs(a - b);
      break;
    case Op::vmin:
      value = std::min(a, b);
      break;
    case Op::vmax:
      value = std::max(a, b);
      break;
    case Op::vset:
      value = compare(v.compare, a, b) ? 1 : 0;
      break;
    default: {
      // The amount is unsigned; wrap keeps five bits, clamp stops at 32.
      const uint64_t amount = v.wrap ? static_cast<uint64_t>(b) & 31 : std::min<uint64_t>(static_cast<uint64_t>(b), 32);
      value = v.op == Op::vshl ? static_cast<int64_t>(static_cast<uint64_t>(a) << amount) : a >> amount;
    }
  }
  if (v.sat) value = clamp_to(value, 32, v.signed_d);
  value = element(static_cast<uint64_t>(value), 0, 32, v.signed_d);
  switch (v.combine) {
    case 1:
      value += c;
      break;
    case 2:
      value = std::min(value, c);
      break;
    case 3:
      value = std::max(value, c);
      break;
    default:
      break;
  }
  return static_cast<uint32_t>(value);
}

uint64_t video_simd(const uint64_t* operands, uint64_t options) {
  const Video v = Video::unpack(options);
  const bool four = v.op == Op::vadd4 || v.op == Op::vsub4 || v.op == Op::vavrg4 || v.op == Op::vabsdiff4 ||
                    v.op == Op::vmin4 || v.op == Op::vmax4 || v.op == Op::vset4;
  const unsigned bits = four ? 8 : 16, count = four ? 4 : 2;
  uint64_t packed = 0;
  int64_t sum = 0;
  for (unsigned i = 0; i < count; ++i) {
    const int64_t a = element(operands[0], i * bits, bits, v.signed_a),
                  b = element(operands[1], i * bits, bits, v.signed_b);
    int64_t value = 0;
    switch (v.op) {
      case Op::vadd2:
      case Op::vadd4:
        value = a + b;
        break;
      case Op::vsub2:
      case Op::vsub4:
        value = a - b;
        break;
      case Op::vabsdiff2:
      case Op::vabsdiff4:
        value = std::abs(a - b);
        break;
      case Op::vmin2:
      case Op::vmin4:
        value = std::min(a, b);
        break;
      case Op::vmax2:
      case Op::vmax4:
        value = std::max(a, b);
        break;
      default:
        value = compare(v.compare, a, b) ? 1 : 0;
    }
    if (v.sat) value = clamp_to(value, bits, v.signed_d);
    packed |= zero_extend(static_cast<uint64_t>(value), bits) << (i * bits);
    sum += value;
  }
  if (v.combine != 0) return static_cast<uint32_t>(static_cast<uint64_t>(sum) + operands[2]);
  return packed;
}

uint8_t selector(const Operand& operand) {
  switch (operand.suffix) {
    case Mod::none:
      return 0;
    case Mod::b0:
      return 1;
    case Mod::b1:
      return 2;
    case Mod::b2:
      return 3;
    case Mod::b3:
      return 4;
    case Mod::h0:
      return 5;
    case Mod::h1:
      return 6;
    default:
      throw std::runtime_error("operand selector");
  }
}

Video describe(const Instruction& instruction) {
  Video v;
  v.op = instruction.op;
  const bool set = v.op == Op::vset || v.op == Op::vset2 || v.op == Op::vset4;
  v.signed_d = !set && is_signed(require_type(instruction, 0));
  v.signed_a = is_signed(require_type(instruction, set ? 0 : 1));
  v.signed_b = is_signed(require_type(instruction, set ? 1 : 2));
  v.sat = instruction.has(Mod::sat);
  v.wrap = instruction.has(Mod::wrap);
  v.combine = instruction.has(Mod::add) ? 1 : instruction.has(Mod::min) ? 2 : instruction.has(Mod::max) ? 3 : 0;
  static constexpr Mod kComparisons[] = {Mod::eq, Mod::ne, Mod::lt, Mod::le, Mod::gt, Mod::ge};
  for (uint8_t i = 0; set && i < 6; ++i) {
    if (instruction.has(kComparisons[i])) v.compare = i;
  }
  return v;
}

void bind_scalar(Decoder& decoder, const Instruction& instruction) {
  Video v = describe(instruction);
  const auto& operands = instruction.operands;
  v.select_a = selector(operands.at(1));
  v.select_b = selector(operands.at(2));
  for (const Operand& operand : operands) {
    if (operand.negated) throw std::runtime_error("negated video operand");
  }
  if (v.op == Op::vadd && v.sat && !v.signed_d)
    throw std::runtime_error("vadd.u32 with .sat: hardware and ISA disagree");
  if (operands[0].suffix != Mod::none)
    throw std::runtime_error("video instruction that merges into a part of its destination");
  if (operands.size() > 3) {
    emit_calls(decoder, operands[0], Type::b32,
               {{&operands[1], Type::b32}, {&operands[2], Type::b32}, {&operands[3], Type::b32}}, &video_scalar,
               v.pack());
  } else {
    emit_calls(decoder, operands[0], Type::b32, {{&operands[1], Type::b32}, {&operands[2], Type::b32}}, &video_scalar,
               v.pack());
  }
}

void bind_simd(Decoder& decoder, const Instruction& instruction) {
  const auto& operands = instruction.operands;
  for (const Operand& operand : operands) {
    if (operand.suffix != Mod::none) throw std::runtime_error("video instruction with element masks or selectors");
  }
  emit_calls(decoder, operands.at(0), Type::b32,
             {{&operands.at(1), Type::b32}, {&operands.at(2), Type::b32}, {&operands.at(3), Type::b32}}, &video_simd,
             describe(instruction).pack());
}

}  // namespace

// vmad and vavrg are not bound: no compiler in use emits them, and their rounding is not tested.
void register_video(BinderTable& table) {
  for (const Op op : {Op::vadd, Op::vsub, Op::vabsdiff, Op::vmin, Op::vmax, Op::vshl, Op::vshr, Op::vset}) {
    table.set(op, &bind_scalar);
  }
  for (const Op op : {Op::vadd2, Op::vsub2, Op::vabsdiff2, Op::vmin2, Op::vmax2, Op::vset2, Op::vadd4, Op::vsub4,
                      Op::vabsdiff4, Op::vmin4, Op::vmax4, Op::vset4}) {
    table.set(op, &bind_simd);
  }
}

}  // namespace ptxbench::emulator
