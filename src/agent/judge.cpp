#include "agent/judge.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "base/cpu_meter.h"
#include "base/hash.h"
#include "evaluation/evaluation_reader.h"
#include "evaluation/hazard_check.h"
#include "timeline/chrome_trace.h"

namespace ptxbench::agent {
namespace {

using base::Json;

/// What a candidate in Triton must be, of the rules that compiling it finds broken.
constexpr std::array<std::string_view, 6> kTritonRules = {"triton.import",    "triton.no-kernel",
                                                          "triton.no-run",    "triton.no-launch",
                                                          "triton.arguments", "triton.not-provided"};

std::string event_of(const evaluation::Evaluation& evaluation) {
  if (evaluation.language == candidate::to_string(candidate::Language::triton)) {
    const bool against_rules =
        std::any_of(evaluation.findings.begin(), evaluation.findings.end(), [](const evaluation::Finding& finding) {
          return finding.severity == evaluation::Severity::error && finding.stage == evaluation::StageName::compile &&
                 (finding.rule.starts_with("candidate.") ||
                  std::find(kTritonRules.begin(), kTritonRules.end(), finding.rule) != kTritonRules.end());
        });
    if (against_rules) return "triton_validation_failed";
  }
  return evaluation.compile.succeeded() ? "evaluation" : "test_failed";
}

}  // namespace

void LocalJudge::prepare(std::string_view source, const std::vector<problem::Problem>& workloads,
                         const JudgeOptions& options) {
  if (options.progress) options.progress("compiling");
  // The result, failure included, is in the compiler's cache, where the evaluation finds it; an error of the machine
  // will come up there again.
  candidate::CompileOptions compile = options_.compile;
  compile.language = options.language;
  base::CpuMeter meter;
  {
    const base::CpuScope scope(&meter);
    static_cast<void>(evaluator_->compile(source, workloads, compile));
  }
  const std::lock_guard lock(prepared_mutex_);
  // Of candidates that are never judged, as when a run is cancelled, little is kept.
  constexpr std::size_t kMostPrepared = 10'000;
  if (prepared_.size() < kMostPrepared) prepared_[base::sha256_hex(source)] += meter.seconds();
}

double LocalJudge::take_prepared(std::string_view source) {
  const std::lock_guard lock(prepared_mutex_);
  const auto found = prepared_.find(base::sha256_hex(source));
  if (found == prepared_.end()) return 0;
  const double seconds = found->second;
  prepared_.erase(found);
  return seconds;
}

Result<Judgement> LocalJudge::judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                                    const JudgeOptions& options) {
  evaluation::EvaluateOptions evaluate = options_;
  evaluate.compile.language = options.language;
  evaluate.cancel = options.cancel;
  evaluate.progress = options.progress;
  auto evaluation = evaluator_->evaluate(source, workloads, evaluate);
  if (!evaluation) return tl::unexpected<Error>(evaluation.error());
  if (options.cancel.stop_requested()) return infrastructure_error("cancelled");
  evaluation->timings.cpu += take_prepared(source);
  const bool launched = std::any_of(evaluation->runs.begin(), evaluation->runs.end(),
                                    [](const evaluation::Run& run) { return !run.launches.empty(); });
  if (launched && !options.timeline.empty() && evaluation::worth_another_run(*evaluation)) {
    if (options.progress) options.progress("recording the timeline");
    const bool stopped = evaluation->stage(evaluation::StageName::execute).status == evaluation::Status::failed;
    write_timeline(source, workloads.front(), evaluate, stopped, options.timeline);
  }
  Judgement judgement;
  judgement.event = event_of(*evaluation);
  judgement.feedback = feedback_text(*evaluation, source, options.feedback);
  judgement.evaluation = evaluation::to_json(*evaluation);
  judgement.details = std::make_shared<const evaluation::Evaluation>(std::move(*evaluation));
  return judgement;
}

void LocalJudge::write_timeline(std::string_view source, const problem::Problem& workload,
                                const evaluation::EvaluateOptions& evaluate, bool whole,
                                const std::filesystem::path& file) {
  const auto log = [&](const Error& error) { spdlog::warn("no timeline {}: {}", file.string(), error.message); };
  const auto recorded = evaluator_->record(source, workload, evaluate, {}, whole);
  if (!recorded) return log(recorded.error());
  if (recorded->launches.empty()) return;
  timeline::TraceOptions how;
  how.subject = file.stem().stem().string();
  how.launches_left_out = recorded->launches_left_out;
  if (auto written = timeline::write_trace(file.string(), recorded->launches, how); !written) log(written.error());
}

Json LocalJudge::describe() const {
  using Backend = evaluation::EvaluateOptions::Backend;
  return {{"where", "local"},
          {"backend", options_.backend == Backend::emulator ? "emulator"
                      : options_.backend == Backend::gpu    ? "gpu"
                                                            : "emulator and gpu"}};
}

Result<Judgement> judgement_of(Json evaluation, std::string_view source, std::string_view what,
                               const FeedbackOptions& feedback) {
  auto read = evaluation::evaluation_from_json(evaluation, what);
  if (!read) return infrastructure_error("{}", read.error().message);
  Judgement judgement;
  judgement.event = event_of(*read);
  judgement.feedback = feedback_text(*read, source, feedback);
  judgement.evaluation = std::move(evaluation);
  judgement.details = std::make_shared<const evaluation::Evaluation>(std::move(*read));
  return judgement;
}

Result<Judgement> ServiceJudge::judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                                      const JudgeOptions& options) {
  Json request = {{"source", source},
                  {"problem", workloads.front().definition.name},
                  {"backend", backend_},
                  {"options", options_},
                  {"together", true}};
  if (options.language != candidate::Language::cuda) request["options"]["language"] = to_string(options.language);
  for (const problem::Problem& one : workloads) {
    if (one.workload.ad_hoc) {
      if (workloads.size() != 1) return input_error("a service judges one set of axes at a time");
      for (const auto& [name, value] : one.workload.axes) request["axes"][name] = value;
    } else {
      request["workloads"].push_back(one.workload.uuid);
    }
  }
  const auto task = client_.evaluate(
      request,
      [&](std::string_view state) {
        if (options.progress) options.progress(state);
      },
      options.cancel);
  if (!task) return tl::unexpected<Error>(task.error());
  if (!task->is_object()) return infrastructure_error("{}: the task is no object", url_);
  if (const Json* error = base::optional_member(*task, "error"); error != nullptr) {
    std::string kind, message = "no reason given";
    if (error->is_object()) {
      if (const Json* value = base::optional_member(*error, "kind"); value != nullptr && value->is_string())
        kind = *value;
      if (const Json* value = base::optional_member(*error, "message"); value != nullptr && value->is_string())
        message = value->get<std::string>();
    }
    return tl::unexpected<Error>(
        Error{kind == "input" ? ErrorKind::input : ErrorKind::infrastructure, fmt::format("{}: {}", url_, message)});
  }
  const Json* evaluations = base::optional_member(*task, "evaluations");
  if (evaluations == nullptr || !evaluations->is_array() || evaluations->size() != 1) {
    return infrastructure_error("{}: the task ended without an evaluation", url_);
  }
  return judgement_of(evaluations->at(0), source, url_, options.feedback);
}

Json ServiceJudge::describe() const {
  return {{"where", "service"}, {"url", url_}, {"backend", backend_}, {"options", options_}};
}

}  // namespace ptxbench::agent
