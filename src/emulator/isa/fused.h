#pragma once

#include "emulator/decoder.h"

/// One handler for several instructions.
namespace ptxbench::emulator {

/// Finds runs of `ld.shared.f32 a; ld.shared.f32 b; fma.rn.f32 d, a, b, c` in decoded code, where one load reads the
/// same address in all lanes and the other a row of consecutive words: the inner loop of shared-memory matrix products.
/// The first instruction of a run gets a handler for all of it; the others stay as they are, for warps that have
/// diverged and for runs that would leave shared memory, which go instruction by instruction and fault where they
/// should.
void fuse_multiply_adds(Decoder& decoder);

}  // namespace ptxbench::emulator
