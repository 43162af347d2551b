#pragma once

#include "emulator/program.h"

/// Where the results of tensor cores go.
namespace ptxbench::emulator {

/// Whether results of wgmma or mma.sync may reach anything but stored values in a kernel or what it calls: a branch, a
/// guard of anything but arithmetic, an address, a descriptor, an operand of synchronisation. Errs towards yes: flow is
/// followed without regard to order, and all memory is one place.
bool tensor_results_decide(const Program& program, uint32_t kernel);
/// Whether it executes wgmma or mma.sync at all.
bool uses_tensor_cores(const Program& program, uint32_t kernel);

}  // namespace ptxbench::emulator
