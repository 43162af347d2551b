#include "models/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.h"
#include "models/event_stream.h"
#include "models/secrets.h"

namespace ptxbench::models {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Result<ModelConfigs> read(const std::string& text) {
  auto toml = base::read_toml(text, "m.toml", "a models file");
  if (!toml) return tl::unexpected<Error>(toml.error());
  base::TomlReader top(*toml, "m.toml", "");
  const base::TomlValue* models = top.find("models");
  if (auto finished = top.finish(); !finished) return tl::unexpected<Error>(finished.error());
  return models == nullptr ? Result<ModelConfigs>(ModelConfigs()) : read_model_configs(*models, "m.toml", "/folder");
}

constexpr const char* kComplete = R"(
[models.big]
provider = "anthropic"
base_url = "https://example.com/v1/"
model = "m-1"
key_variable = "BIG_KEY"
key_header = "x-key"
headers = { X-Title = "bench" }
max_tokens = 64000
temperature = 1
top_p = 0.95
stream = false
max_reply_bytes = 1000000
options = { thinking = { type = "adaptive" }, list = [1, 2.5, "x", true] }
prices = { input = 5, cached_input = 0.5, output = 25 }
limits = { requests_per_minute = 50, tokens_per_minute = 400000, concurrent = 16 }
retry = { attempts = 4, first_pause = 0.5, longest_pause = 10 }
timeouts = { connect = 5, idle = 60, total = 100 }
record = "recorded/big"

[models.old]
provider = "replay"
answers = "answers"
)";

TEST(ModelConfig, ReadsEveryKey) {
  const auto configs = read(kComplete);
  ASSERT_TRUE(configs) << configs.error().message;
  const ModelConfig& big = configs->at("big");
  EXPECT_EQ(big.provider, Provider::anthropic);
  EXPECT_EQ(big.base_url, "https://example.com/v1");
  EXPECT_EQ(big.model, "m-1");
  EXPECT_EQ(big.key_variable, "BIG_KEY");
  EXPECT_EQ(big.key_header, "x-key");
  EXPECT_EQ(big.headers.at("X-Title"), "bench");
  EXPECT_EQ(big.max_tokens, 64000u);
  EXPECT_EQ(big.temperature, 1.0);
  EXPECT_FALSE(big.stream);
  EXPECT_EQ(big.options["thinking"]["type"], "adaptive");
  EXPECT_EQ(big.options["list"], base::Json::array({1u, 2.5, "x", true}));
  EXPECT_EQ(big.prices.cached_input, 0.5);
  EXPECT_EQ(big.requests_per_minute, 50u);
  EXPECT_EQ(big.tokens_per_minute, 400000u);
  EXPECT_EQ(big.concurrent, 16u);
  EXPECT_EQ(big.attempts, 4u);
  EXPECT_EQ(big.first_pause, std::chrono::milliseconds(500));
  EXPECT_EQ(big.idle_timeout, std::chrono::seconds(60));
  EXPECT_EQ(big.max_reply_bytes, 1000000u);
  EXPECT_EQ(big.record, "/folder/recorded/big");
  EXPECT_EQ(configs->at("old").answers, "/folder/answers");
}

TEST(ModelConfig, ProvidersHaveTheirAddressAndKey) {
  const auto configs = read("[models.a]\nprovider = \"gemini\"\nmodel = \"g\"\n");
  ASSERT_TRUE(configs) << configs.error().message;
  EXPECT_EQ(configs->at("a").key_variable, "GEMINI_API_KEY");
  EXPECT_THAT(configs->at("a").base_url, StartsWith("https://"));
}

TEST(ModelConfig, ErrorsNameLineKeyAndRemedy) {
  const struct {
    const char* text;
    const char* says;
  } kCases[] = {
      {"[models.a\n", "m.toml:"},
      {"model = 1\n", "m.toml:1: unknown key 'model'; did you mean 'models'?"},
      {"models = 1\n", "m.toml:1: 'models' is an integer; write a table [models.NAME] per model"},
      {"models.a = 1\n", "'models.a' is an integer; it must be a table"},
      {"[models.a]\nmodel = \"x\"\n", "m.toml:1: 'models.a.provider' is missing; known are openai, openai-responses"},
      {"[models.a]\nprovider = \"antropic\"\n",
       "m.toml:2: 'models.a.provider' is 'antropic'; did you mean 'anthropic'?"},
      {"[models.a]\nprovider = \"openai\"\n", "'models.a.model' is missing"},
      {"[models.a]\nprovider = \"replay\"\n", "'models.a.answers' is missing"},
      {"[models.a]\nprovider = \"replay\"\nanswers = \"x\"\nmodel = \"y\"\n", "m.toml:4: unknown key 'models.a.model'"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nmax_token = 5\n",
       "m.toml:4: unknown key 'models.a.max_token'; did you mean 'max_tokens'?"},
      {"[models.a]\nprovider = \"openai\"\nmodel = 3\n",
       "m.toml:3: 'models.a.model' is an integer; it must be a string"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nbase_url = \"localhost\"\n",
       "m.toml:4: 'models.a.base_url' is 'localhost'"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nbase_url = \"http://u:p@h/v1\"\n", "user name or password"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nbase_url = \"http://h/v1?key=1\"\n", "without query"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nmax_tokens = 0\n",
       "m.toml:4: 'models.a.max_tokens' is 0; it must be 1 to"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\ntemperature = nan\n",
       "m.toml:4: 'models.a.temperature' is nan"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\noptions = { stream = true }\n",
       "set 'stream' beside 'options'"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\noptions = { a = 1979-05-27 }\n", "m.toml:4: a date or time"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nprices = { input = 1 }\n", "needs both 'input' and 'output'"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nlimits = { rpm = 1 }\n",
       "m.toml:4: unknown key 'models.a.limits.rpm'"},
      {"[models.a]\nprovider = \"openai\"\nmodel = \"x\"\nheaders = { A = \"b\\r\\nC: d\" }\n", "no header"},
      {"[models.\"a/b\"]\nprovider = \"openai\"\nmodel = \"x\"\n", "'a/b' is no name"},
  };
  for (const auto& test : kCases) {
    const auto configs = read(test.text);
    ASSERT_FALSE(configs) << test.text;
    EXPECT_THAT(configs.error().message, HasSubstr(test.says)) << test.text;
  }
}

TEST(ModelConfig, AKeyInTheFileIsRefusedAndNotRepeated) {
  for (const char* line :
       {"api_key = \"sk-secret\"", "key = \"sk-secret\"", "token = \"sk-secret\"", "key_variable = \"sk-secret\"",
        "headers = { Authorization = \"Bearer sk-secret\" }", "headers = { x-api-key = \"sk-secret\" }",
        "options = { a = [{ api_key = \"sk-secret\" }] }"}) {
    const auto configs = read(std::string("[models.a]\nprovider = \"openai\"\nmodel = \"x\"\n") + line + "\n");
    ASSERT_FALSE(configs) << line;
    EXPECT_THAT(configs.error().message, Not(HasSubstr("sk-secret"))) << line;
    EXPECT_THAT(configs.error().message, HasSubstr("key")) << line;
  }
}

TEST(ModelConfig, AnyDamageIsAnErrorOrAConfigurationAndNeverACrash) {
  const std::string text = kComplete;
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const char c : {'"', '[', '=', '\n', '\xff', '{'}) {
      std::string damaged = text;
      damaged[at] = c;
      const auto configs = read(damaged);
      if (configs) continue;
      EXPECT_THAT(configs.error().message, HasSubstr("m.toml"));
    }
    static_cast<void>(read(text.substr(0, at)));
  }
}

TEST(ModelConfig, SaysWhatIsMissing) {
  ModelConfig config = default_config(Provider::openai, "a");
  config.key_variable = "PTXBENCH_NO_SUCH_VARIABLE";
  EXPECT_THAT(what_is_missing(config).value(), HasSubstr("PTXBENCH_NO_SUCH_VARIABLE"));
  config.key_variable = "";
  EXPECT_FALSE(what_is_missing(config));
  config.provider = Provider::replay;
  config.answers = "/no/such/folder";
  EXPECT_THAT(what_is_missing(config).value(), HasSubstr("/no/such/folder"));
}

TEST(Secrets, AreHiddenInEveryForm) {
  const Secrets secrets("a/b+c\"d-long");
  EXPECT_EQ(secrets.hide("x a/b+c\"d-long y a%2Fb%2Bc%22d-long z a/b+c\\\"d-long"), "x [key] y [key] z [key]");
  const Secrets word("none");
  EXPECT_EQ(word.hide("none of it"), "[key] of it");
  EXPECT_EQ(word.hide_in_answer("none of it"), "none of it") << "no secret, but a word";
  EXPECT_EQ(Secrets("").hide("abc"), "abc");
}

TEST(EventStream, JoinsLinesOfOneEventAndSurvivesMissingBlankLines) {
  std::vector<std::string> events;
  EventStream stream([&](std::string_view data) -> Result<void> {
    events.emplace_back(data);
    return {};
  });
  ASSERT_TRUE(stream.feed(
      "\xef\xbb\xbfid: 1\ndata: {\"a\":\ndata: 1}\n\n: comment\ndata: {}\ndata: {}\nevent: x\n\ndata\n\ndata: end"));
  ASSERT_TRUE(stream.finish());
  EXPECT_EQ(events, (std::vector<std::string>{"{\"a\":\n1}", "{}", "{}", "", "end"}));
}

TEST(EventStream, ManyLinesOfOneEventTakeTimeInProportion) {
  // 8 MB in lines of 8 bytes that never make a whole value: looking at all of them after each would take hours.
  std::string bytes;
  for (int i = 0; i < 500000; ++i) bytes += "data: {\"a\":[\"\\\"}\",\n";
  int events = 0;
  EventStream stream([&](std::string_view) -> Result<void> {
    ++events;
    return {};
  });
  ASSERT_TRUE(stream.feed(bytes));
  EXPECT_EQ(events, 0);
  ASSERT_TRUE(stream.finish());
  EXPECT_EQ(events, 1);
}

TEST(EventStream, BracketsInTextsEndNothing) {
  std::vector<std::string> events;
  EventStream stream([&](std::string_view data) -> Result<void> {
    events.emplace_back(data);
    return {};
  });
  ASSERT_TRUE(stream.feed("data: {\"a\": \"}\\\"]\",\ndata: \"b\": [1]}\ndata: {\"c\": 1}\ndata: [DONE]\ndata: x\n\n"));
  EXPECT_THAT(events, ::testing::ElementsAre("{\"a\": \"}\\\"]\",\n\"b\": [1]}", "{\"c\": 1}", "[DONE]", "x"));
}

TEST(Secrets, NamesThatHoldKeysAreKnownAndOthersAreNot) {
  for (const char* name : {"api_key", "X-Api-Key", "Authorization", "Cookie", "Set-Cookie", "X-Auth-Token", "hf_token",
                           "HF_TOKEN", "apiToken", "api_token", "access_key", "AWS_ACCESS_KEY_ID", "secret", "key",
                           "refresh-token", "client_secret", "Proxy-Authorization", "password", "id_token"}) {
    EXPECT_TRUE(names_a_key(name)) << name;
  }
  for (const char* name : {"token", "tokens", "max_tokens", "eos_token", "bos_token", "stop_token", "monkey", "keys",
                           "top_logprobs", "next_token", "text", "author", "token_count", "per_token"}) {
    EXPECT_FALSE(names_a_key(name)) << name;
  }
  EXPECT_TRUE(may_hold_a_key("token", "hf_abcdefghijklmnop"));
  EXPECT_FALSE(may_hold_a_key("token", " wgmma"));
  EXPECT_FALSE(may_hold_a_key("token", "the quick brown fox jumps"));
}

TEST(EventStream, StopsAtTheFirstError) {
  int calls = 0;
  EventStream stream([&](std::string_view) -> Result<void> {
    ++calls;
    return infrastructure_error("no");
  });
  EXPECT_FALSE(stream.feed("data: 1\n\ndata: 2\n\n"));
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace ptxbench::models
