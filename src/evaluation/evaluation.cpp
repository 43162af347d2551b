#include "evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>

namespace ptxbench::evaluation {

std::string_view to_string(Status status) {
  constexpr std::array<std::string_view, 4> kNames = {"passed", "failed", "unknown", "skipped"};
  return kNames[static_cast<std::size_t>(status)];
}

std::string_view to_string(StageName stage) {
  constexpr std::array<std::string_view, kStageCount> kNames = {"compile", "execute", "correctness", "instructions",
                                                                "performance"};
  return kNames[static_cast<std::size_t>(stage)];
}

std::string_view to_string(Severity severity) {
  constexpr std::array<std::string_view, 3> kNames = {"error", "warning", "note"};
  return kNames[static_cast<std::size_t>(severity)];
}

namespace {

std::string with_reason(StageName name, const Stage& stage) {
  std::string text = fmt::format("{} {}", to_string(name), to_string(stage.status));
  if (!stage.reason.empty()) text += ": " + stage.reason;
  return text;
}

}  // namespace

void conclude(Evaluation& evaluation) {
  evaluation.sampled = false;
  evaluation.coverage = evaluation.runs.empty() ? 0 : 1;
  for (const Run& run : evaluation.runs) {
    evaluation.sampled = evaluation.sampled || run.sampled;
    evaluation.coverage = std::min(evaluation.coverage, run.coverage);
  }
  const auto first_with = [&](auto predicate) -> std::optional<StageName> {
    for (std::size_t i = 0; i < kStageCount; ++i) {
      if (evaluation.stages[i].decisive && predicate(evaluation.stages[i].status)) return static_cast<StageName>(i);
    }
    return std::nullopt;
  };
  const auto failed = first_with([](Status status) { return status == Status::failed; });
  const auto open = first_with([](Status status) { return status == Status::unknown || status == Status::skipped; });
  const auto finding = std::find_if(evaluation.findings.begin(), evaluation.findings.end(),
                                    [](const Finding& one) { return one.severity != Severity::note; });
  if (failed) {
    evaluation.verdict = Status::failed;
    evaluation.summary = with_reason(*failed, evaluation.stage(*failed));
  } else if (finding != evaluation.findings.end() && !finding->rule.starts_with("unsupported.")) {
    evaluation.verdict = Status::failed;
    evaluation.summary = fmt::format("{}: {}", finding->rule, finding->message.substr(0, finding->message.find('\n')));
  } else if (open) {
    evaluation.verdict = Status::unknown;
    evaluation.summary = with_reason(*open, evaluation.stage(*open));
  } else {
    evaluation.verdict = Status::passed;
    evaluation.summary = "passed";
    if (evaluation.sampled) {
      evaluation.summary =
          fmt::format("passed on a sample: {:.3g} % of the output elements were checked, the rest is unknown",
                      100 * evaluation.coverage);
    }
  }
}

}  // namespace ptxbench::evaluation
