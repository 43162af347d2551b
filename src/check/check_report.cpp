#include "check/check_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "base/text.h"

namespace ptxbench::check {
namespace {

std::string lanes_text(uint32_t lanes) {
  if (lanes == 0) return "";
  if (lanes == 0xffffffffu) return "";
  if (std::has_single_bit(lanes)) return fmt::format(" lane {}", std::countr_zero(lanes));
  const int first = std::countr_zero(lanes);
  const int count = std::countr_one(lanes >> first);
  if (std::popcount(lanes) == count) return fmt::format(" lanes {}-{}", first, first + count - 1);
  return fmt::format(" lanes {:#010x}", lanes);
}

base::Json location_json(const Location& location) {
  base::Json stack = base::Json::array();
  for (const auto& [file, line] : location.called_from) stack.push_back({{"file", file}, {"line", line}});
  return {{"file", location.file},
          {"line", location.line},
          {"ptx_line", location.ptx_line},
          {"stack", std::move(stack)},
          {"instruction", location.instruction},
          {"what", location.what},
          {"thread", location.thread}};
}

int rank(checker::Severity severity) {
  return severity == checker::Severity::error ? 0 : severity == checker::Severity::warning ? 1 : 2;
}

/// A kernel that stops, or wrong numbers, are what hazards lead to.
bool is_consequence(const CheckFinding& finding) {
  return finding.rule.starts_with("numeric.") || finding.rule == "sync.deadlock" || finding.rule == "memory.unwritten";
}

base::Json sarif_location(const Location& location) {
  const bool outer = !location.called_from.empty();
  const std::string& file = outer ? location.called_from.back().first : location.file;
  const uint32_t line = outer ? location.called_from.back().second : location.line;
  base::Json physical = {{"artifactLocation", {{"uri", file.empty() ? "kernel.ptx" : file}}}};
  physical["region"] = {{"startLine", std::max(1u, file.empty() ? location.ptx_line : line)}};
  return {{"physicalLocation", std::move(physical)},
          {"message", {{"text", fmt::format("{} ({})", location.what, location.instruction)}}}};
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::clean:
      return "clean";
    case Verdict::hazardous:
      return "hazardous";
    case Verdict::unknown:
      return "unknown";
  }
  return "";
}

std::string_view to_string(checker::Severity severity) {
  switch (severity) {
    case checker::Severity::error:
      return "error";
    case checker::Severity::warning:
      return "warning";
    case checker::Severity::note:
      return "note";
  }
  return "";
}

std::string Location::text() const {
  if (!called_from.empty()) return fmt::format("{}:{}", called_from.back().first, called_from.back().second);
  if (line != 0) return fmt::format("{}:{}", file, line);
  return fmt::format("PTX line {}", ptx_line);
}

Location locate(const emulator::CodePlace& place, const checker::Party* party, const uint32_t cta[3]) {
  Location location;
  // A candidate is compiled as kernel.cu in a folder nobody knows.
  const auto name = [](const std::string& file) {
    return file.ends_with("/kernel.cu") ? std::string("kernel.cu") : file;
  };
  location.file = name(place.file);
  location.line = place.line;
  location.ptx_line = place.ptx_line;
  location.instruction = place.instruction;
  for (const auto& [file, line] : place.called_from) location.called_from.emplace_back(name(file), line);
  if (party != nullptr) {
    location.what = party->what;
    location.thread =
        fmt::format("CTA ({},{},{}) warp {}{}", cta[0], cta[1], cta[2], party->warp, lanes_text(party->lanes));
  }
  return location;
}

Verdict CheckReport::verdict() const {
  const bool decided = std::any_of(findings.begin(), findings.end(), [](const CheckFinding& finding) {
    return !finding.suppressed && finding.severity != checker::Severity::note &&
           !finding.rule.starts_with("unsupported.");
  });
  if (decided) return Verdict::hazardous;
  return unknown.empty() && unsupported.empty() ? Verdict::clean : Verdict::unknown;
}

void CheckReport::add(CheckFinding finding, const std::string& policy) {
  const auto key = [](const CheckFinding& one) {
    return std::tuple(one.rule, one.kernel, one.location.ptx_line, one.other.ptx_line, one.has_other);
  };
  const auto same =
      std::find_if(findings.begin(), findings.end(), [&](const CheckFinding& one) { return key(one) == key(finding); });
  if (same != findings.end()) {
    same->occurrences += finding.occurrences;
    same->policies.insert(policy);
    return;
  }
  finding.policies.insert(policy);
  findings.push_back(std::move(finding));
}

void CheckReport::sort() {
  std::stable_sort(findings.begin(), findings.end(), [](const CheckFinding& a, const CheckFinding& b) {
    return std::tuple(rank(a.severity), is_consequence(a)) < std::tuple(rank(b.severity), is_consequence(b));
  });
}

base::Json to_json(const CheckReport& report) {
  base::Json findings = base::Json::array();
  for (const CheckFinding& one : report.findings) {
    base::Json finding = {{"rule", one.rule},         {"severity", to_string(one.severity)},
                          {"kernel", one.kernel},     {"message", one.message},
                          {"fix", one.fix},           {"location", location_json(one.location)},
                          {"address", one.address},   {"occurrences", one.occurrences},
                          {"policies", one.policies}, {"suppressed", one.suppressed}};
    if (one.has_other) finding["other"] = location_json(one.other);
    findings.push_back(std::move(finding));
  }
  return {{"schema", CheckReport::kSchema},
          {"verdict", to_string(report.verdict())},
          {"findings", std::move(findings)},
          {"findings_dropped", report.findings_dropped},
          {"fidelity",
           {{"policies", report.policies},
            {"one_policy_is_enough", report.one_policy_is_enough},
            {"launches", report.launches},
            {"warp_instructions", report.warp_instructions},
            {"clusters_run", report.clusters_run},
            {"clusters_total", report.clusters_total},
            {"approximate", report.approximate},
            {"unsupported", report.unsupported},
            {"rules_not_checked", CheckReport::kRulesNotChecked},
            {"unknown", report.unknown}}},
          {"seconds", report.seconds}};
}

base::Json to_sarif(const CheckReport& report) {
  base::Json results = base::Json::array(), rules = base::Json::array();
  std::set<std::string> named;
  for (const CheckFinding& one : report.findings) {
    if (named.insert(one.rule).second) {
      rules.push_back({{"id", one.rule}, {"shortDescription", {{"text", one.message}}}});
    }
    base::Json result = {{"ruleId", one.rule},
                         {"level", to_string(one.severity)},
                         {"message", {{"text", fmt::format("{} Fix: {}.", one.message, one.fix)}}},
                         {"locations", base::Json::array({sarif_location(one.location)})}};
    if (one.has_other) result["relatedLocations"] = base::Json::array({sarif_location(one.other)});
    if (one.suppressed) result["suppressions"] = base::Json::array({{{"kind", "external"}}});
    results.push_back(std::move(result));
  }
  base::Json driver = {{"name", "PTXBench check"}, {"rules", std::move(rules)}};
  base::Json run = {{"tool", {{"driver", std::move(driver)}}}, {"results", std::move(results)}};
  return {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
          {"version", "2.1.0"},
          {"runs", base::Json::array({std::move(run)})}};
}

std::string to_text(const CheckReport& report) {
  std::string out;
  const auto place = [&](std::string_view label, const Location& location) {
    out += fmt::format("  {:<6} {}: {}\n", label, location.text(),
                       location.instruction.empty() ? "" : location.instruction);
    std::string who = location.thread;
    if (!location.what.empty()) who += (who.empty() ? "" : ", ") + location.what;
    if (!location.called_from.empty() && location.line != 0)
      who += fmt::format("{}inside {}:{}", who.empty() ? "" : ", ", location.file, location.line);
    if (!who.empty()) out += fmt::format("         {}\n", who);
  };
  size_t suppressed = 0;
  for (const CheckFinding& one : report.findings) {
    if (one.suppressed) {
      ++suppressed;
      continue;
    }
    out += fmt::format("{}: {}{}\n", to_string(one.severity), one.rule,
                       one.kernel.empty() ? "" : fmt::format(" in {}", one.kernel));
    std::string_view lead = "  ";
    for (const std::string_view line : base::split_lines(one.message)) {
      out += fmt::format("{}{}\n", lead, line);
      lead = "    ";
    }
    if (!one.address.empty()) out += fmt::format("  bytes  {}\n", one.address);
    if (one.location.ptx_line != 0 || one.location.line != 0) place("at", one.location);
    if (one.has_other) place("after", one.other);
    if (!one.fix.empty()) out += fmt::format("  fix    {}\n", one.fix);
    const bool everywhere = one.policies.size() == report.policies.size();
    out += fmt::format("  seen   {} time{}{}\n\n", one.occurrences, one.occurrences == 1 ? "" : "s",
                       everywhere ? "" : fmt::format(", only under: {}", fmt::join(one.policies, ", ")));
  }
  if (report.findings_dropped != 0) out += fmt::format("{} more findings are not shown\n", report.findings_dropped);
  if (suppressed != 0) out += fmt::format("{} finding(s) suppressed\n", suppressed);
  for (const std::string& reason : report.unknown) out += fmt::format("not known: {}\n", reason);
  for (const std::string& name : report.unsupported) out += fmt::format("not modelled: {}\n", name);
  out += fmt::format("{} launch{}, {} warp instructions, {} of {} clusters; policies: {}{}; approximate: {}\n",
                     report.launches, report.launches == 1 ? "" : "es", report.warp_instructions, report.clusters_run,
                     report.clusters_total, fmt::join(report.policies, ", "),
                     report.one_policy_is_enough ? " (nothing asynchronous was executed)" : "",
                     report.approximate.empty() ? "none" : fmt::format("{}", fmt::join(report.approximate, ", ")));
  out += fmt::format("not looked for: {}\n", fmt::join(CheckReport::kRulesNotChecked, ", "));
  out += fmt::format("verdict: {}\n", to_string(report.verdict()));
  return out;
}

}  // namespace ptxbench::check
