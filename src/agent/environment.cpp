#include "agent/environment.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <random>

#include "base/files.h"
#include "base/text.h"
#include "service/evaluate_options.h"

namespace ptxbench::agent {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr unsigned kMostTurns = 1000;
constexpr double kMostFeedbackTokens = 100000;
constexpr std::size_t kLongestId = 128;
constexpr std::array<std::string_view, 3> kRewards = {"passed", "stages", "speedup"};
/// Of "stages": what a candidate earns that compiles, runs, has the right numbers, executes the wanted instructions.
constexpr std::array<double, 4> kStageRewards = {0.1, 0.3, 0.4, 0.2};

/// What answers come from, for the record.
class Outside : public models::Model {
 public:
  void start(std::vector<models::Message>, models::CompletionOptions, Done done) override {
    done(input_error("answers come from outside"));
  }
  std::string name() const override { return "environment"; }
  Json describe() const override { return {{"provider", "environment"}, {"model", "outside"}}; }
};

bool is_id(std::string_view id) {
  return !id.empty() && id.size() <= kLongestId && id.front() != '.' && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
}

std::string new_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

/// A member of a certain type, or an error that says what is wrong with it. Absent and null are the same.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {}
  std::optional<std::string> text(const char* key) {
    const Json* value = get(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_string()) return value->get<std::string>();
    fail(key, "a text");
    return std::nullopt;
  }
  std::optional<double> number(const char* key, double least, double most) {
    const Json* value = get(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_number() && *value >= least && *value <= most) return value->get<double>();
    fail(key, fmt::format("a number between {} and {}", least, most));
    return std::nullopt;
  }
  std::optional<bool> flag(const char* key) {
    const Json* value = get(key);
    if (value == nullptr) return std::nullopt;
    if (value->is_boolean()) return value->get<bool>();
    fail(key, "true or false");
    return std::nullopt;
  }
  const Json* get(const char* key) const { return base::optional_member(object_, key); }
  void fail(const char* key, std::string_view wanted) {
    if (error_.empty()) error_ = fmt::format("{}{}: {} is needed", where_, key, wanted);
  }
  void fail(const Error& error) {
    if (error_.empty()) error_ = error.message;
  }
  const std::string& error() const { return error_; }

 private:
  const Json& object_;
  std::string where_, error_;
};

Environment::Answer refused(int status, std::string_view detail) { return {status, {{"detail", detail}}, {}}; }

int status_of(const Error& error) { return error.kind == ErrorKind::input ? 400 : 503; }

/// The axes and workloads of a request, as Dataset::choose takes them.
void read_choice(Members& members, std::vector<std::string>& axes, std::vector<std::string>& uuids) {
  if (const Json* given = members.get("workloads"); given != nullptr) {
    if (!given->is_array()) return members.fail("workloads", "a list of uuids");
    for (const Json& one : *given) {
      if (!one.is_string()) return members.fail("workloads", "a list of uuids");
      uuids.push_back(one.get<std::string>());
    }
  }
  if (const Json* given = members.get("axes"); given != nullptr) {
    if (!given->is_object()) return members.fail("axes", "an object of axes and sizes");
    for (const auto& [name, value] : given->items()) {
      if (!value.is_number_integer()) return members.fail("axes", "an object of axes and sizes");
      axes.push_back(fmt::format("{}={}", name, value.get<std::int64_t>()));
    }
  }
}

/// A source as a model would give it: in a fence that nothing in it can close.
std::string as_answer(const std::string& source, candidate::Language language) {
  std::size_t longest = 2, run = 0;
  for (const char c : source) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  return fmt::format("{}{}\n{}\n{}\n", fence, language == candidate::Language::triton ? "python" : "cpp", source,
                     fence);
}

void read_feedback(Members& members, LoopRules& rules) {
  if (const auto level = members.text("feedback")) {
    const auto parsed = parse_feedback_level(*level);
    parsed ? void(rules.feedback = *parsed) : members.fail(parsed.error());
  }
  if (const auto tokens = members.number("feedback_tokens", 0, kMostFeedbackTokens)) {
    rules.feedback_tokens = static_cast<std::size_t>(*tokens);
  }
}

Json text_schema(std::string_view description) { return {{"type", "string"}, {"description", description}}; }

}  // namespace

struct Environment::Episode {
  std::mutex mutex;  ///< held while a step is taken
  std::string id;
  std::optional<OpenTrajectory> open;
  std::vector<problem::Problem> workloads;
  std::unique_ptr<Judge> judge;
  LoopRules rules;
  std::string reward = "passed", knowledge;
  std::string last_request;
  Json last_reply;
};

namespace {

/// Rules and workloads of an episode that was begun earlier, out of its record.
Result<LoopRules> rules_of(const Json& settings, std::string_view what) {
  Members members(settings, fmt::format("{}: settings.", what));
  LoopRules rules;
  rules.max_turns = static_cast<unsigned>(members.number("turns", 1, kMostTurns).value_or(8));
  rules.target_speedup = members.number("target_speedup", 0, 1e6);
  if (const auto context = members.text("context")) {
    const auto parsed = parse_context_policy(*context);
    parsed ? void(rules.context = *parsed) : members.fail(parsed.error());
  }
  if (const auto stop = members.text("stop")) {
    const auto parsed = parse_stop_when(*stop);
    parsed ? void(rules.stop = *parsed) : members.fail(parsed.error());
  }
  read_feedback(members, rules);
  if (!members.error().empty()) return input_error("{}", members.error());
  return rules;
}

Json stages_of(const Turn& turn) {
  Json out = Json::object();
  const Json* stages = base::optional_member(turn.evaluation, "stages");
  if (stages == nullptr || !stages->is_array()) return out;
  for (const Json& stage : *stages) {
    const Json* name = base::optional_member(stage, "name");
    const Json* status = base::optional_member(stage, "status");
    if (name != nullptr && name->is_string() && status != nullptr) out[name->get<std::string>()] = *status;
  }
  return out;
}

/// Of one answer. A candidate that is judged unknown earns what is known of it.
double reward_of(std::string_view rule, const Turn& turn) {
  if (rule == "passed") return turn.passed() ? 1 : 0;
  if (rule == "speedup") return turn.passed() ? turn.speedup().value_or(0) : 0;
  const Json stages = stages_of(turn);
  double sum = 0;
  for (std::size_t s = 0; s < kStageRewards.size(); ++s) {
    const Json* status = base::optional_member(stages, evaluation::to_string(static_cast<evaluation::StageName>(s)));
    if (status != nullptr && *status == "passed") sum += kStageRewards[s];
  }
  return sum;
}

}  // namespace

void Environment::keep(const std::string& id, const EpisodePtr& episode) const {
  const std::lock_guard lock(mutex_);
  recent_.push_front(id);
  open_[id] = {episode, recent_.begin()};
  // One that is being used stays: a file must not have two writers.
  for (auto at = std::prev(recent_.end()); open_.size() > parts_.most_open && at != recent_.begin();) {
    const auto here = at--;
    const auto entry = open_.find(*here);
    if (entry->second.first.use_count() != 1) continue;
    open_.erase(entry);
    recent_.erase(here);
  }
}

Result<Environment::EpisodePtr> Environment::find(const std::string& id) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = open_.find(id); at != open_.end()) {
      recent_.splice(recent_.begin(), recent_, at->second.second);
      return at->second.first;
    }
  }
  // One at a time: two readers of a file would both become its writers.
  const std::lock_guard loading(loading_);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = open_.find(id); at != open_.end()) return at->second.first;
  }
  const fs::path file = parts_.folder / (id + ".jsonl");
  std::error_code error;
  if (!is_id(id) || !fs::exists(file, error)) return input_error("no episode '{}'; begin one with reset", id);
  const auto trajectory = read_trajectory(file);
  if (!trajectory) return tl::unexpected<Error>(trajectory.error());
  const Json& settings = trajectory->settings;
  const auto rules = rules_of(settings, file.string());
  if (!rules) return tl::unexpected<Error>(rules.error());
  auto episode = std::make_shared<Episode>();
  episode->id = id;
  episode->rules = *rules;
  if (const Json* reward = base::optional_member(settings, "reward"); reward != nullptr && reward->is_string()) {
    episode->reward = *reward;
  }
  if (const Json* pack = base::optional_member(settings, "prompt_tag"); pack != nullptr && pack->is_string()) {
    // Only looked into for names that a candidate got wrong.
    episode->knowledge = parts_.pack_text(pack->get<std::string>(), language_of(*trajectory)).value_or("");
  }
  std::vector<std::string> axes, uuids;
  if (const Json* choice = base::optional_member(settings, "choice"); choice != nullptr) {
    Members members(*choice, file.string() + ": choice.");
    read_choice(members, axes, uuids);
    if (!members.error().empty()) return input_error("{}", members.error());
  }
  auto workloads = parts_.dataset->choose(trajectory->problem, axes, uuids);
  if (!workloads) return tl::unexpected<Error>(workloads.error());
  episode->workloads = std::move(*workloads);
  const Json* evaluation = base::optional_member(settings, "evaluation");
  auto judge = parts_.judge(evaluation != nullptr ? *evaluation : Json::object());
  if (!judge) return tl::unexpected<Error>(judge.error());
  episode->judge = std::move(*judge);
  auto open = OpenTrajectory::resume(file, *rules, false);
  if (!open) return tl::unexpected<Error>(open.error());
  episode->open = std::move(*open);
  keep(id, episode);
  return episode;
}

Json Environment::reply(Episode& episode, const Turn* turn, std::optional<double> reward) const {
  const Trajectory& trajectory = episode.open->trajectory();
  Json observation = {{"episode_id", episode.id},
                      {"problem", trajectory.problem},
                      {"turn", trajectory.turns.size()},
                      {"turns_left", episode.rules.max_turns -
                                         std::min<std::size_t>(episode.rules.max_turns, trajectory.turns.size())}};
  if (turn != nullptr) {
    observation["event"] = turn->event;
    observation["feedback"] = turn->feedback;
    observation["passed"] = turn->passed();
    observation["speedup"] = turn->speedup() ? Json(*turn->speedup()) : Json(nullptr);
    observation["stages"] = stages_of(*turn);
  }
  observation["stop_reason"] = trajectory.ended() ? Json(trajectory.stop_reason) : Json(nullptr);
  observation["messages"] = Json::array();
  if (!trajectory.ended()) {
    for (const models::Message& message : episode.open->messages()) {
      observation["messages"].push_back({{"role", models::to_string(message.role)}, {"content", message.content}});
    }
  }
  return {
      {"observation", observation}, {"reward", reward ? Json(*reward) : Json(nullptr)}, {"done", trajectory.ended()}};
}

Environment::Answer Environment::reset(const Json& request) {
  if (!request.is_object()) return refused(422, "the body must be an object");
  Members members(request, "");
  const auto problem = members.text("problem");
  if (!problem && members.error().empty()) members.fail("problem", "the name of a definition");
  std::vector<std::string> axes, uuids;
  read_choice(members, axes, uuids);
  const std::string pack = members.text("pack").value_or("none");
  const std::string reward = members.text("reward").value_or("passed");
  const std::string id = members.text("episode_id").value_or(new_id());
  TurnLoopOptions loop;
  loop.rules.max_turns = static_cast<unsigned>(members.number("turns", 1, kMostTurns).value_or(8));
  loop.rules.target_speedup = members.number("target_speedup", 0, 1e6);
  loop.rules.stop = loop.rules.target_speedup ? StopWhen::target : StopWhen::passed;
  loop.tell_shape = members.flag("tell_shape").value_or(true);
  if (const auto context = members.text("context")) {
    const auto parsed = parse_context_policy(*context);
    parsed ? void(loop.rules.context = *parsed) : members.fail(parsed.error());
  }
  if (const auto stop = members.text("stop")) {
    const auto parsed = parse_stop_when(*stop);
    parsed ? void(loop.rules.stop = *parsed) : members.fail(parsed.error());
  }
  read_feedback(members, loop.rules);
  if (!members.error().empty()) return refused(422, members.error());
  if (!is_id(id)) {
    return refused(422, fmt::format("episode_id: at most {} letters, digits, '.', '_' and '-'", kLongestId));
  }
  if (std::find(kRewards.begin(), kRewards.end(), reward) == kRewards.end()) {
    return refused(422, fmt::format("reward: '{}' is none of passed, stages, speedup", reward));
  }
  const auto workloads = parts_.dataset->choose(*problem, axes, uuids);
  if (!workloads) return refused(status_of(workloads.error()), workloads.error().message);
  const auto language = candidate::parse_language(members.text("language").value_or("cuda"));
  if (!language) return refused(422, language.error().message);
  loop.language = *language;
  auto knowledge = parts_.pack_text(pack, *language);
  if (!knowledge) return refused(status_of(knowledge.error()), knowledge.error().message);
  loop.knowledge = std::move(*knowledge);
  Json choice = Json::object();
  for (const char* key : {"workloads", "axes"}) {
    if (const Json* given = members.get(key)) choice[key] = *given;
  }
  const Json* given = members.get("evaluation");
  if (given != nullptr && !given->is_object()) return refused(422, "evaluation: an object is needed");
  Json evaluation = given != nullptr ? *given : Json::object();
  // As in experiments: a kernel that is right by chance is not to be rewarded.
  if (!evaluation.contains("hazards")) evaluation["hazards"] = kHazardsOfExperiments;
  // Here, as the judge may be elsewhere and would find out only with the first answer.
  if (const auto options = service::parse_evaluate_options(evaluation, "evaluation"); !options) {
    return refused(422, options.error().message);
  }
  auto judge = parts_.judge(evaluation);
  if (!judge) return refused(status_of(judge.error()), judge.error().message);
  loop.settings = {
      {"episode", id}, {"prompt_tag", pack}, {"reward", reward}, {"choice", choice}, {"evaluation", evaluation}};
  if (const Json* seed = members.get("seed")) loop.settings["seed"] = *seed;

  auto episode = std::make_shared<Episode>();
  episode->id = id;
  episode->rules = loop.rules;
  episode->reward = reward;
  episode->workloads = *workloads;
  episode->knowledge = loop.knowledge;
  const std::lock_guard loading(loading_);  // nobody else takes the name meanwhile
  std::error_code error;
  fs::create_directories(parts_.folder, error);
  const fs::path file = parts_.folder / (id + ".jsonl");
  if (fs::exists(file, error)) {
    return refused(409, fmt::format("there is an episode '{}' already; choose another episode_id, or none", id));
  }
  auto open = OpenTrajectory::begin(file, start_of(Outside(), **judge, *workloads, loop), loop.rules);
  if (!open) return refused(status_of(open.error()), open.error().message);
  episode->open = std::move(*open);
  episode->judge = std::move(*judge);
  keep(id, episode);
  return {200, reply(*episode, nullptr, std::nullopt), id};
}

Environment::Answer Environment::step(const Json& request, std::string_view cookie) {
  if (!request.is_object()) return refused(422, "the body must be an object");
  Members members(request, "");
  const Json* action = members.get("action");
  if (action == nullptr || !action->is_object()) members.fail("action", "an object");
  const std::string id = members.text("episode_id").value_or(std::string(cookie));
  const std::string request_id = members.text("request_id").value_or("");
  const Json nothing = Json::object();
  Members inner(action != nullptr && action->is_object() ? *action : nothing, "action.");
  models::Completion completion;
  const auto message = inner.text("message"), source = inner.text("source");
  if (message.has_value() == source.has_value()) inner.fail("message", "either that or a source");
  completion.text = message.value_or("");
  completion.reasoning = inner.text("reasoning").value_or("");
  completion.finish_reason = inner.text("finish_reason").value_or("");
  if (const Json* usage = inner.get("usage")) completion.usage = models::usage_from_json(*usage);
  for (const Members* one : {&members, &inner}) {
    if (!one->error().empty()) return refused(422, one->error());
  }
  if (id.empty()) return refused(422, "episode_id: the one that reset gave is needed");
  const auto found = find(id);
  if (!found) return refused(found.error().kind == ErrorKind::input ? 404 : 503, found.error().message);
  Episode& episode = **found;
  const std::lock_guard lock(episode.mutex);
  if (source) completion.text = as_answer(*source, language_of(episode.open->trajectory()));
  if (!request_id.empty() && request_id == episode.last_request) return {200, episode.last_reply, id};
  OpenTrajectory& open = *episode.open;
  const auto failed = [](const Error& error) { return refused(status_of(error), error.message); };
  auto next = open.next();
  if (!next) return failed(next.error());
  if (*next == OpenTrajectory::Step::ended) {
    return refused(409, fmt::format("episode '{}' has ended ({}); begin another one with reset", id,
                                    open.trajectory().stop_reason));
  }
  if (*next == OpenTrajectory::Step::judge) {
    // An answer is stored that the machine could not judge. It may be sent again, but not replaced.
    if (open.trajectory().pending->answer != completion.text) {
      return refused(409, "the answer before was not judged yet: send it again first");
    }
  } else if (auto added = open.add_answer(std::move(completion)); !added) {
    return failed(added.error());
  }
  Result<void> added;
  double reward = 0;
  Turn judged;
  if (open.candidate() == nullptr) {
    added = open.add_no_candidate();
    if (added) judged = open.trajectory().turns.back();
  } else {
    const auto started = Clock::now();
    JudgeOptions how;
    how.language = language_of(open.trajectory());
    how.feedback.level = episode.rules.feedback;
    how.feedback.tokens = episode.rules.feedback_tokens;
    how.feedback.knowledge = episode.knowledge;
    auto judgement = episode.judge->judge(*open.candidate(), episode.workloads, how);
    if (!judgement) {
      // What no judge will ever take must not stand in the way of all that follows.
      if (judgement.error().kind == ErrorKind::input) {
        if (auto ended = open.fail(judgement.error().message); !ended) return failed(ended.error());
      }
      return failed(judgement.error());
    }
    judged.evaluation = judgement->evaluation;
    added = open.add_judgement(std::move(*judgement), std::chrono::duration<double>(Clock::now() - started).count());
    if (added) {
      Json evaluation = std::move(judged.evaluation);  // whole; the trajectory keeps the verdict only
      judged = open.trajectory().turns.back();
      judged.evaluation = std::move(evaluation);
    }
  }
  if (!added) return failed(added.error());
  reward = reward_of(episode.reward, judged);
  next = open.next();  // writes the end, if this was the last step
  if (!next) return failed(next.error());
  Answer answer{200, reply(episode, &judged, reward), id};
  episode.last_request = request_id;
  episode.last_reply = request_id.empty() ? Json() : answer.body;
  return answer;
}

Environment::Answer Environment::state(std::string_view id) const {
  if (id.empty()) return refused(422, "episode_id: the one that reset gave is needed");
  const auto found = find(std::string(id));
  if (!found) return refused(found.error().kind == ErrorKind::input ? 404 : 503, found.error().message);
  Episode& episode = **found;
  // Not while a step is taken: it would be of neither before nor after.
  const std::lock_guard lock(episode.mutex);
  const Trajectory& trajectory = episode.open->trajectory();
  const auto best = trajectory.best_speedup();
  return {200,
          {{"episode_id", episode.id},
           {"step_count", trajectory.turns.size()},
           {"problem", trajectory.problem},
           {"turns", episode.rules.max_turns},
           {"correct_turns", trajectory.correct_turns()},
           {"best_speedup", best ? Json(*best) : Json(nullptr)},
           {"done", trajectory.ended()},
           {"stop_reason", trajectory.ended() ? Json(trajectory.stop_reason) : Json(nullptr)}},
          episode.id};
}

Json Environment::schema() {
  const Json object = "object", integer = "integer", boolean = "boolean";
  const Json number_or_null = {{"type", {"number", "null"}}};
  return {
      {"action",
       {{"type", object},
        {"properties",
         {{"message", text_schema("all that the model answered; the last block with a kernel counts")},
          {"source", text_schema("a candidate alone, instead of a message")},
          {"reasoning", text_schema("kept in the record")},
          {"finish_reason", text_schema("kept in the record")},
          {"usage", {{"type", object}, {"description", "prompt_tokens, completion_tokens, cost: kept"}}}}}}},
      {"observation",
       {{"type", object},
        {"properties",
         {{"episode_id", text_schema("to be sent with each step")},
          {"problem", text_schema("the definition's name")},
          {"turn", {{"type", integer}, {"description", "steps taken"}}},
          {"turns_left", {{"type", integer}}},
          {"event", text_schema("evaluation, test_failed or no_code")},
          {"feedback", text_schema("what a model is told")},
          {"passed", {{"type", boolean}}},
          {"speedup", number_or_null},
          {"stages", {{"type", object}, {"description", "passed, failed, unknown or skipped for each"}}},
          {"stop_reason", {{"type", {"string", "null"}}}},
          {"messages",
           {{"type", "array"},
            {"items", {{"type", object}, {"properties", {{"role", text_schema("")}, {"content", text_schema("")}}}}},
            {"description", "the next question, as a model is asked it"}}}}}}},
      {"state",
       {{"type", object},
        {"properties",
         {{"episode_id", text_schema("")},
          {"step_count", {{"type", integer}}},
          {"problem", text_schema("")},
          {"turns", {{"type", integer}}},
          {"correct_turns", {{"type", integer}}},
          {"best_speedup", number_or_null},
          {"done", {{"type", boolean}}},
          {"stop_reason", {{"type", {"string", "null"}}}}}}}}};
}

Json Environment::metadata(std::string_view version) {
  return {{"name", "ptxbench"},
          {"version", version},
          {"description",
           "CUDA kernels with inline PTX: each step is a model's answer, which is compiled, run and judged; the "
           "observation is what a model is told, the reward whether it passed, how far it came, or its speed-up"}};
}

}  // namespace ptxbench::agent
