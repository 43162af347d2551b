#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ptxbench::candidate {

/// What a shared library says to the dynamic linker.
struct DynamicSymbols {
  std::vector<std::string> exported;   ///< defined, global or weak
  std::vector<std::string> undefined;  ///< wanted from elsewhere, weak ones included; without versions
  std::vector<std::string> needed;     ///< DT_NEEDED
};

/// Reads a 64-bit little-endian x86-64 ELF library; every offset is checked, since the file comes from a candidate.
Result<DynamicSymbols> read_dynamic_symbols(const std::filesystem::path& library);
Result<DynamicSymbols> parse_dynamic_symbols(std::string_view image, std::string_view name);

}  // namespace ptxbench::candidate
