#include "models/replay.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/text.h"

namespace ptxbench::models {
namespace {

using base::Json;
namespace fs = std::filesystem;

constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;

/// How many answers a folder holds: they are numbered from 1, and none may be missing.
Result<std::size_t> count_answers(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> answers;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".md" && entry.path().filename() != "README.md") answers.push_back(entry.path());
  }
  if (error)
    return input_error("the folder of recorded answers {} cannot be read: {}", folder.string(), error.message());
  const auto number = [](const fs::path& path) { return std::strtoull(path.stem().c_str(), nullptr, 10); };
  std::sort(answers.begin(), answers.end(),
            [&](const auto& a, const auto& b) { return std::pair(number(a), a) < std::pair(number(b), b); });
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const std::string wanted = std::to_string(i + 1) + ".md";
    if (answers[i].filename() != wanted) {
      return input_error("{}: expected {} as answer {}, found {}; answers are the files 1.md, 2.md, ... without gaps",
                         folder.string(), wanted, i + 1, answers[i].filename().string());
    }
  }
  return answers.size();
}

/// Gives a file that is in the way another name, so that nothing is overwritten.
Result<void> move_aside(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return {};
  for (unsigned n = 1;; ++n) {
    const fs::path aside = fmt::format("{}.old-{}", file.string(), n);
    if (fs::exists(aside, error)) continue;
    fs::rename(file, aside, error);
    if (!error) return {};
    return infrastructure_error("{} cannot be renamed: {}", file.string(), error.message());
  }
}

Result<void> record(const Completion& completion, const fs::path& folder, unsigned number) {
  const fs::path text = folder / fmt::format("{}.md", number), beside = folder / fmt::format("{}.json", number);
  for (const fs::path& file : {text, beside}) {
    if (auto moved = move_aside(file); !moved) return moved;
  }
  const Json more = {{"reasoning", completion.reasoning},
                     {"finish_reason", completion.finish_reason},
                     {"usage", to_json(completion.usage)}};
  // The text comes last: an answer is there when its N.md is.
  auto written = base::write_file_atomic(beside, more.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  if (!written) return written;
  return base::write_file_atomic(text, completion.text);
}

}  // namespace

Result<std::unique_ptr<ReplayModel>> ReplayModel::open(const fs::path& folder) {
  auto model = std::make_unique<ReplayModel>();
  model->folder_ = folder;
  if (model->folder_.filename().empty()) model->folder_ = model->folder_.parent_path();  // "folder/"
  auto count = count_answers(folder);
  if (!count) return tl::unexpected<Error>(count.error());
  model->count_ = *count;
  bool found = *count != 0;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error); !error && !found && entry != fs::directory_iterator();
       entry.increment(error)) {
    std::error_code ignored;
    found = entry->is_directory(ignored) && fs::exists(entry->path() / "1.md", ignored);
  }
  if (!found) {
    return input_error("{} holds no recorded answers: it needs files 1.md, 2.md, ... with one model answer each",
                       folder.string());
  }
  return model;
}

fs::path ReplayModel::folder_of(std::string_view trajectory) const {
  if (trajectory.empty()) return folder_;
  fs::path own = folder_ / trajectory;
  std::error_code error;
  return fs::is_directory(own, error) ? own : folder_;
}

std::optional<std::size_t> ReplayModel::answers(std::string_view trajectory) const {
  const fs::path folder = folder_of(trajectory);
  if (folder == folder_) return count_;
  const auto count = count_answers(folder);
  return count ? *count : 0;
}

Result<Completion> ReplayModel::answer(const CompletionOptions& options) {
  const fs::path folder = folder_of(options.trajectory);
  const std::size_t number = options.turn != 0 ? options.turn : ++next_;
  std::error_code error;
  const fs::path file = folder / fmt::format("{}.md", number);
  if (!fs::exists(file, error)) {
    return input_error("the {} recorded answers in {} are used up", number - 1, folder.string());
  }
  auto text = base::read_file(file, kMostBytes);
  if (!text) return tl::unexpected<Error>(text.error());
  Completion completion;
  completion.text = std::move(*text);
  completion.finish_reason = "stop";
  const fs::path beside = folder / fmt::format("{}.json", number);
  if (!fs::exists(beside, error)) return completion;
  auto more = base::read_file(beside, kMostBytes);
  if (!more) return tl::unexpected<Error>(more.error());
  auto json = base::parse_json(*more, beside.string());
  if (!json) return tl::unexpected<Error>(json.error());
  if (!json->is_object()) return input_error("{}: an object is needed", beside.string());
  const auto take = [&](const char* key, std::string& out) {
    const Json* value = base::optional_member(*json, key);
    if (value != nullptr && value->is_string()) out = value->get<std::string>();
  };
  take("reasoning", completion.reasoning);
  take("finish_reason", completion.finish_reason);
  if (const Json* usage = base::optional_member(*json, "usage")) completion.usage = usage_from_json(*usage);
  return completion;
}

void ReplayModel::start(std::vector<Message>, CompletionOptions options, Done done) { done(answer(options)); }

std::string ReplayModel::name() const { return "replay:" + folder_.filename().string(); }

Json ReplayModel::describe() const {
  return {{"provider", "replay"}, {"model", folder_.filename().string()}, {"answers", count_}};
}

void RecordModel::start(std::vector<Message> messages, CompletionOptions options, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (failed_) return done(input_error("nothing more is asked, as it cannot be recorded: {}", failed_->message));
  }
  const unsigned number = options.turn != 0 ? options.turn : ++last_;
  fs::path folder = options.trajectory.empty() ? folder_ : folder_ / options.trajectory;
  inner_->start(std::move(messages), std::move(options),
                [this, number, folder = std::move(folder), done = std::move(done)](Result<Completion> completion) {
                  if (!completion) return done(std::move(completion));
                  auto answer = std::make_shared<Completion>(std::move(*completion));
                  writer_.post([this, number, folder, done, answer] {
                    if (auto written = record(*answer, folder, number); !written) {
                      const std::lock_guard lock(mutex_);
                      if (!failed_) failed_ = written.error();
                    }
                    done(std::move(*answer));
                  });
                });
}

}  // namespace ptxbench::models
