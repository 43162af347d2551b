#include "service/worker_loop.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <exception>
#include <filesystem>

#include "base/terminal.h"
#include "base/text.h"
#include "check/check_report.h"
#include "evaluation/candidate_check.h"
#include "evaluation/evaluation_text.h"
#include "gpu/executor_process.h"
#include "service/evaluate_options.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr std::uint64_t kMostGpus = 1024;
constexpr std::size_t kMaxRequestBytes = std::size_t{256} << 20;

Result<void> write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return infrastructure_error("the service is gone");
    text.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::vector<std::string>> texts(const Json& json, std::string_view key) {
  std::vector<std::string> out;
  const Json* member = base::optional_member(json, key);
  if (member == nullptr) return out;
  if (!member->is_array()) return input_error("request.{}: a list is needed", key);
  for (const Json& one : *member) {
    auto text = base::json_as<std::string>(one, fmt::format("request.{}", key));
    if (!text) return tl::unexpected<Error>(text.error());
    out.push_back(std::move(*text));
  }
  return out;
}

/// The one place that knows which backends there are.
Result<void> apply_backend(const Json& request, evaluation::EvaluateOptions& options) {
  const std::string backend = request.value("backend", "emulator");
  if (backend == "emulator") return {};
  if (backend != "gpu") return input_error("request.backend: emulator or gpu, not '{}'", backend);
  const std::string device = request.value("device", "cuda:0");
  const auto ordinal = device.starts_with("cuda:") ? base::parse_u64(device.substr(5)) : std::nullopt;
  if (!ordinal || *ordinal > kMostGpus) return input_error("request.device: cuda:N, not '{}'", device);
  options.backend = evaluation::EvaluateOptions::Backend::gpu;
  options.gpu = static_cast<int>(*ordinal);
  options.more_to_come = true;
  return {};
}

/// Opens the GPU as an evaluation would.
Result<void> probe_gpu(int ordinal) {
  auto executor = gpu::ExecutorProcess::start({ordinal, nullptr, {}});
  if (!executor) return tl::unexpected<Error>(executor.error());
  return (*executor)->await_ready();
}

Result<evaluation::EvaluateOptions> options_of(const Json& request) {
  const Json* member = base::optional_member(request, "options");
  return parse_evaluate_options(member == nullptr ? Json() : *member, "request.options");
}

Json answer_of(const evaluation::Evaluation& evaluation, bool color) {
  return Json{{"evaluation", evaluation::to_json(evaluation)},
              {"text", evaluation::to_text(evaluation, base::Style(color))}};
}

Json error_json(std::string_view kind, std::string_view message) {
  return Json{{"error", {{"kind", kind}, {"message", message}}}};
}

}  // namespace

Result<evaluation::Evaluator*> WorkerLoop::evaluator() {
  if (!evaluator_) {
    auto made = evaluation::Evaluator::create();
    if (!made) return tl::unexpected<Error>(made.error());
    evaluator_ = std::move(*made);
  }
  return evaluator_.get();
}

Result<std::vector<problem::Problem>> WorkerLoop::problems_of(const Json& request) {
  const auto data = texts(request, "data");
  if (!data) return tl::unexpected<Error>(data.error());
  auto known = datasets_.find(*data);
  if (known == datasets_.end()) {
    const auto roots = problem::dataset_roots(*data);
    if (!roots) return tl::unexpected<Error>(roots.error());
    auto dataset = problem::Dataset::load(*roots);
    if (!dataset) return tl::unexpected<Error>(dataset.error());
    known = datasets_.emplace(*data, std::move(*dataset)).first;
  }
  const problem::Dataset& dataset = known->second;
  const auto name = base::required<std::string>(request, "definition", "request");
  if (!name) return tl::unexpected<Error>(name.error());
  const auto definition = dataset.find_definition(*name);
  if (!definition) return tl::unexpected<Error>(definition.error());
  std::vector<problem::Workload> workloads;
  if (const Json* axes = base::optional_member(request, "axes"); axes != nullptr) {
    std::vector<std::string> assignments;
    for (const auto& [axis, value] : axes->items()) {
      const auto extent = base::json_as<std::int64_t>(value, "request.axes." + axis);
      if (!extent) return tl::unexpected<Error>(extent.error());
      assignments.push_back(fmt::format("{}={}", axis, *extent));
    }
    auto workload = dataset.workload_for_axes(**definition, assignments);
    if (!workload) return tl::unexpected<Error>(workload.error());
    workloads.push_back(std::move(*workload));
  }
  const auto uuids = texts(request, "workloads");
  if (!uuids) return tl::unexpected<Error>(uuids.error());
  for (const std::string& uuid : *uuids) {
    const auto workload = dataset.find_workload(**definition, uuid);
    if (!workload) return tl::unexpected<Error>(workload.error());
    workloads.push_back(**workload);
  }
  if (workloads.empty()) return input_error("request: 'workloads' or 'axes' is needed");
  std::vector<problem::Problem> problems;
  for (const problem::Workload& workload : workloads) {
    auto problem = problem::make_problem(**definition, workload);
    if (!problem) return tl::unexpected<Error>(problem.error());
    problems.push_back(std::move(*problem));
  }
  return problems;
}

Result<Json> WorkerLoop::evaluate(const Json& request, const Progress& progress) {
  const auto source = base::required<std::string>(request, "source", "request");
  if (!source) return tl::unexpected<Error>(source.error());
  auto options = options_of(request);
  if (!options) return tl::unexpected<Error>(options.error());
  if (auto applied = apply_backend(request, *options); !applied) return tl::unexpected<Error>(applied.error());
  const auto problems = problems_of(request);
  if (!problems) return tl::unexpected<Error>(problems.error());
  const auto judge = evaluator();
  if (!judge) return tl::unexpected<Error>(judge.error());
  options->progress = [&](std::string_view state) {
    progress(state, !state.starts_with("compiling") && !state.starts_with("waiting"));
  };
  const auto evaluation = (*judge)->evaluate(*source, *problems, *options);
  if (!evaluation) return tl::unexpected<Error>(evaluation.error());
  return answer_of(*evaluation, request.value("color", false));
}

Result<Json> WorkerLoop::check(const Json& request, const Progress& progress) {
  const auto source = base::required<std::string>(request, "source", "request");
  if (!source) return tl::unexpected<Error>(source.error());
  const auto options = options_of(request);
  if (!options) return tl::unexpected<Error>(options.error());
  const auto problems = problems_of(request);
  if (!problems) return tl::unexpected<Error>(problems.error());
  const auto judge = evaluator();
  if (!judge) return tl::unexpected<Error>(judge.error());
  evaluation::CandidateCheck candidate_check;
  candidate_check.check.threads = options->threads;
  candidate_check.check.seed = options->seed;
  candidate_check.full = options->full;
  candidate_check.sample_clusters = options->sample_clusters;
  progress("compiling", false);
  candidate_check.compile = options->compile;
  if (const auto compiled = (*judge)->compile(*source, *problems, options->compile); !compiled) {
    return tl::unexpected<Error>(compiled.error());
  }
  progress("running under the checker", true);
  check::CheckReport report;
  const auto done = evaluation::check_candidate(*source, *problems, candidate_check, **judge, report);
  if (!done) return tl::unexpected<Error>(done.error());
  report.sort();
  return Json{{"check", check::to_json(report)}, {"text", check::to_text(report)}};
}

Result<Json> WorkerLoop::prepare(const Json& request, const Progress& progress) {
  const auto source = base::required<std::string>(request, "source", "request");
  if (!source) return tl::unexpected<Error>(source.error());
  const auto options = options_of(request);
  if (!options) return tl::unexpected<Error>(options.error());
  const auto judge = evaluator();
  if (!judge) return tl::unexpected<Error>(judge.error());
  progress("compiling", false);
  const auto problems = problems_of(request);
  if (!problems) return tl::unexpected<Error>(problems.error());
  const auto compiled = (*judge)->compile(*source, *problems, options->compile);
  if (!compiled) return tl::unexpected<Error>(compiled.error());
  const bool fails = !compiled->artifact || !compiled->static_findings.empty();
  if (!fails && !request.value("screen", false)) return Json{{"prepared", true}};
  // What does not compile is judged without being run; everything else on the emulator, whatever the task's backend is.
  Json screened = request;
  screened["backend"] = "emulator";
  if (screened.contains("options")) screened["options"].erase("require");
  auto judged = evaluate(screened, progress);
  if (!judged) return judged;
  if (judged->at("evaluation").at("verdict").at("status") != "failed") return Json{{"prepared", true}};
  return judged;
}

Result<Json> WorkerLoop::probe(const Json& request) {
  evaluation::EvaluateOptions options;
  if (auto applied = apply_backend(request, options); !applied) return tl::unexpected<Error>(applied.error());
  if (const auto judge = evaluator(); !judge) return tl::unexpected<Error>(judge.error());
  if (options.backend == evaluation::EvaluateOptions::Backend::gpu) {
    if (auto opened = probe_gpu(options.gpu); !opened) return tl::unexpected<Error>(opened.error());
  }
  return Json{{"ready", true}};
}

Json WorkerLoop::answer(const Json& request, const Progress& progress) {
  try {
    const auto kind = base::required<std::string>(request, "kind", "request");
    Result<Json> answered = kind ? input_error("request.kind: evaluate, check, prepare or probe, not '{}'", *kind)
                                 : Result<Json>(tl::unexpected<Error>(kind.error()));
    if (kind && *kind == "evaluate") answered = evaluate(request, progress);
    if (kind && *kind == "check") answered = check(request, progress);
    if (kind && *kind == "prepare") answered = prepare(request, progress);
    if (kind && *kind == "probe") answered = probe(request);
    if (answered) return *answered;
    return error_json(answered.error().kind == ErrorKind::input ? "input" : "infrastructure", answered.error().message);
  } catch (const std::exception& error) {
    return error_json("infrastructure", fmt::format("internal error: {}", error.what()));
  }
}

int WorkerLoop::run(int in, int out) {
  std::string received;
  std::array<char, 1 << 16> buffer;
  while (true) {
    const std::size_t end = received.find('\n');
    if (end == std::string::npos) {
      if (received.size() > kMaxRequestBytes) return 2;
      const ssize_t count = ::read(in, buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return 0;
      received.append(buffer.data(), static_cast<std::size_t>(count));
      continue;
    }
    const std::string line = received.substr(0, end);
    received.erase(0, end + 1);
    if (base::trim(line).empty()) continue;
    const auto request = base::parse_json(line, "request");
    const bool is_object = request && request->is_object();
    const Json id = is_object ? request->value("id", Json()) : Json();
    const auto send = [&](Json message) {
      Json whole{{"id", id}};
      for (auto& [key, value] : message.items()) whole[key] = std::move(value);
      return write_all(out, whole.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    };
    const Json reply =
        is_object ? answer(*request,
                           [&](std::string_view state, bool running) {
                             // A service that is gone is noticed at the end.
                             [[maybe_unused]] const auto told = send(Json{{"progress", state}, {"running", running}});
                           })
                  : error_json("input", request ? "the request is no object" : request.error().message);
    if (!send(reply)) return 3;
  }
}

}  // namespace ptxbench::service
