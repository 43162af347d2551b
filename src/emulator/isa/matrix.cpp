#include "emulator/isa/engine.h"
#include "emulator/isa/mma.h"
#include "emulator/tensor/mma_sync.h"

/// ldmatrix, stmatrix and movmatrix (PTX ISA, "Warp Level Matrix Instructions"): 8x8 matrices of 16-bit elements, one
/// row of 16 bytes per address. Lane l holds elements 2*(l%4) and 2*(l%4)+1 of row l/4.
namespace ptxbench::emulator {

using ptx::Mod;
using ptx::Op;
using ptx::Type;

namespace {

constexpr unsigned kRows = 8;
constexpr uint32_t kRowBytes = 16;

struct MatrixOp {
  MemoryOp address;
  unsigned count = 1;
  bool transpose = false;
  bool store = false;
  std::array<uint32_t, 4> registers{};
};

const Inst* masked(Warp& warp, const Inst& inst) { return converge(warp, inst, "sync.divergent"); }

/// Host addresses of the rows; row r of matrix m comes from lane 8m + r.
bool find_rows(Warp& warp, const Inst& inst, const MatrixOp& op, std::array<std::byte*, 32>& rows) {
  const bool shared = op.address.space != ptx::StateSpace::generic;
  const uint64_t own = uint64_t{warp.cta->rank} << kCtaRankShift;
  for (unsigned lane = 0; lane < op.count * kRows; ++lane) {
    const uint64_t address = lane_address(warp, op.address, lane);
    const uint64_t offset = address - own;
    if (shared && address % kRowBytes == 0 && offset >= kReservedSharedBytes && offset < warp.cta->shared_bytes &&
        kRowBytes <= warp.cta->shared_bytes - offset) {
      rows[lane] = warp.cta->shared + offset;
      continue;
    }
    if (!shared && locate(op.address.space, address).space != Space::shared) {
      warp.fault(inst, "memory.out-of-bounds",
                 fmt::format("the matrix row address {:#x} is not in shared memory", address),
                 "ldmatrix and stmatrix work on shared memory only", address, 1u << lane);
      return false;
    }
    rows[lane] = resolve_address(warp, inst, op.address.space, address, kRowBytes, kRowBytes, op.store, lane);
    if (rows[lane] == nullptr) return false;
  }
  return true;
}

/// Tells Warp::touches. Which threads touch a row depends on the instruction's shape: several do.
void touch(Warp& warp, const MatrixOp& op, const std::array<std::byte*, 32>& rows) {
  bool fine = true;
  for (unsigned lane = 0; lane < op.count * kRows; ++lane) {
    const auto offset = static_cast<uint32_t>(rows[lane] - warp.cta->shared);
    const TouchKind kind = op.store ? TouchKind::write : TouchKind::read;
    fine = warp.touches->shared.broadcast(warp.index, offset, kRowBytes, kind) && fine;
  }
  if (!fine) give_up_proof(warp);
}

void observe(Warp& warp, const Inst& inst, const MatrixOp& op) {
  Observer* observer = warp.cluster->launch->observer;
  if (observer == nullptr) return;
  uint64_t addresses[kLanes] = {};
  for (unsigned lane = 0; lane < op.count * kRows; ++lane) {
    addresses[lane] = locate(op.address.space, lane_address(warp, op.address, lane)).address;
  }
  AccessEvent event;
  event.agent = agent_of(warp, op.count == 4 ? kFullMask : (1u << op.count * kRows) - 1);
  event.site = site_of(warp, inst);
  event.space = Space::shared;
  event.kind = op.store ? AccessKind::write : AccessKind::read;
  event.bytes = kRowBytes;
  event.addresses = addresses;
  if (op.store) {
    std::array<std::array<std::byte, kRowBytes>, 32> values;
    std::array<std::byte*, 32> rows;
    for (unsigned r = 0; r < rows.size(); ++r) rows[r] = values[r].data();
    for (unsigned m = 0; m < op.count; ++m)
      stmatrix_b16(warp.slot<uint32_t>(op.registers[m]), op.transpose, &rows[m * kRows]);
    event.clashing = clashing_lanes(event.agent.lanes, addresses, kRowBytes,
                                    [&](unsigned a, unsigned b) { return values[a] == values[b]; });
  }
  observer->on_access(event);
}

const Inst* load(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MatrixOp*>(inst.extra);
  std::array<std::byte*, 32> rows{};
  if (!find_rows(warp, inst, op, rows)) return nullptr;
  if (warp.touches != nullptr) touch(warp, op, rows);
  observe(warp, inst, op);
  for (unsigned m = 0; m < op.count; ++m) {
    ldmatrix_b16(&rows[m * kRows], op.transpose, warp.slot<uint32_t>(op.registers[m]));
  }
  return &inst + 1;
}

const Inst* store(Warp& warp, const Inst& inst) {
  const auto& op = *static_cast<const MatrixOp*>(inst.extra);
  std::array<std::byte*, 32> rows{};
  if (!find_rows(warp, inst, op, rows)) return nullptr;
  if (warp.touches != nullptr) touch(warp, op, rows);
  observe(warp, inst, op);
  for (unsigned m = 0; m < op.count; ++m) {
    stmatrix_b16(warp.slot<uint32_t>(op.registers[m]), op.transpose, &rows[m * kRows]);
  }
  warp.side_effect();
  ++warp.cta->shared_version;
  return &inst + 1;
}

const Inst* transpose(Warp& warp, const Inst& inst) {
  movmatrix_b16(warp.slot<uint32_t>(inst.src[0]), warp.slot<uint32_t>(inst.dst));
  return &inst + 1;
}

void bind_matrix(Decoder& decoder, const ptx::Instruction& instruction) {
  if (!instruction.has(Mod::m8n8) || !instruction.has(Mod::type_b16)) {
    throw std::runtime_error("this shape of ldmatrix or stmatrix needs sm_100a");
  }
  MatrixOp op;
  op.store = instruction.op == Op::stmatrix;
  op.count = instruction.has(Mod::x4) ? 4 : instruction.has(Mod::x2) ? 2 : 1;
  op.transpose = instruction.has(Mod::trans);
  op.address = address_operand(decoder, instruction.operands.at(op.store ? 0 : 1), instruction.space(), kRowBytes,
                               op.store ? AccessKind::write : AccessKind::read);
  const ptx::Operand& list = instruction.operands.at(op.store ? 1 : 0);
  for (unsigned m = 0; m < op.count; ++m) {
    const ptx::Operand& element = list.kind == ptx::OperandKind::vector ? list.elements.at(m) : list;
    op.registers[m] =
        (op.store ? decoder.vector_source(element, Type::b32) : decoder.vector_destination(element, Type::b32)).offset;
  }
  const Handler handler = op.store ? &store : &load;
  decoder.emit({handler, &masked}).extra = decoder.keep(std::move(op));
}

void bind_transpose(Decoder& decoder, const ptx::Instruction& instruction) {
  const uint32_t source = decoder.vector_source(instruction.operands.at(1), Type::b32).offset;
  const uint32_t destination = decoder.vector_destination(instruction.operands.at(0), Type::b32).offset;
  Inst& inst = decoder.emit({&transpose, &masked});
  inst.src[0] = source;
  inst.dst = destination;
}

}  // namespace

void register_matrix(BinderTable& table) {
  table.set(Op::ldmatrix, &bind_matrix);
  table.set(Op::stmatrix, &bind_matrix);
  table.set(Op::movmatrix, &bind_transpose);
  register_mma(table);
}

}  // namespace ptxbench::emulator
