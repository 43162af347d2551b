// Documents: what {{...}} puts in, and what is refused. Flattened sources.
#include "knowledge/document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folder.h"

namespace ptxbench::knowledge {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Result<Rendered> render(const Folder& folder, std::string_view text) {
  folder.write("common/docs/first.md", text);
  const auto hub = folder.load();
  if (!hub) return tl::unexpected(hub.error());
  return render_document(folder.path(), "common/docs/first.md", hub->numbers(), "sm_90a");
}

TEST(Document, PutsCodeIn) {
  const Folder folder;
  const auto document =
      render(folder, "A\n\n{{code common/include/tools.cuh#tools common/include/tools.cuh#hidden}}\nB\n");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_THAT(document->text, HasSubstr("A\n\n```cpp\n#define DEVICE __device__ inline\n"));
  EXPECT_THAT(document->text, HasSubstr("return twice(x) + x;\n}\n```\nB\n"));
  EXPECT_THAT(document->text, Not(HasSubstr("region")));
  EXPECT_EQ(document->prose, "A\n\n\nB\n");
  EXPECT_EQ(document->sources.count("common/include/tools.cuh"), 1u);
}

TEST(Document, PutsWholeFilesTablesAndNumbersIn) {
  const Folder folder;
  folder.write("tables/t.md", "| a |\n|---|");
  const auto document = render(
      folder,
      "{{code programs/use.cu#main}}\n{{table tables/t.md}}\n{{numbers machine}}\nof {{number limits.shared}}.\n");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_THAT(
      document->text,
      HasSubstr(
          "int main() { return 0; }\n```\n| a |\n|---|\n| what | value |\n|---|---|\n| SMs | 132 |\nof 1 KiB.\n"));
}

TEST(Document, ShowsIndentedRegionsFromTheLeftEdge) {
  const Folder folder;
  folder.write("programs/use.cu",
               "int main() {\n  // region inner\n  if (true) {\n    return 0;\n  }\n  // endregion inner\n}\n");
  const auto document = render(folder, "{{code programs/use.cu#inner}}\n");
  ASSERT_TRUE(document) << document.error().message;
  EXPECT_EQ(document->code, "if (true) {\n  return 0;\n}\n");
}

struct Refused {
  const char *name, *text, *message;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.name; }

class RefusedDocument : public ::testing::TestWithParam<Refused> {};
TEST_P(RefusedDocument, SaysWhereAndWhy) {
  const Folder folder;
  const auto document = render(folder, GetParam().text);
  ASSERT_FALSE(document);
  EXPECT_THAT(document.error().message, HasSubstr("common/docs/first.md:2: "));
  EXPECT_THAT(document.error().message, HasSubstr(GetParam().message));
}
INSTANTIATE_TEST_SUITE_P(
    Cases, RefusedDocument,
    ::testing::Values(Refused{"OwnInclude", "\n{{code sm_90a/patterns/pattern.cu}}\n", "is one file"},
                      Refused{"OwnCode", "\n```cpp\nint x;\n```\n", "is not tested"},
                      Refused{"UnknownDirective", "\n{{cod common/include/tools.cuh}}\n", "unknown '{{cod}}'"},
                      Refused{"UnknownRegion", "\n{{code common/include/tools.cuh#tool}}\n", "did you mean 'tools'?"},
                      Refused{"MissingFile", "\n{{code common/include/nothing.cuh}}\n", "there is no"},
                      Refused{"PathUp", "\n{{code ../../etc/passwd}}\n", "no path inside"},
                      Refused{"Empty", "\n{{code }}\n", "puts nothing in"},
                      Refused{"Unclosed", "\nof {{number limits.shared\n", "without its }}"},
                      Refused{"UnknownNumber", "\nof {{number limits.shard}}\n", "did you mean 'limits.shared'?"},
                      Refused{"UnknownGroup", "\n{{numbers machin}}\n", "no group 'machin'"},
                      Refused{"CodeInLine", "\nsee {{code programs/use.cu}} here\n", "inside a line"}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Flatten, MakesOneFile) {
  const Folder folder;
  const auto text = flatten(folder.path(), "sm_90a/patterns/pattern.cu", "sm_90a");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, HasSubstr("DEVICE int twice"));
  EXPECT_THAT(*text, HasSubstr("__global__ void pattern"));
  EXPECT_THAT(*text, Not(HasSubstr("#include")));
  EXPECT_THAT(*text, Not(HasSubstr("#pragma once")));
  EXPECT_THAT(*text, Not(HasSubstr("region")));
}

TEST(Flatten, TakesHeadersOnceAndSourcesAgain) {
  const Folder folder;
  folder.write("programs/use.cu",
               "#include \"tools.cuh\"\n#include \"tools.cuh\"\n#include \"sm_90a/patterns/pattern.cu\"\n#include "
               "\"sm_90a/patterns/pattern.cu\"\n");
  const auto text = flatten(folder.path(), "programs/use.cu", "sm_90a");
  ASSERT_TRUE(text) << text.error().message;
  const std::size_t first = text->find("DEVICE int twice");
  EXPECT_EQ(text->find("DEVICE int twice", first + 1), std::string::npos);
  const std::size_t pattern = text->find("void pattern");
  EXPECT_NE(text->find("void pattern", pattern + 1), std::string::npos);
}

TEST(Flatten, RefusesCyclesAndUnknownFiles) {
  const Folder folder;
  folder.write("common/include/a.cuh", "#include \"b.cuh\"\n");
  folder.write("common/include/b.cuh", "#include \"a.cuh\"\n");
  const auto cycle = flatten(folder.path(), "common/include/a.cuh", "sm_90a");
  ASSERT_FALSE(cycle);
  EXPECT_THAT(cycle.error().message, HasSubstr("includes itself"));
  folder.write("common/include/a.cuh", "#include \"c.cuh\"\n");
  const auto missing = flatten(folder.path(), "common/include/a.cuh", "sm_90a");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("includes \"c.cuh\""));
}

}  // namespace
}  // namespace ptxbench::knowledge
