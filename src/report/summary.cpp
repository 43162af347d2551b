#include "report/summary.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "report/csv.h"
#include "report/published.h"

namespace ptxbench::report {
namespace {

using base::Json;

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json share_json(const Share& share, std::string_view denominator) {
  Json out = {{"count", share.count}, {"of", share.of}, {"denominator", denominator}, {"unknown", share.unknown}};
  const auto value = share.value();
  out["percent"] =
      value ? Json(100.0 * static_cast<double>(share.count) / static_cast<double>(share.of)) : Json(nullptr);
  out["limits"] = nullptr;
  if (share.interval) {
    out["limits"] = {{"low", 100 * share.interval->low},
                     {"high", 100 * share.interval->high},
                     {"method", share.interval->exact ? "exact, trajectories" : "bootstrap, trajectories"}};
  }
  return out;
}

Json sum_json(const Sum& sum, std::size_t correct, std::size_t turns) {
  const auto whole = sum.whole();
  Json out = {{"known_sum", sum.known > 0 ? Json(sum.sum) : Json(nullptr)},
              {"turns_known", sum.known},
              {"turns_unknown", sum.unknown}};
  out["per_correct_turn"] = whole && correct > 0 ? Json(*whole / static_cast<double>(correct)) : Json(nullptr);
  out["per_turn"] = whole && turns > 0 ? Json(*whole / static_cast<double>(turns)) : Json(nullptr);
  return out;
}

Json metrics_json(const Metrics& metrics, const MetricOptions& options) {
  Json out = {{"runs", metrics.runs},
              {"trajectories", metrics.trajectories},
              {"turns", metrics.turns},
              {"correct_turns", metrics.correct},
              {"passed_turns", metrics.passed_unknown > 0 ? Json(nullptr) : Json(metrics.passed)}};
  Json fast = Json::array();
  for (std::size_t k = 0; k < options.thresholds.size(); ++k) {
    fast.push_back({{"p", options.thresholds[k]},
                    {"plain", share_json(metrics.fast_p[k], "turns")},
                    {"target", share_json(metrics.fast_p_target[k], "turns")}});
  }
  out["fast_p"] = fast;
  Json limits = Json::array();
  for (const AtTurns& at : metrics.at) {
    limits.push_back({{"turns", at.turns},
                      {"correct", share_json(at.correct, "trajectories")},
                      {"target", share_json(at.target, "trajectories")},
                      {"best_speedup", optional_json(at.best_speedup)},
                      {"correct_turns_not_timed", at.unmeasured}});
  }
  out["within_turns"] = limits;
  out["best_speedup"] = optional_json(metrics.best_speedup);
  out["correct_turns_not_timed"] = metrics.unmeasured;
  out["median_reasoning_tokens"] = optional_json(metrics.median_reasoning_tokens);
  const auto sum = [&](const char* name, const Sum& one) { out[name] = sum_json(one, metrics.correct, metrics.turns); };
  sum("reasoning_tokens", metrics.reasoning_tokens);
  sum("tokens", metrics.tokens);
  sum("cost", metrics.cost);
  sum("model_seconds", metrics.model_seconds);
  sum("judge_seconds", metrics.judge_seconds);
  sum("host_seconds", metrics.host_seconds);
  sum("cpu_seconds", metrics.cpu_seconds);
  sum("gpu_seconds", metrics.gpu_seconds);
  return out;
}

std::string text_of(Known known) { return known == Known::yes ? "yes" : known == Known::no ? "no" : "unknown"; }

std::string field(double value) { return is_known(value) ? fmt::format("{}", value) : ""; }

std::string turns_csv(const Table& table) {
  std::string out =
      "run,model,arch,problem,workload,language,pack,trajectory,turn,label,correct,passed,speedup,target_instruction,"
      "reasoning_tokens,tokens,cost,model_seconds,judge_seconds,host_seconds,cpu_seconds,gpu_seconds,findings\n";
  for (const TrajectoryRow& one : table.trajectories) {
    std::string shared;
    for (const Dimension dimension : {Dimension::run, Dimension::model, Dimension::arch, Dimension::problem,
                                      Dimension::workload, Dimension::language, Dimension::pack}) {
      shared += csv_field(value_of(table, one, dimension)) + ",";
    }
    shared += csv_field(one.name);
    for (const TurnRow& turn : one.turns) {
      std::vector<std::string> rules;
      for (const std::uint32_t rule : turn.rules) rules.push_back(table.rules[rule]);
      out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", shared, turn.number,
                         csv_field(table.labels[turn.label]), turn.correct ? 1 : 0, text_of(turn.passed),
                         field(turn.speedup), text_of(turn.target), field(turn.reasoning_tokens), field(turn.tokens),
                         field(turn.cost), field(turn.model_seconds), field(turn.judge_seconds),
                         field(turn.host_seconds), field(turn.cpu_seconds), field(turn.gpu_seconds),
                         csv_field(fmt::format("{}", fmt::join(rules, " "))));
    }
  }
  return out;
}

std::string groups_csv(const Summary& summary) {
  std::string out;
  for (const Dimension dimension : summary.dimensions) out += fmt::format("{},", to_string(dimension));
  out += "trajectories,turns,correct_turns";
  for (const double p : summary.options.thresholds) {
    for (const char* kind : {"", "_target"}) {
      out += fmt::format(",fast_{0:g}{1},fast_{0:g}{1}_percent_of_turns,fast_{0:g}{1}_low,fast_{0:g}{1}_high", p, kind);
    }
  }
  for (const unsigned limit : summary.options.turn_limits) {
    out += fmt::format(",correct_trajectories_at_{0},target_trajectories_at_{0},best_speedup_at_{0}", limit);
  }
  out +=
      ",median_reasoning_tokens,tokens_per_correct_turn,cost_per_correct_turn,judge_seconds_per_turn,gpu_seconds_per_"
      "turn\n";
  const auto optional = [](const std::optional<double>& value) {
    return value ? fmt::format("{}", *value) : std::string();
  };
  const auto count = [](const Share& share) { return share.unknown > 0 ? std::string() : std::to_string(share.count); };
  for (std::size_t i = 0; i < summary.groups.size(); ++i) {
    const Metrics& metrics = summary.metrics[i];
    for (const std::string& value : summary.groups[i].values) out += csv_field(value) + ",";
    out += fmt::format("{},{},{}", metrics.trajectories, metrics.turns, metrics.correct);
    for (std::size_t k = 0; k < metrics.fast_p.size(); ++k) {
      for (const Share* share : {&metrics.fast_p[k], &metrics.fast_p_target[k]}) {
        out += fmt::format(",{},{}", count(*share), percent(*share));
        out += share->interval ? fmt::format(",{:.2f},{:.2f}", 100 * share->interval->low, 100 * share->interval->high)
                               : ",,";
      }
    }
    for (const AtTurns& at : metrics.at) {
      out += fmt::format(",{},{},{}", count(at.correct), count(at.target), optional(at.best_speedup));
    }
    const auto per = [&](const Sum& sum, std::size_t of) {
      const auto whole = sum.whole();
      return whole && of > 0 ? fmt::format("{}", *whole / static_cast<double>(of)) : std::string();
    };
    out += fmt::format(",{},{},{},{},{}\n", optional(metrics.median_reasoning_tokens),
                       per(metrics.tokens, metrics.correct), per(metrics.cost, metrics.correct),
                       per(metrics.judge_seconds, metrics.turns), per(metrics.gpu_seconds, metrics.turns));
  }
  return out;
}

}  // namespace

Summary summarise(const Table& table, std::vector<Dimension> dimensions, const MetricOptions& options) {
  Summary out;
  out.groups = group_by(table, dimensions);
  out.dimensions = std::move(dimensions);
  out.options = options;
  for (const Group& group : out.groups) out.metrics.push_back(metrics_of(table, group.trajectories, options));
  const auto all = all_trajectories(table);
  out.all = metrics_of(table, all, options);
  out.classes = classes_of(table, all);
  return out;
}

Json summary_json(const Table& table, const Summary& summary) {
  Json out = {{"schema", "ptxbench.report/1"},
              {"dimensions", Json::array()},
              {"notes", Json::array()},
              {"runs", Json::array()}};
  for (const Dimension dimension : summary.dimensions) out["dimensions"].push_back(to_string(dimension));
  for (const Note& note : table.notes) out["notes"].push_back(note.text);
  for (const Run& run : table.runs) {
    out["runs"].push_back({{"name", run.name},
                           {"kind", run.kind == RunKind::own         ? "experiment"
                                    : run.kind == RunKind::reference ? "reference run"
                                                                     : "published"},
                           {"path", run.path},
                           {"planned", run.planned > 0 ? Json(run.planned) : Json(nullptr)},
                           {"without_turns", run.without_turns}});
  }
  Json groups = Json::array();
  for (std::size_t i = 0; i < summary.groups.size(); ++i) {
    Json one = Json::object();
    Json key = Json::object();
    for (std::size_t d = 0; d < summary.dimensions.size(); ++d) {
      key[std::string(to_string(summary.dimensions[d]))] = summary.groups[i].values[d];
    }
    one["group"] = key;
    const Json figures = metrics_json(summary.metrics[i], summary.options);
    for (const auto& [name, value] : figures.items()) one[name] = value;
    groups.push_back(std::move(one));
  }
  out["groups"] = std::move(groups);
  out["all"] = metrics_json(summary.all, summary.options);
  Json classes = Json::array();
  for (std::uint32_t label = 0; label < summary.classes.by_label.size(); ++label) {
    if (summary.classes.by_label[label] == 0) continue;
    Json one = {{"label", table.labels[label]},
                {"turns", summary.classes.by_label[label]},
                {"by_turn", Json::array()},
                {"next", Json::object()}};
    for (const auto& turn : summary.classes.by_turn) one["by_turn"].push_back(turn[label]);
    for (std::uint32_t to = 0; to < summary.classes.next[label].size(); ++to) {
      if (summary.classes.next[label][to] > 0) one["next"][table.labels[to]] = summary.classes.next[label][to];
    }
    classes.push_back(std::move(one));
  }
  out["failure_classes"] = std::move(classes);
  Json rules = Json::object();
  for (std::uint32_t rule = 0; rule < summary.classes.rules.size(); ++rule) {
    if (summary.classes.rules[rule] > 0) rules[table.rules[rule]] = summary.classes.rules[rule];
  }
  out["finding_turns"] = std::move(rules);
  return out;
}

Json comparison_json(const Comparison& comparison) {
  const auto difference = [](const Difference& one) {
    // Of one trajectory a side there is no variance to be seen: no limits.
    const bool limits = one.low != one.high;
    return Json{{"metric", one.metric},
                {"denominator", one.denominator},
                {"a", optional_json(one.a)},
                {"b", optional_json(one.b)},
                {"difference", optional_json(one.difference)},
                {"low", limits ? optional_json(one.low) : Json(nullptr)},
                {"high", limits ? optional_json(one.high) : Json(nullptr)},
                {"p_value", optional_json(one.p_value)},
                {"verdict", one.verdict}};
  };
  Json out = {{"schema", "ptxbench.comparison/1"}, {"a", comparison.a},           {"b", comparison.b},
              {"only_a", comparison.only_a},       {"only_b", comparison.only_b}, {"overall", Json::array()},
              {"problems", Json::array()}};
  for (const Difference& one : comparison.overall) out["overall"].push_back(difference(one));
  for (const ProblemComparison& problem : comparison.problems) {
    Json one = {{"arch", problem.key[0]},
                {"problem", problem.key[1]},
                {"workload", problem.key[2]},
                {"language", problem.key[3]},
                {"trajectories_a", problem.trajectories_a},
                {"trajectories_b", problem.trajectories_b},
                {"turns_a", problem.turns_a},
                {"turns_b", problem.turns_b},
                {"differences", Json::array()}};
    for (const Difference& each : problem.differences) one["differences"].push_back(difference(each));
    out["problems"].push_back(std::move(one));
  }
  return out;
}

Result<std::vector<std::string>> write_csv_files(const Table& table, const Summary& summary,
                                                 const std::filesystem::path& folder) {
  std::vector<std::pair<std::string, std::string>> files = {{"turns.csv", turns_csv(table)},
                                                            {"groups.csv", groups_csv(summary)}};
  std::string by_turn = "label,turn,turns\n", next = "label,next_label,turns\n", findings = "rule,turns\n";
  const Classes& classes = summary.classes;
  for (std::uint32_t label = 0; label < classes.by_label.size(); ++label) {
    for (std::size_t turn = 0; turn < classes.by_turn.size(); ++turn) {
      if (classes.by_label[label] > 0) {
        by_turn += fmt::format("{},{},{}\n", csv_field(table.labels[label]), turn, classes.by_turn[turn][label]);
      }
    }
    for (std::uint32_t to = 0; to < classes.next[label].size(); ++to) {
      if (classes.next[label][to] > 0) {
        next += fmt::format("{},{},{}\n", csv_field(table.labels[label]), csv_field(table.labels[to]),
                            classes.next[label][to]);
      }
    }
  }
  for (std::uint32_t rule = 0; rule < classes.rules.size(); ++rule) {
    if (classes.rules[rule] > 0) findings += fmt::format("{},{}\n", csv_field(table.rules[rule]), classes.rules[rule]);
  }
  files.emplace_back("failure_classes_by_turn.csv", std::move(by_turn));
  files.emplace_back("transitions.csv", std::move(next));
  files.emplace_back("findings.csv", std::move(findings));
  const bool published =
      std::any_of(table.runs.begin(), table.runs.end(), [](const Run& run) { return run.kind == RunKind::published; });
  if (published) {
    PublishedFiles again = published_files(table);
    files.emplace_back("correctness_rate_by_release_date.csv", std::move(again.correctness_rate));
    files.emplace_back("best_speedup_by_release_date.csv", std::move(again.best_speedup));
  }
  std::vector<std::string> names;
  for (const auto& [name, text] : files) {
    if (auto written = base::write_file_atomic(folder / name, text); !written)
      return tl::unexpected<Error>(written.error());
    names.push_back(name);
  }
  return names;
}

}  // namespace ptxbench::report
