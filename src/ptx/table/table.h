#pragma once

#include <span>
#include <vector>

#include "ptx/instruction_table.h"

/// The rows of the instruction table, one array per family. Shared groups of modifiers are macros because a row's
/// pattern is one string literal.
namespace ptxbench::ptx::table {

std::span<const InstructionForm> integer_rows();
std::span<const InstructionForm> float_rows();
std::span<const InstructionForm> compare_rows();
std::span<const InstructionForm> convert_rows();
std::span<const InstructionForm> memory_rows();
std::span<const InstructionForm> atomic_rows();
std::span<const InstructionForm> async_rows();
std::span<const InstructionForm> synchronisation_rows();
std::span<const InstructionForm> matrix_rows();
std::span<const InstructionForm> control_rows();
std::span<const InstructionForm> video_rows();
std::span<const InstructionForm> texture_rows();

std::vector<std::span<const InstructionForm>> families();

}  // namespace ptxbench::ptx::table
