#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace ptxbench::candidate {

/// The text of a candidate's file, in which each `#include "NAME"` of a file beside it is replaced by that file's text,
/// so that a candidate stays one text although variants of it share most of theirs. `#line` directives keep messages
/// and findings at the right file and line; the file itself is called kernel.cu there, as always.
///
/// - NAME has no folder in it, and the file lies in the folder of the first one, links followed.
/// - A file comes in once; a further include of it becomes an empty line, whatever `#if` stands around the first.
/// - Files that include each other are an error, and so is a NAME that ends in .cu and does not exist. Any other
///   include is left to the compiler.
/// - A text without such includes comes back unchanged.
Result<std::string> read_with_local_includes(const std::filesystem::path& file,
                                             std::uint64_t max_bytes = std::uint64_t{16} << 20);

}  // namespace ptxbench::candidate
