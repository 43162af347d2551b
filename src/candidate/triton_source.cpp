#include "candidate/triton_source.h"

#include <algorithm>
#include <array>
#include <regex>

#include <fmt/format.h>

#include "base/text.h"

namespace ptxbench::candidate {
namespace {

constexpr std::string_view kHowTo = "Put the whole kernel.py into one block that starts with ```python.";

bool is_python(std::string_view language) {
  return language == "python" || language == "py" || language == "python3" || language == "triton";
}

struct Parts {
  bool kernel = false, run = false;
};

Parts parts_of(std::string_view text) {
  static const std::regex kKernel(R"((^|\n)[ \t]*@[ \t]*(triton[ \t]*\.[ \t]*)?jit\b)");
  static const std::regex kRun(R"((^|\n)def[ \t]+run[ \t]*\()");
  const std::string code = blank_python(text);
  return {std::regex_search(code, kKernel), std::regex_search(code, kRun)};
}

/// What torch calculates or a library does: of these names only the last part counts.
constexpr std::array<std::string_view, 43> kMathematics = {
    "matmul", "mm",         "bmm",      "addmm",     "baddbmm",     "einsum",  "dot",
    "mv",     "tensordot",  "linear",   "softmax",   "log_softmax", "exp",     "exp2",
    "log",    "log2",       "sqrt",     "rsqrt",     "sum",         "mean",    "amax",
    "argmax", "cumsum",     "relu",     "gelu",      "silu",        "sigmoid", "tanh",
    "conv2d", "layer_norm", "rms_norm", "logsumexp", "where",       "cat",     "stack",
    "sort",   "topk",       "gather",   "scatter",   "tril",        "triu",    "scaled_dot_product_attention",
    "compile"};

constexpr std::array<std::string_view, 7> kInsides = {"triton.compiler",     "triton.backends",    "triton._C",
                                                      "libtriton",           "triton.runtime.jit", "triton.knobs",
                                                      "triton.tools.compile"};

constexpr std::array<std::string_view, 9> kLoaders = {"exec", "eval",         "__import__",  "importlib",   "ctypes",
                                                      "cffi", "load_library", "torch.utils", "__builtins__"};

constexpr std::array<std::string_view, 7> kLibraries = {"cublas",   "cublasLt",   "cudnn",     "cutlass",
                                                        "cusparse", "flash_attn", "flashinfer"};

StaticFinding finding(std::string rule, std::string subject, int line, std::string message) {
  return {std::move(rule), std::move(subject), line, std::move(message), std::string(source_name(Language::triton))};
}

bool is_name_part(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/// The dotted names of a line. A hint, not a wall: what is written in several steps is not seen, and what must not
/// happen is prevented where the candidate runs.
std::vector<std::string> dotted_names(std::string_view line) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < line.size();) {
    if (!is_name_part(line[at])) {
      ++at;
      continue;
    }
    std::string name;
    while (at < line.size() && (is_name_part(line[at]) || (line[at] == '.' && !name.empty()))) name += line[at++];
    names.push_back(std::move(name));
  }
  return names;
}

bool is_allowed_import(std::string_view name) {
  return std::any_of(triton_imports().begin(), triton_imports().end(), [&](const std::string& one) {
    return name == one || (name.starts_with(one) && name.size() > one.size() && name[one.size()] == '.');
  });
}

void check_imports(std::string_view line, int number, std::vector<StaticFinding>& out) {
  std::vector<std::string> modules;
  if (line.starts_with("from ")) {
    const auto names = dotted_names(line.substr(5));
    modules.push_back(names.empty() || line.substr(5).find_first_not_of(' ') == line.substr(5).find('.') ? "."
                                                                                                         : names[0]);
  } else if (line.starts_with("import ")) {
    std::string_view rest = line.substr(7);
    rest = rest.substr(0, rest.find(';'));
    for (std::size_t at = 0; at != std::string_view::npos;) {
      const std::size_t comma = rest.find(',', at);
      const auto names = dotted_names(rest.substr(at, comma == std::string_view::npos ? comma : comma - at));
      if (!names.empty()) modules.push_back(names[0]);
      at = comma == std::string_view::npos ? comma : comma + 1;
    }
  }
  for (const std::string& name : modules) {
    if (is_allowed_import(name)) continue;
    out.push_back(
        finding("candidate.banned_import", name, number,
                fmt::format("import {}: a Triton candidate may import {}", name, fmt::join(triton_imports(), ", "))));
  }
}

std::optional<StaticFinding> check_name(const std::string& name, int number) {
  const std::size_t dot = name.rfind('.');
  const std::string_view last =
      dot == std::string::npos ? std::string_view(name) : std::string_view(name).substr(dot + 1);
  const bool of_torch = name.starts_with("torch.");
  if (of_torch && std::find(kMathematics.begin(), kMathematics.end(), last) != kMathematics.end()) {
    return finding("candidate.banned_library", name, number,
                   fmt::format("{}: torch does no mathematics in a Triton candidate; write it into a kernel", name));
  }
  for (const std::string_view one : kInsides) {
    if (name.starts_with(one)) {
      return finding("candidate.loads_code", name, number,
                     fmt::format("{}: Triton's own insides are not a candidate's", name));
    }
  }
  for (const std::string_view one : kLoaders) {
    if (name == one || name.starts_with(fmt::format("{}.", one))) {
      return finding(
          "candidate.loads_code", name, number,
          fmt::format("{} loads code at run time: everything a candidate executes must be in its source", name));
    }
  }
  for (const std::string_view one : kLibraries) {
    if (name == one || name.starts_with(fmt::format("{}.", one))) {
      return finding("candidate.banned_library", name, number,
                     fmt::format("{}: a candidate must not call vendor libraries", name));
    }
  }
  return std::nullopt;
}

}  // namespace

const std::vector<std::string>& triton_imports() {
  static const std::vector<std::string> kAllowed = {"torch",      "triton",  "math",      "typing",      "functools",
                                                    "itertools",  "enum",    "operator",  "collections", "dataclasses",
                                                    "contextlib", "numbers", "__future__"};
  return kAllowed;
}

std::string blank_python(std::string_view source) {
  std::string out(source);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < std::min(to, out.size()); ++i) {
      if (out[i] != '\n') out[i] = ' ';
    }
  };
  for (std::size_t i = 0; i < source.size();) {
    const char c = source[i];
    if (c == '#') {
      const std::size_t end = std::min(source.find('\n', i), source.size());
      blank(i, end);
      i = end;
    } else if (c == '"' || c == '\'') {
      const bool triple = source.substr(i, 3) == std::string(3, c);
      const std::size_t open = i + (triple ? 3 : 1);
      std::size_t end = open;
      while (end < source.size()) {
        if (source[end] == '\\') {
          end += 2;
          continue;
        }
        if (triple ? source.substr(end, 3) == std::string(3, c) : (source[end] == c || source[end] == '\n')) break;
        ++end;
      }
      blank(open, end);
      i = std::min(end + (triple ? 3 : 1), source.size());
    } else {
      ++i;
    }
  }
  return out;
}

std::vector<StaticFinding> check_triton_source(std::string_view source) {
  std::vector<StaticFinding> out;
  const std::string code = blank_python(source);
  int number = 0;
  for (const std::string_view raw : base::split_lines(code)) {
    ++number;
    const std::string_view line = base::trim(raw);
    check_imports(line, number, out);
    for (const std::string& name : dotted_names(line)) {
      if (auto found = check_name(name, number)) {
        const bool known = std::any_of(out.begin(), out.end(), [&](const StaticFinding& one) {
          return one.rule == found->rule && one.subject == found->subject;
        });
        if (!known) out.push_back(std::move(*found));
      }
    }
  }
  const Parts parts = parts_of(source);
  if (!parts.kernel) {
    out.push_back(finding("candidate.no_entry", "triton.jit", 0, "there is no function with @triton.jit"));
  }
  if (!parts.run) {
    out.push_back(finding("candidate.no_entry", "run", 0,
                          "there is no function `run` that takes the inputs and then the outputs"));
  }
  return out;
}

Extraction extract_triton_candidate(std::string_view answer) {
  Extraction result;
  const auto fail = [&](NoCodeReason reason, std::string message) {
    result.reason = reason;
    result.message = std::move(message);
    return result;
  };
  const std::string lines = base::replace_all(answer, "\r\n", "\n");
  if (base::trim(lines).empty())
    return fail(NoCodeReason::empty_answer, fmt::format("The answer is empty. {}", kHowTo));
  const auto text = without_reasoning(lines);
  if (!text || base::trim(*text).empty()) {
    return fail(
        NoCodeReason::only_reasoning,
        fmt::format("The answer is nothing but a chain of thought; code inside of it does not count. {}", kHowTo));
  }
  const std::size_t removed = lines.size() - text->size();
  const auto skipped =
      static_cast<std::size_t>(std::count(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(removed), '\n'));
  const auto blocks = fenced_blocks(*text);
  result.block_count = blocks.size();
  if (blocks.empty()) {
    const Parts parts = parts_of(*text);
    const std::string_view bare = base::trim(*text);
    const bool is_file = bare.starts_with("import ") || bare.starts_with("from ") || bare.starts_with("\"\"\"");
    if (is_file && parts.kernel && parts.run) {
      result.source = std::string(bare) + "\n";
      result.block_line = skipped + 1;
      return result;
    }
    return fail(NoCodeReason::no_block, fmt::format("The answer has no fenced code block. {}", kHowTo));
  }
  bool any = false, any_kernel = false;
  for (const bool marked : {true, false}) {
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      if (is_python(block->language) != marked || (!marked && !block->language.empty())) continue;
      const Parts parts = parts_of(block->content);
      if (parts.kernel && parts.run) {
        result.source = block->content;
        result.block_line = skipped + block->line;
        result.unclosed = !block->closed;
        if (result.unclosed) result.message = "The code block has no closing fence; the answer may have been cut off.";
        return result;
      }
      any = any || marked || parts.kernel;
      any_kernel = any_kernel || parts.kernel;
    }
  }
  const std::string cut =
      blocks.back().closed ? "" : " The last block has no closing fence: the answer may have been cut off.";
  if (!any) {
    std::vector<std::string> languages;
    languages.reserve(blocks.size());
    for (const auto& block : blocks) languages.push_back(block.language.empty() ? "(none)" : block.language);
    return fail(NoCodeReason::wrong_language, fmt::format("No fenced block is Python; the languages are: {}. {}{}",
                                                          fmt::join(languages, ", "), kHowTo, cut));
  }
  if (!any_kernel)
    return fail(NoCodeReason::no_kernel, fmt::format("No Python block has a @triton.jit kernel.{}", cut));
  return fail(NoCodeReason::no_export,
              fmt::format("No Python block has both a @triton.jit kernel and `def run(...)` at the top level.{}", cut));
}

Extraction extract_candidate(std::string_view answer, Language language) {
  return language == Language::triton ? extract_triton_candidate(answer) : extract_candidate(answer);
}

}  // namespace ptxbench::candidate
