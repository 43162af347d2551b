#pragma once

#include <cstdint>

#include "ptx/module.h"

namespace ptxbench::emulator {

/// Registers per thread a kernel that uses setmaxnreg starts with: `.maxnreg`, else what the launch bounds leave (PTX
/// ISA, "setmaxnreg": the kernel must be launched with a known maximum). 0 = unknown, then ptxas ignores setmaxnreg.
uint32_t entry_registers(const ptx::Function& kernel);

}  // namespace ptxbench::emulator
