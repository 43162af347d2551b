#pragma once

#include <filesystem>

#include "models/model.h"

namespace ptxbench::models {

/// Recorded answers: the files *.md of a folder, in the order of their names, one per call, whatever is asked.
class ReplayModel : public Model {
 public:
  /// The folder must hold at least one answer.
  static Result<std::unique_ptr<ReplayModel>> open(const std::filesystem::path& folder);
  Result<Completion> complete(std::span<const Message> messages, const CompletionOptions& options = {}) override;
  std::string name() const override;
  base::Json describe() const override;
  std::optional<std::size_t> remaining() const override { return answers_.size() - next_; }
  /// Skips answers that an interrupted trajectory has already used.
  void skip(std::size_t count) { next_ = std::min(answers_.size(), next_ + count); }

 private:
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> answers_;
  std::size_t next_ = 0;
};

}  // namespace ptxbench::models
