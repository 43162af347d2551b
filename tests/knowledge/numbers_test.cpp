// numbers.toml and its expressions.
#include "knowledge/numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "folder.h"

namespace ptxbench::knowledge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Numbers numbers_of(const Folder& folder) { return Numbers::load(folder.path() / "numbers.toml").value(); }

TEST(Numbers, FindsByTargetThenCommon) {
  const Folder folder;
  folder.write("numbers.toml", "[common.a]\nx = { value = 1 }\n[sm_90a.a]\nx = { value = 2 }\n");
  const Numbers numbers = numbers_of(folder);
  EXPECT_EQ((*numbers.find("sm_90a", "a.x"))->value, 2);
  EXPECT_EQ((*numbers.find("sm_100a", "a.x"))->value, 1);
  const auto missing = numbers.find("sm_90a", "a.y");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("did you mean 'a.x'?"));
}

TEST(Numbers, ContradictionsAreFound) {
  const Folder folder;
  EXPECT_THAT(numbers_of(folder).contradictions(), IsEmpty());
  folder.change("numbers.toml", "text = \"1 KiB\"", "text = \"2 KiB\"");
  EXPECT_THAT(numbers_of(folder).contradictions(), ElementsAre(HasSubstr("says 2048, the value is 1024")));
  folder.change("numbers.toml", "text = \"2 KiB\"", "text = \"1 KiB\"");
  folder.change("numbers.toml", "limits.shared * 2", "limits.shared * 3");
  EXPECT_THAT(numbers_of(folder).contradictions(), ElementsAre(HasSubstr("is 3072, the value is 2048")));
}

TEST(Numbers, TextsWithUnits) {
  const Folder folder;
  folder.write("numbers.toml",
               "[common.a]\nx = { value = 3350000000000, text = \"3.35 TB/s\" }\ny = { value = 989000000000000, text = "
               "\"989 TFLOP/s\" }\n"
               "z = { value = 65536, text = \"65,536\" }\nw = { value = 1, text = \"one\" }\n");
  EXPECT_THAT(numbers_of(folder).contradictions(), IsEmpty());
}

TEST(Numbers, BadFilesAreRefused) {
  const Folder folder;
  for (const auto& [text, message] : {std::pair{"x = 3\n", "must be a table of groups"},
                                      {"[common]\nx = 3\n", "table of facts"},
                                      {"[common.a]\nx = 3\n", "must be a table with value"},
                                      {"[common.a]\nx = { text = \"3\" }\n", "has no value"},
                                      {"[common.a]\nx = { value = \"3\" }\n", "must be an integer"},
                                      {"[common.a]\nx = { value = 3, unit = \"B\" }\n", "unknown member 'unit'"},
                                      {"[common.a\n", "numbers.toml:1"}}) {
    folder.write("numbers.toml", text);
    EXPECT_THAT(folder.error(), HasSubstr(message)) << text;
  }
}

TEST(Evaluate, FollowsTheRulesOfArithmetic) {
  const Folder folder;
  const Numbers numbers = numbers_of(folder);
  const auto value = [&](std::string_view text) { return evaluate(text, numbers, "sm_90a").value(); };
  EXPECT_EQ(value("1 + 2 * 3"), 7);
  EXPECT_EQ(value("(1 + 2) * 3"), 9);
  EXPECT_EQ(value("10 - 4 - 3"), 3);
  EXPECT_EQ(value("64 / 8 / 2"), 4);
  EXPECT_EQ(value("limits.shared - machine.sms"), 892);
}

TEST(Evaluate, RefusesTheRest) {
  const Folder folder;
  const Numbers numbers = numbers_of(folder);
  for (const char* text : {"", "1 +", "(1", "1)", "7 / 2", "1 / 0", "limits.nothing", "9223372036854775807 + 1",
                           "9223372036854775807 * 2", "99999999999999999999", "1 $ 2"}) {
    EXPECT_FALSE(evaluate(text, numbers, "sm_90a")) << text;
  }
  EXPECT_FALSE(evaluate(std::string(100000, '('), numbers, "sm_90a"));
}

}  // namespace
}  // namespace ptxbench::knowledge
