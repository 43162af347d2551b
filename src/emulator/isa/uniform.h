#pragma once

#include "ptx/module.h"

namespace ptxbench::emulator {

/// True if the instruction's handlers can write a uniform destination, given uniform sources: they compute once for the
/// warp. Loads decide for themselves (see register_facts.cpp).
bool uniform_capable(const ptx::Instruction& instruction);

}  // namespace ptxbench::emulator
