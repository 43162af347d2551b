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
  only_reasoning,  ///< nothing but a chain of thought
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

/// All fenced blocks (``` or ~~~), the last one possibly unclosed. Beyond CommonMark, as models write: a fence may be
/// indented (then the block's lines lose that much), follow text on its line, or have code after its language; a block
/// of C++ ends at any fence of its kind, and a fence that opens C++ inside of one begins the next; a block of Markdown
/// gives the blocks in it.
std::vector<FencedBlock> fenced_blocks(std::string_view answer);

/// The answer without its chain of thought (<think> ... </think> and the like, also where the opening tag is missing).
/// Nothing when it begins with one that never ends.
std::optional<std::string> without_reasoning(std::string_view answer);

/// The last block of the answer that exports a function and defines a kernel and is not marked as another language;
/// blocks marked C++ or CUDA come before those without a language or with an unknown one. An answer without blocks may
/// be the file itself. Line ends become '\n'; byte order marks and the chain of thought are left out.
Extraction extract_candidate(std::string_view answer);

/// The text with comments and the contents of string and character literals blanked out (same length, same lines):
/// what searches for names must look at. Raw strings count as strings.
std::string blank_comments_and_strings(std::string_view source);

/// Whether `word` occurs in `text` as a whole identifier.
bool has_identifier(std::string_view text, std::string_view word);

}  // namespace ptxbench::candidate
