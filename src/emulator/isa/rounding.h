#pragma once

#include <immintrin.h>

#include "emulator/isa/alu.h"

/// Directed rounding. x86 rounds every vector operation as MXCSR says, so the round-to-nearest lane loops serve all modes:
/// a wrapper sets the mode, calls the loop through a pointer the compiler cannot see through, and restores the mode.
namespace ptxbench::emulator {

enum class RoundMode : uint32_t { nearest = 0, down = 1, up = 2, zero = 3 };  // MXCSR encoding

inline RoundMode round_mode(const Instruction& instruction) {
  if (instruction.has(Mod::rm)) return RoundMode::down;
  if (instruction.has(Mod::rp)) return RoundMode::up;
  if (instruction.has(Mod::rz)) return RoundMode::zero;
  return RoundMode::nearest;
}

class RoundingScope {
 public:
  explicit RoundingScope(RoundMode mode) : saved_(_mm_getcsr()) {
    _mm_setcsr((saved_ & ~0x6000u) | (static_cast<unsigned>(mode) << 13));
    asm volatile("" ::: "memory");
  }
  ~RoundingScope() {
    asm volatile("" ::: "memory");
    _mm_setcsr(saved_);
  }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
  unsigned saved_;
};

/// Makes an emitted instruction run under `mode`. Uses Inst::extra and Inst::aux.
void apply_rounding(Decoder& decoder, Inst& inst, RoundMode mode);

}  // namespace ptxbench::emulator
