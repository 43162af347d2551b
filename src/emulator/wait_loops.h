#pragma once

#include "emulator/program.h"

/// Whether a kernel can tell that it had to wait.
namespace ptxbench::emulator {

/// True: every mbarrier.test_wait and try_wait of the kernel is repeated until it succeeds, by a loop that does nothing
/// else and leaves nothing behind that tells how often it ran; and nothing reads a clock, how many arrivals a phase
/// still lacks, or which lanes happen to run together. Then what the kernel does is a matter of which phases its waits
/// meet, not of when. Errs towards no: calls, other forms of loops and guarded instructions in them are not looked
/// into.
bool waits_leave_no_trace(const Program& program, uint32_t kernel);

}  // namespace ptxbench::emulator
