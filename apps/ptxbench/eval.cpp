// ptxbench eval: judges one candidate. Options in, one evaluation out; the rules are in src/evaluation.

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "agent/feedback.h"
#include "base/files.h"
#include "base/json.h"
#include "base/terminal.h"
#include "base/text.h"
#include "commands.h"
#include "evaluation/evaluation_reader.h"
#include "evaluation/evaluation_text.h"
#include "evaluation/evaluator.h"
#include "remote_eval.h"
#include "selection.h"
#include "timeline_option.h"

namespace ptxbench::app {
namespace {

struct Options {
  std::string kernel;
  std::string problem, service;
  std::vector<std::string> data, workloads, axes, require;
  std::string backend = "auto";
  std::string completion = "eager";
  std::string tensor_cores = "fast";
  std::string target = "sm_90a", tolerance = "strict", language, hazards, feedback;
  std::size_t feedback_tokens = 0;
  std::optional<unsigned> sample_clusters;
  std::uint64_t seed = 1, budget = 0;
  unsigned seeds = 0, threads = 0;
  double host_seconds = 10;
  int device = 0;
  bool no_timing = false;
  std::size_t timed_calls = 0;
  std::string baseline = "first";
  std::vector<std::string> sanitize;
  TimelineChoice timeline;
  bool full = false, json = false, answer = false, largest = false;
};

/// The line on a terminal that says what takes so long, kept alive while this thread is busy.
class Progress {
 public:
  Progress() : ticker_([this](const std::stop_token& stop) { tick(stop); }) {}

  void say(std::string_view state) {
    const std::lock_guard lock(mutex_);
    state_ = state;
  }

 private:
  void tick(const std::stop_token& stop) {
    base::ProgressLine line("eval");
    std::unique_lock lock(mutex_);
    while (!stop.stop_requested()) {
      changed_.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; });
      line.update(state_);
    }
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::string state_ = "starting";
  std::jthread ticker_;  // last: it uses the others
};

/// A model is told of hazards unless an experiment turns that off.
std::string hazards_of(const Options& options) {
  if (!options.hazards.empty()) return options.hazards;
  return options.feedback.empty() ? "off" : std::string(agent::kHazardsOfExperiments);
}

Result<void> print_feedback(const Options& options, const evaluation::Evaluation& evaluation) {
  const auto language = choose_language(options.language, options.kernel);
  if (!language) return tl::unexpected<Error>(language.error());
  const auto source = read_candidate(options.kernel, options.answer, *language);
  if (!source) return tl::unexpected<Error>(source.error());
  const auto level = agent::parse_feedback_level(options.feedback);
  if (!level) return input_error("--feedback: {}", level.error().message);
  fmt::print("{}", agent::feedback_text(evaluation, *source, {*level, options.feedback_tokens, {}}));
  return {};
}

struct Judged {
  evaluation::Evaluation evaluation;
  std::function<Result<evaluation::CandidateTimeline>()> record;  ///< if a timeline is wanted
};

Result<Judged> judge(const Options& options) {
  evaluation::EvaluateOptions evaluate;
  using Backend = evaluation::EvaluateOptions::Backend;
  if (options.backend == "gpu") {
    evaluate.backend = Backend::gpu;
  } else if (options.backend == "auto") {
    evaluate.backend = gpu::has_gpu() ? Backend::both : Backend::emulator;
  } else if (options.backend != "emulator") {
    return input_error("--backend {}: auto, emulator or gpu", options.backend);
  }
  evaluate.gpu = options.device;
  evaluate.timing = !options.no_timing;
  if (options.timed_calls != 0) evaluate.stop = gpu::StopRule::exactly(options.timed_calls);
  if (!options.sanitize.empty() && evaluate.backend == Backend::emulator) {
    return input_error("--sanitize needs a GPU: compute-sanitizer watches real kernels; `ptxbench check` needs none");
  }
  evaluate.sanitizer_tools = options.sanitize;
  evaluate.tuned_baseline = options.baseline == "tuned";
  if (options.full && options.sample_clusters) return input_error("--full and --sample-clusters exclude each other");
  for (const std::string& requirement : options.require) {
    if (auto applied = evaluation::apply_requirement(requirement, evaluate); !applied)
      return input_error("--require {}", applied.error().message);
  }
  if (options.tolerance != "strict" && options.tolerance != "reference") {
    return input_error("--tolerance {}: strict or reference", options.tolerance);
  }
  if (options.tolerance == "reference") evaluate.tolerance = problem::Tolerance::reference;
  const auto completion = parse_completion(options.completion);
  if (!completion) return tl::unexpected<Error>(completion.error());
  const auto target = candidate::parse_target(options.target);
  if (!target) return tl::unexpected<Error>(target.error());
  evaluate.compile.target = *target;
  const auto language = choose_language(options.language, options.kernel);
  if (!language) return tl::unexpected<Error>(language.error());
  evaluate.compile.language = *language;
  evaluate.completion = *completion;
  const auto hazards = evaluation::parse_hazards(hazards_of(options));
  if (!hazards) return tl::unexpected<Error>(hazards.error());
  evaluate.hazards = *hazards;
  evaluate.exact_tensor_cores = options.tensor_cores == "exact";
  evaluate.seed = options.seed;
  evaluate.seeds = options.seeds;
  evaluate.threads = options.threads;
  evaluate.instruction_budget = options.budget;
  evaluate.sample_clusters = options.sample_clusters;
  evaluate.full = options.full;
  evaluate.host.idle = std::chrono::milliseconds(static_cast<std::int64_t>(options.host_seconds * 1000));

  auto source = read_candidate(options.kernel, options.answer, *language);
  if (!source) return tl::unexpected<Error>(source.error());
  const auto problems = find_problems({options.data, options.problem, options.workloads, options.axes});
  if (!problems) return tl::unexpected<Error>(problems.error());
  auto evaluator = evaluation::Evaluator::create();
  if (!evaluator) return tl::unexpected<Error>(evaluator.error());
  Progress progress;
  evaluate.progress = [&](std::string_view state) { progress.say(state); };
  auto evaluation = (*evaluator)->evaluate(*source, *problems, evaluate);
  if (!evaluation) return tl::unexpected<Error>(evaluation.error());
  Judged judged{std::move(*evaluation), {}};
  if (options.timeline.wanted()) {
    const bool stopped = judged.evaluation.stage(evaluation::StageName::execute).status == evaluation::Status::failed;
    evaluate.progress = {};
    judged.record = [evaluator = std::shared_ptr(std::move(*evaluator)), source = std::move(*source),
                     problem = problems->front(), evaluate, recorder = options.timeline.recorder(),
                     stopped] { return evaluator->record(source, problem, evaluate, recorder, stopped); };
  }
  return judged;
}

Result<void> make_timeline(const Options& options, const Judged& judged) {
  const auto recorded = [&] {
    Progress progress;
    progress.say("recording the timeline");
    return judged.record();
  }();
  if (!recorded) return tl::unexpected<Error>(recorded.error());
  return write_timeline(options.timeline, recorded->launches, recorded->launches_left_out, options.kernel);
}

/// The same options as a request to a service.
Result<base::Json> request_of(const Options& options) {
  if (!options.data.empty()) {
    return input_error("--data and --service exclude each other: a service has its own problem folders");
  }
  if (options.timeline.wanted()) {
    return input_error("--timeline and --service exclude each other: a timeline is made on the machine that asks");
  }
  if (options.device != 0) return input_error("--device and --service exclude each other: a service chooses");
  const auto language = choose_language(options.language, options.kernel);
  if (!language) return tl::unexpected<Error>(language.error());
  const auto source = read_candidate(options.kernel, options.answer, *language);
  if (!source) return tl::unexpected<Error>(source.error());
  base::Json how{{"seed", options.seed},
                 {"seeds", options.seeds},
                 {"completion", options.completion},
                 {"tensor_cores", options.tensor_cores},
                 {"tolerance", options.tolerance},
                 {"target", options.target},
                 {"language", candidate::to_string(*language)},
                 {"full", options.full},
                 {"hazards", hazards_of(options)},
                 {"budget", options.budget},
                 {"host_seconds", options.host_seconds},
                 {"require", options.require},
                 {"timing", !options.no_timing}};
  if (options.timed_calls != 0) how["timed_calls"] = options.timed_calls;
  if (options.baseline != "first") how["baseline"] = options.baseline;
  if (!options.sanitize.empty()) how["sanitize"] = options.sanitize;
  if (options.threads != 0) how["threads"] = options.threads;
  if (options.sample_clusters) how["sample_clusters"] = *options.sample_clusters;
  base::Json axes = base::Json::object();
  for (const std::string& text : options.axes) {
    const auto axis = problem::parse_axis_assignment(text);
    if (!axis) return tl::unexpected<Error>(axis.error());
    if (axes.contains(axis->first)) return input_error("--axis {}: the axis is given twice", text);
    axes[axis->first] = axis->second;
  }
  return base::Json{{"source", *source},
                    {"problem", options.problem},
                    {"workloads", options.workloads},
                    {"axes", axes},
                    {"backend", options.backend},
                    {"options", how},
                    {"together", true},
                    {"color", !options.json && base::use_color(stdout)}};
}

ExitCode judge_remotely(const Options& options) {
  const auto request = request_of(options);
  if (!request) return report_error(request.error());
  const auto remote = evaluate_remotely(options.service, *request);
  if (!remote) return report_error(remote.error());
  if (options.json) {
    fmt::print("{}\n", remote->evaluation.dump(2));
  } else if (!options.feedback.empty()) {
    const auto evaluation = evaluation::evaluation_from_json(remote->evaluation, options.service);
    if (!evaluation) return report_error(evaluation.error());
    if (auto printed = print_feedback(options, *evaluation); !printed) return report_error(printed.error());
  } else {
    fmt::print("{}", remote->text);
  }
  return remote->passed ? ExitCode::passed : ExitCode::not_passed;
}

}  // namespace

void add_eval(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Judge one candidate: compile, execute, compare, count instructions");
  command
      ->add_option("kernel", options->kernel,
                   "The candidate's .cu or .py (Triton) file, or a model's answer (.md, .txt)")
      ->required();
  command->add_option("-p,--problem", options->problem, "Definition to judge it by")->required();
  command
      ->add_option("--data", options->data,
                   "Folder in FlashInfer-Trace layout (repeatable; default: the shipped problems)")
      ->allow_extra_args(false);
  command->add_option("--workload", options->workloads, "Stored workload, by uuid or its beginning (repeatable)")
      ->allow_extra_args(false);
  command->add_option("--axis", options->axes, "Axis value instead of a stored workload, as M=256 (repeatable)")
      ->allow_extra_args(false);
  command
      ->add_option("--backend", options->backend,
                   "emulator, gpu, or auto: the emulator first, then a GPU if there is one and nothing was wrong")
      ->capture_default_str();
  command->add_option("--device", options->device, "Which GPU")->capture_default_str();
  command->add_flag("--no-timing", options->no_timing, "On a GPU: results only, no times");
  command
      ->add_option("--timed-calls", options->timed_calls,
                   "On a GPU: as many timed calls (default: until the speed-up is known to 0.3 %)")
      ->check(CLI::Range(std::size_t{1}, evaluation::kMostTimedCalls));
  command
      ->add_option("--baseline", options->baseline,
                   "On a GPU: the library's first plan, or tuned (the fastest it offers; of cuBLASLt)")
      ->check(CLI::IsMember({"first", "tuned"}))
      ->capture_default_str();
  command
      ->add_option("--sanitize", options->sanitize,
                   "On a GPU: once more under compute-sanitizer's memcheck, racecheck, initcheck or synccheck "
                   "(repeatable); slow, for small workloads")
      ->check(CLI::IsMember({"memcheck", "racecheck", "initcheck", "synccheck"}))
      ->allow_extra_args(false);
  command->add_option("--require", options->require, "Also needed to pass: target, speedup=X (repeatable)")
      ->allow_extra_args(false);
  command
      ->add_option("--tolerance", options->tolerance,
                   "Rule for results: strict, or reference (the public benchmark's looser one)")
      ->capture_default_str();
  command
      ->add_option("--hazards", options->hazards,
                   "Also run under the hazard checker: off, failed (to explain what failed) or always, and then a "
                   "hazard alone fails it (default: off; always with --feedback)")
      ->check(CLI::IsMember({"off", "failed", "always"}));
  command
      ->add_option("--feedback", options->feedback,
                   "Print what a model would be told instead: terse, standard or rich (docs/feedback.md)")
      ->check(CLI::IsMember({"terse", "standard", "rich"}));
  command
      ->add_option("--feedback-tokens", options->feedback_tokens,
                   "At most as many tokens of it, estimated (default: the level's own)")
      ->check(CLI::Range(agent::kFewestFeedbackTokens, std::size_t{1'000'000}));
  command->add_option("--seed", options->seed, "Seed of the inputs")->capture_default_str();
  command->add_option("--seeds", options->seeds,
                      "Runs per workload, each with other inputs (default: two if small, else one)");
  command->add_option("--sample-clusters", options->sample_clusters,
                      "Run only the corners of the grid and this many other clusters (default for big problems: 4)");
  command->add_flag("--full", options->full, "Run every cluster, however big the problem is");
  command->add_option("--budget", options->budget,
                      "Warp instructions a launch may take (default: by the problem's size)");
  command->add_option("--host-seconds", options->host_seconds, "Longest time host code may take between kernels")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command->add_option("--completion", options->completion, "When asynchronous copies finish: eager, lazy or random")
      ->capture_default_str();
  command
      ->add_option("--tensor-cores", options->tensor_cores,
                   "Sums of tensor-core products: fast (fp32) or exact (the hardware's bits, slower)")
      ->check(CLI::IsMember({"fast", "exact"}))
      ->capture_default_str();
  command->add_option("--threads", options->threads, "Threads of the emulator (default: all cores)");
  command->add_option("--target", options->target, "Architecture")->capture_default_str();
  add_timeline(*command, options->timeline);
  add_language(*command, options->language);
  command->add_flag("--answer", options->answer,
                    "The file is a model's answer whatever its name: take the code out of it");
  command->add_flag("--json", options->json, "Write one object of schema ptxbench.evaluation/1");
  command->add_option("--service", options->service,
                      "Let the service at this address judge (http://127.0.0.1:8000; ptxbench serve)");
  command->footer(
      "Exit code 0: passed. 1: judged and not passed, or a required stage could not be judged. 2: wrong usage or "
      "input.\n"
      "3: a tool is missing or the machine failed.");
  command->callback([options, &exit_code] {
    if (!options->service.empty()) {
      exit_code = judge_remotely(*options);
      return;
    }
    const auto judged = judge(*options);
    if (!judged) {
      exit_code = report_error(judged.error());
      return;
    }
    const evaluation::Evaluation& evaluation = judged->evaluation;
    if (options->json) {
      fmt::print("{}\n", evaluation::to_json(evaluation).dump(2));
    } else if (!options->feedback.empty()) {
      if (auto printed = print_feedback(*options, evaluation); !printed) {
        exit_code = report_error(printed.error());
        return;
      }
    } else {
      fmt::print("{}", evaluation::to_text(evaluation, base::Style(base::use_color(stdout))));
    }
    exit_code = evaluation.passed() ? ExitCode::passed : ExitCode::not_passed;
    // The verdict stands, whatever becomes of the timeline.
    if (!judged->record) return;
    std::fflush(stdout);
    if (const auto made = make_timeline(*options, *judged); !made) {
      const ExitCode code = report_error(made.error());
      if (exit_code == ExitCode::passed) exit_code = code;
    }
  });
}

}  // namespace ptxbench::app
