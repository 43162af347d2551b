// What compute-sanitizer of CUDA 13.0 wrote about tests/gpu/candidates/sanitizer_faults.cu on an H200, shortened.

#include "gpu/sanitizer.h"

#include <gtest/gtest.h>

namespace ptxbench::gpu {
namespace {

constexpr std::string_view kMemcheck =
    R"(========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at writes_to_null(int *)+0x60 in kernel.cu:18
=========     by thread (0,0,0) in block (0,0,0)
=========     Access to 0x0 is out of bounds
=========     and is 35,187,494,748,160 bytes before the nearest allocation at 0x2000ba200000 of size 2,097,152 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: cuLaunchKernelEx [0x39fc2f] in libcuda.so.1
=========         Host Frame:  [0x129ecb] in libc.so.6
========= 
========= Invalid __global__ write of size 4 bytes
=========     at writes_to_null(int *)+0x60 in kernel.cu:18
=========     by thread (1,0,0) in block (0,0,0)
=========     Access to 0x4 is out of bounds
========= 
========= ERROR SUMMARY: 2 errors
)";

constexpr std::string_view kRacecheck =
    R"(========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at races(int *)+0x80 in kernel.cu:22
=========     and Write access at races(int *)+0x80 in kernel.cu:22 [1 hazards]
========= 
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
)";

TEST(Sanitizer, RecordsHaveKernelPlaceAndCount) {
  const auto report = parse_sanitizer_report("memcheck", kMemcheck);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->errors, 2u);
  ASSERT_EQ(report->records.size(), 1u);
  const SanitizerRecord& record = report->records[0];
  EXPECT_EQ(record.message, "Invalid __global__ write of size 4 bytes");
  EXPECT_EQ(record.kernel, "writes_to_null(int *)");
  EXPECT_EQ(record.file, "kernel.cu");
  EXPECT_EQ(record.line, 18u);
  EXPECT_EQ(record.repeated, 2u);
  EXPECT_FALSE(record.is_warning);
  EXPECT_EQ(record.text.find("Host Frame"), std::string::npos);
  EXPECT_NE(record.text.find("by thread (0,0,0)"), std::string::npos);
}

TEST(Sanitizer, RacesAreErrorsOrWarnings) {
  const auto report = parse_sanitizer_report("racecheck", kRacecheck);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->errors, 1u);
  EXPECT_EQ(report->warnings, 0u);
  ASSERT_EQ(report->records.size(), 1u);
  EXPECT_EQ(report->records[0].kernel, "races(int *)");
  EXPECT_EQ(report->records[0].line, 22u);
  std::string warned(kRacecheck);
  warned.replace(warned.find("Error:"), 6, "Warning:");
  warned.replace(warned.find("(1 error, 0 warnings)"), 21, "(0 errors, 1 warning)");
  const auto milder = parse_sanitizer_report("racecheck", warned);
  ASSERT_TRUE(milder.has_value());
  EXPECT_EQ(milder->errors, 0u);
  EXPECT_EQ(milder->warnings, 1u);
  EXPECT_TRUE(milder->records.at(0).is_warning);
}

TEST(Sanitizer, CleanIsOnlyWhatSaysSo) {
  EXPECT_EQ(
      parse_sanitizer_report("memcheck", "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")->errors,
      0u);
  for (const std::string_view text : {"", "========= COMPUTE-SANITIZER\n", "Segmentation fault\n",
                                      "========= Internal Sanitizer Error: the device is not supported\n"}) {
    const auto report = parse_sanitizer_report("memcheck", text);
    ASSERT_FALSE(report.has_value()) << text;
    EXPECT_EQ(report.error().kind, ErrorKind::infrastructure);
    EXPECT_NE(report.error().message.find("did not come to an end"), std::string::npos);
  }
}

TEST(Sanitizer, AReportThatIsCutIsNoReport) {
  for (const std::string_view whole : {kMemcheck, kRacecheck}) {
    const std::size_t summary = whole.rfind("SUMMARY:");
    for (std::size_t length = 0; length < summary; length += 7) {
      EXPECT_FALSE(parse_sanitizer_report("memcheck", whole.substr(0, length)).has_value()) << length;
    }
  }
}

TEST(Sanitizer, DamagedReportsDoNotCrash) {
  for (std::size_t at = 0; at < kMemcheck.size(); at += 3) {
    std::string damaged(kMemcheck);
    damaged[at] = static_cast<char>(0xff);
    if (at % 2 == 0) damaged.insert(at, "+0x in :99999999999999999999 at +0x0 in x:");
    static_cast<void>(parse_sanitizer_report("memcheck", damaged));
  }
}

}  // namespace
}  // namespace ptxbench::gpu
