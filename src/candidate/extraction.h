#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ptxbench::candidate {

/// Why an answer holds no candidate.
enum class NoCodeReason {
  empty_answer,    ///< nothing but white space
  no_block,        ///< no fenced block
  wrong_language,  ///< fenced blocks, none of them C++ or CUDA
  no_export,       ///< C++ blocks, none with TVM_FFI_DLL_EXPORT_TYPED_FUNC
  no_kernel,       ///< an export, but no __global__ function beside it
};

/// "no_block" and so on, stable.
std::string_view to_string(NoCodeReason reason);

struct FencedBlock {
  std::string language;  ///< first word after the fence, lower case
  std::string content;   ///< lines ended by '\n'
  std::size_t line = 0;  ///< of the opening fence in the answer, from 1
  bool closed = true;
};

struct Extraction {
  std::optional<std::string> source;
  std::optional<NoCodeReason> reason;  ///< set exactly when `source` is not
  std::string message;                 ///< for the model: what was looked for and what was found
  std::size_t block_count = 0;
  std::size_t block_line = 0;  ///< where the chosen block starts
  bool unclosed = false;       ///< the chosen block has no closing fence: the answer may be cut off
};

/// All fenced blocks (``` or ~~~, as in CommonMark), the last one possibly unclosed.
std::vector<FencedBlock> fenced_blocks(std::string_view answer);

/// The last C++ or CUDA block of the answer that exports a function and defines a kernel. Line ends become '\n'.
Extraction extract_candidate(std::string_view answer);

/// The text with comments and the contents of string and character literals blanked out (same length, same lines):
/// what searches for names must look at. Raw strings count as strings.
std::string blank_comments_and_strings(std::string_view source);

/// Whether `word` occurs in `text` as a whole identifier.
bool has_identifier(std::string_view text, std::string_view word);

}  // namespace ptxbench::candidate
