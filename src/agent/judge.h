#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "agent/feedback.h"
#include "evaluation/evaluator.h"
#include "problem/dataset.h"
#include "service/client.h"

namespace ptxbench::agent {

/// What judging one candidate gave.
struct Judgement {
  /// "evaluation"; "test_failed" when it does not compile; "triton_validation_failed" when it is no Triton candidate by
  /// the rules.
  std::string event;
  std::string feedback;  ///< for the model
  base::Json evaluation;
  std::shared_ptr<const evaluation::Evaluation> details;  ///< the same, to be shown to people
};

struct JudgeOptions {
  candidate::Language language = candidate::Language::cuda;
  std::stop_token cancel;
  FeedbackOptions feedback;
  /// Where the timeline of a candidate that launched kernels goes (docs/timeline.md); empty: none is made. A service
  /// makes none. What stands in its way is logged: it decides nothing.
  std::filesystem::path timeline;
  /// Told what is going on, now and then.
  std::function<void(std::string_view)> progress;
};

/// Judges candidates. Errors are infrastructure, or inputs that do not fit the problem: never the candidate's fault.
/// May be called by several threads at a time.
class Judge {
 public:
  Judge() = default;
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;
  virtual ~Judge() = default;
  /// Does ahead what may run while other candidates are judged, such as compiling. What it finds is not told.
  virtual void prepare(std::string_view /*source*/, const std::vector<problem::Problem>& /*workloads*/,
                       const JudgeOptions& /*options*/) {}
  virtual bool has_preparation() const { return false; }
  /// `workloads` belong to one definition and are not empty.
  virtual Result<Judgement> judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                                  const JudgeOptions& options) = 0;
  /// Where and how it judges, for records.
  virtual base::Json describe() const = 0;
};

/// Judges on this machine.
class LocalJudge : public Judge {
 public:
  LocalJudge(std::unique_ptr<evaluation::Evaluator> evaluator, evaluation::EvaluateOptions options)
      : evaluator_(std::move(evaluator)), options_(std::move(options)) {}
  void prepare(std::string_view source, const std::vector<problem::Problem>& workloads,
               const JudgeOptions& options) override;
  bool has_preparation() const override { return true; }
  Result<Judgement> judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                          const JudgeOptions& options) override;
  base::Json describe() const override;

 private:
  /// Processor seconds of prepare() for this candidate, once.
  double take_prepared(std::string_view source);
  void write_timeline(std::string_view source, const problem::Problem& workload,
                      const evaluation::EvaluateOptions& evaluate, bool whole, const std::filesystem::path& file);
  std::unique_ptr<evaluation::Evaluator> evaluator_;
  evaluation::EvaluateOptions options_;
  std::mutex prepared_mutex_;
  std::map<std::string, double> prepared_;  ///< by the candidate's SHA-256
};

/// Lets a service judge, which must have the same problems.
class ServiceJudge : public Judge {
 public:
  /// `options` are those of POST /v1/evaluate (docs/service.md); `backend` is auto, emulator or gpu.
  ServiceJudge(service::Client client, std::string url, std::string backend, base::Json options)
      : client_(std::move(client)), url_(std::move(url)), backend_(std::move(backend)), options_(std::move(options)) {}
  Result<Judgement> judge(std::string_view source, const std::vector<problem::Problem>& workloads,
                          const JudgeOptions& options) override;
  base::Json describe() const override;

 private:
  service::Client client_;
  std::string url_, backend_;
  base::Json options_;
};

/// What a model is told of an evaluation, wherever it was made.
Result<Judgement> judgement_of(base::Json evaluation, std::string_view source, std::string_view what,
                               const FeedbackOptions& feedback);

}  // namespace ptxbench::agent
