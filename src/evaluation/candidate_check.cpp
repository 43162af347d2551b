#include "evaluation/candidate_check.h"

#include <memory>
#include <utility>

namespace ptxbench::evaluation {
namespace {

using check::CheckFinding;
using check::RunOutcome;
using check::Watch;

CheckFinding from_evaluation(const Finding& found) {
  CheckFinding finding;
  finding.rule = found.rule;
  finding.severity = found.severity == Severity::error     ? checker::Severity::error
                     : found.severity == Severity::warning ? checker::Severity::warning
                                                           : checker::Severity::note;
  finding.kernel = found.place.kernel;
  finding.message = found.message;
  finding.fix = found.remedy;
  finding.location.file = found.place.file;
  finding.location.line = found.place.line;
  finding.location.ptx_line = found.place.ptx_line;
  finding.location.instruction = found.place.instruction;
  finding.output = found.place.output;
  finding.host_call = found.place.host_call;
  return finding;
}

std::vector<check::PolicyRun> runs_of(const CandidateCheck& options) {
  if (!options.runs.empty()) return options.runs;
  const std::uint64_t seed = options.check.seed;
  return {{emulator::CompletionPolicy::eager, seed},
          {emulator::CompletionPolicy::lazy, seed},
          {emulator::CompletionPolicy::random, seed}};
}

}  // namespace

Result<void> check_candidate(std::string_view source, const std::vector<problem::Problem>& problems,
                             const CandidateCheck& options, Evaluator& evaluator, check::CheckReport& report) {
  const std::vector<check::PolicyRun> runs = runs_of(options);
  check::CheckOptions shared = options.check;
  if (runs.size() > 1 && !shared.traces) shared.traces = std::make_shared<emulator::TraceStore>();
  return check::run_all(runs,
                        [&](const check::PolicyRun& run, emulator::DefinednessMode definedness) -> Result<RunOutcome> {
                          check::CheckOptions check = shared;
                          check.accept_proofs = true;
                          check.seed = run.seed;
                          check.definedness = definedness;
                          auto watch = Watch::start(check, run.policy, [](std::string_view) {});
                          if (!watch) return tl::unexpected<Error>(watch.error());
                          EvaluateOptions evaluate;
                          evaluate.seeds = 1;
                          evaluate.full = options.full;
                          evaluate.compile = options.compile;
                          evaluate.sample_clusters = options.sample_clusters;
                          evaluate.device = &(*watch)->device();
                          evaluate.on_report = [&](const emulator::LaunchReport& launch) { (*watch)->add(launch); };
                          const auto evaluation = evaluator.evaluate(source, problems, evaluate);
                          if (!evaluation) return tl::unexpected<Error>(evaluation.error());
                          for (const Finding& found : evaluation->findings) {
                            // What stopped a kernel came with its launch already.
                            if (!(*watch)->has(found.rule, found.place.ptx_line)) (*watch)->add(from_evaluation(found));
                          }
                          for (const Run& done : evaluation->runs) {
                            const bool compared = done.correctness != Status::unknown;
                            if (!compared)
                              (*watch)->add_unknown(fmt::format("whether the outputs are right: {}", done.reason));
                            if (done.execute == Status::unknown) (*watch)->add_unknown(done.reason);
                          }
                          // Nor is there more to see under other policies if it does not compile.
                          return check::finish_run(**watch, definedness, report);
                        });
}

}  // namespace ptxbench::evaluation
