#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "ptx/module.h"

namespace ptxbench::ptx {

/// Bounds that keep hostile text from exhausting memory; every one is far above what compilers emit.
struct ParseOptions {
  uint64_t max_text_bytes = uint64_t{1} << 30;
  uint64_t max_initialised_bytes = uint64_t{256} << 20;  ///< all initialisers of a module together
  uint32_t max_scope_depth = 256;                        ///< nested `{ }` in a function
};

/// Parses and checks a PTX module (ISA 1.0 to 9.0, 64-bit addresses). `name` is what error messages call the text.
/// The first error found is reported as "name:line:column: expected ..., found ...; did you mean ...".
Result<Module> parse_module(std::string_view text, std::string name, const ParseOptions& options = {});

}  // namespace ptxbench::ptx
