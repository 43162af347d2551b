#include "launch/description.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace ptxbench::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kComplete = R"(kernel = "k"
grid = [2, 1, 1]
block = 128
cluster = [2]
dynamic_shared = 4096
repeat = 3
[[argument]]
name = "in"
type = "bf16"
shape = [64, 32]
fill = "index"
[[argument]]
name = "out"
type = "f32"
shape = [2048]
output = true
expect = "argument:in"
[[argument]]
name = "map"
tensor_map = "in"
box = [32, 16]
swizzle = 64
[[argument]]
name = "n"
type = "s32"
value = -17
[[argument]]
name = "scale"
type = "f32"
value = 0.5
)";

TEST(LaunchDescription, ReadsEverything) {
  const auto parsed = parse(kComplete, "a.toml");
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(parsed->kernel, "k");
  EXPECT_THAT(parsed->grid, ElementsAre(2, 1, 1));
  EXPECT_THAT(parsed->block, ElementsAre(128, 1, 1));
  EXPECT_THAT(parsed->cluster, ElementsAre(2, 1, 1));
  EXPECT_EQ(parsed->dynamic_shared_bytes, 4096u);
  EXPECT_EQ(parsed->repeat, 3u);
  ASSERT_EQ(parsed->arguments.size(), 5u);
  const Argument& in = parsed->arguments[0];
  EXPECT_EQ(in.kind, ArgumentKind::memory);
  EXPECT_EQ(in.type, ElementType::bf16);
  EXPECT_THAT(in.shape, ElementsAre(64, 32));
  EXPECT_EQ(in.fill.kind, Fill::Kind::index);
  EXPECT_EQ(in.bytes(), 4096u);
  const Argument& out = parsed->arguments[1];
  EXPECT_TRUE(out.output);
  EXPECT_EQ(out.fill.kind, Fill::Kind::poison);
  EXPECT_EQ(out.expect.value().argument, "in");
  const Argument& map = parsed->arguments[2];
  EXPECT_EQ(map.kind, ArgumentKind::tensor_map);
  EXPECT_THAT(map.map.size, ElementsAre(32, 64)) << "innermost first";
  EXPECT_THAT(map.map.box, ElementsAre(32, 16));
  EXPECT_EQ(map.map.swizzle, 64u);
  EXPECT_EQ(map.line, 18u);
  EXPECT_EQ(parsed->arguments[3].scalar_bits, 0xffffffefu);
  EXPECT_EQ(parsed->arguments[4].scalar_bits, 0x3f000000u);
}

TEST(LaunchDescription, EverythingHasADefault) {
  const auto parsed = parse("", "a.toml");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->kernel, "");
  EXPECT_THAT(parsed->grid, ElementsAre(1, 1, 1));
  EXPECT_THAT(parsed->cluster, ElementsAre(0, 0, 0));
  EXPECT_EQ(parsed->repeat, 1u);
  EXPECT_TRUE(parsed->arguments.empty());
}

struct Wrong {
  const char* text;
  const char* message;  ///< what the error must contain
};
class MalformedDescription : public ::testing::TestWithParam<Wrong> {};

TEST_P(MalformedDescription, IsRefusedWithItsLine) {
  const auto parsed = parse(GetParam().text, "a.toml");
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().kind, ErrorKind::input);
  EXPECT_THAT(parsed.error().message, HasSubstr(GetParam().message));
  EXPECT_THAT(parsed.error().message, StartsWith("a.toml:"));
}

#define MEMORY "[[argument]]\nname = \"in\"\ntype = \"f32\"\nshape = [8, 4]\n"
#define MAP "[[argument]]\nname = \"m\"\ntensor_map = \"in\"\n"
INSTANTIATE_TEST_SUITE_P(
    Cases, MalformedDescription,
    ::testing::Values(
        Wrong{"grid = [1\n", "a.toml:"}, Wrong{"\ngrit = [1]\n", "a.toml:2: unknown key 'grit'; did you mean 'grid'?"},
        Wrong{"grid = \"all\"\n", "a.toml:1: 'grid' is a string; it must be a list of positive integers"},
        Wrong{"grid = []\n", "'grid' is an empty list"}, Wrong{"grid = [1, 2, 3, 4]\n", "'grid' has 4 entries"},
        Wrong{"grid = [0]\n", "'grid' is 0; it must be 1 to 4294967295"},
        Wrong{"grid = [1.5]\n", "'grid' holds a floating-point number"},
        Wrong{"grid = [4294967296]\n", "'grid' is 4294967296"}, Wrong{"repeat = 0\n", "'repeat' is 0; it must be 1 to"},
        Wrong{"dynamic_shared = -1\n", "'dynamic_shared' is -1"}, Wrong{"kernel = 7\n", "'kernel' is an integer"},
        Wrong{"argument = 5\n", "write each argument under a heading [[argument]]"},
        Wrong{"argument = [5]\n", "argument 0: it is an integer"},
        Wrong{"[[argument]]\ntype = \"f32\"\nshape = [1]\n", "argument 0: no 'name'"},
        Wrong{"[[argument]]\nname = \"a\"\ntype = \"f32\"\n", "argument 'a': neither 'shape'"},
        Wrong{"[[argument]]\nname = \"a\"\nshape = [1]\n", "a.toml:1: argument 'a': no 'type'"},
        Wrong{"[[argument]]\nname = \"a\"\nshape = [1]\ntype = \"bf17\"\n",
              "a.toml:4: argument 'a': unknown type \"bf17\"; did you mean 'bf16'?"},
        Wrong{"[[argument]]\nname = \"a\"\nshape = [-1]\ntype = \"f32\"\n", "a.toml:3: argument 'a': 'shape' is -1"},
        Wrong{"[[argument]]\nname = \"a\"\nshape = [1099511627776, 1099511627776]\ntype = \"f32\"\n", "'shape' needs"},
        Wrong{MEMORY "shap = 1\n", "unknown key 'shap'; did you mean 'shape'?"},
        Wrong{MEMORY "fill = \"ones\"\n", "a.toml:5: argument 'in': 'fill' is \"ones\"; it must be \"zero\""},
        Wrong{MEMORY "fill = \"value:x\"\n", "after \"value:\" a number is expected"},
        Wrong{"[[argument]]\nname = \"a\"\nshape = [1]\ntype = \"u8\"\nfill = \"value:256\"\n",
              "256 is not a value of type u8"},
        Wrong{MEMORY "output = 1\n", "'output' is an integer; it must be true or false"},
        Wrong{MEMORY "expect = \"index\"\n", "'expect' without 'output = true'"},
        Wrong{MEMORY "output = true\nexpect = \"poison\"\n", "'expect' is \"poison\""},
        Wrong{MEMORY "output = true\nexpect = \"argument:on\"\n", "names 'on', which is no memory argument"},
        Wrong{MEMORY "output = true\nfreed = true\n", "'freed' memory cannot be an output"},
        Wrong{MEMORY "box = [4, 8]\n", "'box' belongs to tensor maps only"},
        Wrong{MEMORY MEMORY, "a.toml:5: two arguments are named 'in'; rename one"},
        Wrong{MEMORY "[[argument]]\nname = \"o\"\ntype = \"f32\"\nshape = [3]\noutput = true\nexpect = "
                     "\"argument:in\"\n",
              "it has 3 elements, but 'expect' names 'in' with 32"},
        Wrong{MEMORY "value = 3\n", "'shape' does not belong to a scalar"},
        Wrong{"[[argument]]\nname = \"a\"\ntype = \"u8\"\nvalue = 256\n", "'value' 256 is not a value of type u8"},
        Wrong{"[[argument]]\nname = \"a\"\ntype = \"u64\"\nvalue = -1\n", "'value' -1 is not a value of type u64"},
        Wrong{"[[argument]]\nname = \"a\"\ntype = \"s32\"\nvalue = 1.5\n", "'value' 1.5 is no integer"},
        Wrong{"[[argument]]\nname = \"a\"\ntype = \"s32\"\nvalue = \"1\"\n", "'value' is a string"},
        Wrong{MEMORY MAP, "argument 'm': no 'box'"},
        Wrong{MEMORY MAP "box = [4]\n", "'box' has 1 extents, the tensor has 2 dimensions (innermost first: 4, 8)"},
        Wrong{MEMORY MAP "box = [4, 8]\nswizzle = 16\n", "'swizzle' is 16; it must be one of 0, 32, 64, 128 bytes"},
        Wrong{MEMORY MAP "box = [4, 8]\nstride = [16, 16]\n", "'stride' has 2 entries; 1 are needed"},
        Wrong{MEMORY MAP "box = [4, 8]\ntype = \"f32\"\n", "'type' does not belong to a tensor map"},
        Wrong{MEMORY MAP "box = [4, 8]\nout_of_bounds = \"one\"\n", "it must be \"zero\" or \"nan\""},
        Wrong{"[[argument]]\nname = \"m\"\ntensor_map = \"inn\"\nbox = [4]\n" MEMORY,
              "describes 'inn', which is no memory argument; did you mean 'in'?"}));

TEST(LaunchDescription, LinesCountFromTheFirstLineGiven) {
  const auto parsed = parse("\ngird = 1", "k.cu", 10);
  ASSERT_FALSE(parsed);
  EXPECT_THAT(parsed.error().message, StartsWith("k.cu:11:"));
}

/// Whatever the text, parsing gives a description or an error that names file and line.
TEST(LaunchDescription, MutatedTextNeverBreaksTheParser) {
  const std::string original = kComplete;
  const std::string words[] = {
      "[[argument]]", "\"\"\"", "= [", "shape = [1, 2]\n", "9223372036854775807",    "-1", "nan",
      "1e400",        "{",      "'",   "value:",           "tensor_map = \"out\"\n", "\0x"};
  std::mt19937_64 random(20261130);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  size_t accepted = 0;
  for (int round = 0; round < 20000 && std::chrono::steady_clock::now() < deadline; ++round) {
    std::string text = original;
    for (size_t edits = random() % 4 + 1; edits > 0 && !text.empty(); --edits) {
      const size_t at = random() % text.size();
      switch (random() % 5) {
        case 0:
          text[at] = static_cast<char>(random() & 0xff);
          break;
        case 1:
          text.erase(at, random() % 20 + 1);
          break;
        case 2:
          text.insert(at, words[random() % std::size(words)]);
          break;
        case 3:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
        default:
          text[at] = static_cast<char>('0' + random() % 10);
          break;
      }
    }
    const auto parsed = parse(text, "a.toml");
    if (parsed) {
      ++accepted;
      for (const Argument& argument : parsed->arguments) ASSERT_FALSE(argument.name.empty()) << text;
    } else {
      ASSERT_THAT(parsed.error().message, StartsWith("a.toml:")) << text;
    }
  }
  EXPECT_GT(accepted, 100u) << "mutations should not all be syntax errors";
}

}  // namespace
}  // namespace ptxbench::launch
