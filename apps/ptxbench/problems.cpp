// `ptxbench problems`: which problems there are, what one of them asks, whether a folder of them is sound, and what
// their tensors hold.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "base/text.h"
#include "commands.h"
#include "evaluation/memory_need.h"
#include "evaluation/run_judge.h"
#include "evaluation/workload_state.h"
#include "problem/dataset.h"
#include "problem/inputs.h"
#include "problem/reference.h"
#include "problem/safetensors.h"
#include "problem/validation.h"
#include "selection.h"

namespace ptxbench::app {
namespace {

using base::Json;
using problem::Dataset;
using problem::Definition;
using problem::TensorSpec;
using problem::Workload;

struct Options {
  std::vector<std::string> roots, folders, axes;
  std::string name, workload, file, distribution = "normal", tolerance = "strict";
  std::uint64_t seed = 1;
  bool truth = false;
  bool json = false;
};

Result<Dataset> load(const Options& options) {
  const auto roots = problem::dataset_roots(options.roots);
  if (!roots) return tl::unexpected(roots.error());
  return Dataset::load(*roots);
}

std::string signature(const TensorSpec& spec) {
  std::string text = spec.name;
  if (spec.shape) {
    text += "[";
    for (std::size_t i = 0; i < spec.shape->size(); ++i) text += (i > 0 ? "," : "") + (*spec.shape)[i];
    text += "]";
  }
  return fmt::format("{} {}", text, problem::to_string(spec.dtype));
}

std::string call_of(const Definition& definition) {
  std::string text;
  for (const TensorSpec& spec : definition.inputs) text += (text.empty() ? "" : ", ") + signature(spec);
  text += " -> ";
  for (std::size_t i = 0; i < definition.outputs.size(); ++i) {
    text += (i > 0 ? ", " : "") + signature(definition.outputs[i]);
  }
  return text;
}

bool judged(const Definition& definition) { return problem::find_reference(definition).has_value(); }

ExitCode list(const Options& options) {
  const auto dataset = load(options);
  if (!dataset) return report_error(dataset.error());
  if (options.json) {
    Json problems = Json::array();
    for (const auto& [name, definition] : dataset->definitions()) {
      problems.push_back({{"name", name},
                          {"op_type", definition.op_type},
                          {"description", definition.description},
                          {"workloads", dataset->workloads(name).size()},
                          {"reference", judged(definition)}});
    }
    fmt::print("{}\n", Json{{"schema", "ptxbench.problems/1"}, {"problems", problems}}.dump(1));
    return ExitCode::passed;
  }
  std::size_t width = 0;
  for (const auto& [name, definition] : dataset->definitions()) width = std::max(width, name.size());
  for (const auto& [name, definition] : dataset->definitions()) {
    fmt::print("{:<{}}  {:<10} {:>2} workloads  {}{}\n", name, width, definition.op_type,
               dataset->workloads(name).size(), call_of(definition),
               judged(definition) ? "" : "  (Python reference only)");
  }
  if (dataset->definitions().empty()) fmt::print("no problems\n");
  return ExitCode::passed;
}

ExitCode show(const Options& options) {
  const auto dataset = load(options);
  if (!dataset) return report_error(dataset.error());
  const auto found = dataset->find_definition(options.name);
  if (!found) return report_error(found.error());
  const Definition& definition = **found;
  if (options.json) {
    Json workloads = Json::array(), checks = Json::array();
    for (const Workload& workload : dataset->workloads(definition.name)) workloads.push_back(to_json(workload));
    for (const Workload& workload : dataset->checks(definition.name)) checks.push_back(to_json(workload));
    fmt::print("{}\n", Json{{"schema", "ptxbench.problem/1"},
                            {"definition", to_json(definition)},
                            {"workloads", workloads},
                            {"checks", checks}}
                           .dump(1));
    return ExitCode::passed;
  }
  const base::Style style(base::use_color(stdout));
  fmt::print("{}  ({})\n{}\n\n", style.bold(definition.name), definition.op_type, definition.description);
  std::string constants;
  for (const auto& axis : definition.axes) {
    if (axis.constant) constants += fmt::format(" {}={}", axis.name, *axis.constant);
  }
  std::string variables;
  for (const std::string& axis : definition.variable_axes()) variables += " " + axis;
  fmt::print("constant axes:{}\nvariable axes:{}\n", constants.empty() ? " none" : constants,
             variables.empty() ? " none" : variables);
  const auto print_specs = [](const char* what, const std::vector<TensorSpec>& specs) {
    for (const TensorSpec& spec : specs) {
      fmt::print("{} {}{}{}\n", what, signature(spec), spec.description.empty() ? "" : ": ", spec.description);
    }
  };
  print_specs("input ", definition.inputs);
  print_specs("output", definition.outputs);
  fmt::print("reference:\n");
  for (const auto line : base::split_lines(definition.reference)) fmt::print("{}{}\n", line.empty() ? "" : "  ", line);
  if (!judged(definition)) {
    fmt::print(
        "{}: results are compared with those of its Python reference, by the reference benchmark's rule, where "
        "PyTorch is installed, and are unknown elsewhere\n",
        problem::no_reference_message(definition));
  }
  const auto usual = dataset->default_workloads(definition);
  for (const bool checks : {false, true}) {
    const auto& list = checks ? dataset->checks(definition.name) : dataset->workloads(definition.name);
    if (checks && list.empty()) break;
    fmt::print("\n{}:\n", checks ? "checks" : "workloads");
    for (const Workload& workload : list) {
      const auto made = problem::make_problem(definition, workload);
      if (!made) return report_error(made.error());
      const auto work = problem::required_multiply_adds(*made);
      const bool is_usual = usual && std::find(usual->begin(), usual->end(), &workload) != usual->end();
      fmt::print("  {}  {:<13} {:>10}{}{}\n", workload.uuid, describe_axes(definition, workload),
                 base::format_bytes(made->tensor_bytes), work ? fmt::format("  {:>8.4g} GFLOP", *work * 2e-9) : "",
                 is_usual ? "  default" : "");
    }
    if (list.empty()) fmt::print("  none stored; give the axes with --axis NAME=N\n");
  }
  return ExitCode::passed;
}

ExitCode validate(const Options& options) {
  using Severity = problem::Remark::Severity;
  const auto roots = problem::dataset_roots(options.folders.empty() ? options.roots : options.folders);
  if (!roots) return report_error(roots.error());
  const auto validation = problem::validate(*roots);
  if (!validation) return report_error(validation.error());
  const auto name_of = [](Severity severity) {
    return severity == Severity::error ? "error" : severity == Severity::warning ? "warning" : "note";
  };
  const std::size_t errors = validation->count(Severity::error);
  const ExitCode code = errors == 0 ? ExitCode::passed : ExitCode::not_passed;
  if (options.json) {
    Json remarks = Json::array();
    for (const auto& remark : validation->remarks) {
      remarks.push_back({{"severity", name_of(remark.severity)}, {"message", remark.message}});
    }
    fmt::print("{}\n", Json{{"schema", "ptxbench.problems.validation/1"},
                            {"definitions", validation->definitions},
                            {"workloads", validation->workloads},
                            {"blobs", validation->blobs},
                            {"errors", errors},
                            {"warnings", validation->count(Severity::warning)},
                            {"remarks", remarks}}
                           .dump(1, ' ', false, Json::error_handler_t::replace));
    return code;
  }
  const base::Style style(base::use_color(stdout));
  for (const auto& remark : validation->remarks) {
    const std::string name = name_of(remark.severity);
    fmt::print("{}: {}\n",
               remark.severity == Severity::error     ? style.red(name)
               : remark.severity == Severity::warning ? style.yellow(name)
                                                      : style.dim(name),
               remark.message);
  }
  fmt::print("{} definitions, {} workloads and {} stored tensors are sound; {} errors, {} warnings\n",
             validation->definitions, validation->workloads, validation->blobs, errors,
             validation->count(Severity::warning));
  return code;
}

/// One problem and what its inputs are made from.
struct Made {
  problem::Problem problem;
  problem::InputOptions inputs;
};

Result<Made> choose(const Options& options) {
  const auto distribution = problem::parse_distribution(options.distribution);
  if (!distribution) return tl::unexpected(distribution.error());
  ProblemChoice choice{options.roots, options.name, {}, options.axes};
  if (!options.workload.empty()) choice.workloads = {options.workload};
  auto problems = find_problems(choice);
  if (!problems) return tl::unexpected(problems.error());
  if (problems->size() > 1) {
    return input_error("{} has several checks: choose one with --workload, or axes with --axis", options.name);
  }
  if (auto fits = evaluation::check_memory(problems->front()); !fits) return tl::unexpected(fits.error());
  return Made{std::move(problems->front()), {options.seed, *distribution, 0}};
}

ExitCode compare(const Options& options) {
  if (options.tolerance != "strict" && options.tolerance != "reference") {
    return report_error(Error{ErrorKind::input, fmt::format("--tolerance {}: strict or reference", options.tolerance)});
  }
  const auto made = choose(options);
  if (!made) return report_error(made.error());
  const problem::Problem& problem = made->problem;
  const auto file = problem::SafetensorsFile::open(options.file);
  if (!file) return report_error(file.error());
  evaluation::DeviceObservation observation;
  for (std::size_t i = 0; i < problem.definition.outputs.size(); ++i) {
    const TensorSpec& spec = problem.definition.outputs[i];
    if (auto fits = file->check(spec.name, spec.dtype, problem.output_shapes[i]); !fits) {
      return report_error(fits.error());
    }
    auto output = file->read(spec.name, spec.name);
    if (!output) return report_error(output.error());
    observation.outputs.push_back(std::move(*output));
  }
  evaluation::WorkloadCache cache;
  const auto state = cache.get(problem, made->inputs, true);
  if (!state) return report_error(state.error());
  const evaluation::WorkloadState& known = **state;
  const auto tolerance = options.tolerance == "strict" ? problem::Tolerance::strict : problem::Tolerance::reference;
  evaluation::Run run;
  std::vector<evaluation::Finding> findings;
  const auto judged = evaluation::judge_correctness(
      observation, {problem, known.inputs, known.truth ? &*known.truth : nullptr, known.no_truth, tolerance}, run,
      findings);
  if (!judged) return report_error(judged.error());
  if (options.json) {
    Json outputs = Json::array();
    for (const auto& output : run.outputs) outputs.push_back(to_json(output));
    fmt::print("{}\n", Json{{"schema", "ptxbench.comparison/1"},
                            {"definition", problem.definition.name},
                            {"axes", Json(problem.axes)},
                            {"correctness", evaluation::to_string(run.correctness)},
                            {"reason", run.reason},
                            {"outputs", outputs}}
                           .dump(1, ' ', false, Json::error_handler_t::replace));
  } else {
    for (const auto& output : run.outputs) fmt::print("{}", describe(output));
    fmt::print("{}: {}{}{}\n", problem.title(), evaluation::to_string(run.correctness), run.reason.empty() ? "" : ", ",
               run.reason);
  }
  return run.correctness == evaluation::Status::passed ? ExitCode::passed : ExitCode::not_passed;
}

ExitCode write_tensors(const Options& options) {
  const auto made = choose(options);
  if (!made) return report_error(made.error());
  const problem::Problem& problem = made->problem;
  const auto inputs = problem::make_inputs(problem, made->inputs);
  if (!inputs) return report_error(inputs.error());
  std::vector<const problem::Tensor*> tensors;
  for (const auto& tensor : *inputs) tensors.push_back(&tensor);
  std::optional<problem::Truth> truth;
  if (options.truth) {
    const auto reference = problem::find_reference(problem.definition);
    if (!reference) {
      return report_error(
          Error{ErrorKind::input, problem::no_reference_message(problem.definition) + ": leave --truth out"});
    }
    auto computed = (*reference)(problem::request_for(problem, *inputs));
    if (!computed) return report_error(computed.error());
    truth = std::move(*computed);
    for (const auto& tensor : truth->outputs) tensors.push_back(&tensor);
  }
  const auto written = problem::write_safetensors(options.file, tensors,
                                                  {{"definition", problem.definition.name},
                                                   {"workload", problem.workload.uuid},
                                                   {"axes", Json(problem.axes).dump()},
                                                   {"seed", std::to_string(options.seed)},
                                                   {"distribution", options.distribution}});
  if (!written) return report_error(written.error());
  fmt::print("{}: {} tensors of {}\n", options.file, tensors.size(), problem.title());
  return ExitCode::passed;
}

}  // namespace

void add_problems(CLI::App& app, ExitCode& exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("problems", "List the problems, show one, or validate folders of them");
  command->require_subcommand(0, 1);
  command->add_option("--root", options->roots, "Problem folders in FlashInfer-Trace layout, the first is primary")
      ->envname("PTXBENCH_PROBLEMS");
  command->add_flag("--json", options->json, "One JSON object instead of text");
  CLI::App* list_command = command->add_subcommand("list", "All problems, one a line");
  list_command->add_flag("--json", options->json, "One JSON object instead of text");
  CLI::App* show_command = command->add_subcommand("show", "Axes, tensors, reference and workloads of one problem");
  show_command->add_option("name", options->name, "The problem's name")->required();
  show_command->add_flag("--json", options->json, "One JSON object instead of text");
  CLI::App* validate_command =
      command->add_subcommand("validate", "Say all that is wrong in the problem folders; exit code 1 if anything is");
  validate_command->add_option("folders", options->folders, "Problem folders; without any as --root");
  validate_command->add_flag("--json", options->json, "One JSON object instead of text");
  CLI::App* tensors_command =
      command->add_subcommand("tensors", "Write a problem's inputs, and the truth, to a safetensors file");
  CLI::App* compare_command = command->add_subcommand(
      "compare", "Judge outputs in a safetensors file, wherever they were computed; exit code 1 unless they pass");
  for (CLI::App* one : {tensors_command, compare_command}) {
    one->add_option("name", options->name, "The problem's name")->required();
    one->add_option("file", options->file, one == tensors_command ? "The file to write" : "Tensors by their names")
        ->required();
    one->add_option("--workload", options->workload, "Stored workload, by uuid or its beginning");
    one->add_option("--axis", options->axes, "Axis value instead, as M=256 (repeatable)")->allow_extra_args(false);
    one->add_option("--seed", options->seed, "Seed of the inputs")->capture_default_str();
    one->add_option("--distribution", options->distribution, "normal, scaled, spiky, ties, flat or tiny")
        ->capture_default_str();
  }
  tensors_command->add_flag("--truth", options->truth, "Also the outputs as they should be, in float32");
  compare_command->add_option("--tolerance", options->tolerance, "strict, or reference")->capture_default_str();
  compare_command->add_flag("--json", options->json, "One JSON object instead of text");
  command->callback([=, &exit_code] {
    exit_code = show_command->parsed()       ? show(*options)
                : validate_command->parsed() ? validate(*options)
                : tensors_command->parsed()  ? write_tensors(*options)
                : compare_command->parsed()  ? compare(*options)
                                             : list(*options);
  });
}

}  // namespace ptxbench::app
