#include "agent/trajectory.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <system_error>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::agent {
namespace {

using base::Json;

constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;

std::string dump_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string text_of(const Json& record, const char* key) {
  const Json* value = base::optional_member(record, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

double number_of(const Json& record, const char* key) {
  const Json* value = base::optional_member(record, key);
  return value != nullptr && value->is_number() ? value->get<double>() : 0;
}

Result<void> read_start(const Json& record, const std::string& where, Trajectory& trajectory) {
  auto schema = base::required<std::string>(record, "schema", where);
  if (!schema) return tl::unexpected<Error>(schema.error());
  if (*schema != Trajectory::kSchema && *schema != Trajectory::kFirstSchema) {
    return input_error("{}: schema '{}', this program reads '{}' and '{}'", where, *schema, Trajectory::kSchema,
                       Trajectory::kFirstSchema);
  }
  auto problem = base::required<std::string>(record, "problem", where);
  auto system = base::required<std::string>(record, "system", where);
  auto task = base::required<std::string>(record, "task", where);
  for (const auto* member : {&problem, &system, &task}) {
    if (!*member) return tl::unexpected<Error>(member->error());
  }
  trajectory.problem = *problem;
  trajectory.system_message = *system;
  trajectory.task_message = *task;
  if (const Json* model = base::optional_member(record, "model")) trajectory.model = *model;
  if (const Json* settings = base::optional_member(record, "settings")) trajectory.settings = *settings;
  return {};
}

/// The next turn's number, which both of its records must have.
Result<void> check_number(const Json& record, const std::string& where, const Trajectory& trajectory) {
  auto number = base::required<unsigned>(record, "turn", where);
  if (!number) return tl::unexpected<Error>(number.error());
  if (*number != trajectory.turns.size() + 1) {
    return input_error("{}: turn {} follows {} turns; the file was edited or mixed up", where, *number,
                       trajectory.turns.size());
  }
  return {};
}

Result<void> read_answer(const Json& record, const std::string& where, Trajectory& trajectory) {
  if (auto checked = check_number(record, where, trajectory); !checked) return checked;
  if (trajectory.pending) return input_error("{}: a second answer to one question", where);
  auto answer = base::required<std::string>(record, "answer", where);
  if (!answer) return tl::unexpected<Error>(answer.error());
  Turn turn;
  turn.number = static_cast<unsigned>(trajectory.turns.size()) + 1;
  turn.answer = std::move(*answer);
  turn.reasoning = text_of(record, "reasoning");
  turn.finish_reason = text_of(record, "finish_reason");
  turn.timestamp = text_of(record, "timestamp");
  if (const Json* usage = base::optional_member(record, "usage")) turn.usage = models::usage_from_json(*usage);
  turn.model_seconds = number_of(record, "model_seconds");
  if (auto attempts = base::optional_field<unsigned>(record, "attempts", where); attempts && *attempts) {
    turn.attempts = **attempts;
  }
  trajectory.pending = std::move(turn);
  return {};
}

Result<void> read_turn(const Json& record, const std::string& where, Trajectory& trajectory) {
  if (auto checked = check_number(record, where, trajectory); !checked) return checked;
  if (!trajectory.pending) {
    // Version 1 has the answer here.
    if (auto read = read_answer(record, where, trajectory); !read) return read;
  }
  auto feedback = base::required<std::string>(record, "feedback", where);
  auto event = base::required<std::string>(record, "event", where);
  for (const auto* member : {&feedback, &event}) {
    if (!*member) return tl::unexpected<Error>(member->error());
  }
  Turn turn = std::move(*trajectory.pending);
  trajectory.pending.reset();
  turn.feedback = std::move(*feedback);
  turn.event = std::move(*event);
  turn.judge_seconds = number_of(record, "judge_seconds");
  if (const Json* source = base::optional_member(record, "source"); source != nullptr && source->is_string()) {
    turn.source = source->get<std::string>();
  }
  if (const Json* evaluation = base::optional_member(record, "evaluation")) turn.evaluation = *evaluation;
  trajectory.turns.push_back(std::move(turn));
  return {};
}

Result<void> read_end(const Json& record, const std::string& where, Trajectory& trajectory) {
  auto status = base::required<std::string>(record, "exit_status", where);
  if (!status) return tl::unexpected<Error>(status.error());
  if (status->empty()) return input_error("{}: the exit status is empty", where);
  trajectory.exit_status = *status;
  trajectory.stop_reason = text_of(record, "reason");
  trajectory.error = text_of(record, "error");
  return {};
}

Result<void> read_record(const Json& record, const std::string& where, bool& started, Trajectory& trajectory) {
  if (!record.is_object())
    return input_error("{}: a trajectory record is a JSON object, found {}", where, base::json_type_name(record));
  auto kind = base::required<std::string>(record, "record", where);
  if (!kind) return tl::unexpected<Error>(kind.error());
  if (*kind == "start") {
    if (started) return input_error("{}: a second start record", where);
    started = true;
    return read_start(record, where, trajectory);
  }
  if (!started) return input_error("{}: a '{}' record before the start record", where, *kind);
  if (*kind == "resume") {
    trajectory.exit_status.clear();
    trajectory.stop_reason.clear();
    trajectory.error.clear();
    return {};
  }
  if (trajectory.ended()) return input_error("{}: a '{}' record after the end", where, *kind);
  if (*kind == "answer") return read_answer(record, where, trajectory);
  if (*kind == "turn") return read_turn(record, where, trajectory);
  if (*kind == "end") return read_end(record, where, trajectory);
  return {};  // other kinds: written by a newer version, ignored
}

Json start_record(const Trajectory& start) {
  return {{"record", "start"},
          {"schema", Trajectory::kSchema},
          {"timestamp", utc_now()},
          {"problem", start.problem},
          {"model", start.model},
          {"settings", start.settings},
          {"system", start.system_message},
          {"task", start.task_message}};
}

Json answer_record(const Turn& turn) {
  return {{"record", "answer"},
          {"turn", turn.number},
          {"timestamp", turn.timestamp},
          {"answer", turn.answer},
          {"reasoning", turn.reasoning},
          {"finish_reason", turn.finish_reason},
          {"usage", models::to_json(turn.usage)},
          {"model_seconds", turn.model_seconds},
          {"attempts", turn.attempts}};
}

Json turn_record(const Turn& turn) {
  return {{"record", "turn"},
          {"turn", turn.number},
          {"timestamp", utc_now()},
          {"judge_seconds", turn.judge_seconds},
          {"event", turn.event},
          {"source", turn.source ? Json(*turn.source) : Json()},
          {"evaluation", turn.evaluation},
          {"feedback", turn.feedback}};
}

Json end_record(const Trajectory& trajectory) {
  Json record = {{"record", "end"},
                 {"timestamp", utc_now()},
                 {"exit_status", trajectory.exit_status},
                 {"reason", trajectory.stop_reason}};
  if (!trajectory.error.empty()) record["error"] = trajectory.error;
  return record;
}

}  // namespace

std::string trajectory_text(const Trajectory& trajectory) {
  std::string text = dump_line(start_record(trajectory));
  for (const Turn& turn : trajectory.turns) text += dump_line(answer_record(turn)) + dump_line(turn_record(turn));
  if (trajectory.pending) text += dump_line(answer_record(*trajectory.pending));
  if (trajectory.ended()) text += dump_line(end_record(trajectory));
  return text;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

bool Turn::passed() const {
  if (!evaluation.is_object()) return false;
  const Json* verdict = base::optional_member(evaluation, "verdict");
  if (verdict == nullptr || !verdict->is_object()) return false;
  const Json* status = base::optional_member(*verdict, "status");
  return status != nullptr && status->is_string() && *status == "passed";
}

std::optional<double> Turn::speedup() const {
  if (!passed()) return std::nullopt;
  const Json* performance = base::optional_member(evaluation, "performance");
  if (performance == nullptr || !performance->is_array() || performance->empty()) return std::nullopt;
  std::optional<double> least;
  for (const Json& one : *performance) {
    const Json* speedup = one.is_object() ? base::optional_member(one, "speedup") : nullptr;
    const Json* value = speedup != nullptr && speedup->is_object() ? base::optional_member(*speedup, "value") : nullptr;
    if (value == nullptr || !value->is_number()) return std::nullopt;
    least = std::min(least.value_or(value->get<double>()), value->get<double>());
  }
  return least;
}

candidate::Language language_of(const Trajectory& trajectory) {
  const Json* language =
      trajectory.settings.is_object() ? base::optional_member(trajectory.settings, "language") : nullptr;
  if (language == nullptr || !language->is_string()) return candidate::Language::cuda;
  return candidate::parse_language(language->get<std::string>()).value_or(candidate::Language::cuda);
}

std::size_t Trajectory::correct_turns() const {
  return static_cast<std::size_t>(
      std::count_if(turns.begin(), turns.end(), [](const Turn& turn) { return turn.passed(); }));
}

std::optional<double> Trajectory::best_speedup() const {
  std::optional<double> best;
  for (const Turn& turn : turns) {
    if (const auto one = turn.speedup()) best = std::max(best.value_or(*one), *one);
  }
  return best;
}

std::optional<std::uint64_t> Trajectory::tokens() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < turns.size() + (pending ? 1 : 0); ++i) {
    const auto one = (i < turns.size() ? turns[i] : *pending).usage.total_tokens();
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum;
}

std::optional<double> Trajectory::cost() const {
  double sum = 0;
  for (std::size_t i = 0; i < turns.size() + (pending ? 1 : 0); ++i) {
    const auto one = (i < turns.size() ? turns[i] : *pending).usage.cost;
    if (!one) return std::nullopt;
    sum += *one;
  }
  return sum;
}

std::filesystem::path timeline_path(const std::filesystem::path& trajectory, unsigned turn) {
  return trajectory.parent_path() / "timelines" / fmt::format("{}_turn_{}.json.gz", trajectory.stem().string(), turn);
}

Result<Trajectory> read_trajectory(const std::filesystem::path& path, std::uint64_t* whole_bytes) {
  auto text = base::read_file(path, kMostBytes);
  if (!text) return tl::unexpected<Error>(text.error());
  Trajectory trajectory;
  std::size_t line_number = 0, start = 0;
  bool started = false;
  if (whole_bytes != nullptr) *whole_bytes = text->size();
  while (start < text->size()) {
    ++line_number;
    const std::size_t begin = start, end = text->find('\n', start);
    const bool torn = end == std::string::npos;
    const std::string_view line = std::string_view(*text).substr(start, torn ? std::string::npos : end - start);
    start = torn ? text->size() : end + 1;
    if (torn && started) {
      // A crash while the last record was written: without its line end it does not count, whole or not.
      if (whole_bytes != nullptr) *whole_bytes = begin;
      break;
    }
    if (base::trim(line).empty()) continue;
    const std::string where = fmt::format("{}:{}", path.string(), line_number);
    auto record = base::parse_json(line, where);
    if (!record) {
      return input_error("{}: not a trajectory record: {}; remove the line or restore the file", where,
                         record.error().message);
    }
    if (auto read = read_record(*record, where, started, trajectory); !read) {
      return tl::unexpected<Error>(read.error());
    }
  }
  if (!started) return input_error("{} is empty: no trajectory", path.string());
  return trajectory;
}

Result<TrajectoryWriter> TrajectoryWriter::create(const std::filesystem::path& path, const Trajectory& start) {
  std::error_code error;
  if (std::filesystem::exists(path, error)) {
    return input_error("{} exists already; trajectories are never overwritten: choose another output folder",
                       path.string());
  }
  if (auto written = base::write_file_atomic(path, dump_line(start_record(start))); !written)
    return tl::unexpected<Error>(written.error());
  return TrajectoryWriter(path);
}

Result<TrajectoryWriter> TrajectoryWriter::reopen(const std::filesystem::path& path, std::uint64_t whole_bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > whole_bytes) std::filesystem::resize_file(path, whole_bytes, error);
  if (error) return infrastructure_error("cannot go on with {}: {}", path.string(), error.message());
  return TrajectoryWriter(path);
}

// What was paid for must survive whatever happens; everything else could be made again, and is synced with the next
// answer.

Result<void> TrajectoryWriter::answer(const Turn& turn) {
  return base::append_durable(path_, dump_line(answer_record(turn)));
}
Result<void> TrajectoryWriter::judged(const Turn& turn) {
  return base::append_written(path_, dump_line(turn_record(turn)));
}
Result<void> TrajectoryWriter::finish(const Trajectory& trajectory) {
  return base::append_written(path_, dump_line(end_record(trajectory)));
}

Result<void> TrajectoryWriter::resume() {
  return base::append_written(path_, dump_line({{"record", "resume"}, {"timestamp", utc_now()}}));
}

}  // namespace ptxbench::agent
