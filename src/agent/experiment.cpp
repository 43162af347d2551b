#include "agent/experiment.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "base/files.h"
#include "base/work_pool.h"

namespace ptxbench::agent {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;
using Step = OpenTrajectory::Step;

constexpr unsigned kDiskThreads = 8;    ///< they wait for the disk, which syncs the writes of several at a time
constexpr unsigned kModelFailures = 5;  ///< questions in a row that no answer comes to
constexpr unsigned kJudgeFailures = 5;
constexpr std::chrono::seconds kSummaryEvery{30};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One experiment in progress. All decisions are made on the thread that calls `run`; files, compilers, judges and
/// models work on others, and tell it what came of it as events.
class Conductor {
 public:
  Conductor(const ExperimentConfig& config, ExperimentParts& parts, const RunOptions& options, RunFolder& folder,
            const std::map<std::string, std::string>& packs)
      : config_(config),
        parts_(parts),
        options_(options),
        folder_(folder),
        packs_(packs),
        plan_(plan_of(config)),
        plan_json_(plan_json(config, parts.problems)),
        summaries_(plan_.size()),
        over_(plan_.size(), false),
        in_flight_(config.limits.in_flight != 0
                       ? config.limits.in_flight
                       : 2 * config.limits.generation + 2 * (config.limits.compile + config.limits.evaluate)),
        disk_(kDiskThreads),
        compile_(config.limits.compile),
        evaluate_(config.limits.evaluate) {
    for (const auto& [name, model] : parts.models) models_[name].model = model.get();
  }

  /// Where the trajectories of an earlier run stand.
  void scan() {
    std::atomic<std::size_t> next{0};
    const auto scan_some = [&] {
      for (std::size_t i = next++; i < plan_.size(); i = next++) {
        const auto file = folder_.trajectory(plan_[i].name);
        std::error_code error;
        if (!std::filesystem::exists(file, error)) continue;
        const auto trajectory = read_trajectory(file);
        if (trajectory) {
          summaries_[i] = summary_of(*trajectory, config_.rules.target_speedup);
        } else {
          summaries_[i].started = true;
          summaries_[i].exit_status = "Error";
          summaries_[i].error = trajectory.error().message;
          damaged_[i] = 1;
        }
      }
    };
    damaged_.assign(plan_.size(), 0);
    {
      std::vector<std::jthread> threads;
      for (unsigned t = 0; t < kDiskThreads; ++t) threads.emplace_back(scan_some);
    }
    for (std::size_t i = 0; i < plan_.size(); ++i) {
      const TrajectorySummary& one = summaries_[i];
      add_to_spent(one, 1);
      // One that ran out of turns or of its budget is looked at again: there may be more of them now.
      const bool again = one.exit_status == "LimitsExceeded" && one.turns < rules_for(i).max_turns;
      const bool retry = one.exit_status == "Error" && options_.retry_failed && damaged_[i] == 0;
      over_[i] = one.started && !one.exit_status.empty() && !again && !retry;
    }
  }

  Result<ExperimentResult> run() {
    if (options_.resume) scan();
    while (!fatal_) {
      try {
        look_for_interrupts();
        open_some();
        ask_some();
        if (outstanding_ == 0 && asking_ == 0) break;
        wait_for_events();
        report(false);
      } catch (const std::exception& error) {
        // What runs uses this object, so it is waited for below.
        give_up(Error{ErrorKind::infrastructure, fmt::format("internal error: {}", error.what())});
      }
    }
    // After a failure of the disk what runs cannot be stored any more; it is waited for all the same.
    if (fatal_) cancel_.request_stop();
    draining_ = true;
    while (outstanding_ != 0 || asking_ != 0) {
      try {
        wait_for_events();
      } catch (const std::exception& error) {
        give_up(Error{ErrorKind::infrastructure, fmt::format("internal error: {}", error.what())});
      }
    }
    if (fatal_) return tl::unexpected<Error>(*fatal_);
    report(true);
    ExperimentResult result;
    result.progress = progress();
    result.stops = stops_;
    result.interrupted = interrupted_;
    result.summary = summary_json(plan_json_, summaries_, lost(), seconds_since(started_));
    auto written =
        base::write_file_atomic(folder_.path() / "summary.json",
                                result.summary.dump(1, ' ', false, base::Json::error_handler_t::replace) + "\n");
    if (!written) return tl::unexpected<Error>(written.error());
    return result;
  }

 private:
  struct Live {
    std::size_t index = 0;
    std::optional<OpenTrajectory> open;
    unsigned judge_attempts = 0;
  };
  using LivePtr = std::shared_ptr<Live>;
  using Event = std::function<void()>;
  struct ModelState {
    models::Model* model = nullptr;
    unsigned asking = 0, failures = 0;
    bool suspended = false, answered = false;
    std::map<std::size_t, LivePtr> ready;  ///< by their place in the plan: what began first ends first
  };

  // ---- Events and jobs.

  void post(Event event) {
    {
      const std::lock_guard lock(mutex_);
      events_.push_back(std::move(event));
    }
    wake_.notify_one();
  }

  void wait_for_events() {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, options_.tick, [this] { return !events_.empty(); });
    // One at a time: one that throws must not take others with it.
    while (!events_.empty()) {
      const Event event = std::move(events_.front());
      events_.pop_front();
      lock.unlock();
      event();
      lock.lock();
    }
  }

  /// Does `work` on a pool, and then on this thread what it returns.
  void job(base::WorkPool& pool, const LivePtr& live, std::function<Event()> work) {
    ++outstanding_;
    pool.post([this, live, work = std::move(work)] {
      Event event;
      try {
        event = work();
      } catch (const std::exception& error) {
        // A mistake of ours must cost one trajectory and not all of them.
        event = [this, live, message = fmt::format("internal error: {}", error.what())] {
          if (live) return fail(live, message);
          give_up(Error{ErrorKind::infrastructure, message});
        };
      }
      post([this, event = std::move(event)] {
        --outstanding_;
        event();
      });
    });
  }

  /// Changes a trajectory's file, and goes on with its next step.
  void write(const LivePtr& live, std::function<Result<void>(OpenTrajectory&)> change) {
    job(disk_, live, [this, live, change = std::move(change)]() -> Event {
      auto changed = change(*live->open);
      auto step = changed ? live->open->next() : Result<Step>(tl::unexpected<Error>(changed.error()));
      return [this, live, step = std::move(step)] { stepped(live, step); };
    });
  }

  // ---- One trajectory's way.

  LoopRules rules_for(std::size_t index) const {
    LoopRules rules = config_.rules;
    rules.max_turns = folder_.turns();
    const PlannedTrajectory& planned = plan_[index];
    const auto answers = models_.at(planned.model).model->answers(planned.name);
    if (answers) rules.max_turns = std::min(rules.max_turns, static_cast<unsigned>(*answers));
    return rules;
  }

  void open(std::size_t index) {
    auto live = std::make_shared<Live>();
    live->index = index;
    ++open_;
    const bool exists = summaries_[index].started;
    job(disk_, live, [this, live, exists]() -> Event {
      auto opened = exists ? OpenTrajectory::resume(folder_.trajectory(plan_[live->index].name), rules_for(live->index),
                                                    options_.retry_failed)
                           : begin(live->index);
      if (!opened) return [this, live, error = opened.error()] { stepped(live, tl::unexpected<Error>(error)); };
      live->open = std::move(*opened);
      return [this, live, step = live->open->next()] { stepped(live, step); };
    });
  }

  Result<OpenTrajectory> begin(std::size_t index) {
    const PlannedTrajectory& planned = plan_[index];
    TurnLoopOptions loop;
    loop.rules = rules_for(index);
    loop.knowledge = packs_.at(planned.pack);
    loop.tell_shape = config_.tell_shape;
    loop.language = config_.language;
    loop.settings = {{"experiment", config_.name}, {"exp_name", planned.name},   {"model_name", planned.model},
                     {"prompt_tag", planned.pack}, {"replica", planned.replica}, {"evaluation", config_.evaluation}};
    return OpenTrajectory::begin(
        folder_.trajectory(planned.name),
        start_of(*models_.at(planned.model).model, *parts_.judge, parts_.problems[planned.problem], loop), loop.rules);
  }

  void stepped(const LivePtr& live, const Result<Step>& step) {
    note(*live);
    if (!step) {
      if (step.error().kind == ErrorKind::infrastructure) {
        give_up(step.error());
        return drop(live);
      }
      if (live->open) return fail(live, step.error().message);
      // Its file cannot be used; the others can.
      TrajectorySummary& mine = summaries_[live->index];
      mine.started = true;
      mine.exit_status = "Error";
      mine.error = step.error().message;
      return drop(live);
    }
    ModelState& model = models_.at(plan_[live->index].model);
    switch (*step) {
      case Step::ended:
        return drop(live);
      case Step::ask:
        if (model.suspended || draining_) return drop(live);
        model.ready.emplace(live->index, live);
        return;
      case Step::judge:
        return prepare(live);
    }
  }

  /// Its file says all; it goes on from there, now or in another run.
  void drop(const LivePtr& live) {
    --open_;
    over_[live->index] = true;
    live->open.reset();
  }

  /// Ends it with "Error".
  void fail(const LivePtr& live, const std::string& message) {
    if (!live->open) return drop(live);
    job(disk_, nullptr, [this, live, message]() -> Event {
      auto written = live->open->fail(message);
      return [this, live, written] {
        if (!written) give_up(written.error());
        note(*live);
        drop(live);
      };
    });
  }

  void answered(const LivePtr& live, const std::shared_ptr<Result<models::Completion>>& completion) {
    --asking_;
    ModelState& model = models_.at(plan_[live->index].model);
    --model.asking;
    if (*completion) {
      model.failures = 0;
      model.answered = true;
      ++unnoted_;
      job(disk_, live, [this, live, completion]() -> Event {
        auto added = live->open->add_answer(std::move(**completion));
        auto step = added ? live->open->next() : Result<Step>(tl::unexpected<Error>(added.error()));
        return [this, live, step = std::move(step)] {
          --unnoted_;
          stepped(live, step);
        };
      });
      return;
    }
    if (cancel_.stop_requested()) return drop(live);
    // A model that answers others is well: what is refused here is this question, such as one that is too long.
    const bool only_this = completion->error().kind == ErrorKind::input && model.answered;
    if (!only_this && ++model.failures >= kModelFailures && !model.suspended) {
      suspend(model, fmt::format("model '{}' failed {} times in a row and is not asked any more: {}",
                                 plan_[live->index].model, kModelFailures, completion->error().message));
    }
    fail(live, completion->error().message);
  }

  void suspend(ModelState& model, std::string why) {
    model.suspended = true;
    stops_.push_back(std::move(why));
    drop_ready(model);
  }

  void drop_ready(ModelState& model) {
    for (const auto& [index, live] : model.ready) drop(live);
    model.ready.clear();
  }

  void prepare(const LivePtr& live) {
    live->judge_attempts = 0;
    if (live->open->candidate() == nullptr) {
      return write(live, [](OpenTrajectory& open) { return open.add_no_candidate(); });
    }
    if (!parts_.judge->has_preparation()) return judge(live);
    ++waiting_;
    job(compile_, live, [this, live]() -> Event {
      if (!draining_) {
        JudgeOptions how;
        how.cancel = cancel_.get_token();
        how.language = config_.language;
        parts_.judge->prepare(*live->open->candidate(), parts_.problems[plan_[live->index].problem], how);
      }
      return [this, live] {
        --waiting_;
        judge(live);
      };
    });
  }

  void judge(const LivePtr& live) {
    // The answer is stored, and will be judged in another run.
    if (draining_) return drop(live);
    ++waiting_;
    job(evaluate_, live, [this, live]() -> Event {
      const auto drop_it = [this, live] {
        --waiting_;
        drop(live);
      };
      if (live->judge_attempts != 0) pause(options_.judge_pause);
      if (draining_) return drop_it;
      ++judging_;
      JudgeOptions how;
      how.cancel = cancel_.get_token();
      how.feedback = {config_.rules.feedback, config_.rules.feedback_tokens, packs_.at(plan_[live->index].pack)};
      how.language = config_.language;
      if (config_.timelines) {
        how.timeline = timeline_path(folder_.trajectory(plan_[live->index].name), live->open->turn());
      }
      const auto started = Clock::now();
      auto judgement = std::make_shared<Result<Judgement>>(
          parts_.judge->judge(*live->open->candidate(), parts_.problems[plan_[live->index].problem], how));
      --judging_;
      return [this, live, judgement, seconds = seconds_since(started)] {
        --waiting_;
        judged(live, judgement, seconds);
      };
    });
  }

  void judged(const LivePtr& live, const std::shared_ptr<Result<Judgement>>& judgement, double seconds) {
    if (*judgement) {
      judge_failures_ = 0;
      write(live,
            [judgement, seconds](OpenTrajectory& open) { return open.add_judgement(std::move(**judgement), seconds); });
      return;
    }
    if (cancel_.stop_requested()) return drop(live);
    const Error& error = judgement->error();
    if (error.kind == ErrorKind::infrastructure && ++live->judge_attempts < kJudgeAttempts) return judge(live);
    if (++judge_failures_ >= kJudgeFailures && !draining_) {
      drain(fmt::format("judging failed {} times in a row: {}", kJudgeFailures, error.message));
    }
    fail(live, error.message);
  }

  void pause(std::chrono::milliseconds time) const {
    const auto end = Clock::now() + time;
    while (Clock::now() < end && !draining_) {
      std::this_thread::sleep_for(std::min<Clock::duration>(end - Clock::now(), std::chrono::milliseconds(50)));
    }
  }

  // ---- The whole.

  void open_some() {
    while (!draining_ && open_ < in_flight_ && next_ < plan_.size()) {
      const std::size_t index = next_++;
      if (!over_[index] && !models_.at(plan_[index].model).suspended) open(index);
    }
  }

  void ask_some() {
    while (!draining_ && asking_ < config_.limits.generation) {
      // The model with the fewest questions under way, so that a slow one does not take all places.
      ModelState* chosen = nullptr;
      for (auto& [name, model] : models_) {
        if (!model.ready.empty() && (chosen == nullptr || model.asking < chosen->asking)) chosen = &model;
      }
      if (chosen == nullptr || !budget_allows()) return;
      const LivePtr live = chosen->ready.begin()->second;
      chosen->ready.erase(chosen->ready.begin());
      ++asking_;
      ++chosen->asking;
      job(disk_, nullptr, [this, live, model = chosen->model]() -> Event {
        models::CompletionOptions how;
        how.cancel = cancel_.get_token();
        how.trajectory = plan_[live->index].name;
        how.turn = live->open->turn();
        const auto arrived = [this, live](Result<models::Completion> completion) {
          auto shared = std::make_shared<Result<models::Completion>>(std::move(completion));
          post([this, live, shared] { answered(live, shared); });
        };
        // Until the answer is there, nobody else touches the trajectory.
        try {
          model->start(live->open->messages(), std::move(how), arrived);
        } catch (const std::exception& error) {
          // Nothing was asked; the question under way must not be waited for.
          arrived(input_error("{}: {}", model->name(), error.what()));
        }
        return [] {};
      });
    }
  }

  /// What is spent, and what the questions under way will probably take, leave room for one more. Before the first
  /// answer is there, one question at a time would be slow, so that a budget of a few answers may be exceeded by those
  /// under way.
  bool budget_allows() {
    const auto expected = [&](double spent, std::size_t known) {
      return spent +
             (known == 0 ? 0 : spent / static_cast<double>(known)) * static_cast<double>(asking_ + unnoted_ + 1);
    };
    if (!config_.budget.cost && !config_.budget.tokens) return true;
    const models::Lost in_vain = lost();
    if (config_.budget.cost && expected(spent_cost_, answers_ - without_cost_) + in_vain.cost > *config_.budget.cost) {
      if (asking_ + unnoted_ == 0) {
        drain(fmt::format("the budget of ${:.2f} is used up (${:.2f} spent)", *config_.budget.cost,
                          spent_cost_ + in_vain.cost));
      }
      return false;
    }
    if (config_.budget.tokens &&
        expected(static_cast<double>(spent_tokens_), answers_ - without_tokens_) + static_cast<double>(in_vain.tokens) >
            static_cast<double>(*config_.budget.tokens)) {
      if (asking_ + unnoted_ == 0) {
        drain(fmt::format("the budget of {} tokens is used up ({} spent)", *config_.budget.tokens,
                          spent_tokens_ + in_vain.tokens));
      }
      return false;
    }
    return true;
  }

  void add_to_spent(const TrajectorySummary& one, int sign) {
    const auto change = [&](std::size_t& sum, std::size_t by) { sum = sign > 0 ? sum + by : sum - by; };
    change(answers_, one.answers);
    change(without_cost_, one.answers_without_cost);
    change(without_tokens_, one.answers_without_tokens);
    spent_tokens_ = sign > 0 ? spent_tokens_ + one.tokens : spent_tokens_ - one.tokens;
    spent_cost_ += sign * one.cost;
  }

  /// Takes over where a trajectory stands.
  void note(const Live& live) {
    if (!live.open) return;
    TrajectorySummary& mine = summaries_[live.index];
    add_to_spent(mine, -1);
    mine = summary_of(live.open->trajectory(), config_.rules.target_speedup);
    add_to_spent(mine, 1);
    if (draining_) return;
    const std::string& model = plan_[live.index].model;
    if (config_.budget.cost && mine.answers_without_cost != 0) {
      drain(
          fmt::format("it is not known what answers of model '{}' cost, so that the budget cannot be kept; configure "
                      "its prices",
                      model));
    } else if (config_.budget.tokens && mine.answers_without_tokens != 0) {
      drain(fmt::format("model '{}' does not tell how many tokens its answers take, so that the budget cannot be kept",
                        model));
    }
  }

  void drain(std::string why) {
    if (!draining_ && !why.empty()) stops_.push_back(std::move(why));
    draining_ = true;
    for (auto& [name, model] : models_) drop_ready(model);
  }

  /// Once, however often it happens.
  void note_stop(std::string what) {
    if (std::find(stops_.begin(), stops_.end(), what) == stops_.end()) stops_.push_back(std::move(what));
  }

  /// Asked in vain, in this run and before.
  models::Lost lost() const {
    models::Lost sum = folder_.lost();
    for (const auto& [name, state] : models_) {
      const models::Lost one = state.model->lost();
      sum.attempts += one.attempts;
      sum.tokens += one.tokens;
      sum.cost += one.cost;
    }
    return sum;
  }

  void give_up(const Error& error) {
    if (!fatal_) fatal_ = error;
  }

  void look_for_interrupts() {
    const unsigned interrupts = options_.interrupts ? options_.interrupts() : 0;
    if (interrupts >= 1 && !interrupted_) {
      interrupted_ = true;
      drain("interrupted");
    }
    if (interrupts >= 2) cancel_.request_stop();
  }

  ExperimentProgress progress() const {
    ExperimentProgress out;
    out.planned = plan_.size();
    for (const TrajectorySummary& one : summaries_) {
      const bool failed = one.exit_status == "Error";
      out.failed += failed ? 1 : 0;
      out.done += !one.exit_status.empty() && !failed ? 1 : 0;
      out.correct += one.correct_turns != 0 ? 1 : 0;
      out.turns += one.turns;
      out.correct_turns += one.correct_turns;
      if (one.best_speedup)
        out.best_speedup = std::max(out.best_speedup.value_or(*one.best_speedup), *one.best_speedup);
    }
    out.asking = asking_;
    out.judging = judging_;
    out.waiting = waiting_ - std::min<std::size_t>(waiting_, out.judging);
    if (without_cost_ == 0 && answers_ != 0) out.cost = spent_cost_;
    if (without_tokens_ == 0 && answers_ != 0) out.tokens = spent_tokens_;
    out.seconds = seconds_since(started_);
    out.draining = draining_;
    return out;
  }

  void report(bool last) {
    const auto now = Clock::now();
    if (!last && now - reported_ < options_.tick) return;
    reported_ = now;
    ExperimentProgress state = progress();
    if (!first_done_) first_done_ = state.done;
    const std::size_t done_now = state.done - std::min(state.done, *first_done_);
    if (done_now != 0) {
      const auto left = static_cast<double>(state.planned - std::min(state.planned, state.done + state.failed));
      state.seconds_left = state.seconds / static_cast<double>(done_now) * left;
    }
    if (options_.progress) options_.progress(state);
    if (!last && now - summarised_ > kSummaryEvery) {
      summarised_ = now;
      job(disk_, nullptr,
          [this, text = summary_json(plan_json_, summaries_, lost(), state.seconds)
                            .dump(1, ' ', false, base::Json::error_handler_t::replace) +
                        "\n"]() -> Event {
            auto written = base::write_file_atomic(folder_.path() / "summary.json", text);
            return [this, written] {
              // The records are what counts; the last summary is written again.
              if (!written) note_stop(fmt::format("the summary could not be written: {}", written.error().message));
            };
          });
    }
  }

  const ExperimentConfig& config_;
  ExperimentParts& parts_;
  const RunOptions& options_;
  RunFolder& folder_;
  const std::map<std::string, std::string>& packs_;
  const std::vector<PlannedTrajectory> plan_;
  const Json plan_json_;
  std::stop_source cancel_;
  std::atomic<bool> draining_{false};
  std::atomic<std::size_t> judging_{0};

  // Of the thread that calls `run`.
  std::vector<TrajectorySummary> summaries_;
  std::vector<char> damaged_;
  std::vector<bool> over_;  ///< nothing more happens to it in this run
  std::map<std::string, ModelState> models_;
  std::size_t in_flight_, next_ = 0, open_ = 0, asking_ = 0, outstanding_ = 0, waiting_ = 0;
  std::size_t unnoted_ = 0;  ///< answers that are being stored and not yet counted
  unsigned judge_failures_ = 0;
  std::size_t answers_ = 0, without_cost_ = 0, without_tokens_ = 0;
  std::uint64_t spent_tokens_ = 0;
  double spent_cost_ = 0;
  bool interrupted_ = false;
  std::optional<Error> fatal_;
  std::vector<std::string> stops_;
  std::optional<std::size_t> first_done_;
  Clock::time_point started_ = Clock::now(), reported_{}, summarised_ = Clock::now();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Event> events_;
  base::WorkPool disk_, compile_, evaluate_;  // last: their threads use all of the above
};

}  // namespace

Result<std::string> no_packs(std::string_view tag) {
  if (tag == "none") return std::string();
  return input_error("no knowledge pack '{}': \"none\" is the only one of this build", tag);
}

Result<ExperimentResult> run_experiment(const ExperimentConfig& config, ExperimentParts& parts,
                                        const RunOptions& options) {
  for (const std::string& name : config.models) {
    const auto at = parts.models.find(name);
    if (at == parts.models.end()) return input_error("no model '{}' among those of the experiment", name);
    if ((config.budget.cost || config.rules.max_cost) && !at->second->knows_cost()) {
      return input_error("model '{}': a budget in money needs its prices (prices = {{ input = ..., output = ... }})",
                         name);
    }
  }
  std::map<std::string, std::string> packs;
  for (const std::string& tag : config.packs) {
    auto text = parts.pack_text(tag);
    if (!text) return tl::unexpected<Error>(text.error());
    packs[tag] = std::move(*text);
  }
  std::map<std::string, Json> descriptions;
  for (const std::string& name : config.models) descriptions[name] = parts.models.at(name)->describe();
  const PlanInputs inputs = plan_inputs(descriptions, packs, parts.problems);
  RunOptions how = options;
  how.resume = how.resume || how.retry_failed || how.extend_turns != 0 || how.turns != 0;
  auto folder = how.resume ? RunFolder::reopen(how.folder, config, parts.problems, inputs)
                           : RunFolder::create(how.folder, config, parts.problems, inputs, how.experiment_text);
  if (!folder) return tl::unexpected<Error>(folder.error());
  if (how.resume) {
    const unsigned turns = std::max(folder->turns() + how.extend_turns, how.turns);
    if (auto noted = folder->note_resume(turns, how.retry_failed); !noted) return tl::unexpected<Error>(noted.error());
  }
  Conductor conductor(config, parts, how, *folder, packs);
  return conductor.run();
}

}  // namespace ptxbench::agent
