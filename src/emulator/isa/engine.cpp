#include "emulator/isa/engine.h"

namespace ptxbench::emulator {

using ptx::Mod;

ValueOperand value_operand(Decoder& decoder, const ptx::Operand& operand, ptx::Type type) {
  const unsigned bits = decoder.operand_bits(operand, type);
  return {decoder.source(operand, type), bits <= 1 ? 1U : bits <= 16 ? 16U : bits <= 32 ? 32U : 64U};
}

MemoryOp address_operand(Decoder& decoder, const ptx::Operand& operand, ptx::StateSpace space, uint32_t bytes,
                         AccessKind kind) {
  MemoryOp op;
  op.kind = kind;
  op.bytes = bytes;
  op.element_bytes = bytes;
  decoder.memory_address(operand, space, op);
  return op;
}

const Inst* converge(Warp& warp, const Inst& inst, const char* rule) {
  if (warp.mask != warp.live) {
    warp.fragment().wait_mask = kFullMask;
    return warp.block(FragmentState::rendezvous, &inst);
  }
  return warp.fault(
      inst, rule,
      fmt::format("only lanes {:#010x} of the warp execute this instruction, which needs all 32", warp.mask),
      "let the whole warp reach it: no early return, no divergent branch around it");
}

Semantics semantics_of(const ptx::Instruction& instruction, Semantics otherwise) {
  for (Mod mod : instruction.mods) {
    switch (mod) {
      case Mod::relaxed:
        return Semantics::relaxed;
      case Mod::acquire:
        return Semantics::acquire;
      case Mod::release:
        return Semantics::release;
      case Mod::acq_rel:
        return Semantics::acq_rel;
      case Mod::sc:
        return Semantics::sc;
      default:
        break;
    }
  }
  return otherwise;
}

Origin origin_of(const Warp& warp, const Inst& inst, uint32_t lanes) {
  return {agent_of(warp, lanes), site_of(warp, inst), {warp.cta->id[0], warp.cta->id[1], warp.cta->id[2]}};
}

void engine_fault(Cluster& cluster, const Origin& origin, std::string rule, std::string message, std::string remedy,
                  uint64_t address) {
  if (cluster.fault) return;
  Fault fault;
  fault.rule = std::move(rule);
  fault.message = std::move(message);
  fault.remedy = std::move(remedy);
  if (cluster.launch->describe) fault.place = cluster.launch->describe(origin.site);
  for (int i = 0; i < 3; ++i) fault.cta[i] = origin.cta[i];
  fault.warp = origin.agent.warp;
  fault.lanes = origin.agent.lanes;
  fault.address = address;
  cluster.fault = std::move(fault);
}

std::string describe_shared(const Cluster& cluster, uint64_t address) {
  return describe_address(*cluster.launch, Space::shared, address);
}

}  // namespace ptxbench::emulator
