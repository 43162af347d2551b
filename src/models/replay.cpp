#include "models/replay.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/files.h"

namespace ptxbench::models {

std::string_view to_string(Role role) {
  switch (role) {
    case Role::system:
      return "system";
    case Role::user:
      return "user";
    case Role::assistant:
      return "assistant";
  }
  return "user";
}

Result<std::unique_ptr<ReplayModel>> ReplayModel::open(const std::filesystem::path& folder) {
  std::error_code error;
  auto model = std::make_unique<ReplayModel>();
  model->folder_ = folder;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".md" && entry.path().filename() != "README.md")
      model->answers_.push_back(entry.path());
  }
  if (error)
    return input_error("the folder of recorded answers {} cannot be read: {}", folder.string(), error.message());
  if (model->answers_.empty()) {
    return input_error("{} holds no recorded answers: it needs files 1.md, 2.md, ... with one model answer each",
                       folder.string());
  }
  // Answers are numbered from 1: the tenth comes after the ninth, and none may be missing.
  const auto number = [](const std::filesystem::path& path) { return std::strtoull(path.stem().c_str(), nullptr, 10); };
  std::sort(model->answers_.begin(), model->answers_.end(),
            [&](const auto& a, const auto& b) { return std::pair(number(a), a) < std::pair(number(b), b); });
  for (std::size_t i = 0; i < model->answers_.size(); ++i) {
    const std::string wanted = std::to_string(i + 1) + ".md";
    if (model->answers_[i].filename() != wanted) {
      return input_error("{}: expected {} as answer {}, found {}; answers are the files 1.md, 2.md, ... without gaps",
                         folder.string(), wanted, i + 1, model->answers_[i].filename().string());
    }
  }
  return model;
}

Result<Completion> ReplayModel::complete(std::span<const Message>, const CompletionOptions&) {
  if (next_ >= answers_.size()) {
    return input_error("the {} recorded answers in {} are used up", answers_.size(), folder_.string());
  }
  auto text = base::read_file(answers_[next_], std::uint64_t{16} << 20);
  if (!text) return tl::unexpected<Error>(text.error());
  ++next_;
  Completion completion;
  completion.text = std::move(*text);
  completion.finish_reason = "stop";
  return completion;
}

std::string ReplayModel::name() const { return "replay:" + folder_.filename().string(); }

base::Json ReplayModel::describe() const {
  return {{"provider", "replay"}, {"model", folder_.filename().string()}, {"answers", answers_.size()}};
}

}  // namespace ptxbench::models
