// `ptxbench check`: hazards of a candidate, of any CUDA program, or of one kernel of a PTX file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/process.h"
#include "base/terminal.h"
#include "base/text.h"
#include "check/check_launch.h"
#include "commands.h"
#include "cuda_shim/device_backend.h"
#include "cuda_shim/host_process.h"
#include "cuda_shim/program_check.h"
#include "cuda_shim/server.h"
#include "evaluation/candidate_check.h"
#include "evaluation/check_key.h"
#include "evaluation/evaluator.h"
#include "launch/prepared_launch.h"
#include "selection.h"
#include "timeline_option.h"

namespace ptxbench::app {
namespace {

using check::CheckFinding;
using check::CheckReport;
using check::PolicyRun;
using check::RunOutcome;
using check::Watch;
using emulator::CompletionPolicy;
using emulator::DefinednessMode;

struct Options {
  std::string file;
  std::vector<std::string> program;
  ProblemChoice problem;
  std::string launch;
  bool answer = false;
  std::string language;
  std::vector<std::string> policies{"eager", "lazy", "random"};
  check::CheckOptions check;
  std::vector<std::uint64_t> replay;
  std::string json, sarif, suppressions;
  bool full = false;
  std::optional<unsigned> sample_clusters;
  TimelineChoice timeline;
  double timeout_seconds = 0;
  bool fresh = false;
};

constexpr std::array<std::string_view, 6> kFileEndings{".cu", ".cuh", ".py", ".ptx", ".md", ".txt"};

Result<std::vector<PolicyRun>> policy_runs(const Options& options) {
  std::vector<PolicyRun> runs;
  for (const std::uint64_t seed : options.replay) runs.push_back({CompletionPolicy::random, seed});
  if (!runs.empty()) return runs;
  for (const std::string& name : options.policies) {
    const auto policy = parse_completion(name);
    if (!policy) return input_error("--policies {}: a list of eager, lazy and random", name);
    runs.push_back({*policy, options.check.seed});
  }
  return runs;
}

Result<std::unique_ptr<Watch>> start(const Options& options, const PolicyRun& run, DefinednessMode definedness,
                                     std::function<void(std::string_view)> print, bool accept_proofs = true) {
  check::CheckOptions check = options.check;
  check.accept_proofs = accept_proofs;
  check.seed = run.seed;
  check.definedness = definedness;
  return Watch::start(check, run.policy, std::move(print));
}

// --- reports of earlier checks

/// What the report depends on besides its subject.
std::vector<std::string> settings_of(const Options& options, const std::vector<PolicyRun>& runs) {
  std::vector<std::string> settings;
  settings.reserve(runs.size() + 2);
  for (const PolicyRun& run : runs) {
    settings.push_back(fmt::format("policy={} seed={}", static_cast<int>(run.policy), run.seed));
  }
  settings.push_back(fmt::format("pedantic={} threads={} budget={} full={}", options.check.pedantic,
                                 options.check.threads, options.check.instruction_budget, options.full));
  if (options.sample_clusters) settings.push_back(fmt::format("sample={}", *options.sample_clusters));
  return settings;
}

/// Puts an earlier report with this key into `report`, or lets `make` do it and keeps the result. Storing is a help,
/// not a condition: what stands in its way is told and the check goes on.
Result<void> stored_or_made(const Options& options, const Result<check::CheckKey>& key, CheckReport& report,
                            const std::function<Result<void>()>& make) {
  const auto tell = [](std::string_view text) { fmt::print(stderr, "ptxbench: {}\n", text); };
  auto store = check::StoredChecks::open();
  if (!key || !store) {
    tell(fmt::format("nothing is stored: {}", key ? store.error().message : key.error().message));
    return make();
  }
  if (!options.fresh) {
    std::string warning;
    auto found = store->find(*key, warning);
    if (!warning.empty()) tell(warning);
    if (found) {
      report = std::move(*found);
      return {};
    }
  }
  if (auto made = make(); !made) return made;
  report.sort();
  if (!check::StoredChecks::is_repeatable(report)) return {};
  if (auto kept = store->keep(*key, report); !kept) tell(fmt::format("nothing is stored: {}", kept.error().message));
  return {};
}

// --- one kernel of a PTX file

struct LoadedLaunch {
  std::string ptx, text;
  launch::LaunchDescription description;
};

Result<LoadedLaunch> load_launch(const Options& options) {
  auto ptx = base::read_file(options.file, std::uint64_t{256} << 20);
  if (!ptx) return tl::unexpected<Error>(ptx.error());
  auto text = base::read_file(options.launch, std::uint64_t{1} << 20);
  if (!text) return tl::unexpected<Error>(text.error());
  auto description = launch::parse(*text, options.launch);
  if (!description) return tl::unexpected<Error>(description.error());
  return LoadedLaunch{std::move(*ptx), std::move(*text), std::move(*description)};
}

Result<void> check_ptx(const Options& options, const std::vector<PolicyRun>& runs, CheckReport& report) {
  const auto loaded = load_launch(options);
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  const auto key = evaluation::check_key(loaded->ptx, loaded->text, settings_of(options, runs));
  return stored_or_made(options, key, report, [&] {
    return check::check_launch(loaded->ptx, options.file, loaded->description, runs, options.check, report);
  });
}

// --- any CUDA program

Result<cuda_shim::ProgramInfo> program_of(const Options& options) {
  const std::string& name = options.program.front();
  const bool has_folder = name.find('/') != std::string::npos;
  const auto program = has_folder ? std::optional(std::filesystem::path(name)) : base::find_program(name);
  if (!program) return input_error("no program '{}' in PATH; write ./ before one in this folder", name);
  return cuda_shim::check_program(*program);
}

struct ProgramRun {
  cuda_shim::HostOutcome outcome;
  cuda_shim::ShimReport shim;
};

/// The program once from start to end with this device as its GPU. `speaks`: its streams are ours.
Result<ProgramRun> run_program(const Options& options, const cuda_shim::ProgramInfo& info, emulator::Device& device,
                               const std::shared_ptr<cuda_shim::DeviceOutput>& output, bool speaks,
                               std::function<void(const emulator::LaunchReport&)> on_launch) {
  const auto backend = cuda_shim::make_emulator_backend(device);
  cuda_shim::ShimOptions shim_options;
  shim_options.on_launch = std::move(on_launch);
  auto server = cuda_shim::ShimServer::start(*backend, output, std::move(shim_options));
  if (!server) return tl::unexpected<Error>(server.error());
  cuda_shim::HostRequest request;
  request.argv = options.program;
  request.socket = (*server)->socket_path();
  request.preload = info.needs_preload;
  request.inherit_streams = speaks;
  if (options.timeout_seconds > 0) {
    request.limits.wall = std::chrono::milliseconds(static_cast<std::int64_t>(options.timeout_seconds * 1000));
  }
  auto outcome = cuda_shim::run_host_process(request);
  if (!outcome) return tl::unexpected<Error>(outcome.error());
  const bool exited = outcome->end == cuda_shim::HostOutcome::End::exited;
  return ProgramRun{std::move(*outcome), (*server)->stop(exited)};
}

Result<void> check_program(const Options& options, const std::vector<PolicyRun>& runs, CheckReport& report) {
  const auto info = program_of(options);
  if (!info) return tl::unexpected<Error>(info.error());
  bool first = true, accept_proofs = true;
  return check::run_all(runs, [&](const PolicyRun& run, DefinednessMode definedness) -> Result<RunOutcome> {
    const auto output = std::make_shared<cuda_shim::DeviceOutput>();
    auto watch = start(
        options, run, definedness, [output](std::string_view text) { output->append(text); }, accept_proofs);
    if (!watch) return tl::unexpected<Error>(watch.error());
    // The program speaks once, however often it runs.
    const auto ran = run_program(options, *info, (*watch)->device(), output, std::exchange(first, false),
                                 [&](const emulator::LaunchReport& launch) { (*watch)->add(launch); });
    if (!ran) return tl::unexpected<Error>(ran.error());
    const cuda_shim::ShimReport& shim = ran->shim;
    for (const cuda_shim::HostDiagnostic& diagnostic : shim.diagnostics) {
      if (diagnostic.rule.starts_with("unsupported.")) {
        (*watch)->add_unknown(diagnostic.message);
        continue;
      }
      CheckFinding finding;
      finding.rule = diagnostic.rule;
      finding.message = diagnostic.message;
      finding.fix = diagnostic.remedy;
      finding.kernel = diagnostic.kernel;
      finding.host_call = diagnostic.call;
      if (diagnostic.note) finding.severity = checker::Severity::note;
      (*watch)->add(std::move(finding));
    }
    if (accept_proofs && definedness == DefinednessMode::watch && (*watch)->checker().needs_watching()) {
      accept_proofs = false;
      return RunOutcome{false, false, true};
    }
    if (!ran->outcome.ok()) (*watch)->add_unknown(fmt::format("the program {}", ran->outcome.describe()));
    if (shim.launches == 0) (*watch)->add_unknown("the program launched no kernel");
    return check::finish_run(**watch, definedness, report);
  });
}

// --- a candidate

struct LoadedCandidate {
  candidate::Language language{};
  std::string source;
  std::vector<problem::Problem> problems;
};

Result<LoadedCandidate> load_candidate(const Options& options) {
  const auto language = choose_language(options.language, options.file);
  if (!language) return tl::unexpected<Error>(language.error());
  auto source = read_candidate(options.file, options.answer, *language);
  if (!source) return tl::unexpected<Error>(source.error());
  auto problems = find_problems(options.problem);
  if (!problems) return tl::unexpected<Error>(problems.error());
  return LoadedCandidate{*language, std::move(*source), std::move(*problems)};
}

Result<void> check_candidate(const Options& options, const std::vector<PolicyRun>& runs, CheckReport& report) {
  const auto loaded = load_candidate(options);
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  auto evaluator = evaluation::Evaluator::create();
  if (!evaluator) return tl::unexpected<Error>(evaluator.error());
  evaluation::CandidateCheck how{options.check, runs, options.full, options.sample_clusters, {}};
  how.compile.language = loaded->language;
  const auto make = [&] {
    return evaluation::check_candidate(loaded->source, loaded->problems, how, **evaluator, report);
  };
  const auto compilation = (*evaluator)->compile(loaded->source, loaded->problems, how.compile);
  if (!compilation) return tl::unexpected<Error>(compilation.error());
  if (!compilation->artifact) return make();  // it does not compile, which is quickly said again
  const auto key = evaluation::check_key(*compilation, loaded->problems, settings_of(options, runs));
  return stored_or_made(options, key, report, make);
}

// --- timelines: one more run, without the checker, under the first policy

/// `run` has the device's kernels recorded; once more if a cluster faulted that was not.
Result<void> record(const Options& options, const PolicyRun& policy,
                    const std::function<Result<void>(emulator::Device&, timeline::Recorder&)>& run) {
  timeline::RecorderOptions what = options.timeline.recorder();
  for (bool again = false;; again = true) {
    emulator::DeviceOptions device;
    device.threads = options.check.threads;
    device.completion = policy.policy;
    device.seed = policy.seed;
    device.instruction_budget = options.check.instruction_budget;
    device.print = [](std::string_view) {};
    auto recording = timeline::Recording::start(std::move(device), what);
    if (!recording) return tl::unexpected<Error>(recording.error());
    timeline::Recorder& recorder = (*recording)->recorder();
    if (auto ran = run((*recording)->device(), recorder); !ran) return ran;
    if (const auto missed = recorder.missed_fault(); missed && !again) {
      what.clusters.push_back(*missed);
      continue;
    }
    return write_timeline(options.timeline, recorder.take(), recorder.launches_left_out(),
                          options.program.empty() ? options.file : options.program.front());
  }
}

Result<void> record_ptx(const Options& options, const PolicyRun& policy) {
  const auto loaded = load_launch(options);
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  return record(options, policy, [&](emulator::Device& device, timeline::Recorder& recorder) -> Result<void> {
    const auto module = device.load_ptx(loaded->ptx, options.file);
    if (!module) return tl::unexpected<Error>(module.error());
    const auto prepared = launch::PreparedLaunch::create(device, *module, loaded->description);
    if (!prepared) return tl::unexpected<Error>(prepared.error());
    for (std::uint32_t i = 0; i < loaded->description.repeat; ++i) {
      const auto launched = device.launch(prepared->request());
      if (!launched) break;  // the check told why
      recorder.add(*launched);
      if (launched->fault) break;
    }
    return {};
  });
}

Result<void> record_program(const Options& options, const PolicyRun& policy) {
  const auto info = program_of(options);
  if (!info) return tl::unexpected<Error>(info.error());
  return record(options, policy, [&](emulator::Device& device, timeline::Recorder& recorder) -> Result<void> {
    const auto ran = run_program(options, *info, device, std::make_shared<cuda_shim::DeviceOutput>(), false,
                                 [&](const emulator::LaunchReport& launch) { recorder.add(launch); });
    if (!ran) return tl::unexpected<Error>(ran.error());
    return {};
  });
}

Result<void> record_candidate(const Options& options, const PolicyRun& policy, bool whole) {
  const auto loaded = load_candidate(options);
  if (!loaded) return tl::unexpected<Error>(loaded.error());
  auto evaluator = evaluation::Evaluator::create();
  if (!evaluator) return tl::unexpected<Error>(evaluator.error());
  evaluation::EvaluateOptions how;
  how.compile.language = loaded->language;
  how.threads = options.check.threads;
  how.completion = policy.policy;
  how.seed = policy.seed;
  how.instruction_budget = options.check.instruction_budget;
  how.full = options.full;
  how.sample_clusters = options.sample_clusters;
  const auto recorded =
      (*evaluator)->record(loaded->source, loaded->problems.front(), how, options.timeline.recorder(), whole);
  if (!recorded) return tl::unexpected<Error>(recorded.error());
  return write_timeline(options.timeline, recorded->launches, recorded->launches_left_out, options.file);
}

Result<void> record_subject(const Options& options, const PolicyRun& policy, const CheckReport& report) {
  if (!options.program.empty()) return record_program(options, policy);
  if (options.file.ends_with(".ptx")) return record_ptx(options, policy);
  const bool stopped = std::any_of(report.findings.begin(), report.findings.end(), [](const CheckFinding& finding) {
    return finding.severity == checker::Severity::error && !finding.rule.starts_with("numeric.");
  });
  return record_candidate(options, policy, stopped);
}

// --- suppressions

/// Lines "RULE" or "RULE KERNEL"; # starts a comment, * at the end of a word stands for anything.
Result<void> suppress(const std::string& file, CheckReport& report) {
  const auto text = base::read_file(file, std::uint64_t{1} << 20);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto matches = [](std::string_view pattern, std::string_view word) {
    if (pattern.ends_with('*')) return word.starts_with(pattern.substr(0, pattern.size() - 1));
    return pattern == word;
  };
  std::size_t number = 0;
  for (const std::string_view full : base::split_lines(*text)) {
    ++number;
    std::string line(full.substr(0, full.find('#')));
    std::replace(line.begin(), line.end(), '\t', ' ');
    const std::size_t begin = line.find_first_not_of(" \r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \r") - begin + 1);
    const std::size_t space = line.find(' ');
    const std::string rule = line.substr(0, space);
    std::string kernel = space == std::string::npos ? "*" : line.substr(line.find_first_not_of(' ', space));
    if (kernel.find(' ') != std::string::npos) {
      return input_error("{}:{}: expected 'RULE' or 'RULE KERNEL', found '{}'", file, number, line);
    }
    for (CheckFinding& finding : report.findings) {
      if (matches(rule, finding.rule) && matches(kernel, finding.kernel)) finding.suppressed = true;
    }
  }
  return {};
}

/// Sources and PTX are files to be judged; anything else is a program to be run.
void sort_subject(Options& options) {
  const std::string& first = options.program.front();
  const bool is_file = std::any_of(kFileEndings.begin(), kFileEndings.end(),
                                   [&](std::string_view ending) { return first.ends_with(ending); });
  if (!is_file || options.program.size() != 1) return;
  options.file = first;
  options.program.clear();
}

Result<ExitCode> run(const Options& options) {
  const bool is_ptx = options.file.ends_with(".ptx");
  if (is_ptx && options.launch.empty()) {
    return input_error("{}: a PTX file needs --launch DESCRIPTION, which says how to run it (docs/schemas.md)",
                       options.file);
  }
  if (!is_ptx && !options.file.empty() && options.problem.problem.empty()) {
    return input_error("{}: a candidate needs --problem, the definition it solves (ptxbench problems lists them)",
                       options.file);
  }
  const auto runs = policy_runs(options);
  if (!runs) return tl::unexpected<Error>(runs.error());
  if (options.json == "-" && options.sarif == "-")
    return input_error("--json - and --sarif - cannot both have the output");
  CheckReport report;
  Options comparing = options;
  if (runs->size() > 1) comparing.check.traces = std::make_shared<emulator::TraceStore>();
  const auto done = !options.program.empty() ? check_program(comparing, *runs, report)
                    : is_ptx                 ? check_ptx(comparing, *runs, report)
                                             : check_candidate(comparing, *runs, report);
  if (!done) return tl::unexpected<Error>(done.error());
  report.sort();
  if (!options.suppressions.empty()) {
    if (auto suppressed = suppress(options.suppressions, report); !suppressed)
      return tl::unexpected<Error>(suppressed.error());
  }
  const auto write = [](const std::string& file, const base::Json& json) -> Result<void> {
    const std::string text = json.dump(2) + "\n";
    if (file == "-") {
      std::fwrite(text.data(), 1, text.size(), stdout);
      return {};
    }
    return base::write_file_atomic(file, text);
  };
  if (!options.json.empty()) {
    if (auto written = write(options.json, check::to_json(report)); !written)
      return tl::unexpected<Error>(written.error());
  }
  if (!options.sarif.empty()) {
    if (auto written = write(options.sarif, check::to_sarif(report)); !written)
      return tl::unexpected<Error>(written.error());
  }
  if (options.json != "-" && options.sarif != "-") {
    const std::string text = check::to_text(report);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  // The report stands, whatever becomes of the timeline.
  if (options.timeline.wanted()) {
    std::fflush(stdout);
    if (auto recorded = record_subject(options, runs->front(), report); !recorded) {
      const ExitCode code = report_error(recorded.error());
      if (report.verdict() == check::Verdict::clean) return code;
    }
  }
  return report.verdict() == check::Verdict::clean ? ExitCode::passed : ExitCode::not_passed;
}

}  // namespace

void add_check(CLI::App& app, ExitCode& exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "check",
      "Find hazards: races, missing fences and waits, wrong phases, out of bounds, ... with both places and the fix");
  command->add_option("-p,--problem", options->problem.problem, "Definition a candidate solves");
  command->add_option("--data", options->problem.data, "Folder in FlashInfer-Trace layout (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--workload", options->problem.workloads, "Stored workload (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--axis", options->problem.axes, "Axis value, as M=256 (repeatable)")->allow_extra_args(false);
  add_language(*command, options->language);
  command->add_flag("--answer", options->answer, "The file is a model's answer whatever its name");
  command->add_flag("--fresh", options->fresh, "Run again even if the result of the same check is stored");
  command->add_flag("--full", options->full, "Run every cluster, however big the problem is");
  command->add_option("--sample-clusters", options->sample_clusters, "Clusters to run beside the corners of the grid");
  command->add_option("--launch", options->launch, "How to run a PTX file's kernel (TOML, docs/schemas.md)");
  command->add_option("--policies", options->policies, "When asynchronous operations complete; one run for each")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->capture_default_str();
  command->add_option("--seed", options->check.seed, "Seed of the random policy")->capture_default_str();
  command->add_option("--replay", options->replay, "Only the random policy, with this seed (repeatable)")
      ->allow_extra_args(false);
  command->add_flag("--pedantic", options->check.pedantic, "Contested notes count as warnings");
  command->add_option("--threads", options->check.threads, "Threads of the emulator (default: all cores)");
  command->add_option("--instructions", options->check.instruction_budget, "Warp instructions one launch may execute")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--timeout", options->timeout_seconds, "Stop a program after this many seconds")
      ->check(CLI::PositiveNumber);
  command->add_option("--json", options->json,
                      "Write the report of schema ptxbench.check/1 to this file (- for output)");
  command->add_option("--sarif", options->sarif, "Write SARIF 2.1.0 to this file (- for output)");
  add_timeline(*command, options->timeline);
  command->add_option("--suppressions", options->suppressions,
                      "File of findings to leave out: RULE or RULE KERNEL per line");
  command
      ->add_option(
          "subject", options->program,
          "A candidate (KERNEL.cu, or a model's answer) with --problem; FILE.ptx with --launch; or, after --, a "
          "program with its arguments")
      ->required()
      ->expected(-1);
  command->footer(
      "Exit codes: 0 clean; 1 hazards found, or the answer is incomplete (verdict unknown); 2 wrong usage or input; 3 "
      "our "
      "failure.");
  command->callback([options, &exit_code] {
    sort_subject(*options);
    const auto result = run(*options);
    exit_code = result ? *result : report_error(result.error());
  });
}

}  // namespace ptxbench::app
