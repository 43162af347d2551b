#pragma once

#include "emulator/device.h"
#include "ptx/module.h"

namespace ptxbench::timeline {

/// Cycles for which a warp's instruction keeps one of the SM's four schedulers busy: 32 lanes over the results per
/// clock of compute capability 9.0 in the CUDA C++ Programming Guide's table of arithmetic throughput. 0: no machine
/// instruction is made of it, as a rule.
double issue_cycles(const ptx::Instruction& instruction);

/// Mean over what a launch executed, products of mma.sync included.
double average_issue_cycles(const emulator::LaunchReport& report);

}  // namespace ptxbench::timeline
