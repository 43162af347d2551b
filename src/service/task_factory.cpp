#include "service/task_factory.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.h"
#include "service/evaluate_options.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr std::size_t kMaxSourceBytes = std::size_t{16} << 20;

/// Whether the outputs are stored and all inputs given, so that nothing need be computed to judge.
bool has_stored_results(const problem::Definition& definition, const problem::Workload& workload) {
  const auto is_stored = [](const auto& sources, const std::string& name) {
    return std::any_of(sources.begin(), sources.end(), [&](const auto& source) {
      return source.first == name && !std::holds_alternative<problem::RandomInput>(source.second);
    });
  };
  return std::all_of(definition.outputs.begin(), definition.outputs.end(),
                     [&](const auto& output) { return is_stored(workload.outputs, output.name); }) &&
         std::all_of(definition.inputs.begin(), definition.inputs.end(),
                     [&](const auto& input) { return is_stored(workload.inputs, input.name); });
}

Json axes_json(const std::vector<std::pair<std::string, std::int64_t>>& axes) {
  Json json = Json::object();
  for (const auto& [name, value] : axes) json[name] = value;
  return json;
}

Result<void> check_source(const std::string& source) {
  if (source.size() > kMaxSourceBytes) return input_error("The source is larger than 16 MiB");
  if (source.find('\0') != std::string::npos) return input_error("The source holds a zero byte");
  return {};
}

}  // namespace

Result<std::vector<const problem::Workload*>> TaskFactory::choose(const SubmitRequest& request,
                                                                  const problem::Definition& definition) const {
  std::vector<const problem::Workload*> chosen;
  if (request.workload_uuids.empty()) {
    for (const problem::Workload& workload : dataset_.workloads(definition.name)) chosen.push_back(&workload);
    if (chosen.empty()) return input_error("Workload not found: {} has none", definition.name);
    return chosen;
  }
  for (const std::string& uuid : request.workload_uuids) {
    for (const auto* list : {&dataset_.workloads(definition.name), &dataset_.checks(definition.name)}) {
      for (const problem::Workload& workload : *list) {
        const bool is_new = std::find(chosen.begin(), chosen.end(), &workload) == chosen.end();
        if (workload.uuid == uuid && is_new) chosen.push_back(&workload);
      }
    }
  }
  if (chosen.empty()) {
    return input_error("Workload not found: {} has none of {}", definition.name,
                       fmt::join(request.workload_uuids, ", "));
  }
  return chosen;
}

Result<Unit> TaskFactory::unit_of(const problem::Definition& definition,
                                  const std::vector<problem::Workload>& workloads, TaskKind kind, Lane lane,
                                  Json request) const {
  Unit unit;
  unit.lane = lane;
  unit.cost = 0;
  request["definition"] = definition.name;
  Json uuids = Json::array();
  for (const problem::Workload& workload : workloads) {
    const auto problem = problem::make_problem(definition, workload);
    if (!problem) return tl::unexpected<Error>(problem.error());
    const std::string key = fmt::format("{} {} {}", to_string(kind), to_string(lane), problem->title());
    unit.cost_key += (unit.cost_key.empty() ? "" : ", ") + key;
    unit.cost += costs_.estimate(key, *problem, kind, lane);
    if (workload.ad_hoc) {
      request["axes"] = axes_json(workload.axes);
    } else {
      uuids.push_back(workload.uuid);
    }
  }
  if (!uuids.empty()) request["workloads"] = std::move(uuids);
  unit.workload = workloads.size() == 1 ? problem::to_json(workloads.front()).dump() : "null";
  unit.request = request.dump();
  return unit;
}

Result<void> TaskFactory::add_preparation(Task& task, const problem::Definition& definition,
                                          const std::vector<problem::Workload>& workloads, bool screen) const {
  problem::Workload small = workloads.front();
  if (const auto smallest = dataset_.smallest_workload(definition); smallest) small = **smallest;
  const auto first = base::parse_json(task.units.front().request, "request");
  Json request{{"kind", "prepare"}, {"backend", "emulator"}, {"screen", screen && options_.screen}};
  if (first && first->contains("options")) request["options"] = first->at("options");
  auto prepare = unit_of(definition, {small}, task.kind, Lane::cpu, std::move(request));
  if (!prepare) return tl::unexpected<Error>(prepare.error());
  prepare->role = UnitRole::prepare;
  prepare->cost_key = "prepare " + prepare->cost_key;
  for (Unit& unit : task.units) {
    unit.state = UnitState::waiting;
    ++unit.number;
  }
  task.units.insert(task.units.begin(), std::move(*prepare));
  return {};
}

Result<Task> TaskFactory::make(const SubmitRequest& request) const {
  const Solution& solution = request.solution;
  const auto known = dataset_.definitions().find(solution.definition);
  if (known == dataset_.definitions().end()) return input_error("Definition not found: {}", solution.definition);
  const problem::Definition& definition = known->second;
  if (const auto reason = unsupported_reason(solution)) return input_error("{}", *reason);
  auto source = single_source(solution);
  if (!source) return tl::unexpected<Error>(source.error());
  if (auto checked = check_source(*source); !checked) return tl::unexpected<Error>(checked.error());
  const auto workloads = choose(request, definition);
  if (!workloads) return tl::unexpected<Error>(workloads.error());

  Task task;
  task.id = new_task_id();
  task.kind = request.kind;
  task.definition = definition.name;
  task.solution = solution.normalised_name();
  task.source = std::move(*source);
  task.created = unix_time();
  task.run_seconds = request.timeout;
  Json options = Json::object();
  if (request.atol) options["atol"] = *request.atol;
  if (request.rtol) options["rtol"] = *request.rtol;
  if (request.max_lines) options["max_lines"] = *request.max_lines;
  if (request.print_limit) options["print_limit"] = *request.print_limit;
  options["source_context_lines"] = request.source_context_lines;
  if (!request.kernel_name.empty()) options["kernel_name"] = request.kernel_name;
  task.options = options.dump();

  const bool is_check = request.kind == TaskKind::sanitize || request.kind == TaskKind::debug;
  const bool on_gpu = request.kind == TaskKind::evaluate && options_.has_gpu;
  std::vector<problem::Workload> copies;
  for (const problem::Workload* workload : *workloads) {
    if (!request.run_baseline && !has_stored_results(definition, *workload)) {
      return input_error("run_baseline=false needs stored outputs and no random inputs; workload {} has not",
                         workload->uuid);
    }
    Json unit_request{{"kind", is_check ? "check" : "evaluate"}, {"backend", on_gpu ? "gpu" : "emulator"}};
    unit_request["options"] = {{"language", solution.language}};
    if (!is_check) unit_request["options"]["tolerance"] = options_.tolerance;
    auto unit = unit_of(definition, {*workload}, task.kind, on_gpu ? Lane::gpu : Lane::cpu, std::move(unit_request));
    if (!unit) return tl::unexpected<Error>(unit.error());
    unit->number = static_cast<std::int64_t>(task.units.size());
    task.units.push_back(std::move(*unit));
    copies.push_back(*workload);
  }
  if (on_gpu) {
    if (auto added = add_preparation(task, definition, copies, true); !added) {
      return tl::unexpected<Error>(added.error());
    }
  }
  return task;
}

Result<Task> TaskFactory::make(const NativeRequest& request) const {
  const auto definition = dataset_.find_definition(request.problem);
  if (!definition) return tl::unexpected<Error>(definition.error());
  if (auto checked = check_source(request.source); !checked) return tl::unexpected<Error>(checked.error());
  const auto options = parse_evaluate_options(request.options, "options");
  if (!options) return tl::unexpected<Error>(options.error());
  if (request.backend == "gpu" && !options_.has_gpu) {
    return input_error("backend 'gpu': this service has no GPU; use 'emulator' or 'auto'");
  }
  std::vector<problem::Workload> workloads;
  if (!request.axes.empty()) {
    std::vector<std::string> assignments;
    assignments.reserve(request.axes.size());
    for (const auto& [axis, value] : request.axes) assignments.push_back(fmt::format("{}={}", axis, value));
    auto workload = dataset_.workload_for_axes(**definition, assignments);
    if (!workload) return tl::unexpected<Error>(workload.error());
    workloads.push_back(std::move(*workload));
  } else if (!request.workloads.empty()) {
    for (const std::string& uuid : request.workloads) {
      const auto workload = dataset_.find_workload(**definition, uuid);
      if (!workload) return tl::unexpected<Error>(workload.error());
      workloads.push_back(**workload);
    }
  } else {
    const auto usual = dataset_.default_workloads(**definition);
    if (!usual) return tl::unexpected<Error>(usual.error());
    for (const problem::Workload* workload : *usual) workloads.push_back(*workload);
  }

  Task task;
  task.id = new_task_id();
  task.definition = (*definition)->name;
  task.solution = fmt::format("{}_{}", request.name, base::sha256_hex(request.source).substr(0, 8));
  task.source = request.source;
  task.created = unix_time();
  task.run_seconds = request.timeout;
  task.options = Json{{"native", true}}.dump();
  const bool on_gpu = options_.has_gpu && request.backend != "emulator";
  const auto add = [&](const std::vector<problem::Workload>& of) -> Result<void> {
    const Json unit_request{{"kind", "evaluate"},
                            {"backend", on_gpu ? "gpu" : "emulator"},
                            {"options", request.options},
                            {"color", request.color}};
    auto unit = unit_of(**definition, of, task.kind, on_gpu ? Lane::gpu : Lane::cpu, unit_request);
    if (!unit) return tl::unexpected<Error>(unit.error());
    unit->number = static_cast<std::int64_t>(task.units.size());
    task.units.push_back(std::move(*unit));
    return {};
  };
  if (request.together) {
    if (auto added = add(workloads); !added) return tl::unexpected<Error>(added.error());
  } else {
    for (const problem::Workload& workload : workloads) {
      if (auto added = add({workload}); !added) return tl::unexpected<Error>(added.error());
    }
  }
  if (on_gpu) {
    if (auto added = add_preparation(task, **definition, workloads, request.screen); !added) {
      return tl::unexpected<Error>(added.error());
    }
  }
  return task;
}

}  // namespace ptxbench::service
