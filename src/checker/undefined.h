#pragma once

#include "checker/findings.h"

namespace ptxbench::checker {

/// memory.uninitialised: the use is the finding's place, the origin the other one.
Finding undefined_finding(const emulator::UndefinedEvent& event);

}  // namespace ptxbench::checker
