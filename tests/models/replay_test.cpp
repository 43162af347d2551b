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
  EXPECT_EQ((*model)->remaining(), 2u);
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

}  // namespace
}  // namespace ptxbench::models
