#include "evaluation/evaluator.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>

#include "base/cpu_meter.h"
#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "evaluation/device_run.h"
#include "evaluation/findings.h"
#include "evaluation/gpu_run.h"
#include "evaluation/hazard_check.h"
#include "evaluation/memory_need.h"
#include "evaluation/run_judge.h"
#include "gpu/sanitizer.h"

namespace ptxbench::evaluation {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr double kBigMacs = 1e11;
constexpr double kSmallMacs = 1e9;  ///< up to here a second run with other inputs costs nothing worth mentioning
constexpr unsigned kDefaultSample = 4;
constexpr std::size_t kMostCounted = 1024;
constexpr problem::Distribution kDistributions[] = {problem::Distribution::normal, problem::Distribution::scaled,
                                                    problem::Distribution::spiky,  problem::Distribution::ties,
                                                    problem::Distribution::flat,   problem::Distribution::tiny};

std::string_view completion_text(emulator::CompletionPolicy policy) {
  switch (policy) {
    case emulator::CompletionPolicy::eager:
      return "eager";
    case emulator::CompletionPolicy::lazy:
      return "lazy";
    case emulator::CompletionPolicy::random:
      return "random";
  }
  return "";
}

Status worse(Status left, Status right) {
  const auto rank = [](Status status) {
    switch (status) {
      case Status::failed:
        return 3;
      case Status::unknown:
        return 2;
      case Status::skipped:
        return 1;
      case Status::passed:
        return 0;
    }
    return 0;
  };
  return rank(left) >= rank(right) ? left : right;
}

void set(Stage& stage, Status status, std::string reason = {}) {
  stage.status = status;
  stage.reason = std::move(reason);
}

}  // namespace

Result<EvaluateOptions::Hazards> parse_hazards(std::string_view text) {
  using Hazards = EvaluateOptions::Hazards;
  if (text == "off") return Hazards::off;
  if (text == "failed") return Hazards::failed;
  if (text == "always") return Hazards::always;
  return input_error("off, failed or always, not '{}'", text);
}

Result<void> apply_requirement(const std::string& text, EvaluateOptions& options) {
  if (text == "target") {
    options.require_target = true;
    return {};
  }
  if (text.starts_with("speedup=")) {
    const std::string number = text.substr(8);
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (!number.empty() && end != nullptr && *end == '\0' && value > 0 && value < 1e6) {
      options.require_speedup = value;
      return {};
    }
  }
  return input_error("{}: 'target', or 'speedup=' and a positive number", text);
}

std::uint64_t Evaluator::default_budget(const problem::Problem& problem, bool sampled) {
  constexpr double kPerMultiplyAdd = 24.0 / 32;  // scalar loops take ten or fewer warp instructions per 32 of them
  constexpr double kBase = 4e8, kUnknownProblem = 2e10, kMostOnASample = 2e10;
  const auto macs = problem::required_multiply_adds(problem);
  double budget = macs ? kBase + *macs * kPerMultiplyAdd : kUnknownProblem;
  if (sampled) budget = std::min(budget, kMostOnASample);
  return static_cast<std::uint64_t>(budget);
}

bool Evaluator::is_big(const problem::Problem& problem) {
  return problem::required_multiply_adds(problem).value_or(0) > kBigMacs;
}

Result<std::unique_ptr<Evaluator>> Evaluator::create() {
  auto compiler = candidate::Compiler::create();
  if (!compiler) return tl::unexpected<Error>(compiler.error());
  if (const auto runner = find_runner(); !runner) return tl::unexpected<Error>(runner.error());
  return std::make_unique<Evaluator>(std::move(*compiler));
}

Result<candidate::Compilation> Evaluator::compile(std::string_view source,
                                                  const std::vector<problem::Problem>& workloads,
                                                  const candidate::CompileOptions& options) const {
  return options.language == candidate::Language::triton ? triton_.compile(source, workloads, options)
                                                         : compiler_.compile(source, options);
}

/// One evaluation in the making.
class Evaluator::Judge {
 public:
  Judge(Evaluator& evaluator, const std::vector<problem::Problem>& workloads, const EvaluateOptions& options)
      : evaluator_(evaluator), workloads_(workloads), options_(options) {
    for (const problem::Problem& problem : workloads_) {
      unsigned seeds = options.seeds;
      if (seeds == 0) {
        const auto macs = problem::required_multiply_adds(problem);
        seeds = macs && *macs <= kSmallMacs ? 2 : 1;
      }
      for (unsigned i = 0; i < seeds; ++i) {
        problem::InputOptions inputs;
        inputs.seed = options.seed + i;
        inputs.distribution = kDistributions[i % std::size(kDistributions)];
        inputs.threads = static_cast<int>(options.threads);
        plan_.push_back({&problem, inputs, sample_of(problem)});
      }
    }
  }

  ~Judge() {
    if (executor_ != nullptr) evaluator_.lanes_.lane(options_.gpu).put_back(std::move(executor_));
  }
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  Result<Evaluation> run(std::string_view source) {
    const auto started = Clock::now();
    out_.definition = workloads_.front().definition.name;
    out_.candidate_sha256 = base::sha256_hex(source);
    out_.target = candidate::to_string(options_.compile.target);
    out_.language = candidate::to_string(options_.compile.language);
    out_.stage(StageName::compile).decisive = true;
    out_.stage(StageName::execute).decisive = true;
    out_.stage(StageName::correctness).decisive = true;
    out_.stage(StageName::instructions).decisive = options_.require_target;
    out_.stage(StageName::performance).decisive = options_.require_speedup.has_value();
    set(out_.stage(StageName::performance), Status::skipped, uses_gpu() ? "not timed" : "no GPU");
    describe_backend();
    // A context takes a while: it is opened while the compiler runs.
    if (uses_gpu()) {
      for (const std::string& tool : options_.sanitizer_tools) {
        if (const auto there = gpu::sanitizer_command(tool, {}); !there) return tl::unexpected<Error>(there.error());
      }
      auto executor = take_executor(*plan_.front().problem);
      if (!executor) return tl::unexpected<Error>(executor.error());
      executor_ = std::move(*executor);
    }

    // The first inputs and their truth are made while the compiler runs.
    auto first_state = std::async(std::launch::async, [this, meter = base::CpuMeter::current()] {
      const base::CpuScope scope(meter);
      return state_of(plan_.front());
    });
    auto artifact = compile(source);
    auto state = first_state.get();
    if (!artifact) return tl::unexpected<Error>(artifact.error());
    if (!state) return tl::unexpected<Error>(state.error());
    if (*artifact) {
      const auto run_all = [&](auto run) -> Result<void> {
        for (std::size_t i = 0; i < plan_.size(); ++i) {
          if (i > 0) state = state_of(plan_[i]);
          if (!state) return tl::unexpected<Error>(state.error());
          if (auto done = run(plan_[i], **artifact, **state); !done) return done;
          // More inputs would say the same again.
          if (out_.runs.back().execute != Status::passed || out_.runs.back().correctness == Status::failed) break;
        }
        return {};
      };
      if (options_.backend != Backend::gpu) {
        std::unique_lock device(evaluator_.device_, std::defer_lock);
        if (options_.device == nullptr) device.lock();  // else its owner took its turn
        const auto done = run_all([this](const auto&... arguments) { return one_run(arguments...); });
        if (!done) return tl::unexpected<Error>(done.error());
      }
      if (uses_gpu() && (out_.runs.empty() || may_use_gpu())) {
        for (Planned& planned : plan_) planned.sample.reset();
        state = state_of(plan_.front());
        const auto done = run_all([this](const auto&... arguments) -> Result<void> {
          // An executor's answer that lacks what it must have.
          try {
            if (auto ran = one_gpu_run(arguments...); !ran) return ran;
            return sanitize(arguments...);
          } catch (const base::Json::exception& error) {
            return infrastructure_error("the executor's answer is damaged: {}", error.what());
          }
        });
        if (!done) return tl::unexpected<Error>(done.error());
      }
      summarise_runs();
    }
    drop_repeated_findings();
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    out_.timings.peak_memory_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    out_.timings.total = seconds_since(started);
    conclude(out_);
    return std::move(out_);
  }

 private:
  struct Planned {
    const problem::Problem* problem = nullptr;
    problem::InputOptions inputs;
    std::optional<unsigned> sample;
  };

  std::optional<unsigned> sample_of(const problem::Problem& problem) const {
    if (options_.full) return std::nullopt;
    if (options_.sample_clusters) return options_.sample_clusters;
    return is_big(problem) ? std::optional(kDefaultSample) : std::nullopt;
  }

  std::uint64_t budget_of(const Planned& planned) const {
    return options_.instruction_budget != 0 ? options_.instruction_budget
                                            : default_budget(*planned.problem, planned.sample.has_value());
  }

  void describe_backend() {
    const Planned& first = plan_.front();
    out_.backend.name = options_.backend == Backend::emulator ? "emulator"
                        : options_.backend == Backend::gpu    ? "gpu"
                                                              : "emulator and gpu";
    out_.backend.threads = options_.threads != 0 ? options_.threads : std::max(1u, std::thread::hardware_concurrency());
    out_.backend.completion = completion_text(options_.completion);
    out_.backend.tensor_cores = options_.exact_tensor_cores ? "exact" : "fast";
    out_.backend.seed = options_.seed;
    out_.backend.instruction_budget = budget_of(first);
    out_.backend.sample_clusters = first.sample;
  }

  void tell(std::string_view text) const {
    if (options_.progress) options_.progress(text);
  }

  Result<std::shared_ptr<const WorkloadState>> state_of(const Planned& planned) {
    return evaluator_.cache_.get(*planned.problem, planned.inputs, !planned.sample, options_.cancel);
  }

  /// The artifact, or null when the candidate's verdict is in already.
  Result<std::optional<candidate::Artifact>> compile(std::string_view source) {
    tell("compiling");
    const auto started = Clock::now();
    auto compilation = evaluator_.compile(source, workloads_, options_.compile);
    if (!compilation) return tl::unexpected<Error>(compilation.error());
    Stage& stage = out_.stage(StageName::compile);
    stage.seconds = out_.timings.compile = seconds_since(started);
    out_.compile = compilation->report;
    for (Finding& finding : compile_findings(*compilation)) out_.findings.push_back(std::move(finding));
    if (compilation->artifact) {
      out_.artifact_id = compilation->artifact->id;
      const auto ptx = base::sha256_file(compilation->artifact->ptx());
      const auto library = base::sha256_file(compilation->artifact->library());
      if (ptx) out_.ptx_sha256 = *ptx;
      if (library) out_.library_sha256 = *library;
    }
    if (out_.compile.status == candidate::CompileStatus::unsupported) {
      set(stage, Status::unknown, "the source needs something that is not provided here");
      return std::optional<candidate::Artifact>();
    }
    if (!compilation->artifact) {
      std::size_t errors = 0;
      for (const Finding& finding : out_.findings) errors += finding.severity == Severity::error ? 1 : 0;
      set(stage, Status::failed, fmt::format("{} error{}", errors, errors == 1 ? "" : "s"));
      return std::optional<candidate::Artifact>();
    }
    const auto forbidden = std::find_if(out_.findings.begin(), out_.findings.end(),
                                        [](const Finding& finding) { return finding.severity == Severity::error; });
    if (forbidden != out_.findings.end()) {
      set(stage, Status::failed, forbidden->rule);
      return std::optional<candidate::Artifact>();
    }
    set(stage, Status::passed);
    return compilation->artifact;
  }

  std::vector<DeviceArgument> arguments_of(const problem::Problem& problem, const WorkloadState& state) const {
    std::vector<DeviceArgument> out;
    for (std::size_t i = 0; i < problem.definition.inputs.size(); ++i) {
      const problem::TensorSpec& spec = problem.definition.inputs[i];
      DeviceArgument argument;
      argument.name = spec.name;
      argument.dtype = spec.dtype;
      argument.shape = problem.input_shapes[i];
      argument.input = &state.inputs[i];
      if (spec.is_scalar()) {
        argument.scalar = true;
        if (problem::is_float(spec.dtype)) {
          float value = 0;
          problem::to_float(spec.dtype, state.inputs[i].data(), 0, 1, &value);
          argument.floating = static_cast<double>(value);
        } else {
          argument.integer = integer_value(state.inputs[i]);
        }
      }
      out.push_back(std::move(argument));
    }
    for (std::size_t i = 0; i < problem.definition.outputs.size(); ++i) {
      DeviceArgument argument;
      argument.name = problem.definition.outputs[i].name;
      argument.dtype = problem.definition.outputs[i].dtype;
      argument.shape = problem.output_shapes[i];
      argument.output = true;
      out.push_back(std::move(argument));
    }
    return out;
  }

  static std::int64_t integer_value(const problem::Tensor& tensor) {
    switch (tensor.dtype) {
      case problem::Dtype::int64:
        return tensor.as<std::int64_t>()[0];
      case problem::Dtype::int32:
        return tensor.as<std::int32_t>()[0];
      case problem::Dtype::int16:
        return tensor.as<std::int16_t>()[0];
      default:
        return tensor.as<std::int8_t>()[0];
    }
  }

  Result<DeviceObservation> observe(const Planned& planned, const candidate::Artifact& artifact,
                                    const WorkloadState& state) {
    DeviceRunOptions run_options;
    run_options.threads = options_.threads;
    run_options.completion = options_.completion;
    run_options.exact_tensor_cores = options_.exact_tensor_cores;
    run_options.device = options_.device;
    run_options.on_report = options_.on_report;
    run_options.seed = options_.seed;
    run_options.instruction_budget = budget_of(planned);
    run_options.limits = options_.host;
    run_options.sample_clusters = planned.sample;
    run_options.sample_seed = planned.inputs.seed;
    run_options.also_clusters = options_.also_clusters;
    run_options.cancel = options_.cancel;
    const auto& ffi = evaluator_.compiler_.toolchain().ffi_runtime;
    const auto arguments = arguments_of(*planned.problem, state);
    auto observation = run_on_device(artifact.library(), ffi, arguments, run_options);
    if (!observation || observation->launches_cut == 0 || observation->backend.launches < 2) return observation;
    // A later kernel may read what an earlier one left out: run all but the last in full.
    tell("several kernels: running again with only the last one cut down to a sample");
    if (options_.on_restart) options_.on_restart();
    run_options.sample_launch = observation->backend.launches - 1;
    return run_on_device(artifact.library(), ffi, arguments, run_options);
  }

  Result<void> one_run(const Planned& planned, const candidate::Artifact& artifact, const WorkloadState& state) {
    const problem::Problem& problem = *planned.problem;
    tell(fmt::format("running {} with seed {}", problem.title(), planned.inputs.seed));
    Run run = new_run(planned);
    out_.timings.inputs += state.inputs_seconds;
    out_.timings.truth += state.truth_seconds;

    const auto started = Clock::now();
    auto observation = observe(planned, artifact, state);
    if (!observation) return tl::unexpected<Error>(observation.error());
    judge_call(*observation, started, run);

    if (run.execute == Status::passed) {
      if (auto done = judge_numbers(planned, state, *observation, run); !done) return done;
      if (!out_.instructions) {
        Census::Demand demand;
        demand.macs = problem::required_multiply_adds(problem, state.inputs);
        demand.bytes = static_cast<double>(problem.tensor_bytes);
        demand.coverage = run.sampled ? run.coverage : 1;
        demand.sampled = run.sampled;
        out_.instructions = observation->census.evidence(demand);
      }
    }
    out_.runs.push_back(std::move(run));
    return {};
  }

  using Backend = EvaluateOptions::Backend;
  bool uses_gpu() const { return options_.backend != Backend::emulator; }

  /// What the emulator found wrong needs no GPU to be wrong.
  bool may_use_gpu() const {
    const bool bad = std::any_of(out_.findings.begin(), out_.findings.end(),
                                 [](const Finding& finding) { return finding.severity == Severity::error; });
    return !bad && out_.runs.back().execute != Status::failed && out_.runs.back().correctness != Status::failed;
  }

  Result<GpuRun::Candidate> gpu_candidate(const candidate::Artifact& artifact) const {
    auto digest = base::sha256_file(artifact.cubin());
    if (!digest) return tl::unexpected<Error>(digest.error());
    return GpuRun::Candidate{artifact.library(), evaluator_.compiler_.toolchain().ffi_runtime, {std::move(*digest)}};
  }

  Result<std::unique_ptr<gpu::ExecutorProcess>> take_executor(const problem::Problem& problem) {
    gpu::Lane& lane = evaluator_.lanes_.lane(options_.gpu);
    base::Json baseline;
    if (options_.timing) baseline = baseline_for(problem);
    if (options_.tuned_baseline) baseline = tuned_baseline(std::move(baseline));
    return lane.take(options_.more_to_come, lane.with_plan(std::move(baseline)));
  }

  Result<void> one_gpu_run(const Planned& planned, const candidate::Artifact& artifact, const WorkloadState& state) {
    const problem::Problem& problem = *planned.problem;
    tell(fmt::format("running {} with seed {} on GPU {}", problem.title(), planned.inputs.seed, options_.gpu));
    Run run = new_run(planned);
    run.backend = "gpu";
    auto candidate = gpu_candidate(artifact);
    if (!candidate) return tl::unexpected<Error>(candidate.error());
    GpuRunOptions gpu_options;
    gpu_options.device = options_.gpu;
    gpu_options.limits = options_.host;
    gpu_options.stop = options_.stop;
    gpu_options.tuned = options_.tuned_baseline;
    gpu_options.on_wait = [this](bool waits) {
      tell(waits ? fmt::format("waiting for GPU {}", options_.gpu) : fmt::format("running on GPU {}", options_.gpu));
    };
    gpu_options.cancel = options_.cancel;
    gpu_options.timing = options_.timing && !timed(problem);
    gpu::Lane& lane = evaluator_.lanes_.lane(options_.gpu);
    gpu_options.lane = &lane;
    if (executor_ == nullptr) {
      auto executor = take_executor(problem);
      if (!executor) return tl::unexpected<Error>(executor.error());
      executor_ = std::move(*executor);
    }
    const auto started = Clock::now();
    auto gpu = GpuRun::start(*candidate, problem, state, planned.inputs, arguments_of(problem, state),
                             std::move(executor_), std::move(gpu_options));
    if (!gpu) return tl::unexpected<Error>(gpu.error());
    auto observation = (*gpu)->call();
    if (!observation) return tl::unexpected<Error>(observation.error());
    judge_call(*observation, started, run);
    if (run.execute == Status::passed) {
      if (auto done = judge_numbers(planned, state, *observation, run); !done) return done;
      bool timed_well = true;
      if (run.correctness == Status::passed && options_.timing && !timed(problem)) {
        tell(fmt::format("timing {} on GPU {}", problem.title(), options_.gpu));
        const auto timing_started = Clock::now();
        auto timed = (*gpu)->time();
        if (!timed) return tl::unexpected<Error>(timed.error());
        timed_well = timed->failure.empty();
        judge_performance(*timed);
        out_.stage(StageName::performance).seconds += seconds_since(timing_started);
      }
      if (timed_well && options_.count_instructions && !out_.instructions && run.correctness == Status::passed) {
        const auto count_started = Clock::now();
        count_on_gpu(**gpu, planned, artifact, state);
        out_.stage(StageName::instructions).seconds += seconds_since(count_started);
      }
    }
    if (run.host_output.empty()) run.host_output = (*gpu)->host_output();
    out_.runs.push_back(std::move(run));
    return {};
  }

  /// Counts follow from the machine code, the sizes and the contents: once for these.
  void count_on_gpu(GpuRun& gpu, const Planned& planned, const candidate::Artifact& artifact,
                    const WorkloadState& state) {
    std::string key = fmt::format("{} {} seed {} {}", artifact.id, planned.problem->workload.uuid, planned.inputs.seed,
                                  static_cast<int>(planned.inputs.distribution));
    for (const problem::Axis& axis : planned.problem->definition.axes)
      key += fmt::format(" {}={}", axis.name, planned.problem->axes.at(axis.name));
    {
      const std::lock_guard lock(evaluator_.counted_mutex_);
      if (const auto known = evaluator_.counted_.find(key); known != evaluator_.counted_.end()) {
        out_.instructions = known->second;
        return;
      }
    }
    tell("counting instructions");
    Census census;
    if (const auto counted = gpu.count(artifact.cubin(), census); !counted) {
      set(out_.stage(StageName::instructions), Status::unknown, counted.error().message);
      return;
    }
    Census::Demand demand;
    demand.macs = problem::required_multiply_adds(*planned.problem, state.inputs);
    demand.bytes = static_cast<double>(planned.problem->tensor_bytes);
    out_.instructions = census.evidence(demand);
    const std::lock_guard lock(evaluator_.counted_mutex_);
    if (evaluator_.counted_.size() >= kMostCounted) evaluator_.counted_.clear();
    evaluator_.counted_.emplace(key, *out_.instructions);
  }

  /// One call under each tool.
  Result<void> sanitize(const Planned& planned, const candidate::Artifact& artifact, const WorkloadState& state) {
    const problem::Problem& problem = *planned.problem;
    // A wild access is what memcheck finds the place of; under a tool it ends nothing but that call.
    const Run& judged = out_.runs.back();
    if (judged.execute != Status::passed && !judged.reason.starts_with("memory.")) return {};
    for (const std::string& tool : options_.sanitizer_tools) {
      tell(fmt::format("running {} under {}", problem.title(), tool));
      const auto started = Clock::now();
      auto folder = base::TempDir::create("sanitizer");
      if (!folder) return tl::unexpected<Error>(folder.error());
      const auto log = folder->path() / "log";
      auto command = gpu::sanitizer_command(tool, log);
      if (!command) return tl::unexpected<Error>(command.error());
      auto executor = gpu::ExecutorProcess::start({options_.gpu, nullptr, std::move(*command)});
      if (!executor) return tl::unexpected<Error>(executor.error());
      auto candidate = gpu_candidate(artifact);
      if (!candidate) return tl::unexpected<Error>(candidate.error());
      GpuRunOptions gpu_options;
      gpu_options.device = options_.gpu;
      gpu_options.limits = options_.host;
      gpu_options.limits.idle += options_.sanitizer_limit;
      gpu_options.kernel_limit = options_.sanitizer_limit;
      gpu_options.timing = false;
      gpu_options.cancel = options_.cancel;
      auto gpu = GpuRun::start(*candidate, problem, state, planned.inputs, arguments_of(problem, state),
                               std::move(*executor), std::move(gpu_options));
      if (!gpu) return tl::unexpected<Error>(gpu.error());
      gpu::Turn& turn = evaluator_.lanes_.lane(options_.gpu).turn();
      tell(fmt::format("waiting for GPU {}, to run under {}", options_.gpu, tool));
      std::unique_lock held(turn);
      tell(fmt::format("running {} under {}", problem.title(), tool));
      auto observation = (*gpu)->call();
      held.unlock();
      if (!observation) return tl::unexpected<Error>(observation.error());
      if (observation->shim.fault && observation->shim.fault->rule == "sync.timeout") {
        cannot_tell(fmt::format("a kernel did not end within {} s under {}: take a smaller workload",
                                options_.sanitizer_limit.count(), tool));
        return {};
      }
      (*gpu)->finish(std::chrono::seconds(30));
      const auto text = base::read_file(log);
      auto report = gpu::parse_sanitizer_report(tool, text ? std::string_view(*text) : std::string_view());
      if (!report) return tl::unexpected<Error>(report.error());
      SanitizerRun run;
      run.tool = tool;
      run.workload = out_.runs.back().workload;
      run.axes = out_.runs.back().axes;
      run.errors = report->errors;
      run.warnings = report->warnings;
      run.seconds = seconds_since(started);
      out_.sanitizer.push_back(std::move(run));
      judge_sanitizer(*report);
      // Nothing to complain about in a call that was not made says nothing.
      const bool made = observation->host.finished() && !observation->shim.fault && !observation->launches.empty();
      if (report->errors == 0 && !made) cannot_tell(fmt::format("the call did not end well under {}", tool));
    }
    return {};
  }

  void cannot_tell(std::string reason) {
    Run& run = out_.runs.back();
    if (run.execute != Status::passed) return;
    run.execute = Status::unknown;
    run.reason = std::move(reason);
  }

  void judge_sanitizer(const gpu::SanitizerReport& report) {
    const auto add = [&](const gpu::SanitizerRecord& record) {
      Finding finding;
      finding.rule = "sanitizer." + report.tool;
      finding.severity = record.is_warning ? Severity::warning : Severity::error;
      finding.stage = StageName::execute;
      finding.message =
          record.repeated > 1 ? fmt::format("{} ({} times)", record.message, record.repeated) : record.message;
      if (!record.text.empty()) finding.message += "\n" + base::shorten_middle(record.text, 2000);
      finding.place.kernel = record.kernel;
      finding.place.file = record.file;
      finding.place.line = record.line;
      finding.remedy = "`ptxbench check` on a small workload names the missing edge or the bound";
      out_.findings.push_back(std::move(finding));
    };
    // Remarks that the tool does not count are no faults.
    if (report.errors + report.warnings == 0) return;
    for (const gpu::SanitizerRecord& record : report.records) add(record);
    // More than it listed, or in words that nothing here understands.
    if (report.records.empty() && report.errors + report.warnings > 0) {
      gpu::SanitizerRecord record;
      record.message = fmt::format("{} errors and {} warnings, which it does not list", report.errors, report.warnings);
      record.is_warning = report.errors == 0;
      add(record);
    }
    if (report.errors > 0 && out_.runs.back().execute == Status::passed) {
      out_.runs.back().execute = Status::failed;
      out_.runs.back().reason = "sanitizer." + report.tool;
    }
  }

  /// Once per workload, whatever the number of seeds.
  bool timed(const problem::Problem& problem) const {
    for (const Performance& one : out_.performance) {
      std::vector<std::pair<std::string, std::int64_t>> axes;
      for (const problem::Axis& axis : problem.definition.axes)
        axes.emplace_back(axis.name, problem.axes.at(axis.name));
      if (axes == one.axes) return true;
    }
    return false;
  }

  void judge_performance(GpuRun::Timed& timed) {
    Stage& stage = out_.stage(StageName::performance);
    if (stage.status == Status::skipped) set(stage, Status::passed);
    // Of several workloads the worst decides.
    const auto lower = [&](Status status, std::string reason) {
      if (worse(status, stage.status) != stage.status) set(stage, status, std::move(reason));
    };
    for (Finding& finding : timed.failure) {
      lower(Status::failed, finding.rule);
      out_.findings.push_back(std::move(finding));
    }
    if (timed.performance.verified_elements == 0)
      lower(Status::unknown, "no output of a timed call could be compared with a truth");
    const auto& speedup = timed.performance.times.speedup;
    if (options_.require_speedup) {
      if (!speedup) {
        lower(Status::unknown, "no baseline");
      } else if (speedup->value < *options_.require_speedup) {
        lower(Status::failed, fmt::format("a speed-up of {} is required", *options_.require_speedup));
      }
    }
    out_.performance.push_back(std::move(timed.performance));
  }

  void judge_call(const DeviceObservation& observation, Clock::time_point started, Run& run) {
    judge_execution(observation, run, out_.findings, out_.fidelity);
    const double executed = seconds_since(started);
    out_.stage(StageName::execute).seconds += executed;
    out_.timings.execute += executed;
    out_.timings.kernels += observation.kernel_seconds;
  }

  Run new_run(const Planned& planned) const {
    const problem::Problem& problem = *planned.problem;
    Run run;
    run.workload = problem.workload.ad_hoc ? "" : problem.workload.uuid;
    for (const problem::Axis& axis : problem.definition.axes)
      run.axes.emplace_back(axis.name, problem.axes.at(axis.name));
    run.seed = planned.inputs.seed;
    run.distribution = problem::to_string(planned.inputs.distribution);
    return run;
  }

  Result<void> judge_numbers(const Planned& planned, const WorkloadState& state, const DeviceObservation& observation,
                             Run& run) {
    tell("comparing with the truth");
    const auto started = Clock::now();
    const auto times =
        judge_correctness(observation,
                          {*planned.problem, state.inputs,
                           state.truth && (!run.sampled || state.truth_from_python) ? &*state.truth : nullptr,
                           state.no_truth, options_.tolerance, static_cast<int>(options_.threads)},
                          run, out_.findings);
    if (!times) return tl::unexpected<Error>(times.error());
    out_.timings.truth += times->truth;
    out_.timings.compare += times->compare;
    out_.stage(StageName::correctness).seconds += seconds_since(started);
    return {};
  }

  void summarise_runs() {
    Stage& execute = out_.stage(StageName::execute);
    Stage& correctness = out_.stage(StageName::correctness);
    execute.status = correctness.status = Status::passed;
    for (const Run& run : out_.runs) {
      if (worse(run.execute, execute.status) != execute.status) {
        set(execute, run.execute, run.reason);
      }
      if (worse(run.correctness, correctness.status) != correctness.status) {
        set(correctness, run.correctness, run.correctness == Status::skipped ? "" : run.reason);
      }
    }
    Stage& instructions = out_.stage(StageName::instructions);
    if (out_.instructions) {
      set(instructions, out_.instructions->threshold);
      if (instructions.status == Status::failed) {
        instructions.reason =
            fmt::format("at least {:.0f} % by wgmma needed", 100 * out_.instructions->mac_share_threshold);
      } else if (instructions.status == Status::unknown) {
        instructions.reason = out_.instructions->strict_reason;
      }
    }
  }

  void drop_repeated_findings() {
    std::vector<Finding> kept;
    for (Finding& finding : out_.findings) {
      const bool repeated = std::any_of(kept.begin(), kept.end(), [&](const Finding& earlier) {
        return earlier.rule == finding.rule && earlier.place.file == finding.place.file &&
               earlier.place.line == finding.place.line && earlier.message == finding.message;
      });
      if (!repeated) kept.push_back(std::move(finding));
    }
    out_.findings = std::move(kept);
  }

  Evaluator& evaluator_;
  const std::vector<problem::Problem>& workloads_;
  const EvaluateOptions& options_;
  std::vector<Planned> plan_;
  std::unique_ptr<gpu::ExecutorProcess> executor_;
  Evaluation out_;
};

Result<Evaluation> Evaluator::evaluate(std::string_view source, const std::vector<problem::Problem>& workloads,
                                       const EvaluateOptions& options) {
  base::CpuMeter meter;
  auto evaluation = [&] {
    const base::CpuScope scope(&meter);
    return evaluate_unmetered(source, workloads, options);
  }();
  if (evaluation) evaluation->timings.cpu = meter.seconds();
  return evaluation;
}

Result<Evaluation> Evaluator::evaluate_unmetered(std::string_view source,
                                                 const std::vector<problem::Problem>& workloads,
                                                 const EvaluateOptions& options) {
  if (workloads.empty()) return input_error("no workload to evaluate on");
  for (const problem::Problem& workload : workloads) {
    if (auto fits = check_memory(workload); !fits) return tl::unexpected<Error>(fits.error());
  }
  auto evaluation = Judge(*this, workloads, options).run(source);
  if (!evaluation || !worth_checking(*evaluation, options)) return evaluation;
  if (options.progress) options.progress("looking for hazards");
  // The check has one emulated device after the other.
  const std::unique_lock device(device_);
  if (auto checked = check_hazards(source, workloads, options, *this, *evaluation); !checked) {
    return tl::unexpected<Error>(checked.error());
  }
  conclude(*evaluation);
  return evaluation;
}

}  // namespace ptxbench::evaluation
