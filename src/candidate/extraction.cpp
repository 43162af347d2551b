#include "candidate/extraction.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/text.h"

namespace ptxbench::candidate {
namespace {

struct Fence {
  char mark = '`';
  std::size_t length = 0;
  std::size_t indent = 0;  ///< columns of white space before it
  std::string_view info;
  std::string_view before;  ///< text on the line before the fence
};

/// Invisible characters that models and editors leave at the beginning of a line.
std::string_view skip_invisible(std::string_view text) {
  while (text.starts_with("\xef\xbb\xbf") || text.starts_with("\xe2\x80\x8b")) text.remove_prefix(3);
  return text;
}

/// A line that begins with at least three marks, however far it is indented. The info string of a fence of backticks
/// has no backtick: otherwise it is code in a line of text.
std::optional<Fence> as_fence(std::string_view line) {
  line = skip_invisible(line);
  Fence fence;
  while (!line.empty() && (line.front() == ' ' || line.front() == '\t')) {
    fence.indent += line.front() == '\t' ? 4 : 1;
    line.remove_prefix(1);
  }
  line = skip_invisible(line);
  if (line.empty() || (line.front() != '`' && line.front() != '~')) return std::nullopt;
  fence.mark = line.front();
  while (fence.length < line.size() && line[fence.length] == fence.mark) ++fence.length;
  if (fence.length < 3) return std::nullopt;
  fence.info = base::trim(line.substr(fence.length));
  if (fence.mark == '`' && fence.info.find('`') != std::string_view::npos) return std::nullopt;
  return fence;
}

/// "CUDA", "{.cpp}", "cpp:kernel.cu", "c++ title=x" name their language in the first word.
std::string language_of(std::string_view info) {
  std::string language;
  for (const char c : info) {
    if (c == ' ' || c == '\t' || c == ':' || c == ',' || c == ';' || c == '}' || c == '(' || c == '#') break;
    if (c != '{' && c != '.' && c != '[' && c != ']' && c != '<' && c != '>') language += c;
  }
  return base::to_lower(language);
}

bool is_cuda_language(std::string_view language) {
  static constexpr std::array<std::string_view, 20> kLanguages = {
      "cpp",      "cuda",   "c++",      "cu",  "cxx",   "cc",     "cuda-cpp", "cuda-c++", "cudacpp",  "cuda_cpp",
      "cpp_cuda", "cpp+cu", "cuda/c++", "cuh", "c/c++", "cuda-c", "cpp/cuda", "cuda/cpp", "c++/cuda", "nvcc"};
  return std::find(kLanguages.begin(), kLanguages.end(), language) != kLanguages.end();
}

/// Languages in which a kernel may be quoted but not handed in.
bool is_other_language(std::string_view language) {
  static constexpr std::array<std::string_view, 22> kLanguages = {
      "python", "py",   "python3",  "diff",  "patch", "bash", "sh",   "shell", "console", "json", "toml",
      "yaml",   "make", "makefile", "cmake", "rust",  "go",   "java", "ptx",   "sass",    "asm",  "triton"};
  return std::find(kLanguages.begin(), kLanguages.end(), language) != kLanguages.end();
}

bool is_markdown(std::string_view language) {
  return language == "markdown" || language == "md" || language == "mdx" || language == "answer";
}

/// "Here it is: ```cpp": a fence of C++ at the end of a line of text.
std::optional<Fence> as_fence_after_text(std::string_view line) {
  const std::size_t at = line.rfind("```");
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  const std::size_t first = line.find("```");
  const auto fence = as_fence(line.substr(first));
  // The language and nothing else: a closing fence may stand behind text too, and people write of ```cpp blocks.
  if (!fence || first + fence->length < at + 3 || !is_cuda_language(base::to_lower(fence->info))) return std::nullopt;
  Fence found = *fence;
  found.before = line.substr(0, first);
  return found;
}

/// What stands behind the language on the line of the fence, if it is code already ("```cpp #include <x>").
std::string_view code_after_language(std::string_view info) {
  const std::size_t blank = info.find_first_of(" \t#");
  if (blank == std::string_view::npos) return {};
  const std::string_view rest = base::trim(info.substr(blank));
  for (const std::string_view start : {"#include", "#pragma", "#define", "//", "/*", "__global__", "namespace "}) {
    if (rest.starts_with(start)) return rest;
  }
  return {};
}

/// The line without the indentation that its block's fence has.
std::string_view outdent(std::string_view line, std::size_t indent) {
  while (indent > 0 && !line.empty() && (line.front() == ' ' || line.front() == '\t')) {
    const std::size_t width = line.front() == '\t' ? 4 : 1;
    if (width > indent) break;
    indent -= width;
    line.remove_prefix(1);
  }
  return line;
}

/// Line ends of all systems as '\n'.
std::string unix_lines(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out += '\n';
    }
  }
  return out;
}

bool is_identifier_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string_view to_string(NoCodeReason reason) {
  switch (reason) {
    case NoCodeReason::empty_answer:
      return "empty_answer";
    case NoCodeReason::only_reasoning:
      return "only_reasoning";
    case NoCodeReason::no_block:
      return "no_block";
    case NoCodeReason::wrong_language:
      return "wrong_language";
    case NoCodeReason::no_export:
      return "no_export";
    case NoCodeReason::no_kernel:
      return "no_kernel";
  }
  return "unknown";
}

namespace {

/// A fence at the end of a line of code is meant to close a block that nothing else closes.
void cut_at_fence(FencedBlock& block, char mark, std::size_t length) {
  const std::size_t at = block.content.find(std::string(length, mark) + "\n");
  if (at == std::string::npos) return;
  block.content.resize(at);
  block.content.push_back('\n');
  block.closed = true;
}

/// The blocks of `text`, whose first line is number `first` of the answer. `depth` bounds the nesting.
std::vector<FencedBlock> blocks_of(std::string_view text, std::size_t first, unsigned depth) {
  std::vector<FencedBlock> blocks;
  std::optional<Fence> open;
  std::size_t number = first - 1;
  const auto begin = [&](const Fence& fence) {
    open = fence;
    blocks.push_back({language_of(fence.info), "", number, false});
    if (const auto code = code_after_language(fence.info); !code.empty()) {
      blocks.back().content.append(code).push_back('\n');
    }
  };
  for (const std::string_view line : base::split_lines(text)) {
    ++number;
    auto fence = as_fence(line);
    if (!open) {
      if (!fence) fence = as_fence_after_text(line);
      if (fence) begin(*fence);
      continue;
    }
    FencedBlock& block = blocks.back();
    const bool same = fence && fence->mark == open->mark && fence->length >= open->length;
    // No line of C++ begins with a fence; other texts may quote one that opens a block.
    const bool closes = same && (fence->info.empty() || is_cuda_language(block.language));
    if (closes) {
      const std::string next = language_of(fence->info);
      block.closed = !is_cuda_language(next) && !is_other_language(next);
      const std::size_t length = open->length;
      open.reset();
      if (block.closed) continue;
      cut_at_fence(block, fence->mark, length);
      begin(*fence);
      continue;
    }
    block.content.append(outdent(line, open->indent)).push_back('\n');
  }
  if (open) {
    cut_at_fence(blocks.back(), open->mark, open->length);
    // What a fence too many opens at the end is no block.
    const FencedBlock& last = blocks.back();
    if (!last.closed && last.language.empty() && base::trim(last.content).empty()) blocks.pop_back();
  }
  if (depth == 0) return blocks;
  // Markdown within a block: its own blocks count. A fence of the same length as the inner ones has cut it short, so
  // that the inner block may be unclosed.
  std::vector<FencedBlock> flat;
  for (FencedBlock& block : blocks) {
    const bool other = is_cuda_language(block.language) || is_other_language(block.language);
    auto inner = other ? std::vector<FencedBlock>() : blocks_of(block.content, block.line + 1, depth - 1);
    const bool holds_cuda =
        std::any_of(inner.begin(), inner.end(), [](const FencedBlock& one) { return is_cuda_language(one.language); });
    if (inner.empty() || !(is_markdown(block.language) || holds_cuda)) {
      flat.push_back(std::move(block));
      continue;
    }
    if (block.closed) inner.back().closed = true;
    for (FencedBlock& one : inner) flat.push_back(std::move(one));
  }
  return flat;
}

/// The names that models give to their chain of thought.
constexpr std::array<std::string_view, 5> kReasoningTags = {"think", "thinking", "thought", "reasoning", "analysis"};

}  // namespace

std::vector<FencedBlock> fenced_blocks(std::string_view answer) {
  constexpr unsigned kDeepest = 4;
  return blocks_of(answer, 1, kDeepest);
}

std::optional<std::string> without_reasoning(std::string_view answer) {
  std::string_view text = answer;
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t\r\n")));
  text = skip_invisible(text);
  for (const std::string_view tag : kReasoningTags) {
    const std::string open = fmt::format("<{}>", tag);
    const std::string close = fmt::format("</{}>", tag);
    const bool opens = base::to_lower(text.substr(0, open.size())) == open;
    // A kernel may mention the tag in its code; only one on a line of its own, or after an opening one, ends a thought.
    std::size_t end = std::string_view::npos;
    for (std::size_t at = text.rfind(close); at != std::string_view::npos;
         at = at == 0 ? std::string_view::npos : text.rfind(close, at - 1)) {
      std::size_t before = at;
      while (before > 0 && (text[before - 1] == ' ' || text[before - 1] == '\t')) --before;
      const bool alone = before == 0 || text[before - 1] == '\n';
      if (alone || opens) {
        end = at + close.size();
        break;
      }
    }
    if (end != std::string_view::npos) {
      text.remove_prefix(end);
      return std::string(text);
    }
    if (opens) return std::nullopt;
  }
  return std::string(answer);
}

bool has_identifier(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const bool starts = at == 0 || !is_identifier_character(text[at - 1]);
    const std::size_t end = at + word.size();
    if (starts && (end == text.size() || !is_identifier_character(text[end]))) return true;
  }
  return false;
}

std::string blank_comments_and_strings(std::string_view source) {
  std::string out(source);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < std::min(to, out.size()); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  std::size_t i = 0;
  while (i < source.size()) {
    const char c = source[i];
    if (c == '/' && i + 1 < source.size() && source[i + 1] == '/') {
      std::size_t end = i;
      // A backslash at the end of the line continues the comment.
      do {
        end = source.find('\n', end + 1);
      } while (end != std::string_view::npos && source[end - 1] == '\\');
      end = std::min(end, source.size());
      blank(i, end);
      i = end;
    } else if (c == '/' && i + 1 < source.size() && source[i + 1] == '*') {
      const std::size_t close = source.find("*/", i + 2);
      const std::size_t end = close == std::string_view::npos ? source.size() : close + 2;
      blank(i, end);
      i = end;
    } else if (c == '"' && i > 0 && source[i - 1] == 'R') {
      const std::size_t paren = source.find('(', i);
      if (paren == std::string_view::npos || paren - i > 17) {
        ++i;
        continue;
      }
      const std::string closing = fmt::format("){}\"", source.substr(i + 1, paren - i - 1));
      const std::size_t close = source.find(closing, paren);
      const std::size_t end = close == std::string_view::npos ? source.size() : close + closing.size();
      blank(i + 1, end - 1);
      i = end;
    } else if (c == '"' || (c == '\'' && (i == 0 || !is_identifier_character(source[i - 1])))) {
      // After an identifier character a quote is a digit separator (1'000).
      std::size_t end = i + 1;
      while (end < source.size() && source[end] != c && source[end] != '\n') end += source[end] == '\\' ? 2 : 1;
      blank(i + 1, end);
      i = std::min(end + 1, source.size());
    } else {
      ++i;
    }
  }
  return out;
}

namespace {

constexpr std::string_view kExport = "TVM_FFI_DLL_EXPORT_TYPED_FUNC";

/// Which parts of a candidate a text has.
struct Parts {
  bool exports = false, kernel = false;
};

Parts parts_of(std::string_view text) {
  // Blanking costs more than searching, and most blocks have neither.
  if (text.find(kExport) == std::string_view::npos && text.find("__global__") == std::string_view::npos) return {};
  const std::string code = blank_comments_and_strings(text);
  return {has_identifier(code, kExport), has_identifier(code, "__global__")};
}

/// An answer without fences that is nothing but source text.
bool is_bare_source(std::string_view text) {
  text = base::trim(text);
  for (const std::string_view start :
       {"#", "//", "/*", "__global__", "extern ", "namespace ", "template", "using ", "static ", "constexpr "}) {
    if (text.starts_with(start)) {
      const Parts parts = parts_of(text);
      // "# Title" is Markdown.
      return !text.starts_with("# ") && !text.starts_with("##") && parts.exports && parts.kernel;
    }
  }
  return false;
}

std::string without_mark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return std::string(text);
}

}  // namespace

Extraction extract_candidate(std::string_view answer) {
  Extraction result;
  const auto fail = [&](NoCodeReason reason, std::string message) {
    result.reason = reason;
    result.message = std::move(message);
    return result;
  };
  const std::string lines = unix_lines(answer);
  if (base::trim(skip_invisible(base::trim(lines))).empty()) {
    return fail(NoCodeReason::empty_answer, "The answer is empty.");
  }
  const auto text = without_reasoning(lines);
  if (!text || base::trim(*text).empty()) {
    return fail(NoCodeReason::only_reasoning,
                "The answer is nothing but a chain of thought, which may have been cut off; code in it does not count. "
                "Think less, and hand in the whole kernel.cu in one block that starts with ```cpp.");
  }
  // Places are those of the answer as it came, whose beginning may be gone.
  const std::size_t removed = lines.size() - text->size();
  const auto skipped =
      static_cast<std::size_t>(std::count(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(removed), '\n'));
  const auto blocks = fenced_blocks(*text);
  result.block_count = blocks.size();
  const auto take = [&](std::string source, std::size_t line, bool unclosed) {
    result.source = std::move(source);
    result.block_line = line;
    result.unclosed = unclosed;
    if (unclosed) result.message = "The code block has no closing fence; the answer may have been cut off.";
    return result;
  };
  if (blocks.empty()) {
    const std::string bare = without_mark(base::trim(*text));
    if (is_bare_source(bare)) return take(bare + "\n", skipped + 1, false);
    return fail(NoCodeReason::no_block,
                "The answer has no fenced code block. Put the whole kernel.cu into one block that starts with ```cpp.");
  }
  // C++ first; then what is marked as nothing or as something unknown.
  bool any_cuda = false, any_export = false, other_language = false;
  std::size_t split_kernel = 0, split_export = 0;
  for (const bool cuda : {true, false}) {
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      if (is_cuda_language(block->language) != cuda) continue;
      const Parts parts = parts_of(block->content);
      if (!cuda && is_other_language(block->language)) {
        other_language = other_language || (parts.exports && parts.kernel);
        continue;
      }
      if (parts.exports && parts.kernel) {
        return take(without_mark(block->content), skipped + block->line, !block->closed);
      }
      any_cuda = any_cuda || cuda || parts.exports || parts.kernel;
      any_export = any_export || parts.exports;
      if (parts.kernel) split_kernel = skipped + block->line;
      if (parts.exports) split_export = skipped + block->line;
    }
  }
  const std::string cut =
      blocks.back().closed ? "" : " The last block has no closing fence: the answer may have been cut off.";
  if (!any_cuda) {
    std::vector<std::string> languages;
    languages.reserve(blocks.size());
    for (const auto& block : blocks) languages.push_back(block.language.empty() ? "(none)" : block.language);
    return fail(NoCodeReason::wrong_language,
                fmt::format("No fenced block is C++; the languages are: {}.{} Put the whole kernel.cu into one block "
                            "that starts with ```cpp.{}",
                            fmt::join(languages, ", "),
                            other_language ? " A kernel in a block of another language does not count." : "", cut));
  }
  if (split_kernel != 0 && split_export != 0) {
    return fail(NoCodeReason::no_kernel,
                fmt::format("The kernel (block at line {}) and the export (block at line {}) are in different blocks; "
                            "one block must hold the whole kernel.cu.{}",
                            split_kernel, split_export, cut));
  }
  if (!any_export) {
    return fail(NoCodeReason::no_export,
                fmt::format("No C++ block exports its entry point: {}(run, ...); is missing.{}", kExport, cut));
  }
  return fail(NoCodeReason::no_kernel, fmt::format("The exporting block defines no __global__ kernel.{}", cut));
}

}  // namespace ptxbench::candidate
