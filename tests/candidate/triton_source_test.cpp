#include "candidate/triton_source.h"

#include <gmock/gmock.h>

namespace ptxbench::candidate {
namespace {

using testing::HasSubstr;

constexpr const char* kFile = R"(import torch
import triton
import triton.language as tl

@triton.jit
def k(x, n: tl.constexpr):
    pass

def run(x, y):
    k[(1,)](x, 1)
)";

std::string fenced(const std::string& language, const std::string& code) {
  return "```" + language + "\n" + code + "```\n";
}

TEST(TritonExtraction, TakesTheLastBlockWithKernelAndRun) {
  const std::string second = std::string(kFile) + "# second\n";
  const std::string answer = "First:\n" + fenced("python", kFile) + "Better:\n" + fenced("python", second) +
                             "Use it so:\n" + fenced("python", "run(x, y)\n");
  const Extraction got = extract_candidate(answer, Language::triton);
  ASSERT_TRUE(got.source) << got.message;
  EXPECT_EQ(*got.source, second);
  EXPECT_FALSE(got.unclosed);
}

TEST(TritonExtraction, TakesOtherNamesOfTheLanguageAndBareFiles) {
  for (const char* language : {"py", "python3", "triton", ""}) {
    EXPECT_TRUE(extract_triton_candidate(fenced(language, kFile)).source) << language;
  }
  EXPECT_TRUE(extract_triton_candidate(kFile).source);
  EXPECT_TRUE(extract_triton_candidate("<think>perhaps</think>\r\n" + fenced("python", kFile)).source);
}

TEST(TritonExtraction, SaysWhatIsMissing) {
  EXPECT_EQ(extract_triton_candidate("").reason, NoCodeReason::empty_answer);
  EXPECT_EQ(extract_triton_candidate("<think>" + fenced("python", kFile)).reason, NoCodeReason::only_reasoning);
  EXPECT_EQ(extract_triton_candidate("no code").reason, NoCodeReason::no_block);
  const Extraction cuda = extract_triton_candidate(fenced("cpp", "__global__ void k() {}\n"));
  EXPECT_EQ(cuda.reason, NoCodeReason::wrong_language);
  EXPECT_THAT(cuda.message, HasSubstr("cpp"));
  EXPECT_EQ(extract_triton_candidate(fenced("python", "def run(x): pass\n")).reason, NoCodeReason::no_kernel);
  EXPECT_EQ(extract_triton_candidate(fenced("python", "@triton.jit\ndef k(x): pass\n")).reason,
            NoCodeReason::no_export);
  // In a comment or a string they do not count.
  EXPECT_EQ(
      extract_triton_candidate(fenced("python", "# @triton.jit\ns = '''\n@triton.jit\n'''\ndef run(x): pass\n")).reason,
      NoCodeReason::no_kernel);
}

TEST(TritonExtraction, CudaAnswersAreNotTaken) {
  EXPECT_FALSE(extract_candidate(fenced("python", kFile), Language::cuda).source);
}

TEST(BlankPython, KeepsCodeAlone) {
  EXPECT_EQ(blank_python("a = 'b#' # c\nd"), "a = '  '    \nd");
  EXPECT_EQ(blank_python("'''x\ny''' z"), "''' \n ''' z");
  EXPECT_EQ(blank_python(R"("\"" q)"), R"("  " q)");
}

std::vector<std::string> subjects(const std::string& more) {
  std::vector<std::string> out;
  for (const StaticFinding& one : check_triton_source(kFile + more)) out.push_back(one.rule + " " + one.subject);
  return out;
}

TEST(TritonChecks, AllowWhatModelsWrite) {
  EXPECT_THAT(subjects("import math\nfrom triton.tools.tensor_descriptor import TensorDescriptor\n"
                       "from typing import Optional\nz = torch.empty(4)  # torch.matmul would be wrong\n"
                       "w = tl.exp(z)\nsum = 'torch.softmax'\nimport triton, math\n"),
              testing::IsEmpty());
}

TEST(TritonChecks, NameWhatIsForbidden) {
  EXPECT_THAT(subjects("import os, math\n"), testing::ElementsAre("candidate.banned_import os"));
  EXPECT_THAT(subjects("from . import x\n"), testing::ElementsAre("candidate.banned_import ."));
  EXPECT_THAT(subjects("import torchvision\n"), testing::ElementsAre("candidate.banned_import torchvision"));
  EXPECT_THAT(subjects("y = torch.nn.functional.softmax(x)\n"),
              testing::ElementsAre("candidate.banned_library torch.nn.functional.softmax"));
  EXPECT_THAT(subjects("exec('1')\n"), testing::ElementsAre("candidate.loads_code exec"));
  EXPECT_THAT(subjects("triton.compiler.compile = None\n"),
              testing::ElementsAre("candidate.loads_code triton.compiler.compile"));
  const auto found = check_triton_source(std::string(kFile) + "torch.mm(x, x)\n");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].line, 11);
  EXPECT_EQ(found[0].file, "kernel.py");
}

TEST(TritonChecks, NeedKernelAndRun) {
  const auto found = check_triton_source("import torch\n");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].rule, "candidate.no_entry");
}

TEST(Languages, HaveNames) {
  EXPECT_EQ(parse_language("Triton").value(), Language::triton);
  EXPECT_EQ(parse_language("cuda").value(), Language::cuda);
  EXPECT_THAT(parse_language("rust").error().message, HasSubstr("cuda or triton"));
  EXPECT_EQ(language_of_file("a/kernel.py"), Language::triton);
  EXPECT_EQ(language_of_file("a/kernel.cu"), Language::cuda);
}

}  // namespace
}  // namespace ptxbench::candidate
