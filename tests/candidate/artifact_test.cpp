#include "candidate/artifact.h"

#include <gtest/gtest.h>

#include <fstream>
#include <thread>

#include "base/files.h"

namespace ptxbench::candidate {
namespace {

namespace fs = std::filesystem;

const std::string kId(64, 'a');

CompileReport some_report() {
  CompileReport report;
  report.status = CompileStatus::succeeded;
  report.seconds = 1.5;
  report.flags = {"-O3"};
  report.kernels.push_back({"_Z1kv", "k()", true, 32, 1, 1024, 0, 4, 8});
  CompilerMessage message;
  message.level = MessageLevel::info;
  message.tool = "ptxas";
  message.rule = "wgmma.serialized";
  message.code = "C7510";
  message.where = {"kernel.cu", 12, 3};
  message.inlined_from = {{"kernel.cu", 40, 1}};
  message.text = "serialized";
  report.messages.push_back(message);
  report.log = "bytes \xff that are no UTF-8";
  return report;
}

ArtifactCache::Entry publish(const ArtifactCache& cache, const std::string& content) {
  const auto work = cache.new_work_folder();
  EXPECT_TRUE(work);
  EXPECT_TRUE(base::write_file_atomic(*work / "kernel.so", content));
  const auto entry = cache.publish(kId, *work, {"kernel.so"}, some_report());
  EXPECT_TRUE(entry) << entry.error().message;
  EXPECT_FALSE(fs::exists(*work));
  return *entry;
}

class ArtifactCacheTest : public ::testing::Test {
 protected:
  base::TempDir folder_ = *base::TempDir::create();
  ArtifactCache cache_ = *ArtifactCache::open(folder_.path() / "cache");
};

TEST_F(ArtifactCacheTest, KeepsFilesAndReport) {
  EXPECT_FALSE(cache_.find(kId));
  publish(cache_, "library");
  const auto entry = cache_.find(kId);
  ASSERT_TRUE(entry);
  EXPECT_EQ(*base::read_file(entry->artifact.library()), "library");
  EXPECT_TRUE(entry->report.cached);
  EXPECT_EQ(entry->report.seconds, 1.5);
  ASSERT_EQ(entry->report.kernels.size(), 1u);
  EXPECT_EQ(entry->report.kernels[0].spill_load_bytes, 8);
  ASSERT_EQ(entry->report.messages.size(), 1u);
  EXPECT_EQ(entry->report.messages[0].where.line, 12);
  EXPECT_EQ(entry->report.messages[0].inlined_from.at(0).line, 40);
  EXPECT_EQ(entry->report.messages[0].level, MessageLevel::info);
}

TEST_F(ArtifactCacheTest, DamageIsNoticedAndRepaired) {
  const auto damage = {+[](const fs::path& entry) { std::ofstream(entry / "kernel.so") << "librarx"; },
                       +[](const fs::path& entry) { fs::remove(entry / "kernel.so"); },
                       +[](const fs::path& entry) { fs::resize_file(entry / "manifest.json", 40); },
                       +[](const fs::path& entry) { fs::remove(entry / "manifest.json"); },
                       +[](const fs::path& entry) { std::ofstream(entry / "manifest.json") << "[1]"; }};
  for (const auto& inflict : damage) {
    const auto entry = publish(cache_, "library");
    inflict(entry.artifact.directory);
    EXPECT_FALSE(cache_.find(kId));
    EXPECT_FALSE(fs::exists(entry.artifact.directory));
  }
  publish(cache_, "library");
  EXPECT_TRUE(cache_.find(kId));
}

TEST_F(ArtifactCacheTest, TheFirstOfTwoPublishersWins) {
  publish(cache_, "first");
  const auto second = publish(cache_, "second");
  EXPECT_EQ(*base::read_file(second.artifact.library()), "first");
}

TEST_F(ArtifactCacheTest, ManyPublishersAtOnceLeaveOneWholeEntry) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 8; ++i) threads.emplace_back([&, i] { publish(cache_, "library " + std::to_string(i)); });
  threads.clear();
  EXPECT_TRUE(cache_.find(kId));
  EXPECT_TRUE(fs::is_empty(cache_.root() / "work"));
}

TEST_F(ArtifactCacheTest, LockExcludes) {
  auto held = std::make_unique<ArtifactCache::Lock>(*cache_.lock(kId));
  std::atomic<bool> entered = false;
  std::jthread other([&] {
    const auto lock = cache_.lock(kId);
    entered = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(entered);
  held.reset();
  other.join();
  EXPECT_TRUE(entered);
}

TEST(ArtifactCacheOpen, UnusableFolderIsAnError) {
  const auto cache = ArtifactCache::open("/proc/no-such-place");
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().kind, ErrorKind::infrastructure);
  EXPECT_NE(cache.error().message.find("PTXBENCH_CACHE"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::candidate
