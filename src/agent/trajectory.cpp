#include "agent/trajectory.h"

#include <chrono>
#include <ctime>
#include <system_error>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::agent {
namespace {

using base::Json;

std::string dump_line(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Json turn_json(const Turn& turn) {
  return {{"record", "turn"},
          {"turn", turn.number},
          {"timestamp", turn.timestamp},
          {"answer", turn.answer},
          {"reasoning", turn.reasoning},
          {"usage",
           {{"prompt_tokens", turn.usage.prompt_tokens},
            {"completion_tokens", turn.usage.completion_tokens},
            {"reasoning_tokens", turn.usage.reasoning_tokens}}},
          {"model_seconds", turn.model_seconds},
          {"event", turn.event},
          {"source", turn.source ? Json(*turn.source) : Json()},
          {"evaluation", turn.evaluation},
          {"feedback", turn.feedback}};
}

Result<void> read_start(const Json& record, const std::string& where, Trajectory& trajectory) {
  auto schema = base::required<std::string>(record, "schema", where);
  if (!schema) return tl::unexpected<Error>(schema.error());
  if (*schema != Trajectory::kSchema) {
    return input_error("{}: schema '{}', this program reads '{}'", where, *schema, Trajectory::kSchema);
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

Result<void> read_turn(const Json& record, const std::string& where, Trajectory& trajectory) {
  Turn turn;
  auto number = base::required<unsigned>(record, "turn", where);
  auto answer = base::required<std::string>(record, "answer", where);
  auto feedback = base::required<std::string>(record, "feedback", where);
  auto event = base::required<std::string>(record, "event", where);
  if (!number) return tl::unexpected<Error>(number.error());
  for (const auto* member : {&answer, &feedback, &event}) {
    if (!*member) return tl::unexpected<Error>(member->error());
  }
  if (*number != trajectory.turns.size() + 1) {
    return input_error("{}: turn {} follows {} turns; the file was edited or mixed up", where, *number,
                       trajectory.turns.size());
  }
  turn.number = *number;
  turn.answer = *answer;
  turn.feedback = *feedback;
  turn.event = *event;
  auto text = [&](const char* key) -> std::string {
    const Json* value = base::optional_member(record, key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  };
  turn.timestamp = text("timestamp");
  turn.reasoning = text("reasoning");
  if (const Json* source = base::optional_member(record, "source"); source != nullptr && source->is_string()) {
    turn.source = source->get<std::string>();
  }
  if (const Json* evaluation = base::optional_member(record, "evaluation")) turn.evaluation = *evaluation;
  if (const Json* seconds = base::optional_member(record, "model_seconds");
      seconds != nullptr && seconds->is_number()) {
    turn.model_seconds = seconds->get<double>();
  }
  if (const Json* usage = base::optional_member(record, "usage"); usage != nullptr && usage->is_object()) {
    auto count = [&](const char* key) -> std::uint64_t {
      const Json* value = base::optional_member(*usage, key);
      return value != nullptr && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
    };
    turn.usage = {count("prompt_tokens"), count("completion_tokens"), count("reasoning_tokens")};
  }
  trajectory.turns.push_back(std::move(turn));
  return {};
}

}  // namespace

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

Result<Trajectory> read_trajectory(const std::filesystem::path& path) {
  auto text = base::read_file(path, std::uint64_t{1} << 30);
  if (!text) return tl::unexpected<Error>(text.error());
  Trajectory trajectory;
  std::size_t line_number = 0, start = 0;
  bool started = false;
  while (start < text->size()) {
    ++line_number;
    const std::size_t end = text->find('\n', start);
    const bool torn = end == std::string::npos;
    const std::string_view line = std::string_view(*text).substr(start, torn ? std::string::npos : end - start);
    start = torn ? text->size() : end + 1;
    if (base::trim(line).empty()) continue;
    const std::string where = fmt::format("{}:{}", path.string(), line_number);
    auto record = base::parse_json(line, where);
    if (!record) {
      if (torn && started) break;  // a crash while the last record was written
      return input_error("{}: not a trajectory record: {}; remove the line or restore the file", where,
                         record.error().message);
    }
    if (!record->is_object())
      return input_error("{}: a trajectory record is a JSON object, found {}", where, base::json_type_name(*record));
    auto kind = base::required<std::string>(*record, "record", where);
    if (!kind) return tl::unexpected<Error>(kind.error());
    Result<void> read;
    if (*kind == "start") {
      if (started) return input_error("{}: a second start record", where);
      started = true;
      read = read_start(*record, where, trajectory);
    } else if (!started) {
      return input_error("{}: a '{}' record before the start record", where, *kind);
    } else if (!trajectory.exit_status.empty()) {
      return input_error("{}: a '{}' record after the end", where, *kind);
    } else if (*kind == "turn") {
      read = read_turn(*record, where, trajectory);
    } else if (*kind == "end") {
      auto status = base::required<std::string>(*record, "exit_status", where);
      if (!status) return tl::unexpected<Error>(status.error());
      trajectory.exit_status = *status;
      if (const Json* error = base::optional_member(*record, "error"); error != nullptr && error->is_string()) {
        trajectory.error = error->get<std::string>();
      }
    }  // other kinds: written by a newer version, ignored
    if (!read) return tl::unexpected<Error>(read.error());
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
  const Json record = {{"record", "start"},
                       {"schema", Trajectory::kSchema},
                       {"timestamp", utc_now()},
                       {"problem", start.problem},
                       {"model", start.model},
                       {"settings", start.settings},
                       {"system", start.system_message},
                       {"task", start.task_message}};
  if (auto written = base::write_file_atomic(path, dump_line(record)); !written)
    return tl::unexpected<Error>(written.error());
  return TrajectoryWriter(path);
}

Result<void> TrajectoryWriter::append(const Turn& turn) {
  return base::append_durable(path_, dump_line(turn_json(turn)));
}

Result<void> TrajectoryWriter::finish(std::string_view exit_status, std::string_view error) {
  Json record = {{"record", "end"}, {"timestamp", utc_now()}, {"exit_status", exit_status}};
  if (!error.empty()) record["error"] = error;
  return base::append_durable(path_, dump_line(record));
}

base::Json to_mini_swe(const Trajectory& trajectory) {
  Json messages = Json::array();
  messages.push_back({{"role", "system"}, {"content", trajectory.system_message}});
  messages.push_back({{"role", "user"}, {"content", trajectory.task_message}});
  std::string submission;
  for (const Turn& turn : trajectory.turns) {
    messages.push_back({{"role", "assistant"},
                        {"content", turn.answer},
                        {"extra", {{"actions", Json::array()}, {"cost", 0.0}, {"timestamp", turn.timestamp}}}});
    const int code = turn.passed() ? 0 : 1;
    messages.push_back(
        {{"role", "user"},
         {"content", fmt::format("<returncode>{}</returncode>\n<output>\n{}</output>", code, turn.feedback)},
         {"extra",
          {{"raw_output", turn.feedback},
           {"returncode", code},
           {"timestamp", turn.timestamp},
           {"event", turn.event},
           {"traces", nullptr},
           {"all_passed", turn.passed()},
           {"min_speedup", nullptr},
           {"target_met", turn.passed()}}}});
    if (turn.passed() && turn.source) submission = *turn.source;
  }
  const std::string status = trajectory.exit_status.empty() ? "LimitsExceeded" : trajectory.exit_status;
  messages.push_back(
      {{"role", "exit"}, {"content", status}, {"extra", {{"exit_status", status}, {"submission", submission}}}});
  return {{"trajectory_format", "mini-swe-agent-1.1"},
          {"info",
           {{"model_stats", {{"instance_cost", 0.0}, {"api_calls", trajectory.turns.size()}}},
            {"config", {{"model", trajectory.model}}},
            {"mini_version", "2.4.6"},
            {"exit_status", status},
            {"submission", submission}}},
          {"messages", messages}};
}

}  // namespace ptxbench::agent
