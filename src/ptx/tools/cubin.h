#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

namespace ptxbench::ptx {

/// The sections of a cubin that decide what runs: machine code, constant banks, kernel attributes, data and its
/// relocations. Debug and line tables are left out.
Result<std::map<std::string, std::vector<std::byte>>> code_sections(std::span<const std::byte> elf);

}  // namespace ptxbench::ptx
