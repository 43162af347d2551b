#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/elf_symbols.h"

namespace ptxbench::candidate {

/// Something in a candidate's text or library that the rules forbid, found without running it.
struct StaticFinding {
  std::string rule;     ///< "candidate.banned_library", "candidate.loads_code", "candidate.no_entry"
  std::string subject;  ///< the symbol, header or identifier
  int line = 0;         ///< in the source; 0 when found in the library
  std::string message;
  std::string file = "kernel.cu";  ///< of `line`, as `#line` directives name it
};

/// Includes and identifiers of vendor libraries, and calls that load further device or host code. Comments and strings
/// do not count, include lines do.
std::vector<StaticFinding> check_source(std::string_view source);

/// Undefined symbols of the same kinds, libraries needed beyond the CUDA runtime, the driver, TVM-FFI and the C++
/// runtime, and a missing __tvm_ffi_run.
std::vector<StaticFinding> check_library(const DynamicSymbols& symbols);

}  // namespace ptxbench::candidate
