#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ptxbench::candidate {

/// One instruction of machine code, as the disassembler writes it.
struct MachineInstruction {
  std::uint32_t offset = 0;  ///< bytes from the start of the function
  std::string opcode;        ///< with modifiers: "HGMMA.64x256x16.F32.BF16"
};

/// Functions of a cubin by name.
using MachineCode = std::map<std::string, std::vector<MachineInstruction>, std::less<>>;

/// The output of `cuobjdump -sass`: only lines that begin with an address count; metadata and comments do not.
MachineCode parse_disassembly(std::string_view text);

/// Runs the disassembler. Missing tools are infrastructure errors.
Result<MachineCode> disassemble(const std::filesystem::path& cubin);

/// The family an opcode is counted under, by the names that census.h gives to PTX: "wgmma", "mma.sync", "tma.load",
/// ...; "other" for the rest. UTMACCTL, UTMAPF and UTMACMDFLUSH, which move no data, are none of the tensor copies.
std::string_view machine_family(std::string_view opcode);

/// Multiply-adds that one warp-level execution stands for: of HGMMA and its kind a quarter of a warpgroup's product.
/// Nothing for opcodes that are no matrix product, or whose shape is not understood.
std::optional<double> machine_multiply_adds(std::string_view opcode);

}  // namespace ptxbench::candidate
