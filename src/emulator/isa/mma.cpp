#include "emulator/isa/mma.h"

#include "emulator/isa/engine.h"
#include "emulator/tensor/mma_sync.h"

/// mma.sync (PTX ISA, "Warp Level Matrix Instructions: mma").
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

namespace {

struct MmaOp {
  MmaSyncShape shape;
  std::array<uint32_t, 8> a{}, b{}, c{}, d{};
  bool is_f64 = false;
};

MmaSyncEngine& engine() {
  thread_local MmaSyncEngine instance;
  return instance;
}

template <class Register>
std::array<Register*, 8> registers(Warp& warp, const std::array<uint32_t, 8>& offsets) {
  std::array<Register*, 8> result{};
  for (size_t i = 0; i < offsets.size(); ++i) result[i] = warp.slot<Register>(offsets[i]);
  return result;
}

const Inst* multiply(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MmaOp*>(inst.extra);
  if (warp.cluster->launch->skips_products) {
    // What it adds up is not looked at.
  } else if (op.is_f64) {
    const auto a = registers<double>(warp, op.a), b = registers<double>(warp, op.b), c = registers<double>(warp, op.c),
               d = registers<double>(warp, op.d);
    mma_sync_f64(op.shape.m, op.shape.k, a.data(), b.data(), c.data(), d.data());
  } else {
    const auto a = registers<uint32_t>(warp, op.a), b = registers<uint32_t>(warp, op.b),
               c = registers<uint32_t>(warp, op.c), d = registers<uint32_t>(warp, op.d);
    const bool exact = warp.cluster->launch->program->exact_tensor_cores;
    engine().execute(op.shape, a.data(), b.data(), c.data(), d.data(), exact ? MmaMode::exact : MmaMode::fast);
  }
  warp.cluster->legacy_mma_macs += uint64_t{op.shape.m} * 8 * op.shape.k;
  return &inst + 1;
}

const Inst* masked(Warp& warp, const Inst& inst) { return converge(warp, inst, "sync.divergent"); }

MmaSyncType operand_type(Type type) {
  switch (type) {
    case Type::f16:
      return MmaSyncType::f16;
    case Type::bf16:
      return MmaSyncType::bf16;
    case Type::tf32:
      return MmaSyncType::tf32;
    case Type::e4m3:
      return MmaSyncType::e4m3;
    case Type::e5m2:
      return MmaSyncType::e5m2;
    case Type::s8:
      return MmaSyncType::s8;
    case Type::u8:
      return MmaSyncType::u8;
    case Type::s4:
      return MmaSyncType::s4;
    case Type::u4:
      return MmaSyncType::u4;
    case Type::b1:
      return MmaSyncType::b1;
    default:
      throw std::runtime_error(fmt::format("mma.sync with operands of type .{} is not modelled", ptx::type_name(type)));
  }
}

/// Register offsets of a fragment: a vector, or a single register.
size_t fragment(Decoder& decoder, const ptx::Operand& operand, Type type, bool destination,
                std::array<uint32_t, 8>& offsets) {
  const bool is_vector = operand.kind == ptx::OperandKind::vector;
  const size_t count = is_vector ? operand.elements.size() : 1;
  if (count > offsets.size()) throw std::runtime_error("an mma fragment of more than eight registers");
  for (size_t i = 0; i < count; ++i) {
    const ptx::Operand& element = is_vector ? operand.elements[i] : operand;
    offsets[i] =
        (destination ? decoder.vector_destination(element, type) : decoder.vector_source(element, type)).offset;
  }
  return count;
}

void bind_mma(Decoder& decoder, const ptx::Instruction& instruction) {
  MmaOp op;
  ptx::MatrixShape shape;
  for (const Mod mod : instruction.mods) {
    if (const ptx::MatrixShape found = ptx::mod_shape(mod); found.m != 0) shape = found;
  }
  op.shape.m = shape.m;
  op.shape.k = shape.k;
  const Type result = instruction.type(0);
  op.is_f64 = result == Type::f64;
  if (instruction.type(3) != result)
    throw std::runtime_error("mma.sync with C and D of different types is not modelled");
  if (op.is_f64) {
    if (auto checked = check_mma_sync_f64(op.shape.m, op.shape.k); !checked)
      throw std::runtime_error(checked.error().message);
  } else {
    op.shape.accumulator = result == Type::f32   ? AccumulatorType::f32
                           : result == Type::f16 ? AccumulatorType::f16
                                                 : AccumulatorType::s32;
    op.shape.a_type = operand_type(instruction.type(1));
    op.shape.b_type = operand_type(instruction.type(2));
    op.shape.saturate = instruction.has(Mod::satfinite);
    op.shape.bit_operation = instruction.has(Mod::and_) ? MmaBitOperation::bit_and : MmaBitOperation::bit_xor;
    if (auto checked = check_mma_sync(op.shape); !checked) throw std::runtime_error(checked.error().message);
  }
  const Type word = op.is_f64 ? Type::f64 : Type::b32;
  const auto& operands = instruction.operands;
  const size_t d = fragment(decoder, operands.at(0), word, true, op.d);
  const size_t a = fragment(decoder, operands.at(1), word, false, op.a);
  const size_t b = fragment(decoder, operands.at(2), word, false, op.b);
  const size_t c = fragment(decoder, operands.at(3), word, false, op.c);
  if (!op.is_f64 &&
      (a != op.shape.a_registers() || b != op.shape.b_registers() || c != op.shape.c_registers() || d != c)) {
    throw std::runtime_error("an mma fragment of the wrong size");
  }
  const bool floating = op.shape.a_type == MmaSyncType::f16 || op.shape.a_type == MmaSyncType::bf16 ||
                        op.shape.a_type == MmaSyncType::tf32;
  if (!op.is_f64 && floating && !decoder.program().exact_tensor_cores) decoder.approximate();
  decoder.emit({&multiply, &masked}).extra = decoder.keep(std::move(op));
}

}  // namespace

void register_mma(BinderTable& table) { table.set(Op::mma, &bind_mma); }

}  // namespace ptxbench::emulator
