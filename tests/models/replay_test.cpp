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

TEST(ReplayModel, RefusesAFolderWithoutAnswers) {
  auto folder = base::TempDir::create("replay");
  ASSERT_TRUE(folder);
  EXPECT_FALSE(ReplayModel::open(folder->path()));
  EXPECT_FALSE(ReplayModel::open(folder->path() / "missing"));
}

}  // namespace
}  // namespace ptxbench::models
