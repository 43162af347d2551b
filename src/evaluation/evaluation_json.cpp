#include <algorithm>
#include <cmath>

#include "evaluation/evaluation.h"

namespace ptxbench::evaluation {
namespace {

using base::Json;

/// JSON has no NaN and no infinity; the data format writes them as strings.
Json number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Json optional_number(const std::optional<double>& value) { return value ? number(*value) : Json(nullptr); }

/// Replaces what is not UTF-8: compiler logs and host output can hold anything.
std::string valid_utf8(const std::string& text) {
  std::string dumped = Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return Json::parse(dumped).get<std::string>();
}

Json text_list(const std::vector<std::string>& texts) {
  Json out = Json::array();
  for (const std::string& text : texts) out.push_back(valid_utf8(text));
  return out;
}

/// Rewrites every string inside `json`.
void make_valid(Json& json) {
  if (json.is_string()) {
    json = valid_utf8(json.get_ref<const std::string&>());
  } else if (json.is_structured()) {
    for (auto& element : json) make_valid(element);
  }
}

Json place_json(const Place& place) {
  Json json{{"kernel", place.kernel}, {"file", place.file},          {"line", place.line},
            {"column", place.column}, {"ptx_line", place.ptx_line},  {"instruction", place.instruction},
            {"output", place.output}, {"host_call", place.host_call}};
  if (!place.called_from.empty()) {
    Json stack = Json::array();
    for (const auto& [file, line] : place.called_from) stack.push_back({{"file", file}, {"line", line}});
    json["stack"] = std::move(stack);
  }
  if (!place.access.empty()) json["what"] = place.access;
  if (!place.thread.empty()) json["thread"] = place.thread;
  return json;
}

Json finding_json(const Finding& finding) {
  Json json{
      {"rule", finding.rule},       {"severity", to_string(finding.severity)}, {"stage", to_string(finding.stage)},
      {"message", finding.message}, {"place", place_json(finding.place)},      {"remedy", finding.remedy}};
  if (finding.other) json["other"] = place_json(*finding.other);
  if (!finding.address.empty()) json["address"] = finding.address;
  if (finding.occurrences != 1) json["occurrences"] = finding.occurrences;
  if (!finding.policies.empty()) json["policies"] = finding.policies;
  return json;
}

Json run_json(const Run& run) {
  Json axes = Json::object();
  for (const auto& [name, value] : run.axes) axes[name] = value;
  Json launches = Json::array();
  for (const LaunchSummary& launch : run.launches) {
    launches.push_back({{"kernel", launch.kernel},
                        {"clusters_run", launch.clusters_run},
                        {"clusters_total", launch.clusters_total},
                        {"warp_instructions", launch.warp_instructions},
                        {"grid", launch.grid},
                        {"block", launch.block},
                        {"cluster", launch.cluster},
                        {"dynamic_shared_bytes", launch.dynamic_shared_bytes},
                        {"seconds", launch.seconds}});
  }
  Json outputs = Json::array();
  for (const problem::TensorComparison& output : run.outputs) outputs.push_back(problem::to_json(output));
  return Json{{"workload", run.workload.empty() ? Json(nullptr) : Json(run.workload)},
              {"axes", axes},
              {"backend", run.backend},
              {"seed", run.seed},
              {"distribution", run.distribution},
              {"execute", to_string(run.execute)},
              {"correctness", to_string(run.correctness)},
              {"reason", run.reason},
              {"sampled", run.sampled},
              {"coverage", run.coverage},
              {"launches", launches},
              {"outputs", outputs},
              {"host_output", run.host_output}};
}

Json instructions_json(const InstructionEvidence& evidence) {
  Json families = Json::object();
  for (const FamilyCount& family : evidence.families) {
    families[family.family] = Json{{"warps", family.warps}, {"lanes", family.lanes}};
  }
  return Json{
      {"source", evidence.source},
      {"families", families},
      {"warp_instructions", evidence.warp_instructions},
      {"tensor_core_macs", evidence.tensor_core_macs},
      {"legacy_mma_macs", evidence.legacy_mma_macs},
      {"tma_bytes", evidence.tma_bytes},
      {"required_macs", optional_number(evidence.required_macs)},
      {"required_bytes", evidence.required_bytes},
      {"scaled", evidence.scaled},
      {"mac_share", optional_number(evidence.mac_share)},
      {"legacy_mma_share", optional_number(evidence.legacy_mma_share)},
      {"tma_byte_share", optional_number(evidence.tma_byte_share)},
      {"wgmma_executed", evidence.wgmma_executed},
      {"tma_executed", evidence.tma_executed},
      {"compat_target", evidence.compat_target},
      {"threshold", {{"mac_share_at_least", evidence.mac_share_threshold}, {"status", to_string(evidence.threshold)}}},
      {"strict", {{"status", to_string(evidence.strict)}, {"reason", evidence.strict_reason}}}};
}

}  // namespace

Json to_json(const Evaluation& evaluation) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < kStageCount; ++i) {
    const Stage& stage = evaluation.stages[i];
    stages.push_back({{"name", to_string(static_cast<StageName>(i))},
                      {"status", to_string(stage.status)},
                      {"reason", stage.reason},
                      {"decisive", stage.decisive},
                      {"seconds", stage.seconds}});
  }
  Json findings = Json::array();
  for (const Finding& finding : evaluation.findings) findings.push_back(finding_json(finding));
  Json runs = Json::array();
  for (const Run& run : evaluation.runs) runs.push_back(run_json(run));
  Json sanitizer = Json::array();
  for (const SanitizerRun& run : evaluation.sanitizer) {
    Json axes = Json::object();
    for (const auto& [name, value] : run.axes) axes[name] = value;
    sanitizer.push_back({{"tool", run.tool},
                         {"workload", run.workload.empty() ? Json(nullptr) : Json(run.workload)},
                         {"axes", std::move(axes)},
                         {"errors", run.errors},
                         {"warnings", run.warnings},
                         {"seconds", run.seconds}});
  }
  Json performance = Json::array();
  for (const Performance& one : evaluation.performance) performance.push_back(to_json(one));
  const BackendSettings& backend = evaluation.backend;
  const Timings& t = evaluation.timings;
  Json json{{"schema", Evaluation::kSchema},
            {"definition", evaluation.definition},
            {"target", evaluation.target},
            {"language", evaluation.language},
            {"candidate_sha256", evaluation.candidate_sha256},
            {"artifact", evaluation.artifact_id.empty() ? Json(nullptr)
                                                        : Json{{"id", evaluation.artifact_id},
                                                               {"ptx_sha256", evaluation.ptx_sha256},
                                                               {"library_sha256", evaluation.library_sha256}}},
            {"backend",
             {{"name", backend.name},
              {"threads", backend.threads},
              {"completion", backend.completion},
              {"tensor_cores", backend.tensor_cores},
              {"seed", backend.seed},
              {"instruction_budget", backend.instruction_budget},
              {"sample_clusters", backend.sample_clusters ? Json(*backend.sample_clusters) : Json(nullptr)}}},
            {"verdict",
             {{"status", to_string(evaluation.verdict)},
              {"summary", evaluation.summary},
              {"sampled", evaluation.sampled},
              {"coverage", evaluation.coverage}}},
            {"stages", stages},
            {"findings", findings},
            {"compile", candidate::to_json(evaluation.compile)},
            {"runs", runs},
            {"instructions", evaluation.instructions ? instructions_json(*evaluation.instructions) : Json(nullptr)},
            {"performance", performance},
            {"sanitizer", sanitizer},
            {"hazards",
             {{"status", to_string(evaluation.hazards.status)},
              {"reason", evaluation.hazards.reason},
              {"policies", evaluation.hazards.policies},
              {"seconds", evaluation.hazards.seconds}}},
            {"fidelity",
             {{"warp_instructions", evaluation.fidelity.warp_instructions},
              {"approximate", text_list(evaluation.fidelity.approximate)},
              {"unsupported", text_list(evaluation.fidelity.unsupported)}}},
            {"timings",
             {{"compile", t.compile},
              {"inputs", t.inputs},
              {"truth", t.truth},
              {"execute", t.execute},
              {"kernels", t.kernels},
              {"compare", t.compare},
              {"total", t.total},
              {"cpu", t.cpu},
              {"peak_memory_bytes", t.peak_memory_bytes}}}};
  make_valid(json);
  return json;
}

}  // namespace ptxbench::evaluation
