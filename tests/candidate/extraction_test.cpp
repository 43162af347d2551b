#include "candidate/extraction.h"

#include <gtest/gtest.h>

namespace ptxbench::candidate {
namespace {

const std::string kKernel = "__global__ void k() {}\nvoid run() {}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n";

std::string fence(const std::string& language, const std::string& code) {
  return "```" + language + "\n" + code + "```\n";
}

TEST(Extraction, TakesTheLastBlockThatIsACandidate) {
  const std::string answer = "First:\n" + fence("cpp", "// old\n" + kKernel) + "Better:\n" +
                             fence("cpp", "// new\n" + kKernel) + "Compile with\n" + fence("bash", "nvcc x.cu\n") +
                             "and a helper\n" + fence("cpp", "int helper();\n");
  const auto result = extract_candidate(answer);
  ASSERT_TRUE(result.source);
  EXPECT_EQ(*result.source, "// new\n" + kKernel);
  EXPECT_EQ(result.block_count, 4u);
  EXPECT_FALSE(result.unclosed);
}

TEST(Extraction, AcceptsTheWaysModelsMarkCode) {
  for (const char* language :
       {"cpp", "cuda", "c++", "CUDA", "C++", " cpp ", "cpp:kernel.cu", "cuda title=\"k\"", "{.cpp}", "cu"}) {
    EXPECT_TRUE(extract_candidate(fence(language, kKernel)).source) << language;
  }
}

TEST(Extraction, AcceptsWindowsLineEndsAndTrailingBlanks) {
  const auto result = extract_candidate(
      "Text\r\n```cpp  \r\n__global__ void k();\r\n"
      "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, k);\r\n```  \t\r\ndone\r\n");
  ASSERT_TRUE(result.source);
  EXPECT_EQ(*result.source, "__global__ void k();\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, k);\n");
}

TEST(Extraction, UnclosedBlockIsTakenAndSaidToBe) {
  const auto result = extract_candidate("```cpp\n" + kKernel);
  ASSERT_TRUE(result.source);
  EXPECT_TRUE(result.unclosed);
  EXPECT_NE(result.message.find("cut off"), std::string::npos);
}

TEST(Extraction, LongerFencesHoldShorterOnes) {
  const std::string code = "// ```\n" + kKernel;
  const auto result = extract_candidate("````cpp\n" + code + "```\n" + "````\n");
  ASSERT_TRUE(result.source);
  EXPECT_EQ(*result.source, code + "```\n");
}

TEST(Extraction, SaysWhyThereIsNoCode) {
  const auto reason = [](const std::string& answer) { return extract_candidate(answer).reason; };
  EXPECT_EQ(reason(" \n\t"), NoCodeReason::empty_answer);
  EXPECT_EQ(reason("I cannot do that."), NoCodeReason::no_block);
  EXPECT_EQ(reason(fence("python", kKernel)), NoCodeReason::wrong_language);
  EXPECT_EQ(reason(fence("cpp", "__global__ void k();\n")), NoCodeReason::no_export);
  EXPECT_EQ(reason(fence("cpp", "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n")), NoCodeReason::no_kernel);
  EXPECT_EQ(reason(fence("cpp", "// TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run)\n__global__ void k();\n")),
            NoCodeReason::no_export)
      << "a comment exports nothing";
  const auto wrong = extract_candidate(fence("python", "x\n") + fence("", "y\n"));
  EXPECT_NE(wrong.message.find("python, (none)"), std::string::npos) << wrong.message;
}

TEST(Blanking, KeepsLinesAndHidesCommentsAndStrings) {
  const std::string source =
      "a // cublas\n\"cublas \\\" x\" b /* cu\nblas */ c 'x' 1'000'000 R\"d(cublas\n)d\" e // one \\\n two\nf";
  const std::string blanked = blank_comments_and_strings(source);
  EXPECT_EQ(blanked.size(), source.size());
  EXPECT_EQ(std::count(blanked.begin(), blanked.end(), '\n'), std::count(source.begin(), source.end(), '\n'));
  EXPECT_EQ(blanked.find("cublas"), std::string::npos);
  EXPECT_EQ(blanked.find("two"), std::string::npos);
  for (const char* kept : {"a ", " b ", " c ", "1'000'000", " e ", "\nf"}) {
    EXPECT_NE(blanked.find(kept), std::string::npos) << kept;
  }
}

TEST(Blanking, SurvivesWhatIsNeverClosed) {
  for (const char* text : {"\"abc", "/* abc", "R\"(abc", "'", "// abc\\", "R\"", "\"a\\"}) {
    EXPECT_EQ(blank_comments_and_strings(text).size(), std::string_view(text).size()) << text;
  }
}

}  // namespace
}  // namespace ptxbench::candidate
