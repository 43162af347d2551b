#include <algorithm>
#include <map>

#include "agent/interchange.h"
#include "agent/trajectory.h"
#include "base/files.h"
#include "base/text.h"
#include "report/page.h"

namespace ptxbench::report {
namespace {

using base::Json;

constexpr std::uint64_t kMostTimeline = std::uint64_t{2} << 20;
constexpr std::size_t kMostSource = 256 << 10, kMostFeedback = 64 << 10, kMostMessage = 8 << 10, kMostFindings = 60;

const Json* member(const Json& object, const char* key) {
  return object.is_object() ? base::optional_member(object, key) : nullptr;
}

Json copy(const Json& from, std::initializer_list<const char*> keys) {
  Json out = Json::object();
  for (const char* key : keys) {
    const Json* value = member(from, key);
    if (value == nullptr) continue;
    out[key] = value->is_string() ? Json(base::shorten_middle(value->get<std::string>(), kMostMessage)) : *value;
  }
  return out;
}

/// Each element of a list, with these members only.
Json copy_list(const Json& from, const char* list, std::initializer_list<const char*> keys, std::size_t most = 64) {
  Json out = Json::array();
  const Json* elements = member(from, list);
  if (elements == nullptr || !elements->is_array()) return out;
  for (const Json& one : *elements) {
    if (out.size() == most) break;
    out.push_back(copy(one, keys));
  }
  return out;
}

Json evaluation_of(const Json& evaluation) {
  if (!evaluation.is_object()) return nullptr;
  Json out = Json::object();
  if (const Json* verdict = member(evaluation, "verdict"))
    out["verdict"] = copy(*verdict, {"status", "summary", "sampled", "coverage"});
  if (const Json* backend = member(evaluation, "backend")) out["backend"] = copy(*backend, {"name", "completion"});
  out["stages"] = copy_list(evaluation, "stages", {"name", "status", "reason", "decisive", "seconds"});
  out["findings"] =
      copy_list(evaluation, "findings", {"rule", "severity", "stage", "message", "place", "remedy"}, kMostFindings);
  const Json* findings = member(evaluation, "findings");
  out["findings_left_out"] = findings != nullptr && findings->is_array() && findings->size() > kMostFindings
                                 ? findings->size() - kMostFindings
                                 : 0;
  if (const Json* compile = member(evaluation, "compile")) {
    out["kernels"] = copy_list(*compile, "kernels",
                               {"demangled", "entry", "registers", "static_shared_bytes", "stack_bytes",
                                "spill_store_bytes", "spill_load_bytes"});
    out["messages"] = copy_list(*compile, "messages", {"level", "tool", "rule", "where", "text"});
  }
  if (const Json* instructions = member(evaluation, "instructions")) out["instructions"] = *instructions;
  out["performance"] =
      copy_list(evaluation, "performance", {"axes", "latency_ms", "baseline", "baseline_missing", "speedup"});
  out["runs"] =
      copy_list(evaluation, "runs",
                {"axes", "backend", "distribution", "execute", "correctness", "reason", "sampled", "coverage"});
  if (const Json* fidelity = member(evaluation, "fidelity"))
    out["fidelity"] = copy(*fidelity, {"approximate", "unsupported"});
  if (const Json* timings = member(evaluation, "timings")) out["timings"] = *timings;
  if (const Json* traces = member(evaluation, "traces"); traces != nullptr && traces->is_array()) {
    Json list = Json::array();
    for (const Json& trace : *traces) {
      const Json* inner = member(trace, "evaluation");
      if (inner != nullptr && list.size() < 64) list.push_back(copy(*inner, {"status", "performance", "correctness"}));
    }
    out["traces"] = list;
  }
  return out;
}

/// The turn's timeline as base64 of its compressed file, or where it is and why it is not passed on; null: there is
/// none.
Json timeline_of(const std::filesystem::path& trajectory, unsigned turn) {
  const std::filesystem::path path = agent::timeline_path(trajectory, turn);
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return nullptr;
  if (std::filesystem::file_size(path, none) > kMostTimeline && !none)
    return {{"path", path.string()}, {"why", "It is too big for this page"}};
  const auto bytes = base::read_file(path, kMostTimeline);
  if (!bytes) return {{"path", path.string()}, {"why", bytes.error().message}};
  return {{"file", base64(*bytes)}};
}

}  // namespace

Result<Json> trajectory_texts(const TrajectoryRow& row) {
  if (row.file.empty()) return input_error("published results hold no kernels and no feedback");
  const auto trajectory = agent::read_trajectory(row.file);
  if (!trajectory) return tl::unexpected<Error>(trajectory.error());
  Json sources = Json::array(), turns = Json::array();
  std::map<std::string, std::size_t> known;
  for (const agent::Turn& turn : trajectory->turns) {
    Json one = {{"number", turn.number - 1},
                {"event", turn.event},
                {"label", agent::failure_label(turn)},
                {"passed", turn.passed()},
                {"timestamp", turn.timestamp},
                {"finish_reason", turn.finish_reason},
                {"usage", models::to_json(turn.usage)},
                {"model_seconds", turn.model_seconds},
                {"judge_seconds", turn.judge_seconds},
                {"timeline", timeline_of(row.file, turn.number)},
                {"feedback", base::shorten_middle(turn.feedback, kMostFeedback)},
                {"evaluation", evaluation_of(turn.evaluation)}};
    one["source"] = nullptr;
    if (turn.source) {
      const auto [at, fresh] = known.try_emplace(*turn.source, sources.size());
      if (fresh) sources.push_back(base::shorten_middle(*turn.source, kMostSource));
      one["source"] = at->second;
    }
    turns.push_back(std::move(one));
  }
  return Json{{"schema", "ptxbench.page-trajectory/1"},
              {"exit_status", trajectory->exit_status},
              {"stop_reason", trajectory->stop_reason},
              {"error", trajectory->error},
              {"pending", trajectory->pending.has_value()},
              {"sources", sources},
              {"turns", turns}};
}

}  // namespace ptxbench::report
