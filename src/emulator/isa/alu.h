#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>

#include "emulator/decoder.h"
#include "emulator/isa/lanes.h"
#include "emulator/warp.h"

/// What the arithmetic files share: emission by operand slots, predicate operands, lane-mask packing, and a slow path
/// for operations too rare to deserve lane loops of their own.
namespace ptxbench::emulator {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

inline constexpr std::array<uint32_t, kLanes> kLaneBit = [] {
  std::array<uint32_t, kLanes> bits{};
  for (unsigned lane = 0; lane < kLanes; ++lane) bits[lane] = 1u << lane;
  return bits;
}();

/// Lane mask of the lanes for which `test(lane)` holds. Written as an or-reduction over constants so that it
/// vectorises.
template <class Test>
inline uint32_t collect_lanes(Test test) {
  uint32_t mask = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) mask |= test(lane) ? kLaneBit[lane] : 0u;
  return mask;
}

/// Writes the active lanes' bits of a predicate.
inline void write_predicate(Warp& warp, uint32_t offset, uint32_t value) {
  uint32_t* predicate = warp.slot<uint32_t>(offset);
  *predicate = (*predicate & ~warp.mask) | (value & warp.mask);
}

/// A predicate source without the extra instruction that Decoder::predicate() spends on a negation.
struct PredicateSource {
  uint32_t offset = 0;
  uint32_t invert = 0;  ///< 0 or ~0, to be xored
};
inline PredicateSource predicate_source(Decoder& decoder, const Operand& operand) {
  if (operand.kind == OperandKind::reg) {
    return {decoder.register_slot(operand.index).offset, operand.negated ? kFullMask : 0};
  }
  return {decoder.source(operand, Type::pred).offset, operand.negated ? kFullMask : 0};
}

/// Destinations `p` or `p|q`; q is absent if the instruction names one predicate only.
struct PredicateDestinations {
  Slot p, q;
  bool has_q = false;
};
inline PredicateDestinations predicate_destinations(Decoder& decoder, const Operand& operand) {
  if (operand.kind == OperandKind::predicate_pair) {
    return {decoder.destination(operand.elements.at(0), Type::pred),
            decoder.destination(operand.elements.at(1), Type::pred), true};
  }
  return {decoder.destination(operand, Type::pred), {}, false};
}

/// Emits `Op` on explicit slots, with handlers for every combination of source shapes.
template <class Op, class R, class... Args>
Inst& emit_slots(Decoder& decoder, Slot destination, const std::array<Slot, sizeof...(Args)>& sources) {
  unsigned shapes = 0;
  for (size_t s = 0; s < sources.size(); ++s) shapes |= (sources[s].shape == Shape::uniform ? 1u : 0u) << s;
  constexpr unsigned kAllUniform = (1u << sizeof...(Args)) - 1;
  HandlerPair handlers;
  if (destination.shape == Shape::uniform) {
    if (shapes != kAllUniform) throw std::logic_error("uniform destination with per-lane sources");
    handlers.full = handlers.masked = &detail::UniformHandler<Op, R, Args...>::handler;
  } else {
    handlers = detail::pick<Op, R, Args...>(shapes, std::make_index_sequence<size_t{1} << sizeof...(Args)>{});
  }
  Inst& inst = decoder.emit(handlers);
  inst.dst = destination.offset;
  for (size_t s = 0; s < sources.size(); ++s) inst.src[s] = sources[s].offset;
  return inst;
}

/// Emits `Op` with per-lane loops only, yet supports uniform destinations: for operations that hot loops rarely use.
template <class Op, class R, class... Args>
Inst& emit_any(Decoder& decoder, const Operand& destination_operand, Type result_type,
               const std::array<const Operand*, sizeof...(Args)>& operands,
               const std::array<Type, sizeof...(Args)>& types) {
  const Slot destination = decoder.destination(destination_operand, result_type);
  std::array<Slot, sizeof...(Args)> sources{};
  HandlerPair handlers;
  if (destination.shape == Shape::uniform) {
    for (size_t s = 0; s < sources.size(); ++s) {
      sources[s] = decoder.source(*operands[s], types[s]);
      if (sources[s].shape != Shape::uniform) throw std::logic_error("uniform destination with per-lane sources");
    }
    handlers.full = handlers.masked = &detail::UniformHandler<Op, R, Args...>::handler;
  } else {
    for (size_t s = 0; s < sources.size(); ++s) sources[s] = decoder.vector_source(*operands[s], types[s]);
    handlers = vector_handlers<Op, R, Args...>();
  }
  Inst& inst = decoder.emit(handlers);
  inst.dst = destination.offset;
  for (size_t s = 0; s < sources.size(); ++s) inst.src[s] = sources[s].offset;
  return inst;
}

/// The same for the usual operand order `d, a, b, ...`.
template <class Op, class R, class... Args>
Inst& emit_any(Decoder& decoder, const Instruction& instruction, Type result_type,
               const std::array<Type, sizeof...(Args)>& types) {
  std::array<const Operand*, sizeof...(Args)> operands{};
  for (size_t s = 0; s < operands.size(); ++s) operands[s] = &instruction.operands.at(s + 1);
  return emit_any<Op, R, Args...>(decoder, instruction.operands.at(0), result_type, operands, types);
}

/// One lane of a rare operation: operands zero-extended to 64 bits (predicates 0 or 1), `options` from the binder.
using LaneFunction = uint64_t (*)(const uint64_t* operands, uint64_t options);

/// Emits a lane-by-lane call of `function`. Sources are read at their register's width, so operands wider than the
/// instruction's type (cvt) work. The destination is written at its register's width, or as a predicate.
void emit_calls(Decoder& decoder, const Operand& destination, Type result_type,
                std::initializer_list<std::pair<const Operand*, Type>> sources, LaneFunction function,
                uint64_t options);

/// The type of an instruction, or std::runtime_error if there is none.
inline Type require_type(const Instruction& instruction, size_t index = 0) {
  const Type type = instruction.type(index);
  if (type == Type::none) throw std::runtime_error("no type modifier");
  return type;
}

[[noreturn]] inline void unsupported_type(Type type) {
  throw std::runtime_error("type ." + std::string(ptx::type_name(type)));
}

constexpr bool is_signed(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}
constexpr bool is_integer(Type type) {
  switch (type) {
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

inline int64_t sign_extend(uint64_t value, unsigned bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}
inline uint64_t zero_extend(uint64_t value, unsigned bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

}  // namespace ptxbench::emulator
