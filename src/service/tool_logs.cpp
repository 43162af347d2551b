#include "service/tool_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr std::size_t kMaxLogBytes = std::size_t{256} << 10;

std::string first_lines(const std::string& text, const Json& options) {
  const std::int64_t limit = options.value("max_lines", std::int64_t{0});
  if (limit <= 0) return base::shorten_middle(text, kMaxLogBytes);
  std::string out;
  std::int64_t count = 0;
  for (const std::string_view line : base::split_lines(text)) {
    if (++count > limit) return out + "... (more lines)\n";
    out += fmt::format("{}\n", line);
  }
  return base::shorten_middle(out, kMaxLogBytes);
}

std::string timeout_text(const Json& answer) {
  return fmt::format("did not end within the {:g} s that the request allows", answer.value("timed_out", 0.0));
}

bool counts(const Json& finding) {
  return finding.value("severity", "error") != "note" && !finding.value("suppressed", false);
}

std::string place_text(const Json& location) {
  const std::string file = location.value("file", "");
  if (!file.empty()) return fmt::format("{}:{}", file, location.value("line", 0));
  const int ptx_line = location.value("ptx_line", 0);
  return ptx_line > 0 ? fmt::format("PTX line {}", ptx_line) : "unknown place";
}

std::string finding_text(const Json& finding) {
  std::string text = fmt::format("{} in {}\n", finding.value("rule", ""), finding.value("kernel", ""));
  const Json& location = finding.at("location");
  text +=
      fmt::format("    at {}: {} {}\n", place_text(location), location.value("thread", ""), location.value("what", ""));
  if (const Json* other = base::optional_member(finding, "other"); other != nullptr) {
    text +=
        fmt::format("    and {}: {} {}\n", place_text(*other), other->value("thread", ""), other->value("what", ""));
  }
  const std::string message = finding.value("message", "");
  for (const std::string_view line : base::split_lines(message)) {
    text += fmt::format("    {}\n", line);
  }
  if (const std::string fix = finding.value("fix", ""); !fix.empty()) text += fmt::format("    fix: {}\n", fix);
  return text;
}

/// Why a report that is not hazardous is not clean either.
std::vector<std::string> unknown_reasons(const Json& report) {
  std::vector<std::string> reasons;
  if (report.value("verdict", "") != "unknown") return reasons;
  const Json* fidelity = base::optional_member(report, "fidelity");
  for (const std::string_view key : {"unknown", "unsupported"}) {
    const Json* list = fidelity == nullptr ? nullptr : base::optional_member(*fidelity, key);
    if (list == nullptr || !list->is_array()) continue;
    for (const Json& one : *list) {
      if (one.is_string()) reasons.push_back(one.get<std::string>());
    }
  }
  if (reasons.empty()) reasons.emplace_back("something was not checked");
  return reasons;
}

const Json* first_finding(const Json& answer) {
  const Json* report = base::optional_member(answer, "check");
  if (report == nullptr) return nullptr;
  for (const Json& finding : report->at("findings")) {
    if (counts(finding)) return &finding;
  }
  return nullptr;
}

/// The lines around a place in the candidate, the line itself marked.
std::string source_context(std::string_view source, std::int64_t line, std::int64_t around) {
  const auto lines = base::split_lines(source);
  std::string text;
  const auto count = static_cast<std::int64_t>(lines.size());
  for (std::int64_t at = std::max<std::int64_t>(1, line - around); at <= std::min(count, line + around); ++at) {
    text += fmt::format("{}{:5} | {}\n", at == line ? ">" : " ", at, lines[static_cast<std::size_t>(at - 1)]);
  }
  return text;
}

Json section(const std::string& text, std::string_view otherwise) {
  return Json{{"exist", !text.empty()}, {"msg", text.empty() ? std::string(otherwise) : text}};
}

}  // namespace

std::string sanitize_log(const Json& answer, const Json& options) {
  std::string text = "========= PTXBENCH HAZARD CHECK on the emulated GPU\n";
  if (answer.contains("timed_out")) {
    return text + fmt::format("========= Program hit unknown: the check {}\n========= ERROR SUMMARY: 1 error\n",
                              timeout_text(answer));
  }
  const Json& report = answer.at("check");
  const std::int64_t limit = options.value("print_limit", std::int64_t{100});
  std::int64_t hits = 0;
  for (const Json& finding : report.at("findings")) {
    if (!counts(finding) || ++hits > limit) continue;
    const std::string hit = "Program hit " + finding_text(finding);
    for (const std::string_view line : base::split_lines(hit)) {
      text += fmt::format("========= {}\n", line);
    }
    text += "=========\n";
  }
  if (hits > limit) text += fmt::format("========= {} more are not printed\n", hits - limit);
  for (const std::string& reason : unknown_reasons(report)) {
    ++hits;
    text += fmt::format("========= Program hit unknown: {}\n", reason);
  }
  text += fmt::format("========= ERROR SUMMARY: {} error{}\n", hits, hits == 1 ? "" : "s");
  return first_lines(text, options);
}

std::string debug_log(const Json& answer, const Json& options) {
  if (answer.contains("timed_out")) return "the check " + timeout_text(answer) + "\n";
  return first_lines(answer.value("text", ""), options);
}

Json debug_metadata(const Json& answer, const Json& options, std::string_view source) {
  const std::int64_t around = options.value("source_context_lines", std::int64_t{4});
  const Json* first = first_finding(answer);
  const auto with_context = [&](const Json& finding) {
    std::string text = finding_text(finding);
    const Json& location = finding.at("location");
    if (const auto file = location.value("file", ""); file == "kernel.cu" || file == "kernel.py") {
      text += source_context(source, location.value("line", std::int64_t{0}), around);
    }
    return text;
  };
  std::string diagnostics, places;
  if (const Json* report = base::optional_member(answer, "check"); report != nullptr) {
    const std::int64_t limit = options.value("print_limit", std::int64_t{100});
    std::int64_t count = 0;
    for (const Json& finding : report->at("findings")) {
      if (!counts(finding) || ++count > limit) continue;
      diagnostics += finding_text(finding);
      places += fmt::format("{}: {}\n", place_text(finding.at("location")), finding.value("rule", ""));
    }
    for (const std::string& reason : unknown_reasons(*report)) diagnostics += fmt::format("unknown: {}\n", reason);
  }
  return Json{
      {"Most precise fault", section(first == nullptr ? "" : with_context(*first), "no fault was found")},
      {"Core-dump analysis", section("", "the emulator stops at the faulty instruction; there is no core dump")},
      {"Primary diagnostics", section(diagnostics, "no diagnostics")},
      {"Source locations", section(places, "no place to show")}};
}

std::string profile_log(const Json& answer, const Json& options) {
  if (answer.contains("timed_out")) return "the run " + timeout_text(answer) + "\n";
  const Json& evaluation = answer.at("evaluation");
  const Json* evidence = base::optional_member(evaluation, "instructions");
  if (evidence == nullptr) {
    return first_lines("nothing executed, so there is no profile\n\n" + answer.value("text", ""), options);
  }
  std::string text = fmt::format("Executed instructions on the {} (exact counts; time is not known without a GPU)\n\n",
                                 evaluation.at("backend").value("name", "emulator"));
  const std::string wanted = options.value("kernel_name", "");
  const Json no_runs = Json::array();
  const Json* runs = base::optional_member(evaluation, "runs");
  for (const Json& run : runs == nullptr ? no_runs : *runs) {
    for (const Json& launch : run.at("launches")) {
      const std::string kernel = launch.value("kernel", "");
      if (kernel.find(wanted) == std::string::npos) continue;
      text +=
          fmt::format("kernel {}: {} warp instructions, {} of {} clusters\n", kernel,
                      launch.value("warp_instructions", std::uint64_t{0}),
                      launch.value("clusters_run", std::uint64_t{0}), launch.value("clusters_total", std::uint64_t{0}));
    }
    break;  // the counts below are those of the first run
  }
  text += fmt::format("\n{:<24}{:>16}{:>18}\n", "family", "warps", "threads");
  for (const auto& [family, count] : evidence->at("families").items()) {
    text += fmt::format("{:<24}{:>16}{:>18}\n", family, count.value("warps", std::uint64_t{0}),
                        count.value("lanes", std::uint64_t{0}));
  }
  const auto share = [&](std::string_view key, std::string_view what) {
    const Json* value = base::optional_member(*evidence, key);
    if (value != nullptr && value->is_number()) text += fmt::format("{}: {:.1f} %\n", what, 100 * value->get<double>());
  };
  text += '\n';
  share("mac_share", "multiply-adds by wgmma");
  share("legacy_mma_share", "multiply-adds by mma.sync");
  share("tma_byte_share", "compulsory bytes moved by TMA");
  return first_lines(text, options);
}

}  // namespace ptxbench::service
