#include "agent/feedback.h"

#include <algorithm>

#include "base/text.h"

namespace ptxbench::agent {
namespace {

using evaluation::Finding;
using evaluation::StageName;
using evaluation::Status;

std::string quote(std::string_view source, std::uint32_t line) {
  const auto lines = base::split_lines(source);
  if (line == 0 || line > lines.size()) return {};
  return fmt::format("    {:>4} | {}\n", line, base::shorten_middle(base::trim(lines[line - 1]), 160));
}

std::string indent(std::string_view text) {
  std::string out;
  for (std::string_view line : base::split_lines(text)) out += fmt::format("  {}\n", line);
  return out;
}

void add_finding(std::string& text, const Finding& finding, std::string_view source) {
  text += fmt::format("- [{}] {}", evaluation::to_string(finding.severity), finding.rule);
  if (!finding.place.file.empty() && finding.place.line != 0) {
    text += fmt::format(" at {}:{}", finding.place.file, finding.place.line);
  }
  if (!finding.place.kernel.empty()) text += fmt::format(" in kernel {}", finding.place.kernel);
  text += ":\n" + indent(finding.message);
  if (finding.place.file == "kernel.cu" || finding.place.file == "kernel.py") text += quote(source, finding.place.line);
  if (!finding.place.instruction.empty()) text += fmt::format("  PTX: {}\n", finding.place.instruction);
  if (!finding.remedy.empty()) text += fmt::format("  fix: {}\n", finding.remedy);
}

void add_compiler(std::string& text, const candidate::CompileReport& report, std::size_t limit) {
  if (!report.succeeded()) {
    text += "Compiler output:\n```\n" + base::shorten_middle(report.log, limit) + "\n```\n";
    return;
  }
  for (const auto& kernel : report.kernels) {
    text += fmt::format("Compiled kernel {}: {} registers, {} bytes spilled, {} bytes of static shared memory\n",
                        kernel.demangled.empty() ? kernel.name : kernel.demangled, kernel.registers,
                        kernel.spill_store_bytes + kernel.spill_load_bytes, kernel.static_shared_bytes);
  }
}

std::string axes_text(const std::vector<std::pair<std::string, std::int64_t>>& axes) {
  std::string text;
  for (const auto& [name, value] : axes) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
  return text;
}

void add_numbers(std::string& text, const evaluation::Run& run) {
  text += fmt::format("[{}] {}", axes_text(run.axes),
                      run.correctness == Status::passed ? "numbers are right" : "numbers are wrong");
  if (!run.reason.empty()) text += ": " + run.reason;
  text += '\n';
  for (const auto& output : run.outputs) {
    const std::string description = problem::describe(output);
    if (!description.empty()) text += indent(description);
  }
}

}  // namespace

std::string feedback_text(const evaluation::Evaluation& evaluation, std::string_view source,
                          const FeedbackOptions& options) {
  std::string text = evaluation.passed() ? "Evaluation results: PASSED\n" : "Evaluation FAILED:\n";
  text += evaluation.summary + "\n\n";
  for (std::size_t s = 0; s < evaluation::kStageCount; ++s) {
    const auto name = static_cast<StageName>(s);
    const auto& stage = evaluation.stage(name);
    text += fmt::format("{}: {}{}{}\n", evaluation::to_string(name), evaluation::to_string(stage.status),
                        stage.reason.empty() ? "" : " - ", stage.reason);
  }
  text += '\n';
  add_compiler(text, evaluation.compile, options.max_compiler_bytes);
  if (!evaluation.findings.empty()) {
    text += "\nFindings:\n";
    // What decides comes first; within a severity the order of the evaluation stays.
    std::vector<const Finding*> order;
    for (const Finding& finding : evaluation.findings) order.push_back(&finding);
    std::stable_sort(order.begin(), order.end(),
                     [](const Finding* a, const Finding* b) { return a->severity < b->severity; });
    for (std::size_t f = 0; f < order.size() && f < options.max_findings; ++f) add_finding(text, *order[f], source);
    if (order.size() > options.max_findings)
      text += fmt::format("- and {} more\n", order.size() - options.max_findings);
  }
  for (const auto& run : evaluation.runs) {
    if (run.execute != Status::passed) continue;
    text += '\n';
    add_numbers(text, run);
  }
  if (!evaluation.performance.empty()) text += '\n';
  for (const auto& one : evaluation.performance) {
    text += fmt::format("[{}] time: {}\n", axes_text(one.axes), evaluation::describe(one));
  }
  if (evaluation.instructions) {
    const auto& evidence = *evaluation.instructions;
    text += '\n';
    if (evidence.mac_share) {
      text +=
          fmt::format("Tensor cores (wgmma) did {:.1f} % of the problem's multiply-adds", 100 * *evidence.mac_share);
      if (evidence.legacy_mma_share) text += fmt::format(", mma.sync {:.1f} %", 100 * *evidence.legacy_mma_share);
      text +=
          fmt::format("; at least {:.0f} % by wgmma counts as a target kernel.\n", 100 * evidence.mac_share_threshold);
    }
    if (!evidence.tma_executed) text += "No TMA tensor copy was executed.\n";
  }
  return text;
}

std::string no_code_feedback(const candidate::Extraction& extraction) {
  return fmt::format("Evaluation FAILED:\nno candidate in the answer ({}): {}\n",
                     extraction.reason ? candidate::to_string(*extraction.reason) : "no_code", extraction.message);
}

}  // namespace ptxbench::agent
