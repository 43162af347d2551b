#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "ptx/modifiers.h"
#include "ptx/opcodes.h"
#include "ptx/types.h"

/// Spellings of the enumerations, both ways.
namespace ptxbench::ptx {

/// The register spelt `text` ("%tid.x"; "%pm3", "%envreg7" are not modelled and give nothing).
std::optional<SpecialRegister> find_special_register(std::string_view text);
std::string_view special_register_text(SpecialRegister reg);
/// Type a special register reads as: u64 for %clock64, %globaltimer and the like, pred for %is_explicit_cluster.
Type special_register_type(SpecialRegister reg);

/// The type spelt `text` (no dot); Type::none if there is none.
Type find_type(std::string_view text);
/// "shared::cta"; "" for generic.
std::string_view space_text(StateSpace space);

/// One opcode with its parts split at the dots.
struct OpcodeSpelling {
  Op op = Op::invalid;
  std::string_view text;
};
std::span<const OpcodeSpelling> opcode_spellings();
std::span<const std::string_view> special_register_spellings();

}  // namespace ptxbench::ptx
