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
  if (std::popcount(lanes) > 8) return fmt::format(" lanes {:#010x}", lanes);
  std::string text;
  for (int lane = 0; lane < 32; ++lane) {
    if ((lanes >> lane & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ",", lane);
  }
  return " lanes " + text;
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

bool is_numeric(const CheckFinding& finding) { return finding.rule.starts_with("numeric."); }

/// A kernel that stops, and then wrong numbers, are what hazards lead to.
int distance_from_cause(const CheckFinding& finding) {
  if (is_numeric(finding)) return 2;
  return finding.rule == "sync.deadlock" || finding.rule == "memory.unwritten" ? 1 : 0;
}

/// Whether a hazard of this kind can change results.
bool may_spoil_numbers(const CheckFinding& finding) {
  static constexpr std::string_view kFamilies[] = {"race.",  "proxy.",  "async.", "mbarrier.",
                                                   "wgmma.", "memory.", "tma."};
  return finding.severity == checker::Severity::error && !finding.suppressed && distance_from_cause(finding) == 0 &&
         std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](std::string_view family) { return finding.rule.starts_with(family); });
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
  const auto name = [](const std::string& file) { return base::candidate_file_name(file); };
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
    return std::tuple(one.rule, one.kernel, one.output, one.location.ptx_line, one.other.ptx_line, one.has_other);
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
    return std::tuple(rank(a.severity), distance_from_cause(a)) < std::tuple(rank(b.severity), distance_from_cause(b));
  });
  const auto cause = std::find_if(findings.begin(), findings.end(), may_spoil_numbers);
  if (cause == findings.end()) return;
  for (CheckFinding& finding : findings) {
    if (is_numeric(finding)) finding.follows_from = cause->rule;
  }
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
    if (!one.host_call.empty()) finding["host_call"] = one.host_call;
    if (!one.output.empty()) finding["output"] = one.output;
    if (!one.follows_from.empty()) finding["follows_from"] = one.follows_from;
    findings.push_back(std::move(finding));
  }
  return {{"schema", CheckReport::kSchema},
          {"verdict", to_string(report.verdict())},
          {"findings", std::move(findings)},
          {"stored", !report.stored_at.empty()},
          {"stored_at", report.stored_at},
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

namespace {

/// Members of a report read back; remembers whether one was missing or of another type.
class Reader {
 public:
  template <class T>
  T read(const base::Json& object, const char* name) {
    const base::Json* member = object.is_object() ? base::optional_member(object, name) : nullptr;
    if (member == nullptr) {
      wrong_ = true;
      return T{};
    }
    try {
      return member->get<T>();
    } catch (const base::Json::exception&) {
      wrong_ = true;
      return T{};
    }
  }
  const base::Json& list(const base::Json& object, const char* name) {
    static const base::Json kNone = base::Json::array();
    const base::Json* member = object.is_object() ? base::optional_member(object, name) : nullptr;
    if (member != nullptr && member->is_array()) return *member;
    wrong_ = true;
    return kNone;
  }
  bool wrong() const { return wrong_; }

  Location location(const base::Json& json) {
    Location location;
    location.file = read<std::string>(json, "file");
    location.line = read<uint32_t>(json, "line");
    location.ptx_line = read<uint32_t>(json, "ptx_line");
    location.instruction = read<std::string>(json, "instruction");
    location.what = read<std::string>(json, "what");
    location.thread = read<std::string>(json, "thread");
    for (const base::Json& call : list(json, "stack")) {
      location.called_from.emplace_back(read<std::string>(call, "file"), read<uint32_t>(call, "line"));
    }
    return location;
  }

  CheckFinding finding(const base::Json& json) {
    CheckFinding finding;
    finding.rule = read<std::string>(json, "rule");
    const auto severity = read<std::string>(json, "severity");
    finding.severity = severity == "error"     ? checker::Severity::error
                       : severity == "warning" ? checker::Severity::warning
                                               : checker::Severity::note;
    wrong_ = wrong_ || severity != to_string(finding.severity);
    finding.kernel = read<std::string>(json, "kernel");
    finding.message = read<std::string>(json, "message");
    finding.fix = read<std::string>(json, "fix");
    finding.location = location(read<base::Json>(json, "location"));
    finding.has_other = json.contains("other");
    if (finding.has_other) finding.other = location(json["other"]);
    finding.address = read<std::string>(json, "address");
    if (json.contains("host_call")) finding.host_call = read<std::string>(json, "host_call");
    if (json.contains("output")) finding.output = read<std::string>(json, "output");
    if (json.contains("follows_from")) finding.follows_from = read<std::string>(json, "follows_from");
    finding.occurrences = read<uint64_t>(json, "occurrences");
    finding.policies = read<std::set<std::string>>(json, "policies");
    finding.suppressed = read<bool>(json, "suppressed");
    return finding;
  }

 private:
  bool wrong_ = false;
};

}  // namespace

Result<CheckReport> report_from_json(const base::Json& json) {
  Reader reader;
  CheckReport report;
  if (reader.read<std::string>(json, "schema") != CheckReport::kSchema) return input_error("no report of a check");
  for (const base::Json& finding : reader.list(json, "findings")) {
    if (!finding.is_object()) return input_error("a finding that is no object");
    report.findings.push_back(reader.finding(finding));
  }
  report.findings_dropped = reader.read<uint64_t>(json, "findings_dropped");
  const auto fidelity = reader.read<base::Json>(json, "fidelity");
  report.policies = reader.read<std::vector<std::string>>(fidelity, "policies");
  report.one_policy_is_enough = reader.read<bool>(fidelity, "one_policy_is_enough");
  report.launches = reader.read<uint64_t>(fidelity, "launches");
  report.warp_instructions = reader.read<uint64_t>(fidelity, "warp_instructions");
  report.clusters_run = reader.read<uint64_t>(fidelity, "clusters_run");
  report.clusters_total = reader.read<uint64_t>(fidelity, "clusters_total");
  report.approximate = reader.read<std::set<std::string>>(fidelity, "approximate");
  report.unsupported = reader.read<std::set<std::string>>(fidelity, "unsupported");
  report.unknown = reader.read<std::set<std::string>>(fidelity, "unknown");
  report.seconds = reader.read<double>(json, "seconds");
  if (reader.wrong()) return input_error("a report of a check with members missing or of another type");
  return report;
}

base::Json to_sarif(const CheckReport& report) {
  base::Json results = base::Json::array(), rules = base::Json::array();
  std::set<std::string> named;
  for (const CheckFinding& one : report.findings) {
    if (named.insert(one.rule).second) {
      rules.push_back({{"id", one.rule}, {"shortDescription", {{"text", one.message}}}});
    }
    base::Json result = {
        {"ruleId", one.rule},
        {"level", to_string(one.severity)},
        {"message", {{"text", one.fix.empty() ? one.message : fmt::format("{} Fix: {}.", one.message, one.fix)}}},
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
    if (!one.host_call.empty()) out += fmt::format("  call   {}\n", one.host_call);
    if (!one.follows_from.empty()) out += fmt::format("  cause  perhaps {}, above\n", one.follows_from);
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
  if (!CheckReport::kRulesNotChecked.empty())
    out += fmt::format("not looked for: {}\n", fmt::join(CheckReport::kRulesNotChecked, ", "));
  if (!report.stored_at.empty()) out += fmt::format("stored result of {}; --fresh runs again\n", report.stored_at);
  out += fmt::format("verdict: {}\n", to_string(report.verdict()));
  return out;
}

}  // namespace ptxbench::check
