#include "base/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ptxbench::base {
namespace {

using ::testing::HasSubstr;

Json parse(std::string_view text) { return parse_json(text, "test").value(); }

TEST(JsonText, ErrorsHaveNameLineAndColumn) {
  const auto bad = parse_json("{\n  \"a\": ,\n}", "gemm.json");
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error().message, HasSubstr("gemm.json is not valid JSON at line 2, column 8"));
  EXPECT_FALSE(parse_json("", "empty"));
  EXPECT_FALSE(parse_json("{\"a\": \"\xff\"}", "not UTF-8"));
  EXPECT_FALSE(parse_json("{\"a\":1} x", "rest"));
}

TEST(JsonText, KeepsTheOrderOfKeys) { EXPECT_EQ(parse(R"({"z":1,"a":2})").begin().key(), "z"); }

TEST(JsonField, RequiredNamesThePathAndTheNearestKey) {
  const Json object = parse(R"({"op_tipe": "gemm"})");
  const auto missing = required<std::string>(object, "op_type", "gemm.json");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("gemm.json"));
  EXPECT_THAT(missing.error().message, HasSubstr("\"op_type\""));
  EXPECT_THAT(missing.error().message, HasSubstr("did you mean 'op_tipe'"));
  EXPECT_FALSE(required<std::string>(parse("[]"), "op_type", "x"));
}

TEST(JsonField, TypesAreNotConverted) {
  const Json object = parse(R"({"i":5,"n":-5,"f":1.5,"s":"1","b":true,"big":300,"huge":18446744073709551615})");
  EXPECT_EQ(required<int>(object, "i", "o").value(), 5);
  EXPECT_EQ(required<double>(object, "i", "o").value(), 5.0);
  EXPECT_EQ(required<std::int8_t>(object, "n", "o").value(), -5);
  EXPECT_EQ(required<std::uint64_t>(object, "huge", "o").value(), ~std::uint64_t{0});
  EXPECT_EQ(required<std::string>(object, "s", "o").value(), "1");
  EXPECT_TRUE(required<bool>(object, "b", "o").value());
  EXPECT_FALSE(required<unsigned>(object, "n", "o"));
  EXPECT_FALSE(required<int>(object, "f", "o"));
  EXPECT_FALSE(required<int>(object, "s", "o"));
  EXPECT_FALSE(required<int>(object, "b", "o"));
  EXPECT_FALSE(required<bool>(object, "i", "o"));
  EXPECT_FALSE(required<std::uint8_t>(object, "big", "o"));
  EXPECT_FALSE(required<std::int64_t>(object, "huge", "o"));
  const auto wrong = required<int>(object, "s", "o");
  EXPECT_THAT(wrong.error().message, HasSubstr("o.s: an integer is needed, found string \"1\""));
}

TEST(JsonField, OptionalIsAbsentOrNull) {
  const Json object = parse(R"({"a":null,"b":7,"c":"x"})");
  EXPECT_EQ(optional_field<int>(object, "a", "o").value(), std::nullopt);
  EXPECT_EQ(optional_field<int>(object, "none", "o").value(), std::nullopt);
  EXPECT_EQ(optional_field<int>(object, "b", "o").value(), 7);
  EXPECT_FALSE(optional_field<int>(object, "c", "o"));
}

TEST(Json, ObjectsWithMoreKeysThanCanBeSearchedAreRefused) {
  // Keys are found by looking at each: a million of them would take minutes.
  std::string text = "{\"inner\":{";
  for (int i = 0; i < 1000000; ++i) text += fmt::format("{}\"{}\":0", i == 0 ? "" : ",", i);
  const auto json = parse_json(text + "}}", "reply");
  ASSERT_FALSE(json);
  EXPECT_NE(json.error().message.find("reply: an object has more than 16384 keys"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::base
