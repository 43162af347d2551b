#include <bit>
#include <cstring>
#include <stdexcept>

#include "emulator/isa/lanes.h"
#include "emulator/isa/memory_semantics.h"
#include "emulator/memory_access.h"

/// ld, st, ldu: PTX ISA "Data Movement and Conversion Instructions".
namespace ptxbench::emulator {
namespace {

using ptx::Mod;
using ptx::StateSpace;
using ptx::Type;

// --- loads: one element type and register width per handler, any number of vector elements
// -----------------------------

template <class Memory, class Register, bool Masked>
void gather(Warp& warp, const LanePointers& pointers, uint32_t byte_offset, uint32_t slot) {
  Register* out = warp.slot<Register>(slot);
  const uint32_t* mask = warp.lane_mask.data();
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    Memory value;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(pointers.host[lane]) + byte_offset, sizeof value);
    const auto wide = static_cast<Register>(value);
    if constexpr (Masked) {
      out[lane] = select_lane(mask[lane], wide, out[lane]);
    } else {
      out[lane] = wide;
    }
  }
}

/// Lanes that read consecutive elements: one copy instead of 32 gathers.
template <class Memory>
bool consecutive(const LanePointers& pointers) {
  const uint64_t first = pointers.host[0];
  uint64_t difference = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) difference |= pointers.host[lane] ^ (first + lane * sizeof(Memory));
  return difference == 0;
}

/// One address of local memory is another place for every thread.
bool is_per_thread(Warp& warp, const MemoryOp& op) {
  return op.space == StateSpace::local ||
         (op.space == StateSpace::generic && lane_address(warp, op, 0) - kLocalWindow < kSmallWindowBytes);
}

/// Lane l touches op.bytes bytes at first + l * op.stride.
void touch_strided(Warp& warp, const MemoryOp& op, const std::byte* first) {
  if (op.stride == op.bytes) return touch_row(warp, first, op.bytes, op);
  LanePointers pointers;
  for (unsigned lane = 0; lane < kLanes; ++lane)
    pointers.host[lane] = reinterpret_cast<uint64_t>(first) + lane * static_cast<uint64_t>(op.stride);
  touch_lanes(warp, pointers, op.bytes, op);
}

template <class Memory, class Register, bool Masked>
const Inst* load(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MemoryOp*>(inst.extra);
  if (op.address.shape == Shape::uniform && !is_per_thread(warp, op)) {
    const std::byte* from = resolve_uniform(warp, inst, op, lane_address(warp, op, 0), op.bytes, op.bytes);
    if (from == nullptr) return nullptr;
    if (warp.touches != nullptr) touch_one(warp, from, op.bytes, op);
    for (unsigned e = 0; e < op.elements; ++e) {
      Memory value;
      std::memcpy(&value, from + e * sizeof(Memory), sizeof value);
      const auto wide = static_cast<Register>(value);
      if (op.data[e].shape == Shape::uniform) {
        *warp.slot<Register>(op.data[e].offset) = wide;
        continue;
      }
      Register* out = warp.slot<Register>(op.data[e].offset);
      for (unsigned lane = 0; lane < kLanes; ++lane) {
        if constexpr (Masked) {
          out[lane] = select_lane(warp.lane_mask[lane], wide, out[lane]);
        } else {
          out[lane] = wide;
        }
      }
    }
  } else if (uint64_t first = 0; !Masked && resolve_strided(warp, op, first)) {
    const auto* from = reinterpret_cast<const std::byte*>(first);
    if (warp.touches != nullptr) touch_strided(warp, op, from);
    if (sizeof(Memory) == sizeof(Register) && op.stride == sizeof(Memory)) {
      std::memcpy(warp.slot<Register>(op.data[0].offset), from, sizeof(Register) * kLanes);
    } else {
      for (unsigned e = 0; e < op.elements; ++e) {
        Register* out = warp.slot<Register>(op.data[e].offset);
        for (unsigned lane = 0; lane < kLanes; ++lane) {
          Memory value;
          std::memcpy(&value, from + static_cast<int64_t>(lane) * op.stride + e * sizeof(Memory), sizeof value);
          out[lane] = static_cast<Register>(value);
        }
      }
    }
  } else {
    LanePointers pointers;
    if (!resolve_lanes(warp, inst, op, pointers)) return nullptr;
    if (warp.touches != nullptr) touch_lanes(warp, pointers, op.bytes, op);
    if (!Masked && sizeof(Memory) == sizeof(Register) && op.elements == 1 && consecutive<Memory>(pointers)) {
      std::memcpy(warp.slot<Register>(op.data[0].offset), pointers.at<std::byte>(0), sizeof(Register) * kLanes);
    } else {
      for (unsigned e = 0; e < op.elements; ++e) {
        gather<Memory, Register, Masked>(warp, pointers, e * static_cast<uint32_t>(sizeof(Memory)), op.data[e].offset);
      }
    }
  }
  if (op.semantics != Semantics::weak) {
    // A strong load in a loop is how code waits for others: let them run.
    uint64_t hash = reinterpret_cast<uint64_t>(&inst);
    const auto lane = static_cast<unsigned>(std::countr_zero(warp.mask));
    for (unsigned e = 0; e < op.elements; ++e) {
      const auto value =
          static_cast<uint64_t>(op.data[e].shape == Shape::uniform ? *warp.slot<Register>(op.data[e].offset)
                                                                   : warp.slot<Register>(op.data[e].offset)[lane]);
      hash = (hash ^ value) * 0x9e3779b97f4a7c15ull + lane_address(warp, op, lane);
    }
    warp.poll(hash);
  }
  return &inst + 1;
}

template <class Memory, class Register, bool Masked>
const Inst* store(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MemoryOp*>(inst.extra);
  if (uint64_t first = 0; !Masked && sizeof(Memory) == sizeof(Register) && op.stride == sizeof(Memory) &&
                          op.elements == 1 && op.data[0].shape == Shape::vector && resolve_strided(warp, op, first)) {
    if (warp.touches != nullptr) touch_row(warp, reinterpret_cast<const std::byte*>(first), op.bytes, op);
    warp.side_effect();
    ++warp.cta->shared_version;
    std::memcpy(reinterpret_cast<std::byte*>(first), warp.slot<Register>(op.data[0].offset), sizeof(Register) * kLanes);
    return &inst + 1;
  }
  LanePointers pointers;
  if (!resolve_lanes(warp, inst, op, pointers)) return nullptr;
  if (warp.touches != nullptr) touch_lanes(warp, pointers, op.bytes, op);
  warp.side_effect();
  ++warp.cta->shared_version;
  const bool plain =
      !Masked && sizeof(Memory) == sizeof(Register) && op.elements == 1 && op.data[0].shape == Shape::vector;
  if (plain && consecutive<Memory>(pointers)) {
    std::memcpy(pointers.at<std::byte>(0), warp.slot<Register>(op.data[0].offset), sizeof(Register) * kLanes);
    return &inst + 1;
  }
  for (unsigned e = 0; e < op.elements; ++e) {
    const Register* from = warp.slot<Register>(op.data[e].offset);
    const bool uniform = op.data[e].shape == Shape::uniform;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if constexpr (Masked) {
        if (warp.lane_mask[lane] == 0) continue;
      }
      const auto value = static_cast<Memory>(from[uniform ? 0 : lane]);
      std::memcpy(pointers.at<std::byte>(lane) + e * sizeof(Memory), &value, sizeof value);
    }
  }
  return &inst + 1;
}

// --- short paths
// ------------------------------------------------------------------------------------------------------- Weak accesses
// of one element to the CTA's own shared memory through a 32-bit address, by whole warps, at one address or at
// consecutive ones: the inner loops of most kernels. Whatever does not fit takes the general handler.

template <class T>
std::byte* own_shared(Warp& warp, uint32_t address, uint32_t bytes) {
  const bool inside = uint64_t{address - warp.shared_begin} + bytes <= warp.shared_span;
  return inside && address % sizeof(T) == 0 ? warp.shared_origin + address : nullptr;
}

template <class T, bool UniformResult, bool Touch>
const Inst* load_shared_broadcast(Warp& warp, const Inst& inst) {
  const uint32_t address = *warp.slot<uint32_t>(inst.src[0]) + static_cast<uint32_t>(inst.imm);
  const std::byte* from = own_shared<T>(warp, address, sizeof(T));
  if (from == nullptr) [[unlikely]]
    return load<T, T, false>(warp, inst);
  if constexpr (Touch) touch_one(warp, from, sizeof(T), *static_cast<const MemoryOp*>(inst.extra));
  T value;
  std::memcpy(&value, from, sizeof value);
  T* out = warp.slot<T>(inst.dst);
  if constexpr (UniformResult) {
    *out = value;
  } else {
    for (unsigned lane = 0; lane < kLanes; ++lane) out[lane] = value;
  }
  return &inst + 1;
}

template <class T, bool Touch>
const Inst* load_shared_row(Warp& warp, const Inst& inst) {
  const uint32_t address = *warp.slot<uint32_t>(inst.src[0]) + static_cast<uint32_t>(inst.imm);
  const std::byte* from = own_shared<T>(warp, address, sizeof(T) * kLanes);
  if (from == nullptr) [[unlikely]]
    return load<T, T, false>(warp, inst);
  if constexpr (Touch) touch_row(warp, from, sizeof(T), *static_cast<const MemoryOp*>(inst.extra));
  std::memcpy(warp.slot<T>(inst.dst), from, sizeof(T) * kLanes);
  return &inst + 1;
}

template <class T, bool Touch>
const Inst* store_shared_row(Warp& warp, const Inst& inst) {
  const uint32_t address = *warp.slot<uint32_t>(inst.src[0]) + static_cast<uint32_t>(inst.imm);
  std::byte* to = own_shared<T>(warp, address, sizeof(T) * kLanes);
  if (to == nullptr) [[unlikely]]
    return store<T, T, false>(warp, inst);
  if constexpr (Touch) touch_row(warp, to, sizeof(T), *static_cast<const MemoryOp*>(inst.extra));
  warp.side_effect();
  ++warp.cta->shared_version;
  std::memcpy(to, warp.slot<T>(inst.dst), sizeof(T) * kLanes);
  return &inst + 1;
}

template <class T, bool Touch>
Handler short_path(const MemoryOp& op, bool is_load) {
  const bool row = op.address.shape == Shape::vector && op.stride == sizeof(T);
  if (is_load && op.address.shape == Shape::uniform) {
    return op.data[0].shape == Shape::uniform ? &load_shared_broadcast<T, true, Touch>
                                              : &load_shared_broadcast<T, false, Touch>;
  }
  if (!row || op.data[0].shape != Shape::vector) return nullptr;
  return is_load ? &load_shared_row<T, Touch> : &store_shared_row<T, Touch>;
}

template <bool Touch>
Handler short_path(const MemoryOp& op, bool is_load, unsigned bits) {
  switch (bits) {
    case 16:
      return short_path<uint16_t, Touch>(op, is_load);
    case 32:
      return short_path<uint32_t, Touch>(op, is_load);
    case 64:
      return short_path<uint64_t, Touch>(op, is_load);
    default:
      return nullptr;
  }
}

/// 128-bit registers are two u64[32] planes.
template <bool Masked, bool IsLoad>
const Inst* move_b128(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MemoryOp*>(inst.extra);
  LanePointers pointers;
  if (!resolve_lanes(warp, inst, op, pointers)) return nullptr;
  if (warp.touches != nullptr) touch_lanes(warp, pointers, op.bytes, op);
  uint64_t* planes = warp.slot<uint64_t>(op.data[0].offset);
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if (Masked && warp.lane_mask[lane] == 0) continue;
    if constexpr (IsLoad) {
      std::memcpy(&planes[lane], pointers.at<std::byte>(lane), 8);
      std::memcpy(&planes[kLanes + lane], pointers.at<std::byte>(lane) + 8, 8);
    } else {
      std::memcpy(pointers.at<std::byte>(lane), &planes[lane], 8);
      std::memcpy(pointers.at<std::byte>(lane) + 8, &planes[kLanes + lane], 8);
    }
  }
  if (!IsLoad) {
    warp.side_effect();
    ++warp.cta->shared_version;
  }
  return &inst + 1;
}

template <template <class, class, bool> class Which>
struct Picker;
template <class Memory, class Register, bool Masked>
struct Load {
  static const Inst* run(Warp& warp, const Inst& inst) { return load<Memory, Register, Masked>(warp, inst); }
};
template <class Memory, class Register, bool Masked>
struct Store {
  static const Inst* run(Warp& warp, const Inst& inst) { return store<Memory, Register, Masked>(warp, inst); }
};

template <template <class, class, bool> class Which, class Memory>
HandlerPair pick_register(unsigned register_bits) {
  switch (register_bits) {
    case 16:
      return {&Which<Memory, uint16_t, false>::run, &Which<Memory, uint16_t, true>::run};
    case 32:
      return {&Which<Memory, uint32_t, false>::run, &Which<Memory, uint32_t, true>::run};
    default:
      return {&Which<Memory, uint64_t, false>::run, &Which<Memory, uint64_t, true>::run};
  }
}

template <template <class, class, bool> class Which>
HandlerPair pick_memory(unsigned memory_bits, bool is_signed, unsigned register_bits) {
  switch (memory_bits) {
    case 8:
      return is_signed ? pick_register<Which, int8_t>(register_bits) : pick_register<Which, uint8_t>(register_bits);
    case 16:
      return is_signed ? pick_register<Which, int16_t>(register_bits) : pick_register<Which, uint16_t>(register_bits);
    case 32:
      return is_signed ? pick_register<Which, int32_t>(register_bits) : pick_register<Which, uint32_t>(register_bits);
    default:
      return pick_register<Which, uint64_t>(register_bits);
  }
}

template <bool IsLoad>
const Inst* observed(Warp& warp, const Inst& inst) {
  observe_access(warp, inst, *static_cast<const MemoryOp*>(inst.extra), !IsLoad);
  return &inst + 1;
}

bool is_signed_type(Type type) {
  return type == Type::s8 || type == Type::s16 || type == Type::s32 || type == Type::s64;
}

unsigned stored_bits(unsigned bits) { return bits <= 16 ? 16 : bits; }

void bind_access(Decoder& decoder, const ptx::Instruction& instruction, bool is_load) {
  MemoryOp op;
  const ptx::Operand& address = instruction.operands.at(is_load ? 1 : 0);
  const ptx::Operand& data = instruction.operands.at(is_load ? 0 : 1);
  const Type type = instruction.type();
  const unsigned bits = type_bits(type);
  op.kind = is_load ? AccessKind::read : AccessKind::write;
  read_semantics(instruction, op);
  if (instruction.has(Mod::nc)) op.proxy = Proxy::read_only;
  op.element_bytes = bits / 8;
  op.elements = data.kind == ptx::OperandKind::vector ? static_cast<unsigned>(data.elements.size()) : 1;
  if (op.elements > op.data.size()) throw std::runtime_error("vector of more than 8 elements");
  op.bytes = op.element_bytes * op.elements;
  decoder.memory_address(address, instruction.space(), op);
  unsigned register_bits = 0;
  for (unsigned e = 0; e < op.elements; ++e) {
    const ptx::Operand& element = data.kind == ptx::OperandKind::vector ? data.elements[e] : data;
    unsigned width = stored_bits(decoder.operand_bits(element, type));
    if (element.kind == ptx::OperandKind::sink) {
      op.data[e] = decoder.scratch(std::max(register_bits, stored_bits(bits)));
      width = register_bits != 0 ? register_bits : width;
    } else {
      op.data[e] = is_load ? decoder.destination(element, type) : decoder.source(element, type);
    }
    if (register_bits != 0 && width != register_bits)
      throw std::runtime_error("vector elements of different register widths");
    register_bits = width;
    op.data_bits[e] = static_cast<uint8_t>(width);
  }
  HandlerPair handlers;
  if (bits == 128) {
    handlers = is_load ? HandlerPair{&move_b128<false, true>, &move_b128<true, true>}
                       : HandlerPair{&move_b128<false, false>, &move_b128<true, false>};
    if (op.data[0].shape == Shape::uniform) throw std::runtime_error("128-bit uniform operand");
  } else {
    const unsigned memory_bits = bits;
    handlers = is_load ? pick_memory<Load>(memory_bits, is_signed_type(type), register_bits)
                       : pick_memory<Store>(memory_bits, false, register_bits);
  }
  const MemoryOp* kept = decoder.keep(op);
  if (decoder.observed() && op.space != StateSpace::param) {
    Inst& watch =
        is_load ? decoder.emit({&observed<true>, &observed<true>}) : decoder.emit({&observed<false>, &observed<false>});
    watch.extra = kept;
  }
  const bool own_shared_space = op.space == StateSpace::shared || op.space == StateSpace::shared_cta;
  if (own_shared_space && op.address_bits == 32 && op.elements == 1 && op.semantics == Semantics::weak &&
      bits == register_bits) {
    const Handler quick =
        decoder.program().touching ? short_path<true>(op, is_load, bits) : short_path<false>(op, is_load, bits);
    if (quick != nullptr) handlers.full = quick;
  }
  Inst& inst = decoder.emit(handlers);
  inst.extra = kept;
  inst.src[0] = op.address.offset;
  inst.dst = op.data[0].offset;
  inst.imm = op.offset;
}

void bind_load(Decoder& decoder, const ptx::Instruction& instruction) { bind_access(decoder, instruction, true); }
void bind_store(Decoder& decoder, const ptx::Instruction& instruction) { bind_access(decoder, instruction, false); }

}  // namespace

void register_memory(BinderTable& table) {
  table.set(ptx::Op::ld, &bind_load);
  table.set(ptx::Op::ldu, &bind_load);
  table.set(ptx::Op::st, &bind_store);
}

}  // namespace ptxbench::emulator
