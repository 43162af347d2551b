// What models really write around their code: each answer either gives exactly one kernel or a reason that helps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "base/text.h"
#include "candidate/extraction.h"

namespace ptxbench::candidate {
namespace {

using ::testing::HasSubstr;

const std::string kKernel =
    "#include <cuda_runtime.h>\n__global__ void k() {}\nvoid run() {}\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n";
const std::string kOld = "// old\n" + kKernel;

/// `answer` has $K for the kernel, $O for an earlier version of it.
struct Case {
  const char* name;
  std::string answer;
  std::string source = "$K";  ///< expected; empty: none
  const char* reason = "";    ///< expected where there is none
  const char* says = "";      ///< part of the message
  bool unclosed = false;
};

std::string filled(std::string text) {
  return base::replace_all(base::replace_all(std::move(text), "$K", kKernel), "$O", kOld);
}

std::string indented(const std::string& text, const std::string& by) {
  std::string out;
  for (const std::string_view line : base::split_lines(text)) out += by + std::string(line) + "\n";
  return out;
}

std::vector<Case> cases() {
  const std::string crlf = base::replace_all(kKernel, "\n", "\r\n");
  const std::string cr = base::replace_all(kKernel, "\n", "\r");
  const std::string quoted = base::replace_all(kKernel, "#include", "// see ``` in the manual\n#include");
  return {
      // Languages.
      {"cpp", "```cpp\n$K```\n"},
      {"cuda", "```cuda\n$K```\n"},
      {"c++", "```c++\n$K```\n"},
      {"cu", "```cu\n$K```\n"},
      {"upper case", "```CUDA\n$K```\n"},
      {"no language", "```\n$K```\n"},
      {"language c", "```c\n$K```\n"},
      {"language text", "```text\n$K```\n"},
      {"language plaintext", "```plaintext\n$K```\n"},
      {"cuda-cpp", "```cuda-cpp\n$K```\n"},
      {"C/C++", "```C/C++\n$K```\n"},
      {"cuh", "```cuh\n$K```\n"},
      {"file name after a colon", "```cpp:kernel.cu\n$K```\n"},
      {"file name as language", "```kernel.cu\n$K```\n"},
      {"attributes", "```cpp title=\"kernel.cu\" linenums=1\n$K```\n"},
      {"pandoc", "```{.cpp .numberLines}\n$K```\n"},
      {"brackets", "```[cpp]\n$K```\n"},
      {"space before the language", "```   cpp\n$K```\n"},
      {"comment behind the language", "```cpp  // kernel.cu\n$K```\n", "// kernel.cu\n$K"},
      {"code behind the language", "```cpp #include <cstdint>\n$K```\n", "#include <cstdint>\n$K"},
      // White space and line ends.
      {"trailing blanks on fences", "```cpp   \t\n$K```   \t\n"},
      {"CRLF", "Text\r\n```cpp\r\n" + crlf + "```\r\n"},
      {"CR only", "Text\r```cpp\r" + cr + "```\r"},
      {"no newline at the end", "```cpp\n$K```"},
      {"BOM before the fence", "\xef\xbb\xbf```cpp\n$K```\n"},
      {"BOM before the code", "```cpp\n\xef\xbb\xbf$K```\n"},
      {"zero-width space before the fence", "\xe2\x80\x8b```cpp\n$K\xe2\x80\x8b```\n"},
      {"blank lines around", "\n\n\n```cpp\n\n$K\n```\n\n\n", "\n$K\n"},
      {"invalid UTF-8 in the text", "\xff\xfe\xc0 text\n```cpp\n$K```\n"},
      {"a NUL in the text", std::string("a\0b\n", 4) + "```cpp\n$K```\n"},
      // Indentation.
      {"fence indented by two", "  ```cpp\n" + indented(kKernel, "  ") + "  ```\n"},
      {"within a list, four blanks", "1. The kernel:\n\n    ```cpp\n" + indented(kKernel, "    ") + "    ```\n"},
      {"within a list, a tab", "- kernel\n\n\t```cpp\n" + indented(kKernel, "\t") + "\t```\n"},
      {"fence indented, code not", "   ```cpp\n$K   ```\n"},
      {"closing fence indented", "```cpp\n$K    ```\n"},
      {"closing fence not indented", "    ```cpp\n" + indented(kKernel, "    ") + "```\n"},
      // Other fences.
      {"tildes", "~~~cpp\n$K~~~\n"},
      {"many tildes", "~~~~~~ cuda\n$K~~~~~~\n"},
      {"four backticks", "````cpp\n$K````\n"},
      {"longer closing fence", "```cpp\n$K``````\n"},
      {"backticks within tildes", "~~~cpp\n// ```\n$K~~~\n", "// ```\n$K"},
      {"backticks within a comment", "```cpp\n" + quoted + "```\n", quoted},
      {"fence at the end of a line of text", "Here is the kernel: ```cpp\n$K```\n"},
      {"fence at the end of the last line", "```cpp\n" + kKernel.substr(0, kKernel.size() - 1) + "```\nDone.\n"},
      {"text behind the closing fence", "```cpp\n$K``` This is it.\n"},
      {"a tag behind the closing fence", "<answer>```cpp\n$K```</answer>\n"},
      {"one fence too many", "```cpp\n$K```\n```\n"},
      // Several blocks.
      {"the last of two", "```cpp\n$O```\nBetter:\n```cpp\n$K```\n"},
      {"a helper after it", "```cpp\n$K```\n```cpp\nint helper();\n```\n"},
      {"the compile command after it", "```cpp\n$K```\n```bash\nnvcc kernel.cu\n```\n"},
      {"a diff after it", "```cpp\n$K```\n```diff\n- a\n+ $O```\n"},
      {"C++ before no language", "```cpp\n$K```\nOutput:\n```\n$O```\n"},
      {"no language when C++ is none", "```cpp\nint helper();\n```\n```\n$K```\n"},
      {"an export in a comment later",
       "```cpp\n$K```\n```cpp\n// TVM_FFI_DLL_EXPORT_TYPED_FUNC\n__global__ void q();\n```\n"},
      {"first block never closed", "```cpp\n$O\nWait, better:\n```cpp\n$K```\n"},
      {"first block closed on a line of code", "```cpp\n" + kOld + "}```\nor\n```cpp\n$K```\n"},
      {"python quoted first", "```python\ndef run(): pass\n```\n```cuda\n$K```\n"},
      {"PTX quoted after it", "```cpp\n$K```\n```ptx\nwgmma.fence;\n```\n"},
      // Nested.
      {"within Markdown, longer fence", "````markdown\n# Answer\n```cpp\n$K```\n````\n"},
      {"within Markdown, equal fences", "```markdown\n# Answer\n```cpp\n$K```\n```\n"},
      {"within md with tildes", "~~~md\n```cpp\n$K```\n~~~\n"},
      {"within a block without language", "````\n```cuda\n$K```\n````\n"},
      {"within <answer>", "<answer>\n```cpp\n$K```\n</answer>\n"},
      {"in a collapsed section", "<details><summary>Code</summary>\n\n```cpp\n$K```\n\n</details>\n"},
      // Chains of thought.
      {"think first", "<think>\nMaybe ```cpp\n$O```\n</think>\n```cpp\n$K```\n"},
      {"think without the opening tag", "Let me see\n```cpp\n$O```\n</think>\n\n```cpp\n$K```\n"},
      {"thinking", "<thinking>draft\n```cpp\n$O```\n</thinking>\n```cpp\n$K```\n"},
      {"upper-case Think", "<THINK>draft\n</think>\n```cpp\n$K```\n"},
      {"a BOM and think", "\xef\xbb\xbf<think>a</think>```cpp\n$K```\n"},
      {"two chains of thought", "<think>a</think>\nhm\n<think>b\n```cpp\n$O```\n</think>\n```cpp\n$K```\n"},
      {"a tag within the code", "```cpp\nconst char* t = \"</think>\";\n$K```\n", "const char* t = \"</think>\";\n$K"},
      {"only a chain of thought", "<think>\n```cpp\n$K```\n</think>\n", "", "only_reasoning", "in it does not count"},
      {"a chain of thought cut off", "<think>\nI start with\n```cpp\n$K```\n", "", "only_reasoning", "cut off"},
      // Without fences.
      {"nothing but the file", "$K"},
      {"nothing but the file, after thinking", "<think>x</think>\n\n$K"},
      {"prose and code without fences", "Here it is:\n$K", "", "no_block", "starts with ```cpp"},
      {"inline code only", "Use `wgmma.fence` and ```mbarrier``` here.", "", "no_block", "no fenced code block"},
      // Cut off.
      {"never closed", "```cpp\n$K", "$K", "", "cut off", true},
      {"never closed, no newline", "```cpp\n" + kKernel.substr(0, kKernel.size() - 1), "$K", "", "cut off", true},
      {"cut off before the export", "```cpp\n__global__ void k() {\n  float acc[", "", "no_export", "cut off"},
      {"a bare fence", "```cpp", "", "no_export", "cut off"},
      // No kernel.
      {"empty", "", "", "empty_answer", "empty"},
      {"blanks", " \n\t\r\n \xef\xbb\xbf", "", "empty_answer", "empty"},
      {"a refusal", "I'm sorry, I can't do that.", "", "no_block", "no fenced code block"},
      {"Python only", "```python\nimport triton\n```\n", "", "wrong_language", "python"},
      {"a kernel within Python", "```python\nsrc = '''\n$K'''\n```\n", "", "wrong_language", "another language"},
      {"a diff only", "```diff\n+$K```\n", "", "wrong_language", "diff"},
      {"no export", "```cpp\n__global__ void k();\n```\n", "", "no_export", "TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, ...)"},
      {"no kernel", "```cpp\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);\n```\n", "", "no_kernel", "no __global__"},
      {"kernel and export apart",
       "```cpp\n__global__ void k();\n```\nand\n```cpp\nTVM_FFI_DLL_EXPORT_TYPED_FUNC(run, r);\n```\n", "", "no_kernel",
       "different blocks"},
      {"everything in comments", "```cpp\n/*\n$K*/\n```\n", "", "no_export", "is missing"},
      {"everything in a string", "```cpp\nconst char* s = R\"x(\n$K)x\";\n```\n", "", "no_export", "is missing"},
  };
}

TEST(AwkwardAnswers, AreUnderstoodOrExplained) {
  const auto all = cases();
  EXPECT_GE(all.size(), 60u);
  for (const Case& one : all) {
    const Extraction found = extract_candidate(filled(one.answer));
    const std::string source = filled(one.source);
    if (!source.empty()) {
      EXPECT_TRUE(found.source) << one.name << ": " << found.message;
      if (!found.source) continue;
      EXPECT_EQ(*found.source, source) << one.name;
      EXPECT_FALSE(found.reason) << one.name;
      EXPECT_EQ(found.unclosed, one.unclosed) << one.name;
    } else {
      EXPECT_FALSE(found.source) << one.name;
      if (!found.reason) continue;
      EXPECT_EQ(to_string(*found.reason), one.reason) << one.name << ": " << found.message;
    }
    EXPECT_THAT(found.message, HasSubstr(one.says)) << one.name;
  }
}

TEST(AwkwardAnswers, TheLineOfTheBlockIsThatOfTheWholeAnswer) {
  const auto found = extract_candidate(filled("<think>\na\nb\n</think>\ntext\n```cpp\n$K```\n"));
  ASSERT_TRUE(found.source);
  EXPECT_EQ(found.block_line, 6u);
}

TEST(AwkwardAnswers, EveryCutOfAnAnswerIsSurvived) {
  const std::string answer = filled("<think>x</think>\n````md\n```cpp\n$K```\n````\n~~~cu\n$K~~~\n");
  for (std::size_t length = 0; length <= answer.size(); ++length) {
    const auto found = extract_candidate(answer.substr(0, length));
    EXPECT_NE(found.source.has_value(), found.reason.has_value()) << length;
    EXPECT_TRUE(found.source.has_value() || !found.message.empty()) << length;
  }
}

TEST(AwkwardAnswers, RandomMarksAreSurvived) {
  const char* const pieces[] = {"```",        "~~~",
                                "````",       "\n",
                                "cpp",        "md",
                                " ",          "<think>",
                                "</think>",   "\t",
                                "\r",         "\xef\xbb\xbf",
                                "__global__", "TVM_FFI_DLL_EXPORT_TYPED_FUNC",
                                "R\"(",       "/*",
                                "'",          "\"",
                                "\\"};
  std::uint64_t state = 1;
  for (int round = 0; round < 3000; ++round) {
    std::string answer;
    for (int i = 0; i < 40; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      answer += pieces[(state >> 33) % std::size(pieces)];
    }
    const auto found = extract_candidate(answer);
    EXPECT_NE(found.source.has_value(), found.reason.has_value());
  }
}

TEST(AwkwardAnswers, HugeOnesTakeLinearTime) {
  const auto start = std::chrono::steady_clock::now();
  std::string fences;
  for (int i = 0; i < 200000; ++i) fences += "```md\n";
  EXPECT_FALSE(extract_candidate(fences).source);
  EXPECT_FALSE(extract_candidate(std::string(4 << 20, '`')).source);
  std::string tags;
  for (int i = 0; i < 200000; ++i) tags += "x </think>";
  EXPECT_FALSE(extract_candidate(tags).source);
  EXPECT_TRUE(extract_candidate("```cpp\n" + std::string(4 << 20, 'x') + "\n" + kKernel + "```\n").source);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

}  // namespace
}  // namespace ptxbench::candidate
