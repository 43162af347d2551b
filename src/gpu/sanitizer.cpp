#include "gpu/sanitizer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <regex>

#include "base/text.h"
#include "base/toolkit.h"

namespace ptxbench::gpu {
namespace {

constexpr std::array<std::string_view, 4> kTools{"memcheck", "racecheck", "initcheck", "synccheck"};
constexpr std::string_view kMark = "=========";
constexpr std::size_t kMostRecords = 100;
constexpr std::size_t kLongestLine = 4096;

/// The line without the tool's mark: nothing for lines of other programs. `indented` tells details from messages.
std::optional<std::string_view> content_of(std::string_view line, bool& indented) {
  if (!line.starts_with(kMark)) return std::nullopt;
  line.remove_prefix(kMark.size());
  if (line.starts_with(' ')) line.remove_prefix(1);
  indented = line.starts_with(' ');
  while (line.starts_with(' ')) line.remove_prefix(1);
  while (line.ends_with(' ') || line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::uint64_t number_before(std::string_view text, std::string_view word) {
  static const std::string kDigits = "0123456789";
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return 0;
  const std::size_t end = text.find_last_of(kDigits, at);
  if (end == std::string_view::npos) return 0;
  const std::size_t other = text.find_last_not_of(kDigits, end);
  std::uint64_t value = 0;
  const std::size_t begin = other == std::string_view::npos ? 0 : other + 1;
  std::from_chars(text.data() + begin, text.data() + end + 1, value);
  return value;
}

/// "KERNEL+0x1f0 in FILE:LINE" within a line.
void find_place(std::string_view line, SanitizerRecord& record) {
  // Matching takes stack in proportion to the line.
  if (!record.kernel.empty() || line.size() > kLongestLine) return;
  static const std::regex kPlace(R"((?:^|\s)at (?:0x[0-9a-f]+ in )?(.+?)\+0x[0-9a-f]+(?: in (\S+?):([0-9]+))?)");
  std::match_results<std::string_view::const_iterator> found;
  if (!std::regex_search(line.begin(), line.end(), found, kPlace)) return;
  record.kernel = found[1].str();
  if (!found[2].matched) return;
  record.file = std::filesystem::path(found[2].str()).filename();
  const std::string digits = found[3].str();
  std::from_chars(digits.data(), digits.data() + digits.size(), record.line);
}

bool is_summary(std::string_view line) {
  return line.starts_with("ERROR SUMMARY:") || line.starts_with("RACECHECK SUMMARY:");
}

}  // namespace

bool is_sanitizer_tool(std::string_view tool) { return std::find(kTools.begin(), kTools.end(), tool) != kTools.end(); }

Result<std::vector<std::string>> sanitizer_command(std::string_view tool, const std::filesystem::path& log) {
  const auto toolkit = base::find_cuda_toolkit();
  const auto program = base::find_cuda_tool("compute-sanitizer", toolkit ? &*toolkit : nullptr);
  if (!program) {
    return infrastructure_error(
        "compute-sanitizer is not installed: it comes with the CUDA toolkit; leave --sanitize out, or use `ptxbench "
        "check`, which needs no GPU");
  }
  // What the driver refuses to the executor itself is no fault of the candidate's.
  std::vector<std::string> out = {program->string(), "--tool", std::string(tool)};
  for (const std::string& word : {std::string("--report-api-errors"), std::string("no"), std::string("--print-limit"),
                                  std::to_string(kMostRecords), std::string("--log-file"), log.string()})
    out.push_back(word);
  return out;
}

Result<SanitizerReport> parse_sanitizer_report(std::string_view tool, std::string_view text) {
  SanitizerReport out;
  out.tool = tool;
  bool complete = false;
  SanitizerRecord record;
  const auto finish = [&] {
    if (!record.message.empty()) {
      const auto same = std::find_if(out.records.begin(), out.records.end(), [&](const SanitizerRecord& one) {
        return one.message == record.message && one.kernel == record.kernel && one.file == record.file &&
               one.line == record.line;
      });
      if (same != out.records.end()) {
        ++same->repeated;
      } else if (out.records.size() < kMostRecords) {
        out.records.push_back(record);
      }
    }
    record = {};
  };
  for (const std::string_view raw : base::split_lines(text)) {
    bool indented = false;
    const auto line = content_of(raw, indented);
    if (!line) continue;
    if (is_summary(*line)) {
      finish();
      complete = true;
      // "ERROR SUMMARY: 3 errors"; "RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)".
      // Beyond what it prints there is a second one, of the rest.
      out.errors = std::max(out.errors, number_before(*line, " error"));
      out.warnings = std::max(out.warnings, number_before(*line, " warning"));
      continue;
    }
    if (line->empty()) {
      finish();
      continue;
    }
    if (line->starts_with("COMPUTE-SANITIZER") || line->starts_with("Target application") ||
        line->starts_with("LEAK SUMMARY") || line->starts_with("Saved host backtrace") ||
        line->starts_with("Host Frame:")) {
      continue;
    }
    if (!indented) {
      finish();
      record.message = *line;
      for (const std::string_view word : {"Error: ", "Warning: "}) {
        if (!line->starts_with(word)) continue;
        record.is_warning = word[0] == 'W';
        record.message = line->substr(word.size());
      }
    }
    record.text += std::string(*line) + "\n";
    find_place(*line, record);
  }
  if (!complete) {
    std::string said(base::shorten_middle(std::string(text), 400));
    return infrastructure_error("compute-sanitizer's {} did not come to an end{}", tool,
                                said.empty() ? "" : "; it said: " + said);
  }
  return out;
}

}  // namespace ptxbench::gpu
