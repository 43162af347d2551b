#pragma once

#include <immintrin.h>

#include "emulator/isa/alu.h"

/// Directed rounding and flushing. x86 rounds every vector operation as MXCSR says, so the round-to-nearest lane loops
/// serve all modes: a wrapper sets the mode, calls the loop through a pointer the compiler cannot see through, and
/// restores the mode.
namespace ptxbench::emulator {

enum class RoundMode : uint32_t { nearest = 0, down = 1, up = 2, zero = 3 };  // MXCSR encoding

inline RoundMode round_mode(const Instruction& instruction) {
  if (instruction.has(Mod::rm)) return RoundMode::down;
  if (instruction.has(Mod::rp)) return RoundMode::up;
  if (instruction.has(Mod::rz)) return RoundMode::zero;
  return RoundMode::nearest;
}

/// MXCSR with all exceptions masked, the state every thread starts in, and its two flush bits. x86 flushes results that
/// are below the normal range after rounding with an unbounded exponent: what `.ftz` does on the hardware.
inline constexpr unsigned kDefaultMxcsr = 0x1f80;
inline constexpr unsigned kFlushSubnormals = 0x8040;

class FloatScope {
 public:
  explicit FloatScope(unsigned control) {
    _mm_setcsr(control);
    asm volatile("" ::: "memory");
  }
  ~FloatScope() {
    asm volatile("" ::: "memory");
    _mm_setcsr(kDefaultMxcsr);
  }
  FloatScope(const FloatScope&) = delete;
  FloatScope& operator=(const FloatScope&) = delete;
};

/// Makes an emitted instruction run under `mode`, with subnormals flushed if `ftz`. Uses Inst::extra and Inst::aux.
void apply_rounding(Decoder& decoder, Inst& inst, RoundMode mode, bool ftz = false);

}  // namespace ptxbench::emulator
