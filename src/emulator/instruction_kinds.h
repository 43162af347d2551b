#pragma once

#include "ptx/opcodes.h"

namespace ptxbench::emulator {

/// Registers in, registers out, nothing else: no memory, no control, no other lanes.
bool is_arithmetic(ptx::Op op);

}  // namespace ptxbench::emulator
