#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>

#include "base/work_pool.h"
#include "models/model.h"

namespace ptxbench::models {

/// Recorded answers, whatever is asked: the files 1.md, 2.md, ... of a folder. Where the folder has one with the
/// trajectory's name in it (exp_000), that trajectory's answers come from there. A file N.json beside N.md holds what
/// else was recorded: `reasoning`, `finish_reason` and `usage`.
class ReplayModel : public Model {
 public:
  /// The folder must hold at least one answer, or folders that do.
  static Result<std::unique_ptr<ReplayModel>> open(const std::filesystem::path& folder);
  void start(std::vector<Message> messages, CompletionOptions options, Done done) override;
  std::string name() const override;
  base::Json describe() const override;
  std::optional<std::size_t> answers(std::string_view trajectory) const override;

 private:
  Result<Completion> answer(const CompletionOptions& options);
  std::filesystem::path folder_of(std::string_view trajectory) const;

  std::filesystem::path folder_;
  std::size_t count_ = 0;  ///< of the folder itself; 0: only those of trajectories
  std::atomic<std::size_t> next_{0};
};

/// Passes everything on to another model and writes its answers to a folder, as ReplayModel reads them. An answer that
/// is there already is kept beside the new one, as N.md.old-1. When the folder cannot be written, the answer that was
/// to be stored is passed on, and nothing is asked any more.
class RecordModel : public Model {
 public:
  RecordModel(std::unique_ptr<Model> inner, std::filesystem::path folder)
      : inner_(std::move(inner)), folder_(std::move(folder)), writer_(1) {}
  void start(std::vector<Message> messages, CompletionOptions options, Done done) override;
  std::string name() const override { return inner_->name(); }
  base::Json describe() const override { return inner_->describe(); }
  bool knows_cost() const override { return inner_->knows_cost(); }
  Lost lost() const override { return inner_->lost(); }
  std::optional<std::size_t> answers(std::string_view trajectory) const override { return inner_->answers(trajectory); }

 private:
  std::unique_ptr<Model> inner_;
  std::filesystem::path folder_;
  std::atomic<unsigned> last_{0};
  std::mutex mutex_;
  std::optional<Error> failed_;  ///< to write
  base::WorkPool writer_;        ///< the model's own thread must not wait for the disk; last: it uses the others
};

}  // namespace ptxbench::models
