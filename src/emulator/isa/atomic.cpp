#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "emulator/isa/lanes.h"
#include "emulator/isa/memory_semantics.h"
#include "emulator/memory_access.h"
#include "emulator/tensor/numeric_formats.h"

/// atom and red: PTX ISA "Parallel Synchronization and Communication Instructions: atom, red". Lanes take effect in
/// lane order. Clusters run on several threads, so every update is atomic for the host too.
namespace ptxbench::emulator {
namespace {

using ptx::Mod;
using ptx::StateSpace;
using ptx::Type;

enum class AtomicKind : uint8_t { exch, cas, add, and_, or_, xor_, inc, dec, min, max };

struct AtomicOp : MemoryOp {
  AtomicKind what{};
  Type type{};
  Slot operand[8], compare;
  Slot result[8];
  bool returns = false;
};

float flush(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }

template <class Float>
Float float_min(Float a, Float b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  return std::signbit(a) && !std::signbit(b) ? a : std::signbit(b) && !std::signbit(a) ? b : (a < b ? a : b);
}

uint16_t half_operation(AtomicKind what, bool bf16, uint16_t a, uint16_t b) {
  auto widen = [&](uint16_t x) { return bf16 ? bf16_to_f32(x) : f16_to_f32(x); };
  auto narrow = [&](float x) { return bf16 ? f32_to_bf16_rn(x) : f32_to_f16_rn(x); };
  switch (what) {
    case AtomicKind::add:
      return narrow(widen(a) + widen(b));  // the f32 sum of two 16-bit values rounds innocuously
    case AtomicKind::min:
      return narrow(float_min(widen(a), widen(b)));
    case AtomicKind::max:
      return narrow(-float_min(-widen(a), -widen(b)));
    default:
      return b;
  }
}

/// New value of a location that holds `old` (bits), for one lane's operand.
uint64_t combine(const AtomicOp& op, uint64_t old, uint64_t value, uint64_t compare) {
  const unsigned bits = type_bits(op.type);
  const auto signed_less = [&](uint64_t a, uint64_t b) {
    return bits == 32 ? static_cast<int32_t>(a) < static_cast<int32_t>(b)
                      : static_cast<int64_t>(a) < static_cast<int64_t>(b);
  };
  switch (op.type) {
    case Type::f32:
      if (op.what == AtomicKind::add) {
        const float a = std::bit_cast<float>(static_cast<uint32_t>(old)),
                    b = std::bit_cast<float>(static_cast<uint32_t>(value));
        // Global f32 addition flushes subnormals, shared does not (PTX ISA, atom).
        const bool global = op.space == StateSpace::global;
        return std::bit_cast<uint32_t>(global ? flush(flush(a) + flush(b)) : a + b);
      }
      break;
    case Type::f64:
      if (op.what == AtomicKind::add)
        return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(value));
      break;
    case Type::f16:
    case Type::bf16:
      if (op.what == AtomicKind::exch || op.what == AtomicKind::cas) break;
      return half_operation(op.what, op.type == Type::bf16, static_cast<uint16_t>(old), static_cast<uint16_t>(value));
    case Type::f16x2:
    case Type::bf16x2: {
      const bool bf16 = op.type == Type::bf16x2;
      const uint32_t low = half_operation(op.what, bf16, static_cast<uint16_t>(old), static_cast<uint16_t>(value));
      const uint32_t high =
          half_operation(op.what, bf16, static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(value >> 16));
      return low | high << 16;
    }
    default:
      break;
  }
  const bool is_signed = op.type == Type::s32 || op.type == Type::s64;
  switch (op.what) {
    case AtomicKind::exch:
      return value;
    case AtomicKind::cas:
      return old == compare ? value : old;
    case AtomicKind::add:
      return old + value;
    case AtomicKind::and_:
      return old & value;
    case AtomicKind::or_:
      return old | value;
    case AtomicKind::xor_:
      return old ^ value;
    case AtomicKind::inc:
      return static_cast<uint32_t>(old) >= static_cast<uint32_t>(value) ? 0 : old + 1;
    case AtomicKind::dec:
      return static_cast<uint32_t>(old) == 0 || static_cast<uint32_t>(old) > static_cast<uint32_t>(value) ? value
                                                                                                          : old - 1;
    case AtomicKind::min:
      return is_signed ? (signed_less(value, old) ? value : old) : std::min(old, value);
    case AtomicKind::max:
      return is_signed ? (signed_less(old, value) ? value : old) : std::max(old, value);
  }
  return old;
}

template <class Word>
Word update(Word* location, const AtomicOp& op, uint64_t value, uint64_t compare, bool& changed) {
  Word old = __atomic_load_n(location, __ATOMIC_SEQ_CST);
  for (;;) {
    const auto next = static_cast<Word>(combine(op, old, value, compare));
    if (__atomic_compare_exchange_n(location, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
      changed = changed || next != old;
      return old;
    }
  }
}

uint64_t read_slot(Warp& warp, Slot slot, unsigned bits, unsigned lane) {
  const unsigned index = slot.shape == Shape::uniform ? 0 : lane;
  if (bits <= 16) return warp.slot<uint16_t>(slot.offset)[index];
  if (bits == 32) return warp.slot<uint32_t>(slot.offset)[index];
  return warp.slot<uint64_t>(slot.offset)[index];
}

void write_slot(Warp& warp, Slot slot, unsigned bits, unsigned lane, uint64_t value) {
  if (bits <= 16) {
    warp.slot<uint16_t>(slot.offset)[lane] = static_cast<uint16_t>(value);
  } else if (bits == 32) {
    warp.slot<uint32_t>(slot.offset)[lane] = static_cast<uint32_t>(value);
  } else {
    warp.slot<uint64_t>(slot.offset)[lane] = value;
  }
}

void update_b128(Warp& warp, const AtomicOp& op, std::byte* location, unsigned lane, bool& changed) {
  static std::mutex mutex;  // 16-byte atomics are rare; only they need to exclude each other
  std::lock_guard lock(mutex);
  uint64_t old[2], fresh[2], wanted[2] = {0, 0};
  std::memcpy(old, location, 16);
  auto plane = [&](Slot slot, unsigned p) { return warp.slot<uint64_t>(slot.offset)[p * kLanes + lane]; };
  for (unsigned p = 0; p < 2; ++p) {
    fresh[p] = plane(op.operand[0], p);
    if (op.what == AtomicKind::cas) wanted[p] = plane(op.compare, p);
  }
  const bool store = op.what == AtomicKind::exch || (old[0] == wanted[0] && old[1] == wanted[1]);
  if (store) {
    changed = changed || std::memcmp(location, fresh, 16) != 0;
    std::memcpy(location, fresh, 16);
  }
  if (op.returns) {
    warp.slot<uint64_t>(op.result[0].offset)[lane] = old[0];
    warp.slot<uint64_t>(op.result[0].offset)[kLanes + lane] = old[1];
  }
}

const Inst* atomic(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const AtomicOp*>(inst.extra);
  LanePointers pointers;
  if (!resolve_lanes(warp, inst, op, pointers, op.elements > 1 ? op.bytes : op.element_bytes)) return nullptr;
  observe_access(warp, inst, op);
  if (warp.touches != nullptr) touch_lanes(warp, pointers, op.bytes, op);
  const unsigned bits = type_bits(op.type);
  bool changed = false;
  uint64_t hash = reinterpret_cast<uint64_t>(&inst);
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(m));
    if (bits == 128) {
      update_b128(warp, op, pointers.at<std::byte>(lane), lane, changed);
      continue;
    }
    for (unsigned e = 0; e < op.elements; ++e) {
      const uint64_t value = read_slot(warp, op.operand[e], bits, lane);
      const uint64_t compare = op.what == AtomicKind::cas ? read_slot(warp, op.compare, bits, lane) : 0;
      std::byte* at = pointers.at<std::byte>(lane) + e * op.element_bytes;
      uint64_t old = 0;
      if (bits <= 16) {
        old = update(reinterpret_cast<uint16_t*>(at), op, value, compare, changed);
      } else if (bits == 32) {
        old = update(reinterpret_cast<uint32_t*>(at), op, value, compare, changed);
      } else {
        old = update(reinterpret_cast<uint64_t*>(at), op, value, compare, changed);
      }
      hash = (hash ^ old) * 0x9e3779b97f4a7c15ull;
      if (op.returns) write_slot(warp, op.result[e], bits, lane, old);
    }
  }
  if (changed) {
    warp.side_effect();
    ++warp.cta->shared_version;
  } else if (op.returns) {
    warp.poll(hash);  // a failed compare-and-swap is a poll
  }
  return &inst + 1;
}

AtomicKind kind_of(const ptx::Instruction& instruction) {
  static constexpr std::pair<Mod, AtomicKind> kKinds[] = {{Mod::exch, AtomicKind::exch}, {Mod::cas, AtomicKind::cas},
                                                          {Mod::add, AtomicKind::add},   {Mod::and_, AtomicKind::and_},
                                                          {Mod::or_, AtomicKind::or_},   {Mod::xor_, AtomicKind::xor_},
                                                          {Mod::inc, AtomicKind::inc},   {Mod::dec, AtomicKind::dec},
                                                          {Mod::min, AtomicKind::min},   {Mod::max, AtomicKind::max}};
  for (const auto& [mod, kind] : kKinds) {
    if (instruction.has(mod)) return kind;
  }
  throw std::runtime_error("atomic operation");
}

void bind_atomic(Decoder& decoder, const ptx::Instruction& instruction) {
  const bool returns = instruction.op == ptx::Op::atom;
  AtomicOp op;
  op.what = kind_of(instruction);
  op.type = instruction.type();
  op.kind = AccessKind::atomic;
  op.returns = returns;
  read_semantics(instruction, op, Semantics::relaxed, Scope::gpu);
  op.element_bytes = type_bits(op.type) / 8;
  size_t next = 0;
  auto elements = [](const ptx::Operand& operand) {
    return operand.kind == ptx::OperandKind::vector ? operand.elements : std::vector<ptx::Operand>{operand};
  };
  std::vector<ptx::Operand> results;
  if (returns) results = elements(instruction.operands.at(next++));
  decoder.memory_address(instruction.operands.at(next++), instruction.space(), op);
  if (op.what == AtomicKind::cas) op.compare = decoder.vector_source(instruction.operands.at(next++), op.type);
  const auto operands = elements(instruction.operands.at(next));
  op.elements = static_cast<unsigned>(operands.size());
  op.bytes = op.element_bytes * op.elements;
  for (unsigned e = 0; e < op.elements; ++e) {
    op.operand[e] = decoder.vector_source(operands[e], op.type);
    if (returns) op.result[e] = decoder.vector_destination(results.at(e), op.type);
  }
  const AtomicOp* kept = decoder.keep(op);
  Inst& inst = decoder.emit({&atomic, &atomic});
  inst.extra = kept;
}

}  // namespace

void register_atomic(BinderTable& table) {
  table.set(ptx::Op::atom, &bind_atomic);
  table.set(ptx::Op::red, &bind_atomic);
}

}  // namespace ptxbench::emulator
