#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/decoder.h"

/// What a function's code gets on top to find uses of undefined values (definedness.h): decoded instructions of their
/// own before and after those that execute a PTX instruction.
namespace ptxbench::emulator {

class DefinednessCode {
 public:
  /// Null if the program's DefinednessMode is off. The decoder must know its blocks and register slots.
  static std::unique_ptr<DefinednessCode> create(Decoder& decoder);
  virtual ~DefinednessCode() = default;
  virtual void before_guard(const ptx::Instruction& instruction) = 0;
  /// Behind the guard: for the lanes that execute.
  virtual void before(const ptx::Instruction& instruction) = 0;
  virtual void after(const ptx::Instruction& instruction) = 0;
};

/// Registers that some path reads before anything is sure to have written them: definite assignment over the
/// control-flow graph. A guarded write is not sure.
std::vector<bool> maybe_unassigned(const ptx::Function& function, const std::vector<BasicBlock>& blocks,
                                   const std::vector<RegisterLifetime>& lifetimes);

}  // namespace ptxbench::emulator
