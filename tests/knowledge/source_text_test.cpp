// Regions, and what names a piece of CUDA code has.
#include "knowledge/source_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace ptxbench::knowledge {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Regions, NestAndKeepTheirLines) {
  const auto regions = find_regions("a\n// region x\nb\n  // region y\nc\n  // endregion y\n// endregion x\nd\n", "f");
  ASSERT_TRUE(regions) << regions.error().message;
  EXPECT_EQ(regions->at("x").text, "b\nc\n");
  EXPECT_EQ(regions->at("y").text, "c\n");
  EXPECT_EQ(regions->at("y").first_line, 5u);
}

TEST(Regions, BadOnesAreRefused) {
  for (const auto& [text, message] :
       {std::pair{"// region x\n", "does not end"},
        {"// endregion x\n", "closes nothing"},
        {"// region x\n// region y\n// endregion x\n", "closes 'y'"},
        {"// region x\n// endregion x\n// region x\n// endregion x\n", "a second region"}}) {
    const auto regions = find_regions(text, "file.cu");
    ASSERT_FALSE(regions) << text;
    EXPECT_THAT(regions.error().message, HasSubstr(message));
  }
}

TEST(Names, DefinitionsCallsAndWordsOfStrings) {
  const CodeNames names = read_names(R"(
// helpers: made_by_macro
/* not_a_word( */
template <int kCount>
DEVICE void pin(float (&d)[kCount]) {
  for (int i = 0; i < kCount; ++i) asm volatile("mbarrier.try_wait.parity.b64 p;\n" : "+f"(d[i])::"memory");
  other_helper<3>(d);
}
inline CUtensorMap tensor_map(const void* data) { return encode(data); }
struct Ring { DEVICE void advance() { stage = next(stage); } };
constexpr int kM = 128;
)");
  EXPECT_THAT(names.helpers, Contains("pin"));
  EXPECT_THAT(names.helpers, Contains("tensor_map"));
  EXPECT_THAT(names.helpers, Contains("Ring"));
  EXPECT_THAT(names.helpers, Contains("made_by_macro"));
  EXPECT_THAT(names.helpers, Not(Contains("encode")));
  EXPECT_THAT(names.called, Contains("other_helper"));
  EXPECT_THAT(names.called, Contains("encode"));
  EXPECT_THAT(names.called, Not(Contains("pin"))) << "its own definition is no call";
  EXPECT_THAT(names.defined, Contains("kM"));
  EXPECT_THAT(names.words, Contains("try_wait"));
  EXPECT_THAT(names.words, Not(Contains("not_a_word")));
}

TEST(Names, AnyBytesAreTaken) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string text;
    for (int j = 0; j < 200; ++j)
      text += random() % 3 == 0 ? "(){}\"'/*\\\n<"[random() % 12] : static_cast<char>(random());
    (void)read_names(text);
    (void)find_regions(text, "f");
  }
  (void)read_names(std::string(200000, '('));
  (void)read_names("\"" + std::string(1000, '\\'));
}

}  // namespace
}  // namespace ptxbench::knowledge
