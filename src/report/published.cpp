#include "report/published.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/files.h"
#include "base/text.h"
#include "report/csv.h"

namespace ptxbench::report {
namespace {

namespace fs = std::filesystem;

constexpr std::array<unsigned, 3> kTurnLimits = {1, 4, 8};
constexpr std::uint64_t kMostTurns = 10'000;  ///< of a trajectory
constexpr std::size_t kMostLabels = 256;

std::string last_part(std::string_view path) {
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return std::string(path.substr(path.rfind('/') + 1));
}

/// "2026-0613" as "2026-06-13".
std::string long_date(std::string_view date) {
  if (date.size() == 9 && date[4] == '-') return fmt::format("{}-{}", date.substr(0, 7), date.substr(7));
  return std::string(date);
}

/// The file if there is one.
Result<std::optional<Csv>> read_csv(const fs::path& file, bool needed) {
  std::error_code error;
  if (!needed && !fs::exists(file, error)) return std::optional<Csv>();
  auto text = base::read_file(file);
  if (!text) return tl::unexpected<Error>(text.error());
  auto csv = Csv::parse(std::move(*text), file.string());
  if (!csv) return tl::unexpected<Error>(csv.error());
  return std::optional<Csv>(std::move(*csv));
}

/// Counts what was odd, and says so once.
struct Oddity {
  std::size_t count = 0;
  std::string first;
  void add(const Csv& csv, std::size_t row, std::string_view value) {
    if (count++ == 0) first = fmt::format("first '{}' in line {}", base::shorten_middle(value, 40), csv.line(row));
  }
};

class Reader {
 public:
  Reader(fs::path folder, Table& table) : folder_(std::move(folder)), table_(table) {}

  Result<void> read() {
    if (auto done = read_runs(); !done) return done;
    if (auto done = read_turns(); !done) return done;
    finish();
    return compare();
  }

 private:
  Result<void> read_runs() {
    auto dates = read_csv(folder_ / "model_release_dates.csv", false);
    if (!dates) return tl::unexpected<Error>(dates.error());
    if (*dates) {
      const auto columns = (*dates)->columns({"model", "date"});
      if (!columns) return tl::unexpected<Error>(columns.error());
      for (std::size_t row = 0; row < (*dates)->rows(); ++row) {
        dates_[std::string((*dates)->at(row, (*columns)[0]))] = long_date((*dates)->at(row, (*columns)[1]));
      }
    }
    auto runs = read_csv(folder_ / "experiments.csv", false);
    if (!runs) return tl::unexpected<Error>(runs.error());
    if (!*runs) return {};
    const auto columns = (*runs)->columns({"model", "exp_dir"});
    if (!columns) return tl::unexpected<Error>(columns.error());
    for (std::size_t row = 0; row < (*runs)->rows(); ++row) {
      const std::string path((*runs)->at(row, (*columns)[1]));
      if (path.empty()) return input_error("{}: the exp_dir is empty", (*runs)->where(row));
      if (runs_.contains(path)) return input_error("{}: a second line for run '{}'", (*runs)->where(row), path);
      add_run(path, (*runs)->at(row, (*columns)[0]));
    }
    listed_ = true;
    return {};
  }

  std::uint32_t add_run(const std::string& path, std::string_view model) {
    Run run;
    run.kind = RunKind::published;
    run.path = path;
    run.name = last_part(path);
    if (std::any_of(table_.runs.begin(), table_.runs.end(), [&](const Run& one) { return one.name == run.name; })) {
      table_.note(fmt::format("two runs are called '{}'; the second one goes by its whole path, {}", run.name, path));
      run.name = path;
    }
    if (const auto date = dates_.find(std::string(model)); date != dates_.end()) run.date = date->second;
    const auto index = static_cast<std::uint32_t>(table_.runs.size());
    runs_[path] = index;
    table_.runs.push_back(std::move(run));
    return index;
  }

  Result<void> read_turns() {
    auto read = read_csv(folder_ / kPublishedTurns, true);
    if (!read) return tl::unexpected<Error>(read.error());
    const Csv& csv = **read;
    const auto columns =
        csv.columns({"model", "arch", "definition", "exp_dir", "trajectory_id", "turn", "correctness", "speedup"});
    if (!columns) return tl::unexpected<Error>(columns.error());
    const auto workload = csv.column("workload"), workload_name = csv.column("workload_name"),
               tokens = csv.column("reasoning_tokens"), target = csv.column("correct_with_arch");
    if (!target)
      table_.note(fmt::format("{} has no column correct_with_arch: target instructions are unknown", csv.name()));
    if (!tokens) table_.note(fmt::format("{} has no column reasoning_tokens: they are unknown", csv.name()));
    if (csv.rows() == 0) return input_error("{} has no turns", csv.name());
    first_trajectory_ = table_.trajectories.size();
    std::uint32_t last_run = 0;
    std::string_view last_path;
    for (std::size_t row = 0; row < csv.rows(); ++row) {
      const auto text = [&](std::size_t column) { return csv.at(row, (*columns)[column]); };
      for (const std::size_t column : {0, 1, 2, 3, 4, 6}) {
        if (text(column).empty()) {
          return input_error(
              "{}: an empty field; model, arch, definition, exp_dir, trajectory_id and correctness are needed",
              csv.where(row));
        }
      }
      if (text(3) != last_path) {
        last_path = text(3);
        const std::string path(last_path);
        const auto known = runs_.find(path);
        if (known == runs_.end() && listed_) unlisted_.add(csv, row, path);
        last_run = known != runs_.end() ? known->second : add_run(path, text(0));
        if (workload) table_.runs[last_run].workload_id = std::string(csv.at(row, *workload));
      }
      TrajectoryRow found;
      found.run = last_run;
      found.name = std::string(text(4));
      found.model = table_.models.id(text(0));
      found.arch = table_.archs.id(text(1));
      found.problem = table_.problems.id(text(2));
      found.workload = table_.workloads.id(workload_name ? csv.at(row, *workload_name)
                                           : workload    ? csv.at(row, *workload)
                                                         : text(2));
      found.language = table_.languages.id("CUDA-PTX");
      found.pack = table_.packs.id("not recorded");
      auto& by_name = trajectories_[last_run];
      const auto [at, fresh] = by_name.try_emplace(found.name, table_.trajectories.size());
      if (fresh) {
        table_.trajectories.push_back(std::move(found));
      } else {
        const TrajectoryRow& before = table_.trajectories[at->second];
        if (before.model != found.model || before.arch != found.arch || before.problem != found.problem ||
            before.workload != found.workload) {
          return input_error("{}: {} of run '{}' has another model, architecture or problem than in its first line",
                             csv.where(row), found.name, table_.runs[last_run].name);
        }
      }
      TurnRow turn;
      const auto number = base::parse_u64(text(5));
      if (!number || *number > kMostTurns) {
        return input_error("{}: the turn is '{}', a whole number from 0 is needed", csv.where(row), text(5));
      }
      turn.number = static_cast<std::uint32_t>(*number);
      turn.label = table_.labels.id(text(6));
      if (turn.number >= kMostTurns || table_.labels.size() > kMostLabels) {
        return input_error("{}: a trajectory has at most {} turns and a file at most {} labels", csv.where(row),
                           kMostTurns, kMostLabels);
      }
      turn.correct = text(6) == kCorrect;
      turn.passed = Known::unknown;
      const auto speedup = Csv::number(text(7));
      if (!speedup && !text(7).empty()) {
        return input_error("{}: the speed-up is '{}', no number", csv.where(row), base::shorten_middle(text(7), 40));
      }
      if (turn.correct) {
        if (speedup && std::isfinite(*speedup) && *speedup > 0) {
          turn.speedup = *speedup;
        } else {
          bad_speedup_.add(csv, row, text(7));
        }
      } else if (speedup && *speedup != 0) {
        stray_speedup_.add(csv, row, text(7));
      }
      if (tokens) {
        const std::string_view given = csv.at(row, *tokens);
        if (const auto count = base::parse_u64(given)) {
          turn.reasoning_tokens = static_cast<double>(*count);
        } else if (!given.empty()) {
          bad_tokens_.add(csv, row, given);
        }
      }
      if (target) {
        const std::string_view given = csv.at(row, *target);
        if (given != "0" && given != "1" && !given.empty()) {
          return input_error("{}: correct_with_arch is '{}', 0 or 1 is needed", csv.where(row),
                             base::shorten_middle(given, 40));
        }
        // For a turn that is not correct the file always says 0: nothing was looked at.
        if (turn.correct && !given.empty()) turn.target = given == "1" ? Known::yes : Known::no;
        if (!turn.correct && given == "1") stray_target_.add(csv, row, given);
      }
      auto& turns = table_.trajectories[at->second].turns;
      if (auto added = add_turn(csv, row, std::move(turn), turns); !added) return added;
    }
    return {};
  }

  /// Keeps the turns in order.
  Result<void> add_turn(const Csv& csv, std::size_t row, TurnRow turn, std::vector<TurnRow>& turns) {
    const auto at = std::lower_bound(turns.begin(), turns.end(), turn.number,
                                     [](const TurnRow& one, std::uint32_t number) { return one.number < number; });
    if (at != turns.end() && at->number == turn.number) {
      const auto same = [](double a, double b) { return a == b || (!is_known(a) && !is_known(b)); };
      if (at->label != turn.label || at->target != turn.target || !same(at->speedup, turn.speedup) ||
          !same(at->reasoning_tokens, turn.reasoning_tokens)) {
        return input_error("{}: turn {} is there a second time and differs; which one counts cannot be known",
                           csv.where(row), turn.number);
      }
      duplicates_.add(csv, row, std::to_string(turn.number));
      return {};
    }
    turns.insert(at, std::move(turn));
    return {};
  }

  void finish() {
    // Runs in their own order, trajectories of a run in that of the file.
    std::stable_sort(table_.trajectories.begin() + first_trajectory_, table_.trajectories.end(),
                     [](const TrajectoryRow& a, const TrajectoryRow& b) { return a.run < b.run; });
    std::size_t gaps = 0;
    for (std::size_t i = first_trajectory_; i < table_.trajectories.size(); ++i) {
      if (table_.trajectories[i].turns.back().number + 1 != table_.trajectories[i].turns.size()) ++gaps;
    }
    std::size_t empty = 0;
    std::string empty_name;
    for (const auto& [path, run] : runs_) {
      if (!trajectories_.contains(run)) {
        ++empty;
        empty_name = table_.runs[run].name;
      }
    }
    const auto say = [&](const Oddity& oddity, std::string_view what) {
      if (oddity.count > 0) {
        table_.note(
            fmt::format("{}: {} {} ({})", (folder_ / kPublishedTurns).string(), oddity.count, what, oddity.first));
      }
    };
    say(bad_speedup_, "correct turns have a speed-up that is no positive finite number: taken as not measured");
    say(stray_speedup_, "turns that are not correct have a speed-up: not used");
    say(stray_target_, "turns that are not correct are said to use target instructions: not used");
    say(bad_tokens_, "reasoning token counts are no whole numbers: taken as unknown");
    say(duplicates_, "lines repeat a turn word for word: counted once");
    say(unlisted_, "runs are not in experiments.csv: listed after the others");
    if (gaps > 0) table_.note(fmt::format("{} trajectories lack turns between others", gaps));
    if (empty > 0) table_.note(fmt::format("{} runs of experiments.csv have no turns (such as {})", empty, empty_name));
  }

  /// Against the published results per run, where they are there.
  Result<void> compare() {
    struct At {
      std::size_t trajectories = 0, correct = 0, turns = 0, target = 0;
      double best = 0;
    };
    std::map<std::pair<std::string, unsigned>, At> ours;
    for (std::size_t i = first_trajectory_; i < table_.trajectories.size(); ++i) {
      const TrajectoryRow& one = table_.trajectories[i];
      for (const unsigned limit : kTurnLimits) {
        At& at = ours[{table_.runs[one.run].path, limit}];
        ++at.trajectories;
        bool any = false, target = false;
        for (const TurnRow& turn : one.turns) {
          if (turn.number >= limit || !turn.correct) continue;
          any = true;
          target |= turn.target == Known::yes;
          ++at.turns;
          if (is_known(turn.speedup)) at.best = std::max(at.best, turn.speedup);
        }
        at.correct += any;
        at.target += target;
      }
    }
    const auto check = [&](const char* file, const char* column, auto agrees) -> Result<void> {
      auto read = read_csv(folder_ / file, false);
      if (!read) return tl::unexpected<Error>(read.error());
      if (!*read) return {};
      const Csv& csv = **read;
      const auto columns = csv.columns({"exp_dir", "turn_limit", "n_trajectories"});
      if (!columns) return tl::unexpected<Error>(columns.error());
      const auto value = csv.column(column);
      if (!value) return {};
      std::size_t same = 0;
      std::string first;
      for (std::size_t row = 0; row < csv.rows(); ++row) {
        const auto limit = base::parse_u64(csv.at(row, (*columns)[1])),
                   count = base::parse_u64(csv.at(row, (*columns)[2]));
        const auto found =
            ours.find({std::string(csv.at(row, (*columns)[0])), static_cast<unsigned>(limit.value_or(0))});
        if (found != ours.end() && count == found->second.trajectories && agrees(found->second, csv.at(row, *value))) {
          ++same;
        } else if (first.empty()) {
          first = fmt::format("; first difference in line {}", csv.line(row));
        }
      }
      table_.note(fmt::format("{}: {} of {} rows of {} agree with what was recomputed from the turns{}", column, same,
                              csv.rows(), file, first));
      return {};
    };
    const auto count_is = [](std::size_t ours_is, std::string_view text) { return base::parse_u64(text) == ours_is; };
    auto done = check("correctness_rate_by_release_date.csv", "correct",
                      [&](const At& at, std::string_view text) { return count_is(at.correct, text); });
    if (done) {
      done = check("best_speedup_by_release_date.csv", "best_speedup",
                   [](const At& at, std::string_view text) { return fmt::format("{:.9g}", at.best) == text; });
    }
    constexpr const char* kTarget = "arch_instruction_correctness_by_release_date.csv";
    if (done) {
      done = check(kTarget, "n_correct_turns",
                   [&](const At& at, std::string_view text) { return count_is(at.turns, text); });
    }
    if (done) {
      done = check(kTarget, "correct_with_arch",
                   [&](const At& at, std::string_view text) { return count_is(at.target, text); });
    }
    return done;
  }

  fs::path folder_;
  Table& table_;
  std::unordered_map<std::string, std::string> dates_;
  std::map<std::string, std::uint32_t> runs_;
  std::unordered_map<std::uint32_t, std::unordered_map<std::string, std::size_t>> trajectories_;
  std::size_t first_trajectory_ = 0;
  bool listed_ = false;
  Oddity bad_speedup_, stray_speedup_, stray_target_, bad_tokens_, duplicates_, unlisted_;
};

}  // namespace

Result<void> read_published(const fs::path& folder, Table& table) { return Reader(folder, table).read(); }

PublishedFiles published_files(const Table& table) {
  constexpr std::string_view kShared =
      "model,arch,workload,workload_name,definition,exp_dir,date,turn_limit,n_trajectories";
  PublishedFiles files{fmt::format("{},correct,correctness_rate\n", kShared),
                       fmt::format("{},best_speedup\n", kShared)};
  std::vector<std::vector<const TrajectoryRow*>> by_run(table.runs.size());
  for (const TrajectoryRow& one : table.trajectories) by_run[one.run].push_back(&one);
  for (std::size_t r = 0; r < table.runs.size(); ++r) {
    if (table.runs[r].kind != RunKind::published || by_run[r].empty()) continue;
    const TrajectoryRow& any = *by_run[r].front();
    for (const unsigned limit : kTurnLimits) {
      std::size_t correct = 0;
      double best = 0;
      for (const TrajectoryRow* one : by_run[r]) {
        bool found = false;
        for (const TurnRow& turn : one->turns) {
          if (turn.number >= limit || !turn.correct) continue;
          found = true;
          if (is_known(turn.speedup)) best = std::max(best, turn.speedup);
        }
        correct += found;
      }
      const std::string shared =
          fmt::format("{},{},{},{},{},{},{},{},{}", csv_field(table.models[any.model]),
                      csv_field(table.archs[any.arch]), csv_field(table.runs[r].workload_id),
                      csv_field(table.workloads[any.workload]), csv_field(table.problems[any.problem]),
                      csv_field(table.runs[r].path), csv_field(table.runs[r].date), limit, by_run[r].size());
      files.correctness_rate += fmt::format("{},{},{:.6f}\n", shared, correct,
                                            static_cast<double>(correct) / static_cast<double>(by_run[r].size()));
      files.best_speedup += fmt::format("{},{:.9g}\n", shared, best);
    }
  }
  return files;
}

}  // namespace ptxbench::report
