#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ptxbench::knowledge {

/// A piece of a source file between `// region NAME` and `// endregion NAME`, in Python `# region NAME` and so on.
struct Region {
  std::uint32_t first_line = 0;  ///< of the text, counted from 1
  std::string text;              ///< without the marks of regions, this one's and those of regions inside
};

/// Whether a line without its indent begins or ends a region.
bool is_region_mark(std::string_view line);
/// What stands behind a comment's mark and `word` ("region ").
std::optional<std::string_view> after_mark(std::string_view line, std::string_view word);

/// The regions of a source file. Regions may nest and must end; a name occurs once.
Result<std::map<std::string, Region, std::less<>>> find_regions(std::string_view source, std::string_view name);

/// What names a piece of CUDA code contains.
struct CodeNames {
  std::set<std::string, std::less<>> words;    ///< identifiers, and words inside string literals
  std::set<std::string, std::less<>> called;   ///< identifiers followed by '(' or '<'
  std::set<std::string, std::less<>> defined;  ///< functions, structs, macros and constants defined here
  std::set<std::string, std::less<>> helpers;  ///< of those, functions and types with DEVICE, struct, inline or enum
};

/// Reads code without compiling it: comments are left out, except that a comment `// helpers: a b` names functions that
/// macros define. Linear in the text; any bytes are taken.
CodeNames read_names(std::string_view code);

}  // namespace ptxbench::knowledge
