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
  std::string_view info;
};

/// A fence line: at most three spaces, at least three marks; an info string of backticks' fence has no backtick.
std::optional<Fence> as_fence(std::string_view line) {
  std::size_t start = 0;
  while (start < line.size() && line[start] == ' ') ++start;
  if (start > 3 || start == line.size() || (line[start] != '`' && line[start] != '~')) return std::nullopt;
  Fence fence;
  fence.mark = line[start];
  while (start + fence.length < line.size() && line[start + fence.length] == fence.mark) ++fence.length;
  if (fence.length < 3) return std::nullopt;
  fence.info = base::trim(line.substr(start + fence.length));
  if (fence.mark == '`' && fence.info.find('`') != std::string_view::npos) return std::nullopt;
  return fence;
}

/// "CUDA", "{.cpp}", "cpp:kernel.cu", "c++ title=x" name their language in the first word.
std::string language_of(std::string_view info) {
  std::string language;
  for (const char c : info) {
    if (c == ' ' || c == '\t' || c == ':' || c == ',' || c == '}') break;
    if (c != '{' && c != '.') language += c;
  }
  return base::to_lower(language);
}

bool is_cuda_language(std::string_view language) {
  static constexpr std::array<std::string_view, 7> kLanguages = {"cpp", "cuda", "c++", "cu", "cxx", "cc", "cuda-cpp"};
  return std::find(kLanguages.begin(), kLanguages.end(), language) != kLanguages.end();
}

bool is_identifier_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

}  // namespace

std::string_view to_string(NoCodeReason reason) {
  switch (reason) {
    case NoCodeReason::empty_answer:
      return "empty_answer";
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

std::vector<FencedBlock> fenced_blocks(std::string_view answer) {
  std::vector<FencedBlock> blocks;
  std::optional<Fence> open;
  std::size_t number = 0;
  for (std::string_view line : base::split_lines(answer)) {
    ++number;
    const auto fence = as_fence(line);
    if (!open) {
      if (!fence) continue;
      open = fence;
      blocks.push_back({language_of(fence->info), "", number, false});
    } else if (fence && fence->mark == open->mark && fence->length >= open->length && fence->info.empty()) {
      blocks.back().closed = true;
      open.reset();
    } else {
      if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
      blocks.back().content.append(line).push_back('\n');
    }
  }
  return blocks;
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

Extraction extract_candidate(std::string_view answer) {
  constexpr std::string_view kExport = "TVM_FFI_DLL_EXPORT_TYPED_FUNC";
  Extraction result;
  const auto fail = [&](NoCodeReason reason, std::string message) {
    result.reason = reason;
    result.message = std::move(message);
    return result;
  };
  if (base::trim(answer).empty()) return fail(NoCodeReason::empty_answer, "The answer is empty.");
  const auto blocks = fenced_blocks(answer);
  result.block_count = blocks.size();
  if (blocks.empty()) {
    return fail(NoCodeReason::no_block,
                "The answer has no fenced code block. Put the whole kernel.cu into one block that starts with ```cpp.");
  }
  bool any_cuda = false;
  bool any_export = false;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    if (!is_cuda_language(block->language)) continue;
    any_cuda = true;
    const std::string code = blank_comments_and_strings(block->content);
    if (!has_identifier(code, kExport)) continue;
    any_export = true;
    if (!has_identifier(code, "__global__")) continue;
    result.source = block->content;
    result.block_line = block->line;
    result.unclosed = !block->closed;
    if (result.unclosed) {
      result.message = "The code block has no closing fence; the answer may have been cut off.";
    }
    return result;
  }
  const std::string cut =
      blocks.back().closed ? "" : " The last block has no closing fence: the answer may have been cut off.";
  if (!any_cuda) {
    std::vector<std::string> languages;
    languages.reserve(blocks.size());
    for (const auto& block : blocks) languages.push_back(block.language.empty() ? "(none)" : block.language);
    return fail(NoCodeReason::wrong_language,
                fmt::format("No fenced block is marked cpp or cuda; the languages are: {}.{}",
                            fmt::join(languages, ", "), cut));
  }
  if (!any_export) {
    return fail(NoCodeReason::no_export,
                fmt::format("No C++ block exports its entry point: {}(run, ...); is missing.{}", kExport, cut));
  }
  return fail(NoCodeReason::no_kernel, fmt::format("The exporting block defines no __global__ kernel.{}", cut));
}

}  // namespace ptxbench::candidate
