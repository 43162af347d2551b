#include "service/task_store.h"

#include <gtest/gtest.h>

#include "base/files.h"

namespace ptxbench::service {
namespace {

class TaskStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = base::TempDir::create("store-test");
    ASSERT_TRUE(made);
    folder_ = std::make_unique<base::TempDir>(std::move(*made));
    open();
  }
  void open() {
    store_.reset();
    auto store = TaskStore::open(folder_->path() / "state");
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
  }
  static Task task(const std::string& id, int units = 2) {
    Task task;
    task.id = id;
    task.definition = "gemm_small";
    task.solution = "k_0123abcd";
    task.source = "// quotes ' \" and\nlines";
    task.options = R"({"atol":0.001})";
    task.run_seconds = 12.5;
    task.created = 100;
    for (int i = 0; i < units; ++i) {
      Unit unit;
      unit.number = i;
      unit.cost = 3;
      unit.cost_key = "key";
      unit.workload = R"({"uuid":"u"})";
      unit.request = R"({"kind":"evaluate"})";
      task.units.push_back(unit);
    }
    return task;
  }
  std::unique_ptr<base::TempDir> folder_;
  std::unique_ptr<TaskStore> store_;
};

TEST_F(TaskStoreTest, WhatWasInsertedIsThereAfterReopening) {
  ASSERT_TRUE(store_->insert(task("a")));
  open();
  const auto found = store_->find("a");
  ASSERT_TRUE(found && *found);
  const Task& read = **found;
  EXPECT_EQ(read.source, task("a").source);
  EXPECT_EQ(read.options, task("a").options);
  EXPECT_EQ(read.run_seconds, 12.5);
  ASSERT_EQ(read.units.size(), 2U);
  EXPECT_EQ(read.units[1].number, 1);
  EXPECT_EQ(read.units[1].state, UnitState::pending);
  EXPECT_EQ(read.units[1].workload, R"({"uuid":"u"})");
}

TEST_F(TaskStoreTest, UnknownIsNothingAndTwiceIsAnError) {
  const auto none = store_->find("nobody");
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  ASSERT_TRUE(store_->insert(task("a")));
  EXPECT_FALSE(store_->insert(task("a")));
  // The failed one has left no units behind.
  const auto found = store_->find("a");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->units.size(), 2U);
}

TEST_F(TaskStoreTest, UpdatesAreKeptAndFinalTasksAreNotUnfinished) {
  Task one = task("a"), other = task("b");
  ASSERT_TRUE(store_->insert(one));
  ASSERT_TRUE(store_->insert(other));
  one.units[0].state = UnitState::done;
  one.units[0].result = R"({"text":"x"})";
  one.units[1].state = UnitState::failed;
  one.units[1].attempts = 3;
  one.units[1].error = {ErrorKind::infrastructure, "died"};
  one.status = TaskStatus::failed;
  one.error = "died";
  one.finished = 200;
  ASSERT_TRUE(store_->update(one, {&one.units[0], &one.units[1]}));
  open();
  const auto found = store_->find("a");
  ASSERT_TRUE(found && *found);
  EXPECT_EQ((*found)->status, TaskStatus::failed);
  EXPECT_EQ((*found)->units[0].result, R"({"text":"x"})");
  EXPECT_EQ((*found)->units[1].attempts, 3U);
  EXPECT_EQ((*found)->units[1].error.message, "died");
  const auto unfinished = store_->unfinished();
  ASSERT_TRUE(unfinished);
  ASSERT_EQ(unfinished->size(), 1U);
  EXPECT_EQ(unfinished->front().id, "b");
}

TEST_F(TaskStoreTest, PruningTakesOldFinalTasksOnly) {
  Task done = task("a");
  ASSERT_TRUE(store_->insert(done));
  ASSERT_TRUE(store_->insert(task("b")));
  done.status = TaskStatus::completed;
  done.finished = 200;
  ASSERT_TRUE(store_->update(done, {}));
  EXPECT_EQ(store_->prune(150).value_or(-1), 0);
  EXPECT_EQ(store_->prune(250).value_or(-1), 1);
  EXPECT_FALSE(store_->find("a").value());
  EXPECT_TRUE(store_->find("b").value());
}

TEST_F(TaskStoreTest, AFolderBelongsToOneService) {
  const auto second = TaskStore::open(folder_->path() / "state");
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("--state-dir"), std::string::npos) << second.error().message;
}

TEST_F(TaskStoreTest, AFolderThatCannotBeIsAnError) {
  const auto store = TaskStore::open("/proc/nowhere/state");
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().kind, ErrorKind::infrastructure);
}

}  // namespace
}  // namespace ptxbench::service
