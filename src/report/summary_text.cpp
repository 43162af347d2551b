#include <algorithm>
#include <array>
#include <cmath>

#include "base/printable.h"
#include "base/text.h"
#include "report/summary.h"

namespace ptxbench::report {
namespace {

constexpr std::size_t kWidestCell = 44;
constexpr std::string_view kNotMeasured = "not measured";

/// How many columns a text takes; near enough for the names that occur.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

/// Columns of texts; all but the first `left` are right-aligned.
class Grid {
 public:
  Grid(std::vector<std::string> header, std::size_t left) : left_(left) { rows_.push_back(std::move(header)); }
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string text(const base::Style& style) const {
    std::vector<std::size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
    }
    std::string out;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::string line;
      for (std::size_t i = 0; i < rows_[r].size(); ++i) {
        const std::string pad(widths[i] - width_of(rows_[r][i]), ' ');
        line += (i == 0 ? "" : "  ") + (i < left_ ? rows_[r][i] + pad : pad + rows_[r][i]);
      }
      while (line.ends_with(' ')) line.pop_back();
      out += (r == 0 ? style.bold(line) : line) + "\n";
    }
    return out;
  }

 private:
  std::size_t left_;
  std::vector<std::vector<std::string>> rows_;
};

/// At most `most` characters, cut at the end.
std::string cut(std::string text, std::size_t most) {
  std::size_t at = 0;
  for (std::size_t count = 0; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) continue;
    if (++count > most) break;
  }
  if (at < text.size()) text = text.substr(0, at - 1) + "~";
  return text;
}

std::string shown(std::string_view text) { return cut(base::printable(text), kWidestCell); }

/// "62.50 [49.0, 75.0]"
std::string share_text(const Share& share, bool limits) {
  if (share.of == 0) return "-";
  const auto value = share.value();
  if (!value) return share.count > 0 ? fmt::format("{}+ of {}", share.count, share.of) : "unknown";
  std::string text = percent(share);
  if (limits && share.interval)
    text += fmt::format(" [{:.1f}, {:.1f}]", 100 * share.interval->low, 100 * share.interval->high);
  return text;
}

std::string best_text(const std::optional<double>& best, std::size_t unmeasured, std::size_t correct) {
  if (correct == 0) return "-";  // no correct turn: nothing to be fast
  if (!best) return std::string("unknown");
  return fmt::format("{:.3f}{}", *best, unmeasured > 0 ? "+" : "");
}

std::string amount(double value) {
  if (value >= 1e6) return fmt::format("{:.2f} M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f} k", value / 1e3);
  return fmt::format("{:.{}f}", value, value < 10 && value != std::floor(value) ? 2 : 0);
}

std::string per(const Sum& sum, std::size_t count) {
  const auto whole = sum.whole();
  if (!whole) return "unknown";
  return count == 0 ? "-" : amount(*whole / static_cast<double>(count));
}

std::string joined(const std::vector<std::string>& values) {
  std::vector<std::string> out;
  out.reserve(values.size());
  for (const std::string& value : values) out.push_back(shown(value));
  return fmt::format("{}", fmt::join(out, "  "));
}

std::string leaderboard(const Table&, const Summary& summary, const base::Style& style) {
  std::vector<std::string> header;
  for (const Dimension dimension : summary.dimensions) header.emplace_back(to_string(dimension));
  const std::size_t left = header.size();
  header.insert(header.end(), {"traj", "turns"});
  for (const double p : summary.options.thresholds) header.push_back(fmt::format("Fast_{:g}", p));
  header.emplace_back("target");
  for (const unsigned limit : summary.options.turn_limits) header.push_back(fmt::format("corr@{}", limit));
  for (const unsigned limit : summary.options.turn_limits) header.push_back(fmt::format("tgt@{}", limit));
  header.emplace_back("best");
  Grid grid(header, left);
  const auto row_of = [&](std::vector<std::string> row, const Metrics& metrics) {
    row.push_back(std::to_string(metrics.trajectories));
    row.push_back(std::to_string(metrics.turns));
    for (std::size_t k = 0; k < metrics.fast_p.size(); ++k) row.push_back(share_text(metrics.fast_p[k], k == 0));
    row.push_back(share_text(metrics.fast_p_target.front(), false));
    const auto of = [](const Share& share) {
      return share.unknown > 0 ? fmt::format("{}..{}", share.count, share.count + share.unknown)
                               : std::to_string(share.count);
    };
    for (const AtTurns& at : metrics.at) row.push_back(of(at.correct));
    for (const AtTurns& at : metrics.at) row.push_back(of(at.target));
    row.push_back(best_text(metrics.best_speedup, metrics.unmeasured, metrics.correct));
    return row;
  };
  for (std::size_t i = 0; i < summary.groups.size(); ++i) {
    std::vector<std::string> row;
    for (const std::string& value : summary.groups[i].values) row.push_back(shown(value));
    grid.add(row_of(std::move(row), summary.metrics[i]));
  }
  if (summary.groups.size() > 1 && left > 0) {
    std::vector<std::string> row(left);
    row[0] = "all";
    grid.add(row_of(std::move(row), summary.all));
  }
  return grid.text(style) + style.dim(
                                "Fast_p: percent of evaluated turns with a correct kernel and a speed-up > p (p = 0: "
                                "correct), 95 % limits from\n"
                                "resampled trajectories; target: the same at p = 0, and a target instruction executed. "
                                "corr@T, tgt@T: trajectories\n"
                                "with such a turn among their first T. best: largest speed-up of a correct turn. "
                                "unknown: not measured.\n");
}

std::string classes_text(const Table& table, const Classes& classes, const base::Style& style) {
  std::size_t turns = 0;
  for (const std::size_t count : classes.by_label) turns += count;
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < classes.by_label.size(); ++i) {
    if (classes.by_label[i] > 0) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return classes.by_label[a] > classes.by_label[b]; });
  const std::size_t columns = std::min<std::size_t>(classes.by_turn.size(), 12);
  std::vector<std::string> header = {"class", "turns", "%"};
  for (std::size_t t = 0; t < columns; ++t) header.push_back(fmt::format("turn {}", t));
  Grid grid(header, 1);
  std::vector<std::size_t> totals(columns);
  for (std::size_t t = 0; t < columns; ++t) {
    for (const std::size_t count : classes.by_turn[t]) totals[t] += count;
  }
  const auto share = [](std::size_t count, std::size_t of) {
    return of == 0 ? std::string("-")
                   : fmt::format("{:.1f}", 100.0 * static_cast<double>(count) / static_cast<double>(of));
  };
  for (const std::uint32_t label : order) {
    std::vector<std::string> row = {shown(table.labels[label]), std::to_string(classes.by_label[label]),
                                    share(classes.by_label[label], turns)};
    for (std::size_t t = 0; t < columns; ++t) row.push_back(share(classes.by_turn[t][label], totals[t]));
    grid.add(std::move(row));
  }
  std::string out =
      style.bold("\nWhat became of the turns") + " (percent of the turns with that index, from 0)\n" + grid.text(style);

  std::vector<std::string> next_header = {"after", "followed"};
  for (const std::uint32_t label : order) next_header.push_back(cut(shown(table.labels[label]), 18));
  Grid next(next_header, 1);
  bool any = false;
  for (const std::uint32_t from : order) {
    std::size_t followed = 0;
    for (const std::size_t count : classes.next[from]) followed += count;
    if (followed == 0) continue;
    any = true;
    std::vector<std::string> row = {shown(table.labels[from]), std::to_string(followed)};
    for (const std::uint32_t to : order) row.push_back(share(classes.next[from][to], followed));
    next.add(std::move(row));
  }
  if (any) out += style.bold("\nThe turn after") + " (percent of the following turns)\n" + next.text(style);

  std::vector<std::uint32_t> rules;
  for (std::uint32_t i = 0; i < classes.rules.size(); ++i) {
    if (classes.rules[i] > 0) rules.push_back(i);
  }
  if (!rules.empty()) {
    std::stable_sort(rules.begin(), rules.end(), [&](auto a, auto b) { return classes.rules[a] > classes.rules[b]; });
    Grid found({"finding", "turns", "% of turns"}, 1);
    for (std::size_t i = 0; i < std::min<std::size_t>(rules.size(), 20); ++i) {
      found.add({shown(table.rules[rules[i]]), std::to_string(classes.rules[rules[i]]),
                 share(classes.rules[rules[i]], turns)});
    }
    out += style.bold("\nFindings") + fmt::format(" ({} rules)\n", rules.size()) + found.text(style);
  }
  return out;
}

std::string costs_text(const Summary& summary, const base::Style& style) {
  struct Column {
    const char* title;
    const char* what;
    Sum Metrics::*sum;
    std::size_t Metrics::*of;
  };
  static constexpr std::array<Column, 8> kColumns = {{
      {"reasoning/correct", "reasoning tokens", &Metrics::reasoning_tokens, &Metrics::correct},
      {"tokens/correct", "tokens", &Metrics::tokens, &Metrics::correct},
      {"$/correct", "cost", &Metrics::cost, &Metrics::correct},
      {"model s/correct", "seconds of the model", &Metrics::model_seconds, &Metrics::correct},
      {"judge s/turn", "seconds of judging", &Metrics::judge_seconds, &Metrics::turns},
      {"host s/turn", "seconds of the evaluator's host", &Metrics::host_seconds, &Metrics::turns},
      {"CPU s/turn", "processor seconds of the evaluator", &Metrics::cpu_seconds, &Metrics::turns},
      {"GPU s/turn", "seconds of a GPU", &Metrics::gpu_seconds, &Metrics::turns},
  }};
  std::vector<std::string> header, missing;
  for (const Dimension dimension : summary.dimensions) header.emplace_back(to_string(dimension));
  const std::size_t left = header.size();
  const bool median = summary.all.median_reasoning_tokens.has_value();
  if (median) header.emplace_back("median reasoning");
  std::vector<const Column*> columns;
  for (const Column& column : kColumns) {
    if ((summary.all.*column.sum).known > 0) {
      columns.push_back(&column);
      header.emplace_back(column.title);
    } else {
      missing.emplace_back(column.what);
    }
  }
  std::string out = style.bold("\nWhat it cost") +
                    " (per correct turn, or per turn; median: of the turns that tell; seconds by the clock, but of "
                    "CPU; -: no correct turn)\n";
  if (!columns.empty()) {
    Grid grid(header, left);
    for (std::size_t i = 0; i < summary.groups.size(); ++i) {
      const Metrics& one = summary.metrics[i];
      std::vector<std::string> row;
      for (const std::string& value : summary.groups[i].values) row.push_back(shown(value));
      if (median) row.push_back(one.median_reasoning_tokens ? amount(*one.median_reasoning_tokens) : "unknown");
      for (const Column* column : columns) row.push_back(per(one.*column->sum, one.*column->of));
      grid.add(std::move(row));
    }
    out += grid.text(style);
  }
  if (!missing.empty()) out += style.dim(fmt::format("not measured: {}\n", fmt::join(missing, ", ")));
  return out;
}

}  // namespace

std::string summary_text(const Table& table, const Summary& summary, const base::Style& style) {
  const auto count = [](std::size_t number, const char* one, const char* many) {
    return fmt::format("{} {}", number, number == 1 ? one : many);
  };
  std::string out = fmt::format("{} of {} in {}; {} correct\n", count(summary.all.turns, "turn", "turns"),
                                count(summary.all.trajectories, "trajectory", "trajectories"),
                                count(summary.all.runs, "run", "runs"), summary.all.correct);
  for (const Note& note : table.notes) out += style.yellow("note: ") + base::printable(note.text) + "\n";
  out += "\n" + leaderboard(table, summary, style);
  out += classes_text(table, summary.classes, style);
  out += costs_text(summary, style);
  return out;
}

std::string comparison_text(const Comparison& comparison, const base::Style& style) {
  const auto share = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.2f}", 100 * *value) : std::string(kNotMeasured);
  };
  const auto signed_share = [](const std::optional<double>& value) {
    return value ? fmt::format("{:+.2f}", 100 * *value) : std::string();
  };
  const auto chance = [](const std::optional<double>& p) { return p ? fmt::format("{:.4f}", *p) : std::string(); };
  const auto coloured = [&](const std::string& verdict) {
    return verdict == "better" ? style.green(verdict) : verdict == "worse" ? style.red(verdict) : verdict;
  };
  std::string out = fmt::format("A: {}\nB: {}\n", base::printable(comparison.a), base::printable(comparison.b));
  const auto list = [&](const std::vector<std::string>& names, char side) {
    if (names.empty()) return;
    std::vector<std::string> first(names.begin(), names.begin() + std::min<std::size_t>(names.size(), 3));
    if (names.size() > first.size()) first.push_back(fmt::format("{} more", names.size() - first.size()));
    out += style.yellow("note: ") + fmt::format("{} problems are on side {} only and count nowhere: {}\n", names.size(),
                                                side, base::printable(fmt::format("{}", fmt::join(first, "; "))));
  };
  list(comparison.only_a, 'A');
  list(comparison.only_b, 'B');
  Grid overall({"mean of the problems, %", "A", "B", "B - A", "95 % limits", "p", "verdict"}, 1);
  for (const Difference& one : comparison.overall) {
    overall.add(
        {one.metric + " (of " + one.denominator + ")", share(one.a), share(one.b), signed_share(one.difference),
         one.low && *one.low < *one.high ? fmt::format("[{}, {}]", signed_share(one.low), signed_share(one.high)) : "",
         chance(one.p_value), coloured(one.verdict)});
  }
  out += "\n" + overall.text(style);
  for (std::size_t q = 0; q < comparison.overall.size(); ++q) {
    Grid grid({"problem", "traj A", "traj B", "A", "B", "B - A", "95 % limits", "p adj.", "verdict"}, 1);
    bool any = false;
    for (const ProblemComparison& problem : comparison.problems) {
      const Difference& one = problem.differences[q];
      any |= one.a.value_or(0) > 0 || one.b.value_or(0) > 0;
      grid.add({joined({problem.key[0], problem.key[2], problem.key[3]}), std::to_string(problem.trajectories_a),
                std::to_string(problem.trajectories_b), share(one.a), share(one.b), signed_share(one.difference),
                one.low && *one.low < *one.high ? fmt::format("[{}, {}]", signed_share(one.low), signed_share(one.high))
                                                : "",
                chance(one.p_value), coloured(one.verdict)});
    }
    if (any) out += "\n" + style.bold(comparison.overall[q].metric) + "\n" + grid.text(style);
  }
  return out +
         style.dim(
             "\nTrajectories are exchanged between A and B within each problem to see how often chance alone gives "
             "such a\n"
             "difference (p); limits by resampling trajectories; p of single problems adjusted by Holm's method.\n");
}

}  // namespace ptxbench::report
