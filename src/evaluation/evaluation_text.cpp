#include "evaluation/evaluation_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/text.h"
#include "evaluation/findings.h"

namespace ptxbench::evaluation {
namespace {

constexpr std::size_t kMaxFindings = 10;
constexpr std::size_t kMaxNotes = 5;

std::string status_text(Status status, const base::Style& style) {
  const std::string padded = fmt::format("{:<8}", to_string(status));
  switch (status) {
    case Status::passed:
      return style.green(padded);
    case Status::failed:
      return style.red(padded);
    case Status::unknown:
      return style.yellow(padded);
    default:
      return style.dim(padded);
  }
}

std::string count_text(std::uint64_t count) {
  if (count >= 1'000'000'000) return fmt::format("{:.2f} G", static_cast<double>(count) / 1e9);
  if (count >= 1'000'000) return fmt::format("{:.1f} M", static_cast<double>(count) / 1e6);
  return fmt::format("{}", count);
}

std::string share_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// What there is to say about a stage that needs no reason.
std::string stage_detail(const Evaluation& evaluation, StageName name) {
  switch (name) {
    case StageName::compile: {
      if (evaluation.compile.kernels.empty()) return "";
      int registers = 0, kernels = 0;
      std::int64_t spills = 0;
      for (const candidate::KernelReport& kernel : evaluation.compile.kernels) {
        registers = std::max(registers, kernel.registers);
        kernels += kernel.entry ? 1 : 0;
        spills += kernel.spill_load_bytes + kernel.spill_store_bytes;
      }
      return fmt::format("{} kernel{}, {} registers, {}{}", kernels, kernels == 1 ? "" : "s", registers,
                         spills == 0 ? std::string("no spills") : fmt::format("{} bytes spilled", spills),
                         evaluation.compile.cached ? ", from the cache" : "");
    }
    case StageName::execute: {
      std::uint64_t launches = 0;
      for (const Run& run : evaluation.runs) launches += run.launches.size();
      if (launches == 0) return "";
      std::string text = fmt::format("{} launch{}", launches, launches == 1 ? "" : "es");
      // A GPU counts none.
      if (evaluation.fidelity.warp_instructions > 0)
        text += fmt::format(", {} warp instructions", count_text(evaluation.fidelity.warp_instructions));
      return text;
    }
    case StageName::correctness: {
      std::string text;
      const std::size_t outputs = evaluation.runs.empty() ? 0 : evaluation.runs.front().outputs.size();
      for (std::size_t i = 0; i < outputs; ++i) {
        double tensor = 0, row = 0, largest = 0;
        for (const Run& run : evaluation.runs) {
          if (i >= run.outputs.size()) continue;
          tensor = std::max(tensor, run.outputs[i].tensor_l2);
          row = std::max(row, run.outputs[i].worst_row_l2);
          largest = std::max(largest, run.outputs[i].max_absolute_error);
        }
        const problem::TensorComparison& output = evaluation.runs.front().outputs[i];
        text += text.empty() ? "" : "; ";
        text += output.absolute ? fmt::format("{}: largest error {:.2g}", output.name, largest)
                                : fmt::format("{}: relative error {:.2g}, worst row {:.2g}", output.name, tensor, row);
      }
      if (evaluation.sampled && !text.empty())
        text += fmt::format(" ({} of the elements)", share_text(evaluation.coverage));
      return text;
    }
    case StageName::instructions: {
      if (!evaluation.instructions) return "";
      const InstructionEvidence& evidence = *evaluation.instructions;
      std::string text = evidence.mac_share
                             ? fmt::format("wgmma does {} of the multiply-adds", share_text(*evidence.mac_share))
                             : std::string("share of wgmma unknown");
      if (evidence.legacy_mma_share && *evidence.legacy_mma_share > 0) {
        text += fmt::format(", mma.sync {}", share_text(*evidence.legacy_mma_share));
      }
      if (evidence.tma_executed && evidence.tma_byte_share) {
        text += fmt::format(", TMA moves {} of the compulsory bytes", share_text(*evidence.tma_byte_share));
      }
      text += fmt::format("; target(compat) {}, target(strict) {}", evidence.compat_target ? "yes" : "no",
                          to_string(evidence.strict));
      return text;
    }
    case StageName::performance: {
      std::string text;
      for (const Performance& one : evaluation.performance) text += (text.empty() ? "" : "; ") + describe(one);
      return text;
    }
  }
  return "";
}

std::string place_text(const Place& place) {
  std::string text;
  if (!place.file.empty() && place.line > 0) {
    text = fmt::format("{}:{}", place.file, place.line);
    if (place.column > 0) text += fmt::format(":{}", place.column);
  }
  if (place.ptx_line > 0) text += fmt::format("{}PTX line {}", text.empty() ? "" : ", ", place.ptx_line);
  return text;
}

void indent(std::string& out, std::string_view text, std::string_view prefix) {
  for (const std::string_view line : base::split_lines(text)) out += fmt::format("{}{}\n", prefix, line);
}

void write_finding(std::string& out, const Finding& finding, const base::Style& style) {
  const std::string where = place_text(finding.place);
  const std::string title = fmt::format("{} {}", to_string(finding.severity), finding.rule);
  out += finding.severity == Severity::error     ? style.red(title)
         : finding.severity == Severity::warning ? style.yellow(title)
                                                 : style.cyan(title);
  if (!where.empty()) out += "  " + style.bold(where);
  out += '\n';
  indent(out, base::shorten_middle(finding.message, 2000), "  ");
  if (!finding.place.instruction.empty())
    out += fmt::format("  > {}\n", base::shorten_middle(base::trim(finding.place.instruction), 300));
  if (!finding.place.kernel.empty())
    out += style.dim(fmt::format("  in {}", readable_kernel(finding.place.kernel))) + '\n';
  if (!finding.remedy.empty()) indent(out, finding.remedy, "  fix: ");
}

std::string axes_text(const Run& run) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : run.axes) parts.push_back(fmt::format("{}={}", name, value));
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace

std::string to_text(const Evaluation& evaluation, const base::Style& style) {
  std::string out = style.bold(evaluation.definition);
  if (!evaluation.runs.empty()) out += fmt::format(" {}", axes_text(evaluation.runs.front()));
  if (evaluation.runs.size() > 1) out += fmt::format(", {} runs", evaluation.runs.size());
  out += fmt::format(" on the {}\n", evaluation.backend.name);
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const Stage& stage = evaluation.stages[i];
    const auto name = static_cast<StageName>(i);
    std::string detail = stage.reason;
    if (const std::string more = stage_detail(evaluation, name); !more.empty())
      detail += (detail.empty() ? "" : "; ") + more;
    const std::string time = stage.seconds > 0 ? base::format_seconds(stage.seconds) : "";
    out += fmt::format("  {:<13}{} {:>9}  {}\n", to_string(name), status_text(stage.status, style), time, detail);
  }

  std::size_t shown = 0, notes = 0, hidden = 0;
  std::set<std::string> told;
  for (const Severity severity : {Severity::error, Severity::warning, Severity::note}) {
    for (const Finding& finding : evaluation.findings) {
      if (finding.severity != severity) continue;
      // The hazard check tells each pair of instructions; unrolled copies of a line say the same again.
      if (finding.place.line != 0 &&
          !told.insert(fmt::format("{} {} {}", finding.rule, finding.place.file, finding.place.line)).second) {
        ++hidden;
        continue;
      }
      const bool is_note = severity == Severity::note;
      if ((is_note && notes >= kMaxNotes) || (!is_note && shown >= kMaxFindings)) {
        ++hidden;
        continue;
      }
      ++(is_note ? notes : shown);
      out += '\n';
      write_finding(out, finding, style);
    }
  }
  if (hidden > 0) out += style.dim(fmt::format("\n{} more findings; --json has them all\n", hidden));

  for (const Run& run : evaluation.runs) {
    if (!run.host_output.empty() && run.execute != Status::passed) {
      out += '\n' + style.dim("output of the candidate:") + '\n';
      indent(out, base::shorten_middle(run.host_output, 1500), "  | ");
    }
  }

  out += '\n';
  const Fidelity& fidelity = evaluation.fidelity;
  if (fidelity.warp_instructions > 0 || !fidelity.unsupported.empty()) {
    std::string footer = fmt::format("fidelity: {} warp instructions", count_text(fidelity.warp_instructions));
    footer += fidelity.approximate.empty() ? ", all exact"
                                           : fmt::format("; approximate: {}", fmt::join(fidelity.approximate, ", "));
    if (!fidelity.unsupported.empty())
      footer += fmt::format("; not modelled: {}", fmt::join(fidelity.unsupported, ", "));
    out += style.dim(footer) + '\n';
  }
  const std::string verdict = fmt::format("verdict: {}", to_string(evaluation.verdict));
  out += evaluation.verdict == Status::passed   ? style.green(verdict)
         : evaluation.verdict == Status::failed ? style.red(verdict)
                                                : style.yellow(verdict);
  if (evaluation.summary != to_string(evaluation.verdict)) out += fmt::format(" ({})", evaluation.summary);
  out += '\n';
  return out;
}

}  // namespace ptxbench::evaluation
