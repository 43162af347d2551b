#include "base/text.h"
#include "base/printable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ptxbench::base {
namespace {

using ::testing::ElementsAre;

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split(",", ','), ElementsAre("", ""));
}

TEST(Text, LinesOfBothConventions) {
  EXPECT_THAT(split_lines("a\r\nb\n\nc"), ElementsAre("a", "b", "", "c"));
  EXPECT_THAT(split_lines("a\n"), ElementsAre("a"));
  EXPECT_THAT(split_lines(""), ElementsAre());
}

TEST(Text, Trim) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, LowerTouchesOnlyAscii) { EXPECT_EQ(to_lower("SM_90A \xc3\x84"), "sm_90a \xc3\x84"); }

TEST(Text, ReplaceAll) {
  EXPECT_EQ(replace_all("aXbXX", "X", "yX"), "ayXbyXyX");
  EXPECT_EQ(replace_all("abc", "", "x"), "abc");
}

TEST(Text, ParseU64) {
  EXPECT_EQ(parse_u64("18446744073709551615"), 18446744073709551615ULL);
  for (const char* bad : {"", "-1", "+1", " 1", "1 ", "0x10", "18446744073709551616"}) {
    EXPECT_EQ(parse_u64(bad), std::nullopt) << bad;
  }
}

TEST(Text, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("sitting", "kitten"), 3U);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2U);
}

TEST(Text, EditDistanceStopsAtTheCap) {
  EXPECT_EQ(edit_distance("kitten", "sitting", 2), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting", 3), 3U);
  EXPECT_EQ(edit_distance("a", std::string(1000, 'b'), 5), 6U);
}

TEST(Text, NearestName) {
  const std::vector<std::string> names = {"mbarrier.init", "mbarrier.arrive", "mbarrier.inval"};
  EXPECT_EQ(nearest("mbarier.arrive", names), "mbarrier.arrive");
  EXPECT_EQ(nearest("mbarrier.init", names), "mbarrier.init");
  EXPECT_EQ(nearest("wgmma", names), std::nullopt);
  EXPECT_EQ(nearest("x", std::vector<std::string>{}), std::nullopt);
}

TEST(Text, ShortNamesAllowOneEditOnly) {
  const std::vector<std::string> names = {"add", "mul"};
  EXPECT_EQ(nearest("ad", names), "add");
  EXPECT_EQ(nearest("xyd", names), std::nullopt);
}

TEST(Text, DidYouMean) {
  const std::vector<std::string> names = {"eval", "emulate"};
  EXPECT_EQ(did_you_mean("evl", names), "; did you mean 'eval'?");
  EXPECT_EQ(did_you_mean("banana", names), "");
}

TEST(Text, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(std::uint64_t{12} << 30), "12.0 GiB");
  EXPECT_EQ(format_bytes(~std::uint64_t{0}), "16.0 EiB");
}

TEST(Text, Seconds) {
  EXPECT_EQ(format_seconds(2.5e-7), "250 ns");
  EXPECT_EQ(format_seconds(0.00123), "1.23 ms");
  EXPECT_EQ(format_seconds(4.56), "4.56 s");
  EXPECT_EQ(format_seconds(125.9), "2 min 5 s");
}

TEST(Text, ShortenMiddle) {
  EXPECT_EQ(shorten_middle("short", 10), "short");
  EXPECT_EQ(shorten_middle("0123456789", 4), "01\n... 6 bytes left out ...\n89");
  // Two-byte characters are not torn: the cut moves to a boundary.
  EXPECT_EQ(shorten_middle("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 6), "\xc3\xa4\n... 4 bytes left out ...\n\xc3\xa4");
}

TEST(Text, PrintableKeepsTextAndEscapesWhatSteersTerminals) {
  EXPECT_EQ(printable("a\tb \xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82"), "a\tb \xc3\xa4 \xe2\x82\xac \xf0\x9f\x99\x82");
  EXPECT_EQ(printable("\x1b[31m\r\x7f"), "\\x1b[31m\\x0d\\x7f");
  EXPECT_EQ(printable("a\nb"), "a\\nb");
  EXPECT_EQ(printable("a\nb", Lines::kept), "a\nb");
  EXPECT_EQ(printable("\xc2\x9b\xe2\x80\xae"), "\\u009b\\u202e");
  EXPECT_EQ(printable("\xff \xc3 \xed\xa0\x80 \xc0\xaf"), "\\xff \\xc3 \\xed\\xa0\\x80 \\xc0\\xaf");
}

TEST(Text, CandidateFilesHaveBareNames) {
  EXPECT_EQ(candidate_file_name("/tmp/ptxbench-compile-x7Gh2k/lean/kernel.cu"), "kernel.cu");
  EXPECT_EQ(candidate_file_name("/tmp/ptxbench-compile-x7Gh2k/lean/tiles.cu"), "tiles.cu");
  EXPECT_EQ(candidate_file_name("/elsewhere/kernel.cu"), "kernel.cu");
  EXPECT_EQ(candidate_file_name("/usr/include/cuda_bf16.hpp"), "/usr/include/cuda_bf16.hpp");
  EXPECT_EQ(candidate_file_name("tiles.cu"), "tiles.cu");
  EXPECT_EQ(candidate_file_name(""), "");
}

}  // namespace
}  // namespace ptxbench::base
