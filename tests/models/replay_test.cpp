#include "models/replay.h"

#include <gtest/gtest.h>

#include "base/files.h"

namespace ptxbench::models {
namespace {

TEST(ReplayModel, GivesTheFilesInOrderAndThenAnError) {
  auto folder = base::TempDir::create("replay");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "2.md", "second"));
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "1.md", "first"));
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "README.md", "not an answer"));
  auto model = ReplayModel::open(folder->path());
  ASSERT_TRUE(model);
  EXPECT_EQ((*model)->answers(""), 2u);
  EXPECT_EQ((*model)->complete({})->text, "first");
  EXPECT_EQ((*model)->complete({})->text, "second");
  const auto after = (*model)->complete({});
  ASSERT_FALSE(after);
  EXPECT_NE(after.error().message.find("used up"), std::string::npos);
}

TEST(ReplayModel, TheTenthAnswerComesAfterTheNinth) {
  auto folder = base::TempDir::create("replay");
  ASSERT_TRUE(folder);
  for (int i = 12; i >= 1; --i) {
    ASSERT_TRUE(base::write_file_atomic(folder->path() / (std::to_string(i) + ".md"), std::to_string(i)));
  }
  auto model = ReplayModel::open(folder->path());
  ASSERT_TRUE(model) << model.error().message;
  for (int i = 1; i <= 12; ++i) EXPECT_EQ((*model)->complete({})->text, std::to_string(i));
}

TEST(ReplayModel, RefusesGapsAndOtherNames) {
  const struct {
    std::vector<const char*> names;
    const char* says;
  } kCases[] = {
      {{"1.md", "3.md"}, "expected 2.md as answer 2, found 3.md"},
      {{"2.md"}, "expected 1.md as answer 1, found 2.md"},
      {{"0.md", "1.md"}, "expected 1.md as answer 1, found 0.md"},
      {{"1.md", "01.md"}, "found 01.md"},
      {{"1.md", "2nd.md"}, "expected 2.md as answer 2, found 2nd.md"},
      {{"1.md", "notes.md"}, "found notes.md"},
  };
  for (const auto& test : kCases) {
    auto folder = base::TempDir::create("replay");
    ASSERT_TRUE(folder);
    for (const char* name : test.names) ASSERT_TRUE(base::write_file_atomic(folder->path() / name, "an answer"));
    const auto model = ReplayModel::open(folder->path());
    ASSERT_FALSE(model) << test.says;
    EXPECT_NE(model.error().message.find(test.says), std::string::npos) << model.error().message;
  }
}

TEST(ReplayModel, RefusesAFolderWithoutAnswers) {
  auto folder = base::TempDir::create("replay");
  ASSERT_TRUE(folder);
  EXPECT_FALSE(ReplayModel::open(folder->path()));
  EXPECT_FALSE(ReplayModel::open(folder->path() / "missing"));
}

TEST(ReplayModel, GoesByTheTurnAndTheTrajectoryWhereTheyAreNamed) {
  auto folder = base::TempDir::create("replay");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "1.md", "for all"));
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "exp_001" / "1.md", "own 1"));
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "exp_001" / "2.md", "own 2"));
  auto model = ReplayModel::open(folder->path());
  ASSERT_TRUE(model) << model.error().message;
  CompletionOptions options;
  options.trajectory = "exp_001";
  options.turn = 2;
  EXPECT_EQ((*model)->complete({}, options)->text, "own 2");
  EXPECT_EQ((*model)->complete({}, options)->text, "own 2") << "asking again gives the same";
  EXPECT_EQ((*model)->answers("exp_001"), 2u);
  options.trajectory = "exp_000";
  EXPECT_FALSE((*model)->complete({}, options));
  options.turn = 1;
  EXPECT_EQ((*model)->complete({}, options)->text, "for all");
  EXPECT_EQ((*model)->answers("exp_000"), 1u);
}

/// Answers "N" with a cost of N.
class CountingModel : public Model {
 public:
  void start(std::vector<Message>, CompletionOptions options, Done done) override {
    Completion completion;
    completion.text = std::to_string(options.turn);
    completion.reasoning = "because";
    completion.finish_reason = "length";
    completion.usage.cost = options.turn;
    completion.usage.prompt_tokens = 7;
    if (options.turn == 3) return done(infrastructure_error("gone"));
    done(std::move(completion));
  }
  std::string name() const override { return "counting"; }
  base::Json describe() const override { return {{"provider", "test"}}; }
};

TEST(RecordModel, WritesWhatReplayReads) {
  auto folder = base::TempDir::create("record");
  ASSERT_TRUE(folder);
  RecordModel record(std::make_unique<CountingModel>(), folder->path() / "new");
  CompletionOptions options;
  options.trajectory = "exp_000";
  for (options.turn = 1; options.turn <= 2; ++options.turn) ASSERT_TRUE(record.complete({}, options));
  EXPECT_FALSE(record.complete({}, options)) << "errors are passed on and not recorded";
  EXPECT_EQ(record.describe()["provider"], "test");
  auto replay = ReplayModel::open(folder->path() / "new");
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_EQ((*replay)->answers("exp_000"), 2u);
  options.turn = 2;
  const auto again = (*replay)->complete({}, options);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->text, "2");
  EXPECT_EQ(again->reasoning, "because");
  EXPECT_EQ(again->finish_reason, "length");
  EXPECT_EQ(again->usage.cost, 2.0);
  EXPECT_EQ(again->usage.prompt_tokens, 7u);
  EXPECT_FALSE(again->usage.completion_tokens);
}

TEST(RecordModel, NothingIsOverwritten) {
  auto folder = base::TempDir::create("record");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "1.md", "of another run"));
  RecordModel record(std::make_unique<CountingModel>(), folder->path());
  CompletionOptions options;
  options.turn = 1;
  ASSERT_TRUE(record.complete({}, options));
  EXPECT_EQ(*base::read_file(folder->path() / "1.md"), "1");
  EXPECT_EQ(*base::read_file(folder->path() / "1.md.old-1"), "of another run");
  ASSERT_TRUE(record.complete({}, options));
  EXPECT_EQ(*base::read_file(folder->path() / "1.md.old-2"), "1");
  auto replay = ReplayModel::open(folder->path());
  ASSERT_TRUE(replay) << "what was moved aside is no gap";
}

TEST(RecordModel, AnAnswerThatCannotBeStoredIsNotLostAndIsTheLast) {
  auto folder = base::TempDir::create("record");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "file", "in the way"));
  RecordModel record(std::make_unique<CountingModel>(), folder->path() / "file" / "inner");
  CompletionOptions options;
  options.turn = 1;
  const auto first = record.complete({}, options);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->text, "1") << "it is paid for";
  const auto second = record.complete({}, options);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::input);
  EXPECT_NE(second.error().message.find("cannot be recorded"), std::string::npos);
}

TEST(ReplayModel, DamagedNotesBesideAnAnswerAreAnError) {
  auto folder = base::TempDir::create("replay");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(base::write_file_atomic(folder->path() / "1.md", "text"));
  for (const char* text : {"{", "[]", "1"}) {
    ASSERT_TRUE(base::write_file_atomic(folder->path() / "1.json", text));
    auto model = ReplayModel::open(folder->path());
    ASSERT_TRUE(model);
    const auto answer = (*model)->complete({});
    ASSERT_FALSE(answer) << text;
    EXPECT_NE(answer.error().message.find("1.json"), std::string::npos);
  }
}

}  // namespace
}  // namespace ptxbench::models
