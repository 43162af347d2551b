#include "base/files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

namespace ptxbench::base {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// Sets a variable (or unsets it with null) for one test.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ScopedEnv(const ScopedEnv&) = delete;
  ScopedEnv& operator=(const ScopedEnv&) = delete;
  ~ScopedEnv() { set(old_ ? old_->c_str() : nullptr); }

 private:
  void set(const char* value) {
    if (value != nullptr) {
      ::setenv(name_, value, 1);
    } else {
      ::unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

class Files : public ::testing::Test {
 protected:
  TempDir dir_ = TempDir::create("files-test").value();
};

TEST_F(Files, BytesSurviveARoundTrip) {
  std::string bytes = "a\0b\r\n\xff";
  bytes.push_back('\0');
  ASSERT_TRUE(write_file_atomic(dir_.path() / "sub" / "f.bin", bytes));
  EXPECT_EQ(read_file(dir_.path() / "sub" / "f.bin").value(), bytes);
}

TEST_F(Files, AtomicWriteReplacesAndLeavesNothingElse) {
  const fs::path path = dir_.path() / "f";
  ASSERT_TRUE(write_file_atomic(path, "a long old text"));
  ASSERT_TRUE(write_file_atomic(path, "new"));
  EXPECT_EQ(read_file(path).value(), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.path()), fs::directory_iterator()), 1);
}

TEST_F(Files, WhatAKilledWriterLeftIsTakenAway) {
  const auto folder = dir_.path() / "written";
  ASSERT_TRUE(write_file_atomic(folder / "a.jsonl", "whole"));
  for (const char* left : {"a.jsonl.tmp.123.0", "b.tmp.9.17"}) std::ofstream(folder / left) << "half";
  for (const char* other : {"notes.tmp.md", "x.tmp.", "y.tmp"}) std::ofstream(folder / other) << "somebody's";
  remove_unfinished(folder);
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"a.jsonl", "notes.tmp.md", "x.tmp.", "y.tmp"}));
  remove_unfinished(dir_.path() / "not there");
}

TEST_F(Files, AtomicWriteIntoAFileAsFolderFails) {
  ASSERT_TRUE(write_file_atomic(dir_.path() / "f", "x"));
  const auto result = write_file_atomic(dir_.path() / "f" / "g", "y");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::infrastructure);
  EXPECT_EQ(read_file(dir_.path() / "f").value(), "x");
}

TEST_F(Files, ReadersOfAnAtomicWriteSeeWholeTexts) {
  const fs::path path = dir_.path() / "shared";
  const std::string first(50'000, 'a');
  const std::string second(50'000, 'b');
  ASSERT_TRUE(write_file_atomic(path, first));
  std::jthread writer([&] {
    for (int i = 0; i < 50; ++i) EXPECT_TRUE(write_file_atomic(path, i % 2 == 0 ? second : first));
  });
  for (int i = 0; i < 50; ++i) {
    const std::string text = read_file(path).value();
    EXPECT_TRUE(text == first || text == second);
  }
}

TEST_F(Files, ReadErrorsNameTheFile) {
  const auto missing = read_file(dir_.path() / "nope.cu");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::input);
  EXPECT_THAT(missing.error().message, HasSubstr("nope.cu"));
  EXPECT_THAT(missing.error().message, HasSubstr("No such file"));
  const auto folder = read_file(dir_.path());
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("folder"));
}

TEST_F(Files, ReadStopsAtTheLimit) {
  ASSERT_TRUE(write_file_atomic(dir_.path() / "f", "12345"));
  EXPECT_TRUE(read_file(dir_.path() / "f", 5));
  EXPECT_FALSE(read_file(dir_.path() / "f", 4));
  const auto endless = read_file("/dev/zero", 1 << 20);
  ASSERT_FALSE(endless);
  EXPECT_THAT(endless.error().message, HasSubstr("more than"));
}

TEST_F(Files, AppendKeepsWhatIsThere) {
  const fs::path path = dir_.path() / "log";
  ASSERT_TRUE(append_durable(path, "one\n"));
  ASSERT_TRUE(append_durable(path, "two\n"));
  EXPECT_EQ(read_file(path).value(), "one\ntwo\n");
  EXPECT_FALSE(append_durable(dir_.path() / "none" / "log", "x"));
}

TEST_F(Files, TempDirVanishesWithItsContent) {
  fs::path path;
  {
    TempDir folder = TempDir::create("gone").value();
    path = folder.path();
    EXPECT_THAT(path.filename().string(), ::testing::StartsWith("gone-"));
    ASSERT_TRUE(write_file_atomic(path / "a" / "b", "x"));
    TempDir moved = std::move(folder);
    EXPECT_EQ(moved.path(), path);
    EXPECT_TRUE(fs::exists(path / "a" / "b"));
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(Files, ReleasedTempDirStays) {
  TempDir folder = TempDir::create("kept").value();
  const fs::path path = folder.release();
  { const TempDir end_of_life = std::move(folder); }
  EXPECT_TRUE(fs::exists(path));
  fs::remove_all(path);
}

TEST_F(Files, CacheFolderFollowsTheEnvironment) {
  const std::string own = (dir_.path() / "own").string();
  const std::string xdg = (dir_.path() / "xdg").string();
  const std::string home = (dir_.path() / "home").string();
  const ScopedEnv set_home("HOME", home.c_str());
  const ScopedEnv set_xdg("XDG_CACHE_HOME", xdg.c_str());
  {
    const ScopedEnv set_own("PTXBENCH_CACHE", own.c_str());
    EXPECT_EQ(cache_dir("artifacts").value(), fs::path(own) / "artifacts");
    EXPECT_TRUE(fs::is_directory(fs::path(own) / "artifacts"));
  }
  const ScopedEnv no_own("PTXBENCH_CACHE", "");
  EXPECT_EQ(cache_dir().value(), fs::path(xdg) / "ptxbench");
  const ScopedEnv no_xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(cache_dir("a").value(), fs::path(home) / ".cache" / "ptxbench" / "a");
  const ScopedEnv no_home("HOME", nullptr);
  const auto none = cache_dir();
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("PTXBENCH_CACHE"));
}

TEST_F(Files, HomeFolderIsOverridable) {
  const ScopedEnv none("PTXBENCH_HOME", nullptr);
  EXPECT_TRUE(fs::exists(home_dir().value() / "scripts" / "versions.env"));
  const ScopedEnv own("PTXBENCH_HOME", dir_.path().c_str());
  EXPECT_EQ(home_dir().value(), dir_.path());
  const ScopedEnv wrong("PTXBENCH_HOME", "/nowhere/at/all");
  EXPECT_FALSE(home_dir());
}

TEST_F(Files, MissingRuntimeFolderIsNamed) {
  const auto none = runtime_dir("no-such-library");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("lib/no-such-library"));
}

TEST_F(Files, ExecutablePathIsThisTest) {
  EXPECT_THAT(executable_path().value().filename().string(), HasSubstr("base_files_test"));
}

}  // namespace
}  // namespace ptxbench::base
