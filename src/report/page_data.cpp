#include <algorithm>
#include <array>
#include <functional>

#include "report/page.h"

namespace ptxbench::report {
namespace {

using base::Json;

/// A column of numbers; null where there is none, and nothing at all if there is none anywhere.
Json column(const Table& table, double TurnRow::*member) {
  Json out = Json::array();
  bool any = false;
  for (const TrajectoryRow& one : table.trajectories) {
    for (const TurnRow& turn : one.turns) {
      const double value = turn.*member;
      any |= is_known(value);
      if (!is_known(value)) {
        out.push_back(nullptr);
      } else if (value == static_cast<double>(static_cast<std::int64_t>(value)) && value < 9e15) {
        out.push_back(static_cast<std::int64_t>(value));
      } else {
        out.push_back(value);
      }
    }
  }
  return any ? out : Json(nullptr);
}

Json flags(const Table& table, Known TurnRow::*member) {
  std::string out;
  for (const TrajectoryRow& one : table.trajectories) {
    for (const TurnRow& turn : one.turns) out += static_cast<char>('0' + static_cast<int>(turn.*member));
  }
  return out;
}

template <class Get>
Json per_trajectory(const Table& table, Get get) {
  Json out = Json::array();
  for (const TrajectoryRow& one : table.trajectories) out.push_back(get(one));
  return out;
}

/// A column of numbers; where all are the same, this number in its place.
template <class Get>
Json per_trajectory_number(const Table& table, Get get) {
  Json out = per_trajectory(table, get);
  const auto differs = [&](const Json& one) { return one != out.front(); };
  return out.empty() || std::ranges::any_of(out, differs) ? out : out.front();
}

}  // namespace

Json page_data(const Table& table, const PageOptions& options, const std::vector<bool>& with_texts,
               std::uint64_t left_out_bytes) {
  Json runs = Json::array(), run_names = Json::array(), pools = Json::array(), notes = Json::array();
  for (const Run& run : table.runs) {
    run_names.push_back(run.name);
    runs.push_back({{"kind", run.kind == RunKind::own         ? "experiment"
                             : run.kind == RunKind::reference ? "reference run"
                                                              : "published"},
                    {"path", run.path},
                    {"planned", run.planned},
                    {"without_turns", run.without_turns}});
  }
  for (const Pool& pool : table.pools) pools.push_back({{"name", pool.name}, {"runs", pool.runs}});
  for (const Note& note : table.notes) notes.push_back(note.text);

  Json numbers = Json::array(), labels = Json::array(), speedup_at = Json::array(), speedups = Json::array(),
       rules_at = Json::array(), rules = Json::array();
  bool plain = true;  // turns are 0, 1, 2, ... in each trajectory
  std::size_t at = 0;
  for (const TrajectoryRow& one : table.trajectories) {
    std::uint32_t expected = 0;
    for (const TurnRow& turn : one.turns) {
      plain &= turn.number == expected++;
      numbers.push_back(turn.number);
      labels.push_back(turn.label);
      if (is_known(turn.speedup)) {
        speedup_at.push_back(at);
        speedups.push_back(turn.speedup);
      }
      if (!turn.rules.empty()) {
        rules_at.push_back(at);
        rules.push_back(turn.rules);
      }
      ++at;
    }
  }
  const auto strata = strata_of(table);
  std::size_t texts = 0;
  for (const bool present : with_texts) texts += present;
  std::size_t texts_possible = 0;
  for (const TrajectoryRow& one : table.trajectories) texts_possible += !one.file.empty();
  return {
      {"schema", "ptxbench.page/1"},
      {"title", options.title},
      {"made", options.made},
      {"version", options.version},
      {"thresholds", options.metrics.thresholds},
      {"turn_limits", options.metrics.turn_limits},
      {"replicates", options.metrics.replicates},
      {"texts", {{"present", texts}, {"possible", texts_possible}, {"left_out_bytes", left_out_bytes}}},
      {"names",
       {{"model", table.models.all()},
        {"arch", table.archs.all()},
        {"problem", table.problems.all()},
        {"workload", table.workloads.all()},
        {"language", table.languages.all()},
        {"pack", table.packs.all()},
        {"run", run_names},
        {"label", table.labels.all()},
        {"rule", table.rules.all()}}},
      {"pools", pools},
      {"trajectories",
       {{"run", per_trajectory_number(table, [](const TrajectoryRow& one) { return one.run; })},
        {"model", per_trajectory_number(table, [](const TrajectoryRow& one) { return one.model; })},
        {"arch", per_trajectory_number(table, [](const TrajectoryRow& one) { return one.arch; })},
        {"problem", per_trajectory_number(table, [](const TrajectoryRow& one) { return one.problem; })},
        {"workload", per_trajectory_number(table, [](const TrajectoryRow& one) { return one.workload; })},
        {"language", per_trajectory_number(table, [](const TrajectoryRow& one) { return one.language; })},
        {"pack", per_trajectory_number(table, [](const TrajectoryRow& one) { return one.pack; })},
        {"state", per_trajectory_number(table, [](const TrajectoryRow& one) { return static_cast<int>(one.state); })},
        {"turns", per_trajectory(table, [](const TrajectoryRow& one) { return one.turns.size(); })},
        {"stratum", strata}}},
      {"turns",
       {{"number", plain ? Json(nullptr) : numbers},
        {"label", labels},
        {"target", flags(table, &TurnRow::target)},
        {"speedup_at", speedup_at},
        {"speedup", speedups},
        {"rules_at", rules_at},
        {"rules", rules}}},
      {"details",
       {{"notes", notes},
        {"runs", runs},
        {"trajectories", per_trajectory(table, [](const TrajectoryRow& one) { return Json(one.name); })},
        {"turns",
         {{"reasoning_tokens", column(table, &TurnRow::reasoning_tokens)},
          {"tokens", column(table, &TurnRow::tokens)},
          {"cost", column(table, &TurnRow::cost)},
          {"model_seconds", column(table, &TurnRow::model_seconds)},
          {"judge_seconds", column(table, &TurnRow::judge_seconds)},
          {"host_seconds", column(table, &TurnRow::host_seconds)},
          {"cpu_seconds", column(table, &TurnRow::cpu_seconds)},
          {"gpu_seconds", column(table, &TurnRow::gpu_seconds)}}}}},
  };
}

}  // namespace ptxbench::report
