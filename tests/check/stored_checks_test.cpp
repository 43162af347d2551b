#include "check/stored_checks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/files.h"

namespace ptxbench::check {
namespace {

namespace fs = std::filesystem;

CheckReport full_report() {
  CheckReport report;
  CheckFinding race;
  race.rule = "race.shared";
  race.kernel = "gemm";
  race.message = "two lines\nof text";
  race.fix = "a barrier";
  race.location = {"kernel.cu", 12, 345, "st.shared.u32 [%r1], %r2;", {{"kernel.cu", 99}}, "writes", "warp 1"};
  race.has_other = true;
  race.other = {"kernel.cu", 14, 350, "ld.shared.u32 %r2, [%r1];", {}, "reads", "warp 2"};
  race.address = "shared + 0x10 (4 bytes)";
  race.occurrences = 77;
  race.policies = {"eager", "random:1"};
  CheckFinding numbers;
  numbers.rule = "numeric.stale-k";
  numbers.output = "C";
  numbers.follows_from = "race.shared";
  CheckFinding launch;
  launch.rule = "launch.unchecked";
  launch.severity = checker::Severity::note;
  launch.host_call = "cudaLaunchKernel (<<<>>>)";
  report.findings = {race, numbers, launch};
  report.policies = {"eager", "lazy", "random:1"};
  report.unknown = {"only 4 of 9 clusters"};
  report.approximate = {"ex2.approx.f32"};
  report.unsupported = {"tcgen05"};
  report.one_policy_is_enough = true;
  report.launches = 3;
  report.warp_instructions = 1ull << 40;
  report.clusters_run = 4;
  report.clusters_total = 9;
  report.findings_dropped = 2;
  report.seconds = 0.1;
  return report;
}

CheckReport without_findings() {
  CheckReport report = full_report();
  report.findings.clear();
  report.unknown.clear();
  report.unsupported.clear();
  report.findings_dropped = 0;
  return report;
}

class StoredChecksTest : public ::testing::Test {
 protected:
  StoredChecksTest() : folder_(base::TempDir::create().value()), store_(folder_.path()) {}
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) out.push_back(entry.path());
    }
    return out;
  }
  std::optional<CheckReport> find(const CheckKey& key) {
    warning_.clear();
    return store_.find(key, warning_);
  }
  base::TempDir folder_;
  StoredChecks store_;
  std::string warning_;
};

TEST_F(StoredChecksTest, GiveBackWhatWasKept) {
  const CheckReport report = full_report();
  ASSERT_TRUE(store_.keep({"what", "where"}, report));
  const auto found = find({"what", "where"});
  ASSERT_TRUE(found) << warning_;
  EXPECT_NE(found->stored_at.find("UTC"), std::string::npos);
  base::Json expected = to_json(report), got = to_json(*found);
  EXPECT_EQ(expected["stored"], false);
  EXPECT_EQ(got["stored"], true);
  for (const char* member : {"stored", "stored_at"}) {
    expected.erase(member);
    got.erase(member);
  }
  EXPECT_EQ(expected, got);
  EXPECT_NE(to_text(*found).find("stored result of "), std::string::npos);
  EXPECT_EQ(to_text(report).find("stored result"), std::string::npos);
}

TEST_F(StoredChecksTest, FindNothingForAnotherKey) {
  ASSERT_TRUE(store_.keep({"what", "where"}, full_report()));
  EXPECT_FALSE(find({"what else", "where"}));
  EXPECT_EQ(warning_, "");
}

TEST_F(StoredChecksTest, LinesMatterOnlyToReportsThatMayNameSome) {
  ASSERT_TRUE(store_.keep({"with", "here"}, full_report()));
  EXPECT_FALSE(find({"with", "elsewhere"}));
  ASSERT_TRUE(store_.keep({"without", "here"}, without_findings()));
  EXPECT_TRUE(find({"without", "elsewhere"}));
}

TEST_F(StoredChecksTest, WordsMayNameLinesToo) {
  const auto is_found_elsewhere = [&](const std::string& key, const CheckReport& report) {
    EXPECT_TRUE(store_.keep({key, "here"}, report));
    EXPECT_TRUE(find({key, "here"}));
    return find({key, "elsewhere"}).has_value();
  };
  CheckReport report = without_findings();
  report.findings.emplace_back();
  report.findings.back().message = "waits at kernel.cu:12";
  EXPECT_FALSE(is_found_elsewhere("message", report));
  report = without_findings();
  report.unknown = {"not looked at from kernel.cu:12 on"};
  EXPECT_FALSE(is_found_elsewhere("unknown", report));
  report = without_findings();
  report.unsupported = {"tcgen05"};
  EXPECT_FALSE(is_found_elsewhere("unsupported", report));
  report = without_findings();
  report.findings_dropped = 1;
  EXPECT_FALSE(is_found_elsewhere("dropped", report));
}

TEST_F(StoredChecksTest, DamageIsIgnoredAndRepaired) {
  const auto damages = {
      +[](const fs::path& file) { fs::resize_file(file, fs::file_size(file) - 5); },
      +[](const fs::path& file) { fs::resize_file(file, 0); },
      +[](const fs::path& file) { std::ofstream(file) << "no JSON\n{}"; },
      +[](const fs::path& file) {
        // One number changed: still JSON, but not what was written.
        std::string text = base::read_file(file).value();
        text.replace(text.find("\"launches\":3"), 12, "\"launches\":4");
        std::ofstream(file) << text;
      },
  };
  for (const auto& damage : damages) {
    ASSERT_TRUE(store_.keep({"what", "where"}, full_report()));
    ASSERT_EQ(files().size(), 1u);
    damage(files().front());
    EXPECT_FALSE(find({"what", "where"}));
    EXPECT_NE(warning_.find("ignored"), std::string::npos) << warning_;
    ASSERT_TRUE(store_.keep({"what", "where"}, full_report()));
    EXPECT_TRUE(find({"what", "where"})) << warning_;
    EXPECT_EQ(warning_, "");
  }
}

TEST_F(StoredChecksTest, AnEntryUnderAnotherNameIsNotBelieved) {
  ASSERT_TRUE(store_.keep({"what", "where"}, full_report()));
  const fs::path first = files().front();
  ASSERT_TRUE(store_.keep({"what else", "where"}, full_report()));
  for (const fs::path& file : files()) {
    if (file != first) fs::copy_file(first, file, fs::copy_options::overwrite_existing);
  }
  EXPECT_TRUE(find({"what", "where"}));
  EXPECT_FALSE(find({"what else", "where"}));
  EXPECT_NE(warning_, "");
}

TEST_F(StoredChecksTest, ManyAtATime) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const StoredChecks mine(folder_.path());
      for (int i = 0; i < 20; ++i) {
        std::string warning;
        if (!mine.keep({"shared", "where"}, full_report()) || !mine.keep({std::to_string(t), "where"}, full_report()) ||
            !mine.find({"shared", "where"}, warning) || !warning.empty()) {
          ++wrong;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(files().size(), 9u) << "no half-written files are left";
}

TEST(StoredChecks, WhatDependsOnTheMomentIsNotRepeatable) {
  EXPECT_TRUE(StoredChecks::is_repeatable(full_report()));
  for (const char* rule :
       {"host.timeout", "host.crash", "launch.cancelled", "launch.resources", "launch.out-of-memory"}) {
    CheckReport report = full_report();
    report.findings.push_back({});
    report.findings.back().rule = rule;
    EXPECT_FALSE(StoredChecks::is_repeatable(report)) << rule;
  }
}

}  // namespace
}  // namespace ptxbench::check
