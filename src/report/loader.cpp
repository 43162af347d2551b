#include "report/loader.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include "agent/interchange.h"
#include "agent/trajectory.h"
#include "base/text.h"
#include "report/csv.h"
#include "report/published.h"

namespace ptxbench::report {
namespace {

using base::Json;
namespace fs = std::filesystem;

constexpr std::string_view kNotRecorded = "not recorded";
constexpr std::uint64_t kMostPlan = std::uint64_t{1} << 30;

const Json* member(const Json& object, const char* key) {
  return object.is_object() ? base::optional_member(object, key) : nullptr;
}

std::string text_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

double number_of(const Json& object, const char* key) {
  const Json* value = member(object, key);
  return value != nullptr && value->is_number() ? value->get<double>() : kUnknown;
}

double seconds_of(const Json& object, const char* key) {
  const double value = number_of(object, key);
  return std::isfinite(value) && value >= 0 ? value : kUnknown;
}

template <class T>
double value_of(const std::optional<T>& value) {
  return value ? static_cast<double>(*value) : kUnknown;
}

/// Size and time of change: what says that a file is another one.
std::string stamp_of(const fs::path& file) {
  struct ::stat info {};
  if (::stat(file.c_str(), &info) != 0) return "gone";
  return fmt::format("{}:{}:{}:{}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino);
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> found;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() == ending) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    const std::string left = a.filename(), right = b.filename();
    return std::pair(left.size(), left) < std::pair(right.size(), right);
  });
  return found;
}

std::string architecture_of(std::string_view target) {
  if (target.starts_with("sm_90")) return "hopper";
  if (target.starts_with("sm_100") || target.starts_with("sm_103")) return "blackwell";
  return std::string(target.empty() ? kNotRecorded : target);
}

std::string language_of(const std::string& name) {
  const std::string lower = base::to_lower(name);
  if (lower.empty() || lower == "cuda" || lower == "ptx" || lower == "cuda-ptx" || lower == "cuda_ptx")
    return "CUDA-PTX";
  if (lower == "triton") return "Triton";
  return name;
}

std::string model_of(const Json& settings, const Json& model, const std::string& planned) {
  if (std::string name = text_of(settings, "model_name"); !name.empty()) return name;
  if (!planned.empty()) return planned;
  if (model.is_string()) return model.get<std::string>();
  for (const char* key : {"name", "model", "model_name"}) {
    if (std::string name = text_of(model, key); !name.empty()) return name;
  }
  return std::string(kNotRecorded);
}

/// As the published files spell it: the definition and the axes it was judged at.
std::string workload_of(const std::string& problem, const Json& workloads) {
  if (!workloads.is_array() || workloads.empty()) return problem;
  std::string text = problem;
  std::size_t shown = 0;
  for (const Json& one : workloads) {
    if (shown++ == 2) {
      text += fmt::format(" and {} more", workloads.size() - 2);
      break;
    }
    text += shown == 1 ? "" : " +";
    const Json* axes = member(one, "axes");
    if (axes == nullptr || !axes->is_object()) {
      text += "_" + text_of(one, "uuid").substr(0, 8);
      continue;
    }
    for (const auto& [name, value] : axes->items()) {
      // Constant axes are in the definition's name, as in gemm_n7168_k5120.
      const std::string spelt = base::to_lower(name) + value.dump();
      if (problem.find("_" + spelt) != std::string::npos) continue;
      text += fmt::format("_{}{}", name, value.dump());
    }
  }
  return text;
}

struct ParsedTurn {
  TurnRow row;  ///< without numbers of texts
  std::string label;
  std::vector<std::string> rules;
};

struct Parsed {
  std::string name, model, arch, problem, workload, language, pack;
  State state = State::ended;
  std::vector<ParsedTurn> turns;
  bool torn = false, imported = false;
  std::size_t bad_speedups = 0;
};

/// The smallest over all workloads. Unknown where one was not timed.
double speedup_of(const Json& evaluation, std::size_t& bad) {
  const Json* performance = member(evaluation, "performance");
  if (performance == nullptr || !performance->is_array() || performance->empty()) return kUnknown;
  double least = kUnknown;
  for (const Json& one : *performance) {
    const Json* speedup = member(one, "speedup");
    if (speedup == nullptr) return kUnknown;
    const Json* value = speedup->is_object() ? member(*speedup, "value") : speedup;
    if (value == nullptr) return kUnknown;
    if (!value->is_number() || !std::isfinite(value->get<double>()) || value->get<double>() <= 0) {
      ++bad;
      return kUnknown;
    }
    if (!is_known(least) || value->get<double>() < least) least = value->get<double>();
  }
  return least;
}

double gpu_seconds_of(const Json& evaluation) {
  double sum = 0;
  const Json* performance = member(evaluation, "performance");
  if (performance != nullptr && performance->is_array()) {
    for (const Json& one : *performance) sum += seconds_of(one, "gpu_seconds");
    if (!performance->empty()) return sum;
  }
  // Without times: nothing if it never came to a GPU.
  const Json* runs = member(evaluation, "runs");
  if (runs == nullptr || !runs->is_array()) return kUnknown;
  const bool on_gpu =
      std::any_of(runs->begin(), runs->end(), [](const Json& run) { return text_of(run, "backend") != "emulator"; });
  return on_gpu ? kUnknown : 0;
}

ParsedTurn parse_turn(const agent::Turn& turn, Parsed& trajectory) {
  ParsedTurn out;
  TurnRow& row = out.row;
  row.number = turn.number - 1;
  out.label = agent::failure_label(turn);
  row.correct = out.label == kCorrect;
  row.passed = turn.passed() ? Known::yes : Known::no;
  row.reasoning_tokens = value_of(turn.usage.reasoning_tokens);
  row.tokens = value_of(turn.usage.total_tokens());
  row.cost = value_of(turn.usage.cost);
  row.model_seconds = trajectory.imported ? kUnknown : turn.model_seconds;
  row.judge_seconds = trajectory.imported ? kUnknown : turn.judge_seconds;
  const Json& evaluation = turn.evaluation;
  if (!evaluation.is_object()) {
    // Nothing to judge: no evaluator was asked.
    if (!trajectory.imported) row.host_seconds = row.cpu_seconds = row.gpu_seconds = 0;
    return out;
  }
  if (row.correct) row.speedup = speedup_of(evaluation, trajectory.bad_speedups);
  if (const Json* instructions = member(evaluation, "instructions")) {
    const Json* target = member(*instructions, "compat_target");
    if (target != nullptr && target->is_boolean()) row.target = target->get<bool>() ? Known::yes : Known::no;
  }
  if (const Json* timings = member(evaluation, "timings")) {
    row.host_seconds = seconds_of(*timings, "total");
    row.cpu_seconds = seconds_of(*timings, "cpu");
  }
  if (!trajectory.imported) row.gpu_seconds = gpu_seconds_of(evaluation);
  const Json* findings = member(evaluation, "findings");
  if (findings != nullptr && findings->is_array()) {
    std::set<std::string> rules;
    for (const Json& finding : *findings) {
      const std::string severity = text_of(finding, "severity");
      if (severity == "error" || severity == "warning") rules.insert(text_of(finding, "rule"));
    }
    out.rules.assign(rules.begin(), rules.end());
  }
  return out;
}

Parsed parse(const agent::Trajectory& trajectory, const std::string& name, const std::string& planned_model) {
  Parsed out;
  out.name = name;
  const Json& settings = trajectory.settings;
  const Json* imported = member(settings, "imported");
  out.imported = imported != nullptr && imported->is_boolean() && imported->get<bool>();
  out.model = model_of(settings, trajectory.model, planned_model);
  out.arch = architecture_of(text_of(settings, "target"));
  out.problem = trajectory.problem.empty() ? std::string(kNotRecorded) : trajectory.problem;
  const Json* workloads = member(settings, "workloads");
  out.workload = workload_of(out.problem, workloads != nullptr ? *workloads : Json());
  out.language = language_of(text_of(settings, "language"));
  out.pack = text_of(settings, "prompt_tag");
  if (out.pack.empty()) out.pack = kNotRecorded;
  out.state = !trajectory.ended() ? State::running : trajectory.exit_status == "Error" ? State::failed : State::ended;
  for (const agent::Turn& turn : trajectory.turns) out.turns.push_back(parse_turn(turn, out));
  return out;
}

/// Target evidence and reasoning tokens of a run of the public benchmark, which its trajectories do not hold.
Result<void> add_figures(const fs::path& run, std::map<std::string, std::vector<TurnRow*>>& turns, Table& table) {
  const fs::path file = run / "figures" / "turn_correctness_arch.csv";
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  auto text = base::read_file(file);
  if (!text) return tl::unexpected<Error>(text.error());
  const auto csv = Csv::parse(std::move(*text), file.string());
  if (!csv) return tl::unexpected<Error>(csv.error());
  const auto columns = csv->columns({"trajectory_id", "turn"});
  if (!columns) return tl::unexpected<Error>(columns.error());
  const auto target = csv->column("correct_with_arch"), tokens = csv->column("reasoning_tokens");
  std::size_t strange = 0;
  for (std::size_t row = 0; row < csv->rows(); ++row) {
    const auto found = turns.find(std::string(csv->at(row, (*columns)[0])));
    const auto number = base::parse_u64(csv->at(row, (*columns)[1]));
    if (found == turns.end() || !number || *number >= found->second.size()) {
      ++strange;
      continue;
    }
    TurnRow& turn = *found->second[*number];
    if (target && turn.correct) {
      const std::string_view given = csv->at(row, *target);
      if (given == "0" || given == "1") turn.target = given == "1" ? Known::yes : Known::no;
    }
    if (tokens && !is_known(turn.reasoning_tokens)) {
      if (const auto count = base::parse_u64(csv->at(row, *tokens)))
        turn.reasoning_tokens = static_cast<double>(*count);
    }
  }
  if (strange > 0)
    table.note(fmt::format("{}: {} lines belong to no turn of the run: not used", file.string(), strange));
  return {};
}

std::size_t worker_count(std::size_t tasks) {
  return std::min<std::size_t>(tasks, std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

struct Loader::File {
  std::string stamp;
  Result<Parsed> parsed;
};

struct Loader::Source {
  RunKind kind = RunKind::own;
  fs::path path;                ///< as it was given or found
  fs::path records;             ///< where the trajectories are
  std::vector<fs::path> files;  ///< of trajectories
};

Loader::Loader(std::vector<fs::path> paths, Broken broken) : paths_(std::move(paths)), broken_(broken) {}
Loader::~Loader() = default;

Result<std::vector<Loader::Source>> Loader::sources_in(const fs::path& path, bool nested) const {
  std::error_code error;
  std::vector<Source> found;
  if (fs::is_regular_file(path, error)) {
    if (path.extension() == ".jsonl") return std::vector<Source>{{RunKind::own, path, path.parent_path(), {path}}};
    if (path.filename() == kPublishedTurns) {
      return std::vector<Source>{{RunKind::published, path.parent_path(), {}, {}}};
    }
    if (nested) return found;
    return input_error("{} is no trajectory (.jsonl) and not {}; give a folder of results", path.string(),
                       kPublishedTurns);
  }
  if (!fs::is_directory(path, error)) {
    return input_error(
        "{} does not exist; give folders of experiments (ptxbench run --out), of the public benchmark's "
        "runs or of its published results",
        path.string());
  }
  if (fs::exists(path / kPublishedTurns, error)) return std::vector<Source>{{RunKind::published, path, {}, {}}};
  if (auto files = files_in(path / "trajectories", ".jsonl"); !files.empty() || fs::exists(path / "plan.json", error)) {
    const bool reference = files.empty() && !files_in(path / "trajectories", ".json").empty();
    return std::vector<Source>{{reference ? RunKind::reference : RunKind::own, path, path, std::move(files)}};
  }
  if (!files_in(path / "trajectories", ".json").empty()) {
    return std::vector<Source>{{RunKind::reference, path, {}, {}}};
  }
  if (fs::exists(path / "trajectory.jsonl", error)) {
    return std::vector<Source>{{RunKind::own, path, path, {path / "trajectory.jsonl"}}};
  }
  if (nested) return found;
  std::vector<fs::path> folders;
  for (auto entry = fs::directory_iterator(path, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->is_directory(error)) folders.push_back(entry->path());
  }
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) {
    auto inner = sources_in(folder, true);
    if (!inner) return inner;
    for (Source& one : *inner) found.push_back(std::move(one));
  }
  if (found.empty()) {
    return input_error(
        "{} holds no results: no plan.json, no trajectories/, no trajectory.jsonl, no {}, and no folders with "
        "these",
        path.string(), kPublishedTurns);
  }
  return found;
}

Result<std::vector<Loader::Source>> Loader::sources() const {
  std::vector<Source> all;
  std::set<fs::path> known;
  for (const fs::path& path : paths_) {
    auto found = sources_in(path, false);
    if (!found) return found;
    for (Source& one : *found) {
      std::error_code error;
      const fs::path whole = fs::weakly_canonical(one.files.size() == 1 ? one.files.front() : one.path, error);
      if (!known.insert(whole).second) return input_error("{} is given twice", one.path.string());
      all.push_back(std::move(one));
    }
  }
  return all;
}

std::string Loader::state() const {
  const auto found = sources();
  if (!found) return found.error().message;
  std::string text;
  for (const Source& source : *found) {
    if (source.kind == RunKind::own) {
      text += stamp_of(source.path / "plan.json");
      for (const fs::path& file : source.files) text += fmt::format("\n{} {}", file.string(), stamp_of(file));
    } else if (source.kind == RunKind::reference) {
      for (const fs::path& file : files_in(source.path / "trajectories", ".json")) text += stamp_of(file) + "\n";
      for (const char* file : {"plan.json", "figures/turn_correctness_arch.csv"}) text += stamp_of(source.path / file);
    } else {
      for (const fs::path& file : files_in(source.path, ".csv")) text += file.string() + stamp_of(file) + "\n";
    }
  }
  return text;
}

Result<fs::path> Loader::imported(const fs::path& run) {
  std::string state;
  for (const fs::path& file : files_in(run / "trajectories", ".json")) state += stamp_of(file) + "\n";
  for (const char* file : {"plan.json", "figures/turn_correctness_arch.csv"}) state += stamp_of(run / file);
  if (const auto before = imports_.find(run); before != imports_.end()) {
    if (before->second.state == state) return before->second.folder.path() / "run";
    imports_.erase(before);
  }
  auto folder = base::TempDir::create("ptxbench-report");
  if (!folder) return tl::unexpected<Error>(folder.error());
  if (auto done = agent::import_reference_run(run, folder->path() / "run"); !done) {
    return tl::unexpected<Error>(done.error());
  }
  const auto [at, fresh] = imports_.emplace(run, Import{state, std::move(*folder)});
  return at->second.folder.path() / "run";
}

Result<void> Loader::load_records(const Source& source, Table& table, Work& work) {
  fs::path folder = source.records;
  std::vector<fs::path> files = source.files;
  if (source.kind == RunKind::reference) {
    auto there = imported(source.path);
    if (!there) return tl::unexpected<Error>(there.error());
    folder = *there;
    files = files_in(folder / "trajectories", ".jsonl");
  }
  // The plan names models, and says how much is still to come.
  std::map<std::string, std::string> planned_models;
  std::size_t planned = 0;
  std::error_code error;
  if (fs::exists(folder / "plan.json", error)) {
    const auto text = base::read_file(folder / "plan.json", kMostPlan);
    if (!text) return tl::unexpected<Error>(text.error());
    const auto plan = base::parse_json(*text, (folder / "plan.json").string());
    if (!plan) return tl::unexpected<Error>(plan.error());
    const Json* list = member(*plan, "plan");
    if (list == nullptr || !list->is_array()) {
      return input_error("{}: 'plan', a list of trajectories, is needed", (folder / "plan.json").string());
    }
    planned = list->size();
    for (const Json& one : *list) planned_models[text_of(one, "exp_name")] = text_of(one, "model");
  }

  std::vector<const fs::path*> stale;
  std::vector<std::string> stamps(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    stamps[i] = stamp_of(files[i]);
    const auto before = files_.find(files[i]);
    if (before != files_.end() && before->second->stamp == stamps[i]) {
      ++work.reused;
      continue;
    }
    ++work.read;
    stale.push_back(&files[i]);
    files_[files[i]] = std::make_unique<File>(File{stamps[i], input_error("not read")});
  }
  std::atomic<std::size_t> next = 0;
  const auto read_some = [&] {
    for (std::size_t i = next++; i < stale.size(); i = next++) {
      const fs::path& file = *stale[i];
      std::uint64_t whole = 0;
      const auto trajectory = agent::read_trajectory(file, &whole);
      Result<Parsed>& parsed = files_.find(file)->second->parsed;
      if (!trajectory) {
        parsed = tl::unexpected<Error>(trajectory.error());
        continue;
      }
      const auto model = planned_models.find(file.stem());
      parsed = parse(*trajectory, file.stem(), model != planned_models.end() ? model->second : "");
      std::error_code ignored;
      parsed->torn = fs::file_size(file, ignored) > whole;
    }
  };
  {
    std::vector<std::jthread> helpers;
    for (std::size_t i = 1; i < worker_count(stale.size()); ++i) helpers.emplace_back(read_some);
    read_some();
  }

  Run run;
  run.kind = source.kind;
  run.path = source.path.string();
  std::error_code ignored;
  run.name = fs::weakly_canonical(source.path, ignored).filename().string();
  run.planned = std::max(planned, files.size());
  for (int copy = 2;
       std::any_of(table.runs.begin(), table.runs.end(), [&](const Run& one) { return one.name == run.name; });
       ++copy) {
    std::string fresh = fmt::format("{} ({})", fs::weakly_canonical(source.path, ignored).filename().string(), copy);
    table.note(fmt::format("two runs are called '{}'; {} is shown as '{}'", run.name, run.path, fresh));
    run.name = std::move(fresh);
  }
  const auto index = static_cast<std::uint32_t>(table.runs.size());
  std::size_t running = 0, failed = 0, torn = 0, broken = 0, bad_speedups = 0, empty_failed = 0;
  std::string torn_name;
  std::map<std::string, std::vector<TurnRow*>> turns_by_name;
  const std::size_t first = table.trajectories.size();
  for (const fs::path& file : files) {
    const Result<Parsed>& parsed = files_.find(file)->second->parsed;
    if (!parsed) {
      if (broken_ == Broken::error) return tl::unexpected<Error>(parsed.error());
      ++broken;
      table.note(fmt::format("left out: {}", parsed.error().message));
      continue;
    }
    running += parsed->state == State::running;
    failed += parsed->state == State::failed;
    bad_speedups += parsed->bad_speedups;
    if (parsed->torn) {
      ++torn;
      torn_name = parsed->name;
    }
    if (parsed->turns.empty()) {
      ++run.without_turns;
      empty_failed += parsed->state == State::failed;
      continue;
    }
    TrajectoryRow row;
    row.run = index;
    row.name = parsed->name;
    row.model = table.models.id(parsed->model);
    row.arch = table.archs.id(parsed->arch);
    row.problem = table.problems.id(parsed->problem);
    row.workload = table.workloads.id(parsed->workload);
    row.language = table.languages.id(parsed->language);
    row.pack = table.packs.id(parsed->pack);
    row.state = parsed->state;
    row.file = file;
    for (const ParsedTurn& turn : parsed->turns) {
      row.turns.push_back(turn.row);
      row.turns.back().label = table.labels.id(turn.label);
      for (const std::string& rule : turn.rules) row.turns.back().rules.push_back(table.rules.id(rule));
    }
    table.trajectories.push_back(std::move(row));
  }
  if (source.kind == RunKind::reference) {
    for (std::size_t i = first; i < table.trajectories.size(); ++i) {
      for (TurnRow& turn : table.trajectories[i].turns) turns_by_name[table.trajectories[i].name].push_back(&turn);
    }
    if (auto added = add_figures(source.path, turns_by_name, table); !added) return added;
  }
  const std::size_t unstarted = run.planned - std::min(run.planned, files.size());
  run.without_turns += unstarted;
  const auto say = [&](std::size_t count, const std::string& text) {
    if (count > 0) table.note(fmt::format("{}: {} of {} trajectories {}", run.name, count, run.planned, text));
  };
  say(run.without_turns,
      fmt::format("have no turn ({} not begun, {} ended with an error before one): they are in no denominator",
                  unstarted, empty_failed));
  say(running, "have not ended: their turns so far count");
  say(failed - empty_failed, "were ended by a failure of machine or endpoint: their turns count");
  say(torn, fmt::format(
                "end in an incomplete line (such as {}), which was not read: they are being written, or a writer died",
                torn_name));
  say(broken, "cannot be read and are left out");
  if (bad_speedups > 0) {
    table.note(
        fmt::format("{}: {} correct turns have a speed-up that is no positive finite number: taken as not measured",
                    run.name, bad_speedups));
  }
  table.runs.push_back(std::move(run));
  return {};
}

Result<Table> Loader::load(Work* work) {
  Work done;
  Table table;
  const auto found = sources();
  if (!found) return tl::unexpected<Error>(found.error());
  for (const Source& source : *found) {
    auto read =
        source.kind == RunKind::published ? read_published(source.path, table) : load_records(source, table, done);
    if (!read) return tl::unexpected<Error>(read.error());
  }
  if (table.trajectories.empty() && broken_ == Broken::error) {
    std::string notes;
    for (const Note& note : table.notes) notes += "\n  " + note.text;
    return input_error("there are no turns to report on{}", notes);
  }
  if (work != nullptr) *work = done;
  return table;
}

}  // namespace ptxbench::report
