#pragma once

#include <cstdint>
#include <span>

#include "ptx/module.h"

/// How undefined bits travel through one instruction: pure functions of what a lane's sources hold. A set bit of
/// `undefined` is a bit of the value that nobody wrote. The rules are exact for moves and bit manipulation; sums and
/// products lose everything from the lowest undefined bit on; for all else one undefined bit spoils the whole result.
namespace ptxbench::emulator {

struct Bits {
  uint64_t value = 0;
  uint64_t undefined = 0;
};

constexpr uint64_t low_bits(unsigned width) { return width >= 64 ? ~0ull : (1ull << width) - 1; }

enum class Flow : uint8_t {
  any,           ///< one undefined source bit: all of every result
  repack,        ///< mov: the sources' bits in a row, cut into the results
  logic,         ///< a truth table of three bits, lane bit by lane bit (lop3, and, or, xor, not)
  select,        ///< selp: the unselected source does not matter
  select_sign,   ///< slct
  sum,           ///< add, sub, neg: from the lowest undefined bit upwards
  product,       ///< mul.lo, mul.wide, mad.lo, mad.wide
  shift_left,    ///< shl
  shift_right,   ///< shr
  funnel,        ///< shf
  extract,       ///< bfe
  insert,        ///< bfi
  permute,       ///< prmt without a mode
  reverse,       ///< brev
  zero_test,     ///< cnot
  convert,       ///< cvt between integers
  join_halves,   ///< cvt of two values into the halves of one, the first on top
  halves,        ///< packed arithmetic: half by half
  compare,       ///< setp on one value
  compare_pair,  ///< setp on packed halves: one predicate each
};

/// What decides the flow of an instruction beside the lanes' values.
struct FlowRule {
  Flow flow = Flow::any;
  unsigned width = 0;      ///< bits of a source the operation looks at
  unsigned out_width = 0;  ///< bits of the result
  bool is_signed = false;
  bool right = false, wrap = false;  ///< shf
  bool cancels = false;              ///< both sources are one register and the result is 0 whatever it holds
  uint8_t table = 0;                 ///< logic
  bool is_float = false, is_bf16 = false, flushes = false;  ///< compare
  ptx::Mod predicate = ptx::Mod::none, boolean = ptx::Mod::none;
};

/// `repack` leaves the widths of the pieces to the caller.
FlowRule flow_of(const ptx::Instruction& instruction);

/// Undefined bits of the results. `widths` are those of the sources, then of the results, in bits.
void propagate(const FlowRule& rule, std::span<const Bits> sources, std::span<const uint8_t> source_widths,
               std::span<uint64_t> results, std::span<const uint8_t> result_widths);

/// Undefined bits of a three-input truth table (PTX ISA, lop3: bit 4a + 2b + c of the table).
uint64_t logic_undefined(uint8_t table, Bits a, Bits b, Bits c);
/// All bits from the lowest one of `undefined` on.
constexpr uint64_t upwards(uint64_t undefined) { return undefined | (0 - undefined); }
/// Whether an integer comparison can come out both ways. `comparison` as in setp.
bool comparison_undefined(ptx::Mod comparison, bool is_signed, unsigned width, Bits a, Bits b);

}  // namespace ptxbench::emulator
