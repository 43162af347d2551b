#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "candidate/extraction.h"
#include "candidate/language.h"
#include "candidate/static_checks.h"

/// Candidates in Triton, as text: one Python file with @triton.jit kernels and a function `run`.
namespace ptxbench::candidate {

/// The last block of the answer with a @triton.jit kernel and `def run(`; blocks marked Python come before those
/// without a language. An answer without blocks may be the file itself.
Extraction extract_triton_candidate(std::string_view answer);

/// For the language that was asked for.
Extraction extract_candidate(std::string_view answer, Language language);

/// Python with comments and the contents of strings blanked out (same length, same lines).
std::string blank_python(std::string_view source);

/// Modules that a Triton candidate may import.
const std::vector<std::string>& triton_imports();

/// Imports beyond triton_imports(), mathematics by torch or a vendor's library, access to Triton's own insides, and a
/// missing kernel or `run`. Comments and strings do not count.
std::vector<StaticFinding> check_triton_source(std::string_view source);

}  // namespace ptxbench::candidate
