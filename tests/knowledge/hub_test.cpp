// hub.toml: what tags become, and what is said of hubs that are broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "folder.h"

namespace ptxbench::knowledge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Hub, ComposesTagsInOrder) {
  const Folder folder;
  const auto hub = folder.load();
  ASSERT_TRUE(hub) << hub.error().message;
  ASSERT_EQ(hub->tags().size(), 2u);
  const auto large = hub->find("large");
  ASSERT_TRUE(large) << large.error().message;
  EXPECT_EQ(large->target, "sm_90a");
  EXPECT_EQ(large->budget, 150u);
  EXPECT_THAT(large->fragments, ElementsAre("common/docs/first.md", "sm_90a/docs/second.md"));
  const auto text = hub->text("large");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_LT(text->find("# First"), text->find("# Second"));
  EXPECT_THAT(*text, HasSubstr("```cpp\n#define DEVICE"));
  EXPECT_THAT(*text, HasSubstr("| SMs | 132 |"));
}

TEST(Hub, KnowsAliasesVariantsAndWhatIsAbsent) {
  const Folder folder;
  const auto hub = folder.load();
  ASSERT_TRUE(hub) << hub.error().message;
  EXPECT_EQ(hub->text("tiny").value(), hub->text("small").value());
  const auto patched = hub->find("large-patched");
  ASSERT_TRUE(patched) << patched.error().message;
  EXPECT_EQ(patched->name, "large-patched");
  EXPECT_EQ(patched->budget, 180u);
  EXPECT_EQ(patched->fragments.back(), "common/docs/rules.md");
  EXPECT_TRUE(hub->find("tiny-patched"));
  const auto absent = hub->find("triton-small");
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, HasSubstr("not written yet"));
  EXPECT_FALSE(hub->find("-patched"));
  EXPECT_FALSE(hub->find(""));
}

TEST(Hub, SuggestsNearNames) {
  const Folder folder;
  const auto hub = folder.load();
  ASSERT_TRUE(hub) << hub.error().message;
  const auto missing = hub->find("smal");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("did you mean 'small'?"));
  EXPECT_THAT(missing.error().message, HasSubstr("ptxbench knowledge list"));
}

TEST(Hub, ExtendingTwiceTakesADocumentOnce) {
  const Folder folder;
  folder.change("hub.toml", "extends = [\"small\"]", "extends = [\"small\", \"small\"]");
  const auto hub = folder.load();
  ASSERT_TRUE(hub) << hub.error().message;
  EXPECT_EQ(hub->find("large")->fragments.size(), 2u);
}

struct Broken {
  const char* name;
  const char *from, *to;  ///< what is changed in hub.toml
  const char* message;    ///< part of what must be said
};

void PrintTo(const Broken& broken, std::ostream* out) { *out << broken.name; }

class BrokenHub : public ::testing::TestWithParam<Broken> {};

TEST_P(BrokenHub, IsRefused) {
  const Folder folder;
  ASSERT_THAT(folder.error(), IsEmpty());
  folder.change("hub.toml", GetParam().from, GetParam().to);
  EXPECT_THAT(folder.error(), HasSubstr(GetParam().message));
  EXPECT_THAT(folder.error(), HasSubstr("hub.toml"));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, BrokenHub,
    ::testing::Values(
        Broken{"Toml", "[aliases]", "[aliases", "hub.toml:14"},
        Broken{"Cycle", "target = \"sm_90a\"", "target = \"sm_90a\"\nextends = [\"large\"]", "extend each other"},
        Broken{"SelfCycle", "target = \"sm_90a\"", "target = \"sm_90a\"\nextends = [\"small\"]", "small -> small"},
        Broken{"UnknownBase", "extends = [\"small\"]", "extends = [\"smal\"]", "did you mean 'small'?"},
        Broken{"MissingDocument", "common/docs/first.md", "common/docs/firts.md", "there is no common/docs/firts.md"},
        Broken{"DuplicateTag", "[tags.large]", "[tags.small]", "hub.toml:8"},
        Broken{"DuplicateDocument", "[\"sm_90a/docs/second.md\"]",
               "[\"sm_90a/docs/second.md\", \"sm_90a/docs/second.md\"]", "twice"},
        Broken{"UnknownTarget", "\"sm_90a\"\nsummary", "\"sm_9oa\"\nsummary", "did you mean 'sm_90a'?"},
        Broken{"OtherTarget", "extends = [\"small\"]", "extends = [\"small\"]\ntarget = \"sm_100a\"",
               "is for sm_100a, but extends"},
        Broken{"NoTarget", "target = \"sm_90a\"\nsummary", "summary", "no target"},
        Broken{"NoBudget", "budget = 150\n", "", "no budget"},
        Broken{"NegativeBudget", "budget = 150", "budget = -150", "positive"},
        Broken{"WrongType", "fragments = [\"common/docs/first.md\"]", "fragments = \"common/docs/first.md\"",
               "list of strings"},
        Broken{"UnknownMember", "budget = 150", "budget = 150\nbugdet = 3", "unknown member 'bugdet'"},
        Broken{"UnknownSection", "[absent]", "[absend]", "unknown section 'absend'"},
        Broken{"AliasOfNothing", "tiny = \"small\"", "tiny = \"smalll\"", "is no tag"},
        Broken{"AliasIsTag", "tiny = \"small\"", "large = \"small\"", "is the name of a tag"},
        Broken{"AbsentIsTag", "triton-small", "small", "said to be absent"},
        Broken{"PathUp", "common/docs/first.md", "../first.md", "no path inside"},
        Broken{"PathAbsolute", "common/docs/first.md", "/etc/passwd", "no path inside"},
        Broken{"VariantExtends", "[variants.-patched]", "[variants.-patched]\nextends = [\"small\"]",
               "extends nothing"},
        Broken{"VariantName", "[variants.-patched]", "[variants.patched]", "begins with '-'"},
        Broken{"ProgramTarget", "targets = [\"sm_90a\"", "targets = [\"sm_80\"", "unknown target"},
        Broken{"ProgramRuns", "targets = [\"sm_90a\", ", "targets = [", "not compiled for"}),
    [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(HubFolder, MustExist) {
  const Folder folder;
  folder.remove("hub.toml");
  EXPECT_THAT(folder.error(), HasSubstr("there is no hub.toml"));
}

TEST(HubFolder, LinksMayNotLeadOut) {
  const Folder folder;
  folder.remove("common/docs/first.md");
  std::filesystem::create_symlink("/etc/hostname", folder.path() / "common/docs/first.md");
  EXPECT_THAT(folder.error(), HasSubstr("leads out"));
}

// Damaged hubs are refused or accepted, and never more than that.
TEST(HubFolder, SurvivesDamage) {
  const Folder folder;
  const std::string text = base::read_file(folder.path() / "hub.toml").value();
  std::mt19937 random(7);
  for (int i = 0; i < 300; ++i) {
    std::string damaged = text;
    for (int j = 0; j < 1 + i % 5; ++j) {
      const std::size_t at = random() % damaged.size();
      switch (random() % 4) {
        case 0:
          damaged.erase(at, 1 + random() % 9);
          break;
        case 1:
          damaged[at] = static_cast<char>(random());
          break;
        case 2:
          damaged.insert(at, damaged.substr(random() % damaged.size(), random() % 30));
          break;
        default:
          damaged.insert(at, 1, "[]\"{}=.,\n#"[random() % 10]);
      }
      if (damaged.empty()) damaged.push_back('#');
    }
    folder.write("hub.toml", damaged);
    const auto hub = folder.load();
    if (!hub) {
      EXPECT_FALSE(hub.error().message.empty());
      continue;
    }
    for (const Tag& tag : hub->tags()) (void)hub->text(tag.name);
  }
}

}  // namespace
}  // namespace ptxbench::knowledge
