#include "emulator/isa/memory_semantics.h"

namespace ptxbench::emulator {

using ptx::Mod;

Scope scope_of(const ptx::Instruction& instruction, Scope default_scope) {
  if (instruction.has(Mod::cta)) return Scope::cta;
  if (instruction.has(Mod::cluster)) return Scope::cluster;
  if (instruction.has(Mod::gpu) || instruction.has(Mod::gl)) return Scope::gpu;
  if (instruction.has(Mod::sys)) return Scope::sys;
  return default_scope;
}

void read_semantics(const ptx::Instruction& instruction, MemoryOp& op, Semantics default_semantics,
                    Scope default_scope) {
  op.semantics = default_semantics;
  op.scope = scope_of(instruction, default_scope);
  if (instruction.has(Mod::volatile_) || instruction.has(Mod::mmio)) {
    op.semantics = Semantics::volatile_;
    op.scope = Scope::sys;
  } else if (instruction.has(Mod::acq_rel)) {
    op.semantics = Semantics::acq_rel;
  } else if (instruction.has(Mod::acquire)) {
    op.semantics = Semantics::acquire;
  } else if (instruction.has(Mod::release)) {
    op.semantics = Semantics::release;
  } else if (instruction.has(Mod::relaxed)) {
    op.semantics = Semantics::relaxed;
  } else if (instruction.has(Mod::weak)) {
    op.semantics = Semantics::weak;
    op.scope = Scope::none;
  }
}

}  // namespace ptxbench::emulator
