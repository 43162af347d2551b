#include <algorithm>
#include <array>
#include <set>

#include "agent/feedback_parts.h"
#include "base/text.h"
#include "evaluation/findings.h"

namespace ptxbench::agent::parts {
namespace {

using evaluation::Finding;
using evaluation::Place;
using evaluation::Severity;

bool is_numeric(const Finding& finding) { return finding.rule.starts_with("numeric."); }
bool is_family(const Finding& finding, std::string_view family) { return finding.rule.starts_with(family); }

/// The smaller, the nearer to the cause. What is refused before a kernel runs hides all that a run would show; what
/// upsets a barrier explains a hang; a hang explains outputs that were not written.
int distance(const Finding& finding) {
  static constexpr std::array<std::string_view, 7> kUpsetsBarriers = {
      "mbarrier.uninitialised", "mbarrier.init-not-visible", "mbarrier.overwritten",
      "mbarrier.reinitialised", "mbarrier.tx-mismatch",      "mbarrier.count",
      "wgmma.partial"};
  static constexpr std::array<std::string_view, 3> kConsequences = {"host.cuda_error", "host.crash", "host.error"};
  if (finding.stage == evaluation::StageName::compile) return 0;  // something forbidden: nothing ran
  if (finding.rule == "memory.host-access" || is_family(finding, "launch.")) return 1;
  if (is_family(finding, "tma.")) return 2;
  if (std::find(kConsequences.begin(), kConsequences.end(), finding.rule) != kConsequences.end()) return 13;
  if (is_family(finding, "host.")) return 2;
  if (std::find(kUpsetsBarriers.begin(), kUpsetsBarriers.end(), finding.rule) != kUpsetsBarriers.end()) return 3;
  if (finding.rule == "memory.out-of-bounds" || finding.rule == "memory.misaligned" ||
      finding.rule == "memory.use-after-free")
    return 4;
  if (finding.rule == "sync.divergent" || finding.rule == "wgmma.divergent") return 4;
  if (finding.rule == "mbarrier.underflow" || finding.rule == "mbarrier.stale-phase") return 6;
  if (finding.rule == "async.overwritten" || finding.rule == "async.wrong-group") return 5;
  if (is_family(finding, "sync.")) return 7;
  if (finding.rule == "race.warp") return 9;
  if (is_family(finding, "wgmma.") || is_family(finding, "proxy.") || is_family(finding, "async.") ||
      is_family(finding, "race."))
    return 8;
  if (finding.rule == "memory.uninitialised") return 10;
  if (finding.rule == "memory.unwritten") return 11;
  if (is_family(finding, "memory.") || is_family(finding, "sanitizer.")) return 9;
  return 12;
}

/// Whether a finding is what one of this rule leads to, so that it needs no lines of its own.
bool follows(const Finding& finding, const Finding& cause) {
  if (distance(finding) <= distance(cause)) return false;
  if (finding.rule == "host.cuda_error" || finding.rule == "host.crash" || finding.rule == "host.error") return true;
  if (finding.rule == "memory.uninitialised")
    return is_family(cause, "async.") || is_family(cause, "mbarrier.") || is_family(cause, "proxy.") ||
           is_family(cause, "wgmma.") || is_family(cause, "race.") || is_family(cause, "sync.");
  // A barrier of the block orders the lanes of a warp as well.
  if (finding.rule == "race.warp") return cause.rule == "race.shared";
  const bool upsets = is_family(cause, "mbarrier.") || is_family(cause, "async.");
  return upsets && (is_family(finding, "mbarrier.") || is_family(finding, "async.") || is_family(finding, "sync."));
}

/// A deadlock's message names the place of each waiting warp by path and call chain; what says more is kept.
std::string cleaned(const Finding& finding) {
  std::string text;
  for (const std::string_view full : base::split_lines(finding.message)) {
    if (full.starts_with("called from ") || full.starts_with("in block (")) continue;
    std::string line(full);
    // PTX of what waits: the rule and the place say it.
    if (finding.rule == "sync.deadlock") {
      if (const auto ptx = line.find(" (mbarrier."); ptx != std::string::npos) line.resize(ptx);
    }
    text += text.empty() ? line : "\n" + line;
  }
  // Names as the source has them.
  if (!finding.place.kernel.empty())
    text = base::replace_all(text, finding.place.kernel, evaluation::readable_kernel(finding.place.kernel));
  return text;
}

std::string quoted_place(const Place& place, const Evidence& evidence) {
  const std::uint32_t around = evidence.level == FeedbackLevel::rich ? 1 : 0;
  const std::uint32_t body = body_line(place);
  std::string text;
  std::vector<std::uint32_t> lines;
  if (body != 0) lines.push_back(body);
  // The call chain, so that a helper's caller is seen: the kernel's body often just calls one function.
  for (std::size_t i = place.called_from.size(); i-- > 0;) {
    const auto& [file, line] = place.called_from[i];
    if (is_candidates(file) && line != body) lines.push_back(line);
  }
  if (lines.empty() && is_candidates(place.file)) lines.push_back(place.line);
  for (const std::uint32_t line : lines) text += evidence.source.quote(line, around);
  return text;
}

struct Group {
  std::vector<const Finding*> same;  ///< of one rule and remedy
  std::vector<const Finding*> followers;
};

std::string lines_text(const std::vector<const Finding*>& findings) {
  std::set<std::uint32_t> lines;
  for (const Finding* one : findings) lines.insert(body_line(one->place));
  lines.erase(0);
  std::string text;
  for (const std::uint32_t line : lines) text += fmt::format("{}{}", text.empty() ? "" : ", ", line);
  return lines.empty() ? "" : fmt::format(" (kernel.cu:{})", text);
}

std::string describe_access(const Place& place) {
  std::string text = place.access;
  if (!place.thread.empty()) text += (text.empty() ? "" : ", ") + place.thread;
  return text;
}

/// Of findings without a line: the launch, where the host code asks for it.
std::string launches_text(const Finding& finding, const Evidence& evidence) {
  if (!is_family(finding, "launch.") && finding.rule != "memory.unwritten") return "";
  std::string text;
  for (std::uint32_t line = 1; evidence.source.has(line) && text.size() < 600; ++line) {
    const std::string quoted = evidence.source.quote(line);
    if (finding.rule == "memory.unwritten" && quoted.find("dim3 ") != std::string::npos) text += quoted;
    if (quoted.find("<<<") != std::string::npos || quoted.find("cudaLaunchKernel") != std::string::npos) text += quoted;
  }
  for (const evaluation::Run& run : evidence.evaluation.runs) {
    if (run.launches.empty() || run.launches.front().block[0] == 0) continue;
    const evaluation::LaunchSummary& launch = run.launches.front();
    text +=
        fmt::format("  launched at {} with grid {}x{}x{} of {}x{}x{} threads\n", axes_text(run.axes), launch.grid[0],
                    launch.grid[1], launch.grid[2], launch.block[0], launch.block[1], launch.block[2]);
    break;
  }
  return text;
}

/// " at kernel.cu:12, against kernel.cu:20".
std::string both_places(const Finding& finding) {
  const std::string place = place_text(finding.place);
  std::string text = place.empty() ? "" : " at " + place;
  if (!finding.other) return text;
  if (const std::string other = place_text(*finding.other); !other.empty() && other != place)
    text += ", against " + other;
  return text;
}

FeedbackSection section_of(const Group& group, std::size_t number, const Evidence& evidence) {
  const Finding& finding = *group.same.front();
  FeedbackSection section;
  section.name = fmt::format("cause {} ({})", number, finding.rule);
  const std::string place = place_text(finding.place);
  const std::string message = cleaned(finding);
  const std::string launched = launches_text(finding, evidence);
  std::string head = fmt::format("Cause {}: {}{}\n", number, finding.rule, both_places(finding));
  std::string end;
  if (!finding.remedy.empty()) end += fmt::format("  fix: {}\n", finding.remedy);
  if (!finding.policies.empty() && evidence.evaluation.hazards.policies.size() > finding.policies.size())
    end += "  Only some orders of completion show it: a run can look right by chance.\n";
  if (group.same.size() > 1) {
    std::set<std::string> others;
    for (const Finding* one : group.same) others.insert(one->rule);
    others.erase(finding.rule);
    std::string names;
    for (const std::string& rule : others) names += (names.empty() ? ", also as " : ", ") + rule;
    end += fmt::format("  The same at {}{}{}\n", counted(group.same.size() - 1, "more place"), lines_text(group.same),
                       names);
  }
  if (!group.followers.empty()) {
    std::set<std::string> rules;
    for (const Finding* one : group.followers) rules.insert(one->rule);
    std::string names;
    for (const std::string& rule : rules) names += (names.empty() ? "" : ", ") + rule;
    end += fmt::format("  Probably follows from it: {} ({})\n", counted(group.followers.size(), "finding"), names);
  }
  section.brief = head + fmt::format("  {}\n", parts::first_line(message, 240)) +
                  (finding.remedy.empty() ? "" : fmt::format("  fix: {}\n", parts::first_line(finding.remedy, 240)));
  section.text = head + indent(base::shorten_middle(message, 1500));
  section.text += quoted_place(finding.place, evidence) + launched;
  if (!finding.place.instruction.empty())
    section.text += fmt::format("  PTX: {}\n", short_instruction(finding.place.instruction));
  if (const std::string who = describe_access(finding.place); !who.empty())
    section.text += fmt::format("  by: {}\n", who);
  if (finding.other) {
    const std::string other = place_text(*finding.other);
    section.text += fmt::format("  the other side{}{}\n", other.empty() ? "" : ": ", other);
    // The same line twice says nothing new.
    if (other != place) section.text += quoted_place(*finding.other, evidence);
    if (!finding.other->instruction.empty())
      section.text += fmt::format("  PTX: {}\n", short_instruction(finding.other->instruction));
    if (const std::string who = describe_access(*finding.other); !who.empty())
      section.text += fmt::format("  by: {}\n", who);
  }
  if (!finding.address.empty()) section.text += fmt::format("  bytes: {}\n", finding.address);
  if (finding.place.kernel.size() > 1 && evidence.level == FeedbackLevel::rich)
    section.text += fmt::format("  kernel: {}\n", evaluation::readable_kernel(finding.place.kernel));
  section.text += end;
  if (evidence.level == FeedbackLevel::terse) section.text = section.brief;
  return section;
}

}  // namespace

Part causes(const Evidence& evidence) {
  const evaluation::Evaluation& evaluation = evidence.evaluation;
  std::vector<const Finding*> order;
  for (const Finding& finding : evaluation.findings) {
    if (finding.severity == Severity::note || is_numeric(finding) || evaluation::is_unsupported(finding)) continue;
    order.push_back(&finding);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Finding* a, const Finding* b) { return distance(*a) < distance(*b); });
  std::vector<Group> groups;
  for (const Finding* finding : order) {
    bool placed = false;
    for (Group& group : groups) {
      const Finding& head = *group.same.front();
      const bool same_remedy = finding->remedy == head.remedy;
      const bool same_place = place_text(finding->place) == place_text(head.place);
      // Two rules for two orders of events between the same lines, one thing to do.
      const bool same_lines = finding->other && head.other && body_line(*finding->other) == body_line(*head.other) &&
                              body_line(finding->place) == body_line(head.place);
      const bool same_other = finding->other && head.other && place_text(*finding->other) == place_text(*head.other);
      if ((finding->rule == head.rule && (same_remedy || same_place)) || (same_remedy && (same_lines || same_other))) {
        group.same.push_back(finding);
        // Both sides say more than one.
        if (same_place && finding->other && !head.other) std::swap(group.same.front(), group.same.back());
        placed = true;
        break;
      }
    }
    if (placed) continue;
    if (!groups.empty() && follows(*finding, *groups.front().same.front())) {
      groups.front().followers.push_back(finding);
      // A hang is told even where its cause is: who waits for what is worth reading.
      if (finding->rule != "sync.deadlock") continue;
    }
    groups.push_back({{finding}, {}});
  }
  // Host errors that a kernel's fault brought along.
  if (!groups.empty()) {
    for (const Finding& finding : evaluation.findings) {
      if (finding.severity == Severity::note && (finding.rule == "host.cuda_error" || finding.rule == "host.crash"))
        groups.front().followers.push_back(&finding);
    }
  }
  Part part;
  for (std::size_t i = 0; i < groups.size(); ++i) part.sections.push_back(section_of(groups[i], i + 1, evidence));
  // What the stand-in driver printed is often the reason of an error that the host program reports.
  std::string said;
  for (const evaluation::Run& run : evaluation.runs) {
    if (run.execute != evaluation::Status::passed && said.empty()) said = run.host_output;
  }
  std::string reason;
  for (const std::string_view line : base::split_lines(said)) {
    if (line.starts_with("ptxbench: ") && reason.empty()) reason = line.substr(10);
  }
  if (!groups.empty()) {
    const Finding& head = *groups.front().same.front();
    std::string what =
        head.remedy.empty() ? parts::first_line(cleaned(head), 160) : parts::first_line(head.remedy, 240);
    if (is_family(head, "host.") && !reason.empty()) what = parts::first_line(reason, 260);
    part.first = fmt::format("{} ({}{})", what, head.rule, both_places(head));
    if (!said.empty())
      part.sections.insert(
          part.sections.begin() + 1,
          {"the candidate's output",
           "Printed by the host program and the driver:\n" + indent(base::shorten_middle(said, 1200)),
           reason.empty() ? "" : fmt::format("The driver says: {}\n", parts::first_line(reason, 300))});
  }
  return part;
}

Part unknowns(const Evidence& evidence) {
  const evaluation::Evaluation& evaluation = evidence.evaluation;
  Part part;
  for (const Finding& finding : evaluation.findings) {
    if (!evaluation::is_unsupported(finding)) continue;
    const std::string place = place_text(finding.place);
    FeedbackSection section{"what is not modelled", "", ""};
    section.text = fmt::format("Not known: {}{}{}\n", finding.rule, place.empty() ? "" : " at ", place);
    section.text += indent(parts::first_line(finding.message, 400));
    section.text += quoted_place(finding.place, evidence);
    if (!finding.place.instruction.empty())
      section.text += fmt::format("  PTX: {}\n", short_instruction(finding.place.instruction));
    section.text +=
        "  It is not said to be wrong: this machine cannot execute it. Only another way to do the same, or a run on a "
        "GPU, gives "
        "a verdict.\n";
    if (part.first.empty())
      part.first = fmt::format("replace what cannot be judged here, if there is another way: {}{}{}",
                               finding.place.instruction.empty()
                                   ? parts::first_line(finding.message, 160)
                                   : parts::first_line(short_instruction(finding.place.instruction), 120),
                               place.empty() ? "" : " at ", place);
    part.sections.push_back(std::move(section));
  }
  std::string text;
  for (std::size_t s = 0; s < evaluation::kStageCount; ++s) {
    const auto name = static_cast<evaluation::StageName>(s);
    const auto& stage = evaluation.stage(name);
    if (stage.status != evaluation::Status::unknown) continue;
    const bool told = std::any_of(evaluation.findings.begin(), evaluation.findings.end(), [&](const Finding& finding) {
      return evaluation::is_unsupported(finding) && finding.rule == stage.reason;
    });
    if (told) continue;
    text += fmt::format("  {} is unknown: {}", evaluation::to_string(name),
                        stage.reason.empty() ? "no reason given" : stage.reason);
    if (stage.reason.find("sample") != std::string::npos)
      text += " (only a part of the grid ran here; nothing in the kernel needs to change for that)";
    text += '\n';
  }
  if (evaluation.hazards.status == evaluation::Status::unknown && evidence.level != FeedbackLevel::terse)
    text += fmt::format("  the hazard check is incomplete: {}\n", base::shorten_middle(evaluation.hazards.reason, 400));
  if (!text.empty()) part.sections.push_back({"what is unknown", "Unknown:\n" + text, ""});
  return part;
}

Part notes(const Evidence& evidence) {
  Part part;
  if (evidence.level == FeedbackLevel::terse) return part;
  const std::size_t most = evidence.level == FeedbackLevel::rich ? 12 : 3;
  std::string text;
  std::size_t shown = 0, left = 0;
  std::set<std::string> seen;
  for (const Finding& finding : evidence.evaluation.findings) {
    if (finding.severity != Severity::note) continue;
    // Told elsewhere, or of no use to a model.
    static constexpr std::array<std::string_view, 5> kTold = {"host.cuda_error", "host.crash", "host.error",
                                                              "compile.spill", "compile.warning"};
    const bool told = std::find(kTold.begin(), kTold.end(), finding.rule) != kTold.end() || is_numeric(finding) ||
                      (is_family(finding, "wgmma.") && finding.stage == evaluation::StageName::compile);
    if (told && !(finding.rule == "compile.warning" && evidence.level == FeedbackLevel::rich)) continue;
    const std::string place = place_text(finding.place);
    const std::string line = fmt::format("  {}{}{}: {}\n", finding.rule, place.empty() ? "" : " at ", place,
                                         parts::first_line(finding.message, 240));
    if (!seen.insert(line).second) continue;
    if (shown++ >= most) {
      ++left;
      continue;
    }
    text += line;
  }
  if (left > 0) text += fmt::format("  and {}\n", counted(left, "more note"));
  if (!text.empty()) part.sections.push_back({"notes", "Notes, which decide nothing:\n" + text, ""});
  return part;
}

}  // namespace ptxbench::agent::parts
