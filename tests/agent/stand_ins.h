#pragma once

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "agent/judge.h"
#include "base/hash.h"
#include "models/model.h"
#include "models/transport.h"

/// A model and a judge that cost next to nothing and always do the same: for tests and measurements of everything
/// around them.
namespace ptxbench::agent {

inline std::string kernel_text(std::string_view words) {
  return fmt::format("// {}\n__global__ void k() {{}}\nvoid run() {{}}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n",
                     words);
}
inline std::string answer_text(std::string_view words) {
  return "Here it is.\n```cpp\n" + kernel_text(words) + "```\n";
}

/// Answers with a kernel that names trajectory and turn; each tenth answer has none. `size` bytes of comment come with
/// it.
class StandInModel : public models::Model {
 public:
  explicit StandInModel(std::size_t size = 0, std::chrono::milliseconds time = {}) : padding_(size, 'x'), time_(time) {}

  void start(std::vector<models::Message> messages, models::CompletionOptions options, Done done) override {
    ++asked;
    {
      const std::lock_guard lock(mutex_);
      ++questions_[fmt::format("{}/{}", options.trajectory, options.turn)];
    }
    models::Completion completion;
    const std::string words = fmt::format("{} {} {} {}", options.trajectory, options.turn, messages.size(), padding_);
    const bool code = std::hash<std::string>()(words.substr(0, 24)) % 10 != 0;
    completion.text = code ? answer_text(words) : "I need to think about it.";
    completion.finish_reason = "stop";
    completion.usage.prompt_tokens = 100;
    completion.usage.completion_tokens = 50;
    completion.usage.cost = 0.001;
    if (on_ask) on_ask(options);
    if (time_.count() == 0) return done(std::move(completion));
    completion.seconds = std::chrono::duration<double>(time_).count();
    auto& transport = models::Transport::shared();
    transport.post([this, &transport, completion = std::move(completion), done = std::move(done)]() mutable {
      transport.after(time_, [completion = std::move(completion), done = std::move(done)]() mutable {
        done(std::move(completion));
      });
    });
  }
  std::string name() const override { return "stand-in"; }
  base::Json describe() const override { return description; }
  bool knows_cost() const override { return true; }

  /// How often each question was asked.
  std::map<std::string, int> questions() const {
    const std::lock_guard lock(mutex_);
    return questions_;
  }
  std::atomic<int> asked{0};
  base::Json description = {{"provider", "stand-in"}};
  std::function<void(const models::CompletionOptions&)> on_ask;

 private:
  std::string padding_;
  std::chrono::milliseconds time_;
  mutable std::mutex mutex_;
  std::map<std::string, int> questions_;
};

/// No compiler and no emulator: the verdict follows from the source's hash. One in `one_in` passes.
class StandInJudge : public Judge {
 public:
  explicit StandInJudge(unsigned one_in = 12, std::chrono::microseconds time = {}, std::size_t size = 0)
      : one_in_(one_in), time_(time), log_(size, 'y') {}

  Result<Judgement> judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                          const JudgeOptions& options) override {
    ++judged;
    if (!options.timeline.empty()) {
      const std::lock_guard lock(mutex_);
      timelines.insert(options.timeline);
    }
    if (time_.count() != 0) std::this_thread::sleep_for(time_);
    const std::string digest = base::sha256_hex(source);
    const bool passed = std::stoul(digest.substr(0, 6), nullptr, 16) % one_in_ == 0;
    const double speedup = static_cast<double>(std::stoul(digest.substr(6, 4), nullptr, 16)) / 65536;
    Judgement judgement;
    judgement.event = "evaluation";
    judgement.feedback = fmt::format("Evaluation {}: {}\n", passed ? "results" : "FAILED", digest);
    judgement.evaluation = {
        {"schema", "ptxbench.evaluation/1"},
        {"definition", workloads.front().definition.name},
        {"verdict", {{"status", passed ? "passed" : "failed"}, {"summary", "a stand-in's verdict"}}},
        {"performance", base::Json::array()}};
    if (passed) judgement.evaluation["performance"].push_back({{"speedup", {{"value", speedup}}}});
    return judgement;
  }
  base::Json describe() const override { return {{"where", "stand-in"}}; }
  std::atomic<int> judged{0};
  std::set<std::filesystem::path> timelines;  ///< that were asked for

 private:
  std::mutex mutex_;
  unsigned one_in_;
  std::chrono::microseconds time_;
  std::string log_;
};

inline problem::Problem stand_in_problem(const std::string& name = "gemm_n8_k16") {
  problem::Problem problem;
  problem.definition.name = name;
  problem.definition.op_type = "gemm";
  problem.axes = {{"M", 4}};
  problem.workload.uuid = "11111111-0000-0000-0000-000000000000";
  return problem;
}

}  // namespace ptxbench::agent
