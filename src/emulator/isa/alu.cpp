#include "emulator/isa/alu.h"

namespace ptxbench::emulator {
namespace {

/// Widths in bytes; 0 = predicate.
struct CallShape {
  LaneFunction function = nullptr;
  unsigned count = 0;
  uint8_t destination_bytes = 0;
  bool uniform_destination = false;
  std::array<uint8_t, 4> source_bytes{};
  std::array<bool, 4> uniform{};
  std::array<bool, 4> inverted{};
};

uint64_t load(const std::byte* from, unsigned bytes) {
  uint64_t value = 0;
  std::memcpy(&value, from, bytes);
  return value;
}

const Inst* call_lanes(Warp& warp, const Inst& inst) {
  const auto& shape = *static_cast<const CallShape*>(inst.extra);
  std::array<uint64_t, 4> operands{};
  const auto fetch = [&](unsigned lane) {
    for (unsigned s = 0; s < shape.count; ++s) {
      const unsigned bytes = shape.source_bytes[s];
      const std::byte* base = warp.regs + inst.src[s];
      if (bytes == 0) {
        operands[s] = ((load(base, 4) >> lane) & 1) ^ (shape.inverted[s] ? 1 : 0);
      } else {
        operands[s] = load(base + (shape.uniform[s] ? 0 : lane * bytes), bytes);
      }
    }
  };
  const auto options = static_cast<uint64_t>(inst.imm);
  if (shape.uniform_destination) {
    fetch(static_cast<unsigned>(std::countr_zero(warp.mask)));
    const uint64_t value = shape.function(operands.data(), options);
    std::memcpy(warp.regs + inst.dst, &value, shape.destination_bytes);
    return &inst + 1;
  }
  uint32_t predicate = 0;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    fetch(lane);
    const uint64_t value = shape.function(operands.data(), options);
    if (shape.destination_bytes == 0) {
      predicate |= value != 0 ? kLaneBit[lane] : 0;
    } else {
      std::memcpy(warp.regs + inst.dst + lane * shape.destination_bytes, &value, shape.destination_bytes);
    }
  }
  if (shape.destination_bytes == 0) write_predicate(warp, inst.dst, predicate);
  return &inst + 1;
}

uint8_t slot_bytes(unsigned bits) {
  if (bits == 1) return 0;
  if (bits > 64) throw std::runtime_error("128-bit operand");
  return bits <= 16 ? 2 : bits <= 32 ? 4 : 8;
}

}  // namespace

void emit_calls(Decoder& decoder, const Operand& destination, Type result_type,
                std::initializer_list<std::pair<const Operand*, Type>> sources, LaneFunction function,
                uint64_t options) {
  CallShape shape;
  shape.function = function;
  const Slot target = decoder.destination(destination, result_type);
  shape.destination_bytes = slot_bytes(decoder.operand_bits(destination, result_type));
  shape.uniform_destination = target.shape == Shape::uniform && shape.destination_bytes != 0;
  std::array<uint32_t, 4> offsets{};
  for (const auto& [operand, type] : sources) {
    const unsigned s = shape.count++;
    if (type == Type::pred) {
      const PredicateSource predicate = predicate_source(decoder, *operand);
      offsets[s] = predicate.offset;
      shape.inverted[s] = predicate.invert != 0;
      continue;
    }
    const Slot slot = decoder.source(*operand, type);
    offsets[s] = slot.offset;
    shape.uniform[s] = slot.shape == Shape::uniform;
    shape.source_bytes[s] = slot_bytes(decoder.operand_bits(*operand, type));
  }
  const CallShape* kept = decoder.keep(shape);
  Inst& inst = decoder.emit({&call_lanes, &call_lanes});
  inst.dst = target.offset;
  for (unsigned s = 0; s < shape.count; ++s) inst.src[s] = offsets[s];
  inst.extra = kept;
  inst.imm = static_cast<int64_t>(options);
}

}  // namespace ptxbench::emulator
