#include "candidate/static_checks.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/text.h"
#include "candidate/abi.h"
#include "candidate/extraction.h"

namespace ptxbench::candidate {
namespace {

/// Vendor libraries by the prefix that all their functions and headers share. The kernel has to do the work itself.
constexpr std::array<std::string_view, 12> kLibraryPrefixes = {"cublas",  "cudnn",   "cusolver", "cusparse",
                                                               "cufft",   "curand",  "cutensor", "nccl",
                                                               "nvshmem", "cutlass", "nvrtc",    "nvJitLink"};

/// What brings in device or host code that was not compiled from the judged source.
constexpr std::array<std::string_view, 16> kLoaders = {"dlopen",
                                                       "dlmopen",
                                                       "dlsym",
                                                       "dlvsym",
                                                       "cuModuleLoad",
                                                       "cuModuleLoadData",
                                                       "cuModuleLoadDataEx",
                                                       "cuModuleLoadFatBinary",
                                                       "cuLibraryLoadData",
                                                       "cuLibraryLoadFromFile",
                                                       "cudaLibraryLoadData",
                                                       "cudaLibraryLoadFromFile",
                                                       "cuLinkCreate",
                                                       "cuLinkAddData",
                                                       "cuLinkAddFile",
                                                       "cuLinkComplete"};

bool is_identifier_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_identifier_part(char c) { return is_identifier_start(c) || (c >= '0' && c <= '9'); }

std::optional<std::string_view> banned_prefix(std::string_view name) {
  for (const std::string_view prefix : kLibraryPrefixes) {
    if (!name.starts_with(prefix)) continue;
    // "cublasCreate", "cublas_v2.h", "cutlass" itself; not a variable called "cublasses".
    if (name.size() == prefix.size()) return prefix;
    const char next = name[prefix.size()];
    if (!(next >= 'a' && next <= 'z')) return prefix;
  }
  return std::nullopt;
}

bool is_loader(std::string_view name) {
  // Driver entry points carry version and stream suffixes: cuLinkCreate_v2, cuModuleLoadData_ptsz.
  return std::any_of(kLoaders.begin(), kLoaders.end(), [&](std::string_view loader) {
    return name == loader || (name.starts_with(loader) && name.size() > loader.size() && name[loader.size()] == '_');
  });
}

StaticFinding banned_library(std::string subject, int line, std::string_view prefix) {
  std::string message = fmt::format("{} belongs to {}: a candidate must not call vendor libraries", subject, prefix);
  return {"candidate.banned_library", std::move(subject), line, std::move(message)};
}

StaticFinding loads_code(std::string subject, int line) {
  std::string message =
      fmt::format("{} loads code at run time: everything a candidate executes must be in its source", subject);
  return {"candidate.loads_code", std::move(subject), line, std::move(message)};
}

void add_once(std::vector<StaticFinding>& findings, StaticFinding finding) {
  const bool known = std::any_of(findings.begin(), findings.end(), [&](const StaticFinding& other) {
    return other.rule == finding.rule && other.subject == finding.subject;
  });
  if (!known) findings.push_back(std::move(finding));
}

/// `#line 12 "file"`, which says what the next line is called.
struct LineDirective {
  int number = 0;
  std::string file;
};

/// `code` is `line` without the contents of strings.
std::optional<LineDirective> line_directive(std::string_view code, std::string_view line) {
  if (!code.starts_with("#line ")) return {};
  const std::size_t open = code.find('"');
  const std::size_t close = code.rfind('"');
  if (open == std::string_view::npos || close == open) return {};
  const auto number = base::parse_u64(base::trim(code.substr(6, open - 6)));
  if (!number || *number > std::numeric_limits<int>::max()) return {};
  return LineDirective{static_cast<int>(*number), std::string(line.substr(open + 1, close - open - 1))};
}

}  // namespace

std::vector<StaticFinding> check_source(std::string_view source) {
  std::vector<StaticFinding> findings;
  const std::string blanked = blank_comments_and_strings(source);
  const auto raw_lines = base::split_lines(source);
  const auto lines = base::split_lines(blanked);
  std::string file = "kernel.cu";
  int number = 0;
  const auto add = [&](StaticFinding finding) {
    finding.file = file;
    add_once(findings, std::move(finding));
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    ++number;
    const std::string_view code = base::trim(lines[i]);
    if (const auto line = line_directive(code, base::trim(raw_lines[i]))) {
      number = line->number - 1;
      file = line->file;
      continue;
    }
    if (code.starts_with("#") && base::trim(code.substr(1)).starts_with("include")) {
      // "quoted" names were blanked, so the raw line is read.
      const std::string_view raw = raw_lines[i];
      const auto open = raw.find_first_of("<\"");
      const auto close = open == std::string_view::npos ? open : raw.find_first_of(">\"", open + 1);
      if (close == std::string_view::npos) continue;
      const std::string_view header = raw.substr(open + 1, close - open - 1);
      if (const auto prefix = banned_prefix(header)) {
        add(banned_library(std::string(header), number, *prefix));
      }
      continue;
    }
    for (std::size_t at = 0; at < code.size();) {
      if (!is_identifier_start(code[at])) {
        ++at;
        continue;
      }
      std::size_t end = at;
      while (end < code.size() && is_identifier_part(code[end])) ++end;
      const std::string_view name = code.substr(at, end - at);
      // A namespace or a function of the library, not a local that merely starts like one.
      const bool used = end < code.size() && (code[end] == '(' || code.substr(end).starts_with("::"));
      if (used) {
        if (const auto prefix = banned_prefix(name)) {
          add(banned_library(std::string(name), number, *prefix));
        } else if (is_loader(name)) {
          add(loads_code(std::string(name), number));
        }
      }
      at = end;
    }
  }
  return findings;
}

std::vector<StaticFinding> check_library(const DynamicSymbols& symbols) {
  std::vector<StaticFinding> findings;
  if (!std::binary_search(symbols.exported.begin(), symbols.exported.end(), std::string(abi::kEntrySymbol))) {
    findings.push_back({"candidate.no_entry", abi::kEntrySymbol, 0,
                        fmt::format("the library does not export {}: TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, ...) is "
                                    "missing or names another function",
                                    abi::kEntrySymbol)});
  }
  for (const std::string& name : symbols.undefined) {
    if (const auto prefix = banned_prefix(name)) {
      add_once(findings, banned_library(name, 0, *prefix));
    } else if (is_loader(name)) {
      add_once(findings, loads_code(name, 0));
    }
  }
  static constexpr std::array<std::string_view, 9> kAllowed = {
      "libtvm_ffi.so", "libcudart.so.", "libcuda.so.",    "libstdc++.so.",      "libgcc_s.so.",
      "libc.so.",      "libm.so.",      "libpthread.so.", "ld-linux-x86-64.so."};
  for (const std::string& name : symbols.needed) {
    const bool allowed = std::any_of(kAllowed.begin(), kAllowed.end(),
                                     [&](std::string_view prefix) { return name.starts_with(prefix); });
    if (!allowed) {
      findings.push_back({"candidate.banned_library", name, 0, fmt::format("the library needs {}", name)});
    }
  }
  return findings;
}

}  // namespace ptxbench::candidate
