#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/modifiers.h"
#include "ptx/opcodes.h"
#include "ptx/types.h"

namespace ptxbench::ptx {

/// One syntactic form of an instruction: the single source for parsing, checking, printing, dispatch and the coverage
/// page.
struct InstructionForm {
  Op op = Op::invalid;
  /// Modifiers after the opcode, in PTX order: `{.a}` optional, `(.a|.b)` alternatives, `{.a|.b}` optional
  /// alternatives.
  std::string_view modifiers;
  /// Operand contract, see docs/ptx.md for the small language it is written in.
  std::string_view operands;
  uint16_t min_isa = 0;      ///< PTX ISA version * 10 that brought the form (90 = 9.0)
  std::string_view target;   ///< "sm_80", or "sm_90a" for architecture-specific forms
  std::string_view section;  ///< PTX ISA section title the form is described in
};

/// Every form, grouped by family in the order of the PTX ISA.
std::span<const InstructionForm> instruction_table();

/// A position in a form's list of modifiers.
struct ModifierSlot {
  std::vector<Mod> choices;
  bool optional = false;
  bool accepts(Mod mod) const;
};

enum class OperandRole : uint8_t {
  destination,                 ///< `d` register
  destination_sink,            ///< `D` register or `_`
  source,                      ///< `s` register or constant
  source_register,             ///< `r` register
  move_source,                 ///< `m` register, constant, special register, address of a variable or function
  special_source,              ///< `x` register, constant or special register
  immediate,                   ///< `i` integer constant
  predicate_source,            ///< `p` predicate, `!p` or constant
  predicate_destination,       ///< `P`
  predicate_destination_pair,  ///< `Q` `p` or `p|q`
  destination_with_predicate,  ///< `e` `d` or `d|p`
  destination_and_predicate,   ///< `E` `d|p`
  address,                     ///< `a` `[base+offset]`
  tensor_address,              ///< `t` `[map, {coordinates}]`
  sink,                        ///< `_`
  label,                       ///< `L` branch target
  label_list,                  ///< `T` name of a `.branchtargets` list
  call,                        ///< `C` the operands of a call, checked by the call rules
};

enum class CountRule : uint8_t {
  one,              ///< a scalar
  fixed,            ///< a vector of `count` elements
  vector_modifier,  ///< as many as the `.v2`, `.v4`, `.v8` modifier says; a scalar without one
  matrix_count,     ///< `.x1`, `.x2`, `.x4` times `count`
  fragment,         ///< `*A` .. `*D` matrix fragment of mma, wmma or wgmma: `fragment` says which
  im2col_offsets,   ///< `*i` as many as the tensor's dimensions less two
};

struct OperandRule {
  OperandRole role = OperandRole::source;
  CountRule count_rule = CountRule::one;
  uint16_t count = 1;
  char fragment = 0;          ///< 'D', 'A', 'B', 'C'
  int8_t type_index = -1;     ///< i-th type modifier of the instruction
  bool widened = false;       ///< twice the width of the instruction's type
  bool relaxed = false;       ///< register may be wider than the type (ld, st, cvt)
  bool optional = false;      ///< `?`
  Mod condition = Mod::none;  ///< `?<mod>`: there exactly if the instruction has the modifier
  bool selectable = false;    ///< `.b0` .. `.h1` selector allowed (video)
  Type type = Type::none;     ///< fixed type
  bool has_range = false;
  int64_t low = 0, high = 0, step = 1;
};

/// An InstructionForm taken apart.
struct CompiledForm {
  const InstructionForm* form = nullptr;
  std::vector<ModifierSlot> slots;
  std::vector<std::vector<OperandRule>> operands;  ///< alternatives
  uint32_t target_number = 0;                      ///< 90 for sm_90a
  bool target_specific = false;                    ///< `a` suffix: this architecture only
};

std::span<const CompiledForm> compiled_forms();
/// The forms of one opcode, a contiguous part of compiled_forms().
std::span<const CompiledForm> compiled_forms(Op op);

}  // namespace ptxbench::ptx
