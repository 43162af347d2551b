#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "emulator/program.h"

/// What is known about a function's registers before it runs, in blocks whose warps are rows of x (%tid.x grows by one
/// per lane, %tid.y and %tid.z are the same for all lanes). Both facts let handlers do one lane's work instead of 32.
namespace ptxbench::emulator {

inline constexpr int64_t kNoStride = std::numeric_limits<int64_t>::min();

struct RegisterFacts {
  /// False: all lanes hold the same value whenever the whole warp runs together.
  std::vector<bool> varying;
  /// Lane l holds v[0] + stride * l (modulo the register's width) whenever the whole warp runs together; kNoStride if
  /// unknown. Widened 32-bit values may wrap once: users compare v[31] - v[0].
  std::vector<int64_t> stride;
};

/// A definition counts only if it is reached by whole warps: not under a branch or guard that can differ between lanes.
RegisterFacts analyse_registers(const ptx::Function& function, const std::vector<BasicBlock>& blocks);

}  // namespace ptxbench::emulator
