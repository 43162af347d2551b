#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "emulator/decoder.h"
#include "emulator/warp.h"

/// Lane loops. An operation is a struct with `static R apply(A, B, ...)`; `lane_handlers<Op, R, A, B>(shapes...)` makes
/// the handler for one combination of operand shapes. The loops are plain so that the compiler vectorises them.
namespace ptxbench::emulator {

template <class T, bool Uniform>
struct LaneSource;
template <class T>
struct LaneSource<T, false> {
  const T* pointer;
  LaneSource(Warp& warp, uint32_t offset) : pointer(warp.slot<const T>(offset)) {}
  T operator[](unsigned lane) const { return pointer[lane]; }
};
template <class T>
struct LaneSource<T, true> {
  T value;
  LaneSource(Warp& warp, uint32_t offset) : value(*warp.slot<const T>(offset)) {}
  T operator[](unsigned) const { return value; }
};

/// Unsigned integer as wide as T, to keep inactive lanes by selection.
template <class T>
using LaneBits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

template <class T>
inline T select_lane(uint32_t lane_mask, T chosen, T other) {
  return lane_mask != 0 ? chosen : other;
}

namespace detail {

template <class Op, class R, unsigned Shapes, class... Args, size_t... I>
const Inst* run_full(Warp& warp, const Inst& inst, std::index_sequence<I...>) {
  const std::tuple<LaneSource<Args, ((Shapes >> I) & 1) != 0>...> sources{
      LaneSource<Args, ((Shapes >> I) & 1) != 0>(warp, inst.src[I])...};
  R* destination = warp.slot<R>(inst.dst);
#pragma GCC ivdep
  for (unsigned lane = 0; lane < kLanes; ++lane) destination[lane] = Op::apply(std::get<I>(sources)[lane]...);
  return &inst + 1;
}

template <class Op, class R, unsigned Shapes, class... Args, size_t... I>
const Inst* run_masked(Warp& warp, const Inst& inst, std::index_sequence<I...>) {
  const std::tuple<LaneSource<Args, ((Shapes >> I) & 1) != 0>...> sources{
      LaneSource<Args, ((Shapes >> I) & 1) != 0>(warp, inst.src[I])...};
  R* destination = warp.slot<R>(inst.dst);
  const uint32_t* mask = warp.lane_mask.data();
#pragma GCC ivdep
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    const R value = Op::apply(std::get<I>(sources)[lane]...);
    destination[lane] = select_lane(mask[lane], value, destination[lane]);
  }
  return &inst + 1;
}

template <class Op, class R, unsigned Shapes, class... Args>
struct LaneHandler {
  static const Inst* full(Warp& warp, const Inst& inst) {
    return run_full<Op, R, Shapes, Args...>(warp, inst, std::index_sequence_for<Args...>{});
  }
  static const Inst* masked(Warp& warp, const Inst& inst) {
    return run_masked<Op, R, Shapes, Args...>(warp, inst, std::index_sequence_for<Args...>{});
  }
};

template <class Op, class R, class... Args>
struct UniformHandler {
  template <size_t... I>
  static const Inst* run(Warp& warp, const Inst& inst, std::index_sequence<I...>) {
    *warp.slot<R>(inst.dst) = Op::apply(*warp.slot<const Args>(inst.src[I])...);
    return &inst + 1;
  }
  static const Inst* handler(Warp& warp, const Inst& inst) {
    return run(warp, inst, std::index_sequence_for<Args...>{});
  }
};

template <class Op, class R, class... Args, size_t... Shapes>
HandlerPair pick(unsigned shapes, std::index_sequence<Shapes...>) {
  static constexpr HandlerPair table[] = {
      HandlerPair{&LaneHandler<Op, R, Shapes, Args...>::full, &LaneHandler<Op, R, Shapes, Args...>::masked}...};
  return table[shapes];
}

}  // namespace detail

/// Handlers for `Op` with the given destination and source shapes. A uniform destination needs uniform sources only.
template <class Op, class R, class... Args>
HandlerPair lane_handlers(Slot destination, std::initializer_list<Slot> sources) {
  unsigned shapes = 0, bit = 0;
  for (const Slot& slot : sources) shapes |= (slot.shape == Shape::uniform ? 1u : 0u) << bit++;
  if (destination.shape == Shape::uniform) {
    return {&detail::UniformHandler<Op, R, Args...>::handler, &detail::UniformHandler<Op, R, Args...>::handler};
  }
  return detail::pick<Op, R, Args...>(shapes, std::make_index_sequence<size_t{1} << sizeof...(Args)>{});
}

/// Vector-only variant: for rarely used operations, which take their operands through Decoder::vector_source.
template <class Op, class R, class... Args>
HandlerPair vector_handlers() {
  return {&detail::LaneHandler<Op, R, 0, Args...>::full, &detail::LaneHandler<Op, R, 0, Args...>::masked};
}

/// Decodes `op d, a, b, ...`: the usual shape of an arithmetic instruction.
template <class Op, class R, class... Args>
void emit_lanes(Decoder& decoder, const ptx::Instruction& instruction, ptx::Type result_type,
                std::initializer_list<ptx::Type> source_types) {
  std::array<Slot, sizeof...(Args)> sources{};
  size_t i = 0;
  for (ptx::Type type : source_types) {
    sources[i] = decoder.source(instruction.operands[i + 1], type);
    ++i;
  }
  const Slot destination = decoder.destination(instruction.operands[0], result_type);
  unsigned shapes = 0;
  for (size_t s = 0; s < sources.size(); ++s) shapes |= (sources[s].shape == Shape::uniform ? 1u : 0u) << s;
  HandlerPair handlers =
      destination.shape == Shape::uniform
          ? HandlerPair{&detail::UniformHandler<Op, R, Args...>::handler,
                        &detail::UniformHandler<Op, R, Args...>::handler}
          : detail::pick<Op, R, Args...>(shapes, std::make_index_sequence<size_t{1} << sizeof...(Args)>{});
  Inst& inst = decoder.emit(handlers);
  inst.dst = destination.offset;
  for (size_t s = 0; s < sources.size(); ++s) inst.src[s] = sources[s].offset;
}

/// The same with per-lane slots only: fewer instantiations, for rare operations.
template <class Op, class R, class... Args>
void emit_vector_lanes(Decoder& decoder, const ptx::Instruction& instruction, ptx::Type result_type,
                       std::initializer_list<ptx::Type> source_types) {
  std::array<Slot, sizeof...(Args)> sources{};
  size_t i = 0;
  for (ptx::Type type : source_types) {
    sources[i] = decoder.vector_source(instruction.operands[i + 1], type);
    ++i;
  }
  const Slot destination = decoder.vector_destination(instruction.operands[0], result_type);
  Inst& inst = decoder.emit(vector_handlers<Op, R, Args...>());
  inst.dst = destination.offset;
  for (size_t s = 0; s < sources.size(); ++s) inst.src[s] = sources[s].offset;
}

}  // namespace ptxbench::emulator
