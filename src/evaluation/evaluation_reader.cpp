#include "evaluation/evaluation_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace ptxbench::evaluation {
namespace {

using base::Json;

const Json* member(const Json& object, const char* key) {
  return object.is_object() ? base::optional_member(object, key) : nullptr;
}

std::string text(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<double> number(const Json& object, const char* key) {
  const Json* value = member(object, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_number()) return value->get<double>();
  if (*value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (*value == "Infinity") return std::numeric_limits<double>::infinity();
  if (*value == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

template <class T>
T integer(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && base::detail::fits<T>(*value) ? value->get<T>() : T{};
}

bool flag(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

const Json& list(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json* value = member(object, key);
  return value != nullptr && value->is_array() ? *value : kEmpty;
}

template <class E, std::size_t N>
E word(const std::string& name, const E (&values)[N], E otherwise) {
  for (const E value : values) {
    if (to_string(value) == name) return value;
  }
  return otherwise;
}

constexpr Status kStatuses[] = {Status::passed, Status::failed, Status::unknown, Status::skipped};

Status status(const Json& object, const char* key) { return word(text(object, key), kStatuses, Status::unknown); }

StageName stage_name(const std::string& name) {
  constexpr StageName kAll[] = {StageName::compile, StageName::execute, StageName::correctness, StageName::instructions,
                                StageName::performance};
  return word(name, kAll, StageName::execute);
}

Place place(const Json& json) {
  Place out;
  out.kernel = text(json, "kernel");
  out.file = text(json, "file");
  out.line = integer<std::uint32_t>(json, "line");
  out.column = integer<std::uint32_t>(json, "column");
  out.ptx_line = integer<std::uint32_t>(json, "ptx_line");
  out.instruction = text(json, "instruction");
  out.output = text(json, "output");
  out.host_call = text(json, "host_call");
  for (const Json& call : list(json, "stack")) {
    out.called_from.emplace_back(text(call, "file"), integer<std::uint32_t>(call, "line"));
  }
  out.access = text(json, "what");
  out.thread = text(json, "thread");
  return out;
}

std::vector<std::string> texts(const Json& json, const char* key) {
  std::vector<std::string> out;
  for (const Json& one : list(json, key)) {
    if (one.is_string()) out.push_back(one.get<std::string>());
  }
  return out;
}

Finding finding(const Json& json) {
  constexpr Severity kAll[] = {Severity::error, Severity::warning, Severity::note};
  Finding out;
  out.rule = text(json, "rule");
  out.severity = word(text(json, "severity"), kAll, Severity::error);
  out.stage = stage_name(text(json, "stage"));
  out.message = text(json, "message");
  out.remedy = text(json, "remedy");
  if (const Json* at = member(json, "place")) out.place = place(*at);
  if (const Json* other = member(json, "other")) out.other = place(*other);
  out.address = text(json, "address");
  out.occurrences = std::max<std::uint64_t>(1, integer<std::uint64_t>(json, "occurrences"));
  out.policies = texts(json, "policies");
  return out;
}

std::optional<problem::ElementError> element(const Json& json, const char* key) {
  const Json* value = member(json, key);
  if (value == nullptr || !value->is_object()) return std::nullopt;
  return problem::ElementError{integer<std::int64_t>(*value, "row"), integer<std::int64_t>(*value, "column"),
                               number(*value, "expected").value_or(0), number(*value, "got").value_or(0)};
}

problem::TensorComparison comparison(const Json& json) {
  constexpr problem::Verdict kVerdicts[] = {problem::Verdict::passed, problem::Verdict::failed,
                                            problem::Verdict::unknown};
  problem::TensorComparison out;
  out.name = text(json, "name");
  if (const auto dtype = problem::parse_dtype(text(json, "dtype"), "dtype")) out.dtype = *dtype;
  out.rows = integer<std::int64_t>(json, "rows");
  out.columns = integer<std::int64_t>(json, "columns");
  out.verdict = word(text(json, "verdict"), kVerdicts, problem::Verdict::unknown);
  if (text(json, "rule") == to_string(problem::Tolerance::reference)) out.rule = problem::Tolerance::reference;
  out.failures = texts(json, "failures");
  out.note = text(json, "note");
  if (const Json* elements = member(json, "elements")) {
    out.known = integer<std::uint64_t>(*elements, "known");
    out.unknown = integer<std::uint64_t>(*elements, "unknown");
    out.wrong = integer<std::uint64_t>(*elements, "wrong");
    out.unwritten = integer<std::uint64_t>(*elements, "unwritten");
    out.nan = integer<std::uint64_t>(*elements, "nan");
    out.infinite = integer<std::uint64_t>(*elements, "infinite");
  }
  out.tensor_l2 = number(json, "tensor_l2").value_or(0);
  out.worst_row_l2 = number(json, "worst_row_l2").value_or(0);
  out.gain = number(json, "gain").value_or(1);
  out.max_absolute_error = number(json, "max_absolute_error").value_or(0);
  out.rms_absolute_error = number(json, "rms_absolute_error").value_or(0);
  const Json* limits = member(json, "limits");
  out.absolute = limits != nullptr && member(*limits, "absolute_max") != nullptr;
  out.first_wrong = element(json, "first_wrong");
  out.worst_element_at = element(json, "worst_element_at");
  out.cell_size = integer<std::int64_t>(json, "cell_size");
  out.cell_count = integer<std::uint64_t>(json, "cell_count");
  out.wrong_cell_count = integer<std::uint64_t>(json, "wrong_cell_count");
  // Whoever describes the cells counts on places within a tensor.
  constexpr std::int64_t kMostRows = std::int64_t{1} << 40;
  const auto within = [](std::int64_t value, std::int64_t least) { return value >= least && value <= kMostRows; };
  const bool has_cells = within(out.cell_size, 1) && within(out.rows, 1) && within(out.columns, 1);
  for (const Json& cell : list(json, "wrong_cells")) {
    if (!has_cells || out.wrong_cells.size() >= problem::TensorComparison::kMaxCells) break;
    const problem::ErrorCell one{integer<std::int64_t>(cell, "row"), integer<std::int64_t>(cell, "column"),
                                 integer<std::uint64_t>(cell, "wrong"), integer<std::uint64_t>(cell, "unwritten"),
                                 integer<std::uint64_t>(cell, "known")};
    if (within(one.row, 0) && within(one.column, 0)) out.wrong_cells.push_back(one);
  }
  for (const Json& one : list(json, "hypotheses")) {
    out.hypotheses.push_back({text(one, "pattern"), text(one, "text"), number(one, "confidence").value_or(0)});
  }
  return out;
}

std::vector<std::pair<std::string, std::int64_t>> axes_of(const Json& json) {
  std::vector<std::pair<std::string, std::int64_t>> out;
  const Json* axes = member(json, "axes");
  if (axes == nullptr || !axes->is_object()) return out;
  for (const auto& [name, value] : axes->items()) {
    if (value.is_number_integer()) out.emplace_back(name, value.get<std::int64_t>());
  }
  return out;
}

std::array<std::uint32_t, 3> extents(const Json& json, const char* key) {
  std::array<std::uint32_t, 3> out = {};
  const Json& values = list(json, key);
  for (std::size_t i = 0; i < std::min<std::size_t>(values.size(), 3); ++i) {
    if (base::detail::fits<std::uint32_t>(values[i])) out[i] = values[i].get<std::uint32_t>();
  }
  return out;
}

Run run(const Json& json) {
  Run out;
  out.workload = text(json, "workload");
  out.axes = axes_of(json);
  out.backend = text(json, "backend");
  out.seed = integer<std::uint64_t>(json, "seed");
  out.distribution = text(json, "distribution");
  out.execute = status(json, "execute");
  out.correctness = status(json, "correctness");
  out.reason = text(json, "reason");
  out.sampled = flag(json, "sampled");
  out.coverage = number(json, "coverage").value_or(0);
  for (const Json& output : list(json, "outputs")) out.outputs.push_back(comparison(output));
  for (const Json& one : list(json, "launches")) {
    LaunchSummary& launch = out.launches.emplace_back();
    launch.kernel = text(one, "kernel");
    launch.clusters_run = integer<std::uint64_t>(one, "clusters_run");
    launch.clusters_total = integer<std::uint64_t>(one, "clusters_total");
    launch.warp_instructions = integer<std::uint64_t>(one, "warp_instructions");
    launch.grid = extents(one, "grid");
    launch.block = extents(one, "block");
    launch.cluster = extents(one, "cluster");
    launch.dynamic_shared_bytes = integer<std::uint32_t>(one, "dynamic_shared_bytes");
  }
  out.host_output = text(json, "host_output");
  return out;
}

std::optional<gpu::Median> median(const Json& json, const char* key) {
  const Json* value = member(json, key);
  if (value == nullptr || !value->is_object()) return std::nullopt;
  return gpu::Median{number(*value, "value").value_or(0), number(*value, "low").value_or(0),
                     number(*value, "high").value_or(0), integer<std::size_t>(*value, "count")};
}

Performance performance(const Json& json) {
  Performance out;
  out.workload = text(json, "workload");
  out.axes = axes_of(json);
  if (const auto latency = median(json, "latency_ms")) out.times.candidate = *latency;
  if (const Json* baseline = member(json, "baseline")) {
    out.baseline = text(*baseline, "name");
    out.baseline_version = text(*baseline, "version");
    out.times.baseline = median(*baseline, "latency_ms");
  }
  out.no_baseline = text(json, "baseline_missing");
  out.times.speedup = median(json, "speedup");
  out.floor = number(json, "floor_ms").value_or(0);
  return out;
}

InstructionEvidence evidence(const Json& json) {
  InstructionEvidence out;
  out.source = text(json, "source");
  if (const Json* families = member(json, "families"); families != nullptr && families->is_object()) {
    for (const auto& [name, counts] : families->items()) {
      out.families.push_back({name, integer<std::uint64_t>(counts, "warps"), integer<std::uint64_t>(counts, "lanes")});
    }
  }
  out.warp_instructions = integer<std::uint64_t>(json, "warp_instructions");
  out.tensor_core_macs = integer<std::uint64_t>(json, "tensor_core_macs");
  out.legacy_mma_macs = integer<std::uint64_t>(json, "legacy_mma_macs");
  out.tma_bytes = integer<std::uint64_t>(json, "tma_bytes");
  out.required_macs = number(json, "required_macs");
  out.required_bytes = number(json, "required_bytes").value_or(0);
  out.scaled = flag(json, "scaled");
  out.mac_share = number(json, "mac_share");
  out.legacy_mma_share = number(json, "legacy_mma_share");
  out.tma_byte_share = number(json, "tma_byte_share");
  out.wgmma_executed = flag(json, "wgmma_executed");
  out.tma_executed = flag(json, "tma_executed");
  out.compat_target = flag(json, "compat_target");
  if (const Json* threshold = member(json, "threshold")) {
    out.mac_share_threshold = number(*threshold, "mac_share_at_least").value_or(out.mac_share_threshold);
    out.threshold = status(*threshold, "status");
  }
  if (const Json* strict = member(json, "strict")) {
    out.strict = status(*strict, "status");
    out.strict_reason = text(*strict, "reason");
  }
  return out;
}

}  // namespace

Result<Evaluation> evaluation_from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) return input_error("{}: an object is needed, found {}", what, base::json_type_name(json));
  if (text(json, "schema") != Evaluation::kSchema) {
    return input_error("{}: the schema is '{}', this program reads '{}'", what, text(json, "schema"),
                       Evaluation::kSchema);
  }
  Evaluation out;
  out.definition = text(json, "definition");
  out.target = text(json, "target");
  // Absent in records from before there was a choice.
  if (auto language = text(json, "language"); !language.empty()) out.language = std::move(language);
  out.candidate_sha256 = text(json, "candidate_sha256");
  if (const Json* verdict = member(json, "verdict")) {
    out.verdict = status(*verdict, "status");
    out.summary = text(*verdict, "summary");
    out.sampled = flag(*verdict, "sampled");
    out.coverage = number(*verdict, "coverage").value_or(0);
  }
  for (const Json& one : list(json, "stages")) {
    Stage& stage = out.stage(stage_name(text(one, "name")));
    stage = {status(one, "status"), text(one, "reason"), number(one, "seconds").value_or(0), flag(one, "decisive")};
  }
  for (const Json& one : list(json, "findings")) out.findings.push_back(finding(one));
  if (const Json* compile = member(json, "compile")) {
    auto report = candidate::compile_report_from_json(*compile, fmt::format("{}: compile", what));
    if (!report) return tl::unexpected<Error>(report.error());
    out.compile = std::move(*report);
  }
  for (const Json& one : list(json, "runs")) out.runs.push_back(run(one));
  if (const Json* instructions = member(json, "instructions"); instructions != nullptr && instructions->is_object()) {
    out.instructions = evidence(*instructions);
  }
  for (const Json& one : list(json, "performance")) out.performance.push_back(performance(one));
  if (const Json* hazards = member(json, "hazards")) {
    out.hazards.status = word(text(*hazards, "status"), kStatuses, Status::skipped);
    out.hazards.reason = text(*hazards, "reason");
    out.hazards.policies = texts(*hazards, "policies");
  }
  if (const Json* fidelity = member(json, "fidelity")) {
    out.fidelity.warp_instructions = integer<std::uint64_t>(*fidelity, "warp_instructions");
    out.fidelity.approximate = texts(*fidelity, "approximate");
    out.fidelity.unsupported = texts(*fidelity, "unsupported");
  }
  if (const Json* backend = member(json, "backend")) out.backend.name = text(*backend, "name");
  return out;
}

}  // namespace ptxbench::evaluation
