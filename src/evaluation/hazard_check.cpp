#include "evaluation/hazard_check.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/text.h"
#include "check/check_report.h"
#include "evaluation/candidate_check.h"

namespace ptxbench::evaluation {
namespace {

using check::CheckFinding;
using check::CheckReport;

Place place_of(const check::Location& location, const std::string& kernel) {
  Place place;
  place.kernel = kernel;
  place.file = location.file;
  place.line = location.line;
  place.ptx_line = location.ptx_line;
  place.instruction = location.instruction;
  place.called_from = location.called_from;
  place.access = location.what;
  place.thread = location.thread;
  return place;
}

Finding finding_of(const CheckFinding& found) {
  Finding out;
  out.rule = found.rule;
  out.severity = found.severity == checker::Severity::error     ? Severity::error
                 : found.severity == checker::Severity::warning ? Severity::warning
                                                                : Severity::note;
  out.stage = found.rule.starts_with("numeric.") || found.rule == "memory.unwritten" ? StageName::correctness
                                                                                     : StageName::execute;
  out.message = found.message;
  out.remedy = found.fix;
  out.place = place_of(found.location, found.kernel);
  out.place.output = found.output;
  out.place.host_call = found.host_call;
  if (found.has_other) out.other = place_of(found.other, found.kernel);
  out.address = found.address;
  out.occurrences = found.occurrences;
  out.policies.assign(found.policies.begin(), found.policies.end());
  return out;
}

/// Of a sample of the clusters: another one, which did not run, may be what is waited for.
bool depends_on_the_rest(const CheckFinding& found) {
  return found.rule == "sync.deadlock" || found.rule == "sync.budget" || found.rule == "sync.exit";
}

}  // namespace

bool worth_another_run(const Evaluation& evaluation) {
  return std::none_of(evaluation.findings.begin(), evaluation.findings.end(), [](const Finding& finding) {
    return finding.rule.starts_with("unsupported.") || finding.rule == "sync.budget";
  });
}

bool worth_checking(const Evaluation& evaluation, const EvaluateOptions& options) {
  if (options.hazards == EvaluateOptions::Hazards::off || options.device != nullptr) return false;
  if (evaluation.stage(StageName::compile).status != Status::passed) return false;
  const bool ran =
      std::any_of(evaluation.runs.begin(), evaluation.runs.end(), [](const Run& run) { return !run.launches.empty(); });
  if (!ran) return false;
  if (!worth_another_run(evaluation)) return false;
  if (options.hazards == EvaluateOptions::Hazards::always) return true;
  return evaluation.stage(StageName::execute).status == Status::failed ||
         evaluation.stage(StageName::correctness).status == Status::failed;
}

Result<void> check_hazards(std::string_view source, const std::vector<problem::Problem>& workloads,
                           const EvaluateOptions& options, Evaluator& evaluator, Evaluation& evaluation) {
  const auto started = std::chrono::steady_clock::now();
  CandidateCheck how;
  how.check.threads = options.threads;
  how.check.seed = options.seed;
  if (options.instruction_budget != 0) how.check.instruction_budget = options.instruction_budget;
  how.full = options.full;
  how.sample_clusters = options.sample_clusters;
  CheckReport report;
  if (auto done = check_candidate(source, workloads, how, evaluator, report); !done) return done;
  report.sort();
  const bool sampled = report.clusters_run < report.clusters_total;
  const auto is_told_elsewhere = [](const CheckFinding& found) {
    return found.rule.starts_with("unsupported.") || found.rule.starts_with("compile.");
  };
  bool left_out = false;
  for (const CheckFinding& found : report.findings) {
    if (is_told_elsewhere(found)) continue;
    if (sampled && depends_on_the_rest(found)) {
      left_out = true;
      continue;
    }
    const auto known = std::find_if(evaluation.findings.begin(), evaluation.findings.end(), [&](const Finding& one) {
      return one.rule == found.rule && one.place.ptx_line == found.location.ptx_line &&
             one.place.output == found.output && one.policies.empty();
    });
    if (known == evaluation.findings.end()) {
      // Wrong numbers are judged on the evaluation's own run; another policy's are told only where it had none.
      const bool has_numbers = evaluation.stage(StageName::correctness).status == Status::failed;
      const bool of_numbers = found.rule.starts_with("numeric.") || found.rule == "memory.unwritten";
      if (!(of_numbers && has_numbers)) evaluation.findings.push_back(finding_of(found));
      continue;
    }
    // The same fault, of which the check knows more.
    const Finding more = finding_of(found);
    if (!known->other) known->other = more.other;
    if (known->place.thread.empty()) known->place.thread = more.place.thread;
    if (known->address.empty()) known->address = more.address;
  }
  HazardCheck& check = evaluation.hazards;
  check.policies = report.policies;
  check.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  // Wrong numbers are no hazard: the correctness stage has them.
  const bool only_numbers = std::all_of(report.findings.begin(), report.findings.end(), [&](const CheckFinding& found) {
    return found.severity == checker::Severity::note || found.rule.starts_with("numeric.") ||
           found.rule == "memory.unwritten" || is_told_elsewhere(found) || (sampled && depends_on_the_rest(found));
  });
  const bool incomplete = !report.unknown.empty() || !report.unsupported.empty() || left_out;
  switch (!only_numbers ? check::Verdict::hazardous : incomplete ? check::Verdict::unknown : check::Verdict::clean) {
    case check::Verdict::clean:
      check.status = Status::passed;
      break;
    case check::Verdict::hazardous:
      check.status = Status::failed;
      break;
    case check::Verdict::unknown:
      check.status = Status::unknown;
      if (left_out) check.reason = "what was found depends on clusters that were not run";
      for (const std::string& one : report.unknown) check.reason += (check.reason.empty() ? "" : "; ") + one;
      for (const std::string& one : report.unsupported) {
        check.reason += (check.reason.empty() ? "" : "; ") + fmt::format("{} is not modelled", one);
      }
      break;
  }
  return {};
}

}  // namespace ptxbench::evaluation
