// Limits, retries, time-outs, cancelling, costs and keys: what every provider has in common.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "loopback.h"

namespace ptxbench::models {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr const char* kHello =
    R"({"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":30}})";

void hello(httplib::Response& response) { response.set_content(kHello, "application/json"); }

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TEST(Endpoint, ARateLimitIsWaitedForAsLongAsTheServerSays) {
  Loopback server([](int number, const auto&, httplib::Response& response) {
    if (number > 1) return hello(response);
    response.status = 429;
    response.set_header("Retry-After", "1");
    response.set_content(R"({"error":{"message":"slow down"}})", "application/json");
  });
  auto model = model_of(config_for(server, Provider::openai));
  Result<Completion> completion;
  const double seconds = seconds_of([&] { completion = model->complete(kQuestion); });
  ASSERT_TRUE(completion) << completion.error().message;
  EXPECT_EQ(completion->attempts, 2u);
  EXPECT_GE(seconds, 1.0);
}

TEST(Endpoint, WhatOneRequestIsToldHoldsForAllOthers) {
  std::atomic<int> early{0};
  const auto start = std::chrono::steady_clock::now();
  Loopback server([&](int number, const auto&, httplib::Response& response) {
    if (number == 1) {
      response.status = 429;
      response.set_header("retry-after-ms", "400");
      return;
    }
    if (std::chrono::steady_clock::now() - start < 350ms) ++early;
    hello(response);
  });
  auto model = model_of(config_for(server, Provider::openai));
  std::vector<std::future<Result<Completion>>> others;
  others.push_back(std::async(std::launch::async, [&] { return model->complete(kQuestion); }));
  while (server.count() == 0) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  for (int i = 0; i < 5; ++i)
    others.push_back(std::async(std::launch::async, [&] { return model->complete(kQuestion); }));
  for (auto& other : others) EXPECT_TRUE(other.get());
  EXPECT_EQ(early.load(), 0);
}

TEST(Endpoint, GooglesRetryInfoCounts) {
  EXPECT_EQ(retry_delay(R"({"error":{"details":[{"@type":"x"},{"retryDelay":"1.5s"}]}})"), 1500ms);
  EXPECT_EQ(retry_delay(R"([{"error":{"details":[{"retryDelay":"2s"}]}}])"), 2000ms);
  for (const char* text :
       {"", "{}", "[]", "[1]", R"({"error":"x"})", R"({"error":{"details":[{"retryDelay":"soon"}]}})"}) {
    EXPECT_FALSE(retry_delay(text)) << text;
  }
}

TEST(Endpoint, RetryAfterMayBeADate) {
  EXPECT_EQ(parse_retry_after("120"), 120000ms);
  EXPECT_EQ(parse_retry_after("0.5"), 500ms);
  EXPECT_EQ(parse_retry_after("99999999999"), 3600000ms) << "an hour is the longest";
  EXPECT_EQ(parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), 0ms) << "has passed";
  for (const char* text : {"", "soon", "-", "nan", "1h"}) EXPECT_FALSE(parse_retry_after(text)) << text;
}

TEST(Endpoint, AStormOfServerErrorsIsGivenUpOnAfterAllAttempts) {
  Loopback server([](int number, const auto&, httplib::Response& response) {
    response.status = 500 + number;
    response.set_content("<html>oops</html>", "text/html");
  });
  auto config = config_for(server, Provider::openai);
  config.attempts = 5;
  const auto completion = model_of(config)->complete(kQuestion);
  ASSERT_FALSE(completion);
  EXPECT_EQ(completion.error().kind, ErrorKind::infrastructure);
  EXPECT_THAT(completion.error().message, HasSubstr("answered 505: <html>oops</html> (tried 5 times)"));
  EXPECT_EQ(server.count(), 5u);
}

TEST(Endpoint, AServerThatIsNotThereIsAnInfrastructureError) {
  ModelConfig config;
  {
    Loopback server([](int, const auto&, httplib::Response&) {});
    config = config_for(server, Provider::openai);
  }
  const auto completion = model_of(config)->complete(kQuestion);
  ASSERT_FALSE(completion);
  EXPECT_EQ(completion.error().kind, ErrorKind::infrastructure);
  EXPECT_THAT(completion.error().message, HasSubstr("tried 3 times"));
}

TEST(Endpoint, BrokenRepliesAreAskedForAgain) {
  for (const char* broken : {"", "{", "[]", "null", "{\"choices\":[]}", "{\"choices\":[{}]}", "<html>", "\xff\xfe"}) {
    Loopback server([&](int number, const auto&, httplib::Response& response) {
      if (number == 3) return hello(response);
      response.set_content(broken, "application/json");
    });
    const auto completion = model_of(config_for(server, Provider::openai))->complete(kQuestion);
    ASSERT_TRUE(completion) << broken << ": " << completion.error().message;
    EXPECT_EQ(completion->attempts, 3u);
  }
}

TEST(Endpoint, AConnectionThatBreaksWithinAStreamIsAskedForAgain) {
  Loopback server([](int number, const auto&, httplib::Response& response) {
    if (number == 2) return hello(response);
    stream_pieces(response, {"data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n"}, 1ms, false);
  });
  const auto completion = model_of(config_for(server, Provider::openai))->complete(kQuestion);
  ASSERT_TRUE(completion) << completion.error().message;
  EXPECT_EQ(completion->text, "ok") << "nothing of the broken stream is left";
}

TEST(Endpoint, WhatMayBeBilledIsAskedAFewTimesOnlyAndCounted) {
  Loopback server([](int, const auto&, httplib::Response& response) {
    response.set_content("data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(400, 'x') + "\"}}]}\n\n",
                         "text/event-stream");
  });
  auto config = config_for(server, Provider::openai);
  config.attempts = 10;
  config.prices.input = 1;
  config.prices.output = 10;
  auto model = model_of(config);
  const auto completion = model->complete(kQuestion);
  ASSERT_FALSE(completion);
  EXPECT_EQ(completion.error().kind, ErrorKind::infrastructure);
  EXPECT_THAT(completion.error().message, HasSubstr("asked 3 times and not again"));
  EXPECT_EQ(server.count(), 3u);
  EXPECT_EQ(model->lost().attempts, 3u);
  EXPECT_GE(model->lost().tokens, 300u) << "400 characters each time";
  EXPECT_GE(model->lost().cost, 300 * 10e-6);
}

TEST(Endpoint, OurOwnTimeOutMayBeBilledToo) {
  std::atomic<bool> over{false};
  {
    Loopback server([&](int, const auto&, httplib::Response& response) {
      while (!over) std::this_thread::sleep_for(1ms);
      hello(response);
    });
    auto config = config_for(server, Provider::openai);
    config.attempts = 10;
    config.total_timeout = 50ms;
    auto model = model_of(config);
    const auto completion = model->complete(kQuestion);
    over = true;
    ASSERT_FALSE(completion);
    EXPECT_THAT(completion.error().message, HasSubstr("asked 3 times and not again"));
    EXPECT_EQ(model->lost().attempts, 3u);
  }
}

TEST(Endpoint, SlowTokensAreProgress) {
  Loopback server([](int, const auto&, httplib::Response& response) {
    std::vector<std::string> pieces;
    for (int i = 0; i < 8; ++i) pieces.emplace_back("data: {\"choices\":[{\"delta\":{\"content\":\"tok \"}}]}\n\n");
    pieces.emplace_back("data: [DONE]\n\n");
    stream_pieces(response, pieces, 20ms);
  });
  std::vector<std::size_t> seen;
  CompletionOptions options;
  options.progress = [&](std::size_t characters) { seen.push_back(characters); };
  const auto completion = model_of(config_for(server, Provider::openai))->complete(kQuestion, options);
  ASSERT_TRUE(completion) << completion.error().message;
  EXPECT_EQ(completion->text.size(), 32u);
  EXPECT_FALSE(completion->usage.prompt_tokens) << "a usage that is missing is not zero";
  EXPECT_FALSE(completion->usage.total_tokens());
  EXPECT_GE(seen.size(), 4u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GE(completion->seconds, 0.15);
}

TEST(Endpoint, ASilentServerIsNotWaitedForForever) {
  std::promise<void> release;
  auto released = release.get_future().share();
  {
    Loopback server([&](int, const auto&, httplib::Response&) { released.wait_for(5s); });
    auto config = config_for(server, Provider::openai);
    config.attempts = 1;
    config.total_timeout = 200ms;
    Result<Completion> completion;
    EXPECT_LT(seconds_of([&] { completion = model_of(config)->complete(kQuestion); }), 3);
    ASSERT_FALSE(completion);
    EXPECT_EQ(completion.error().kind, ErrorKind::infrastructure);
    release.set_value();
  }
}

TEST(Endpoint, CancellingEndsARequestAtOnce) {
  std::promise<void> release;
  auto released = release.get_future().share();
  Loopback server([&](int, const auto&, httplib::Response&) { released.wait_for(5s); });
  auto model = model_of(config_for(server, Provider::openai));
  std::stop_source stop;
  CompletionOptions options;
  options.cancel = stop.get_token();
  auto running = std::async(std::launch::async, [&] { return model->complete(kQuestion, options); });
  while (server.count() == 0) std::this_thread::sleep_for(1ms);
  stop.request_stop();
  ASSERT_EQ(running.wait_for(2s), std::future_status::ready);
  const auto completion = running.get();
  ASSERT_FALSE(completion);
  EXPECT_EQ(completion.error().message, "cancelled");
  // Also before it begins, and while it waits.
  EXPECT_FALSE(model->complete(kQuestion, options));
  release.set_value();
}

TEST(Endpoint, CancellingEndsAWaitForTheNextAttempt) {
  Loopback server([](int, const auto&, httplib::Response& response) {
    response.status = 503;
    response.set_header("Retry-After", "60");
  });
  auto model = model_of(config_for(server, Provider::openai));
  std::stop_source stop;
  CompletionOptions options;
  options.cancel = stop.get_token();
  auto running = std::async(std::launch::async, [&] { return model->complete(kQuestion, options); });
  while (server.count() == 0) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  stop.request_stop();
  EXPECT_EQ(running.wait_for(2s), std::future_status::ready);
}

TEST(Endpoint, ManyRequestsAreUnderWayAtATimeOnOneThread) {
  std::atomic<int> inside{0}, most{0};
  Loopback server([&](int, const auto&, httplib::Response& response) {
    const int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(300ms);
    --inside;
    hello(response);
  });
  auto model = model_of(config_for(server, Provider::openai));
  std::atomic<int> done{0};
  const double seconds = seconds_of([&] {
    for (int i = 0; i < 48; ++i) {
      std::this_thread::sleep_for(3ms);  // the server's queue of connections is short
      model->start(kQuestion, {}, [&](const Result<Completion>& completion) { done += completion ? 1 : 1000; });
    }
    while (done < 48) std::this_thread::sleep_for(1ms);
  });
  EXPECT_EQ(done.load(), 48);
  EXPECT_GE(most.load(), 32);
  EXPECT_LT(seconds, 2);
}

TEST(Endpoint, ConcurrentOnesAreLimitedWhereConfigured) {
  std::atomic<int> inside{0}, most{0};
  Loopback server([&](int, const auto&, httplib::Response& response) {
    const int now = ++inside;
    for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(5ms);
    --inside;
    hello(response);
  });
  auto config = config_for(server, Provider::openai);
  config.concurrent = 3;
  auto model = model_of(config);
  std::atomic<int> done{0};
  for (int i = 0; i < 20; ++i) model->start(kQuestion, {}, [&](const Result<Completion>&) { ++done; });
  while (done < 20) std::this_thread::sleep_for(1ms);
  EXPECT_LE(most.load(), 3);
}

TEST(Endpoint, AWrongKeyIsTheUsersErrorAndTriedOnce) {
  for (const int status : {400, 401, 402, 403, 404, 422}) {
    Loopback server([&](int, const auto&, httplib::Response& response) {
      response.status = status;
      response.set_content(R"({"error":{"message":"no"}})", "application/json");
    });
    const auto completion = model_of(config_for(server, Provider::openai))->complete(kQuestion);
    ASSERT_FALSE(completion);
    EXPECT_EQ(completion.error().kind, ErrorKind::input) << status;
    EXPECT_EQ(server.count(), 1u) << status;
  }
}

TEST(Endpoint, KeysAreHiddenWhateverTheServerDoesWithThem) {
  const std::string key = kTestKey;
  const std::string quoted = base::Json(key).dump();
  const std::string encoded = "sk-secret%2Fwith%2Bodd%22characters";
  for (const auto& [status, body] : std::vector<std::pair<int, std::string>>{
           {401, R"({"error":{"message":"bad key )" + quoted.substr(1, quoted.size() - 2) + R"("}})"},
           {401, "bad key " + key},
           {500, "raw: " + quoted},
           {500, "url?key=" + encoded},
           {200, R"({"error":{"message":"invalid: )" + quoted.substr(1, quoted.size() - 2) + R"("}})"},
           {200, "not JSON " + key}}) {
    Loopback server([&, status = status, body = body](int, const auto&, httplib::Response& response) {
      response.status = status;
      response.set_content(body, "application/json");
    });
    const auto completion = model_of(config_for(server, Provider::openai))->complete(kQuestion);
    ASSERT_FALSE(completion);
    for (const std::string& secret : {key, quoted, encoded, std::string("sk-secret")}) {
      EXPECT_THAT(completion.error().message, Not(HasSubstr(secret)));
    }
  }
  // Where a long text is cut, half a key would be known by nothing.
  for (const std::size_t before : {250, 285, 290, 295, 299, 560, 585, 590, 599}) {
    for (const bool json : {false, true}) {
      const std::string text = std::string(before, 'x') + key + std::string(800, 'y');
      Loopback server([&](int, const auto&, httplib::Response& response) {
        response.status = 401;
        response.set_content(json ? base::Json{{"error", {{"message", text}}}}.dump() : text, "application/json");
      });
      const auto refused = model_of(config_for(server, Provider::openai))->complete(kQuestion);
      ASSERT_FALSE(refused);
      EXPECT_THAT(refused.error().message, Not(HasSubstr("sk-s"))) << before;
      EXPECT_THAT(refused.error().message, Not(HasSubstr("acters"))) << before;
    }
  }
  // A model, or a proxy, that says the key; in pieces too.
  Loopback server([&](int, const auto&, httplib::Response& response) {
    std::vector<std::string> pieces;
    for (const char c : key) {
      pieces.push_back(
          "data: " +
          base::Json{{"choices", {{{"delta", {{"content", std::string(1, c)}, {"reasoning", std::string(1, c)}}}}}}}
              .dump() +
          "\n\n");
    }
    pieces.emplace_back("data: [DONE]\n\n");
    stream_pieces(response, pieces, 0ms);
  });
  const auto model = model_of(config_for(server, Provider::openai));
  const auto completion = model->complete(kQuestion);
  ASSERT_TRUE(completion) << completion.error().message;
  EXPECT_EQ(completion->text, "[key]");
  EXPECT_EQ(completion->reasoning, "[key]");
  EXPECT_THAT(model->describe().dump(), Not(HasSubstr("sk-secret")));
}

TEST(Endpoint, ARedirectIsNotFollowed) {
  Loopback elsewhere([](int, const auto&, httplib::Response& response) { hello(response); });
  Loopback server([&](int, const auto&, httplib::Response& response) {
    response.status = 307;
    response.set_header("Location", elsewhere.url() + "/v1/chat/completions");
  });
  const auto completion = model_of(config_for(server, Provider::openai))->complete(kQuestion);
  ASSERT_FALSE(completion);
  EXPECT_THAT(completion.error().message, HasSubstr("redirect"));
  EXPECT_EQ(elsewhere.count(), 0u);
}

TEST(Endpoint, HugeRepliesAreCutOff) {
  Loopback server([](int, const auto&, httplib::Response& response) {
    response.set_content(std::string(3 << 20, ' '), "application/json");
  });
  auto config = config_for(server, Provider::openai);
  config.max_reply_bytes = 1 << 20;
  config.attempts = 1;
  const auto completion = model_of(config)->complete(kQuestion);
  ASSERT_FALSE(completion);
  EXPECT_THAT(completion.error().message, HasSubstr("larger than 1048576 bytes"));
  // One that is allowed takes time in proportion to its size, also on a single line of a stream.
  const std::string line = "data: {\"choices\":[{\"delta\":{\"content\":\"" + std::string(16 << 20, 'x') + "\"}}]}\n\n";
  Loopback big([&](int, const auto&, httplib::Response& response) {
    response.set_content(line + "data: [DONE]\n\n", "text/event-stream");
  });
  EXPECT_LT(seconds_of([&] {
              const auto answer = model_of(config_for(big, Provider::openai))->complete(kQuestion);
              ASSERT_TRUE(answer) << answer.error().message;
              EXPECT_EQ(answer->text.size(), std::size_t{16} << 20);
            }),
            5);
}

TEST(Endpoint, CostsAreTheProvidersOrFollowFromPricesOrAreUnknown) {
  Loopback server([](int number, const auto&, httplib::Response& response) {
    response.set_content(
        number == 1 ? std::string(kHello)
        : number == 2
            ? R"({"choices":[{"message":{"content":"ok"}}],"usage":{"prompt_tokens":100,"completion_tokens":30,"cost":0.25}})"
            : R"({"choices":[{"message":{"content":"ok"}}]})",
        "application/json");
  });
  auto config = config_for(server, Provider::openai);
  config.prices = {.input = 2, .output = 10, .cached_input = {}};
  auto model = model_of(config);
  EXPECT_TRUE(model->knows_cost());
  EXPECT_DOUBLE_EQ(model->complete(kQuestion)->usage.cost.value(), (100 * 2 + 30 * 10) / 1e6);
  EXPECT_DOUBLE_EQ(model->complete(kQuestion)->usage.cost.value(), 0.25) << "the provider knows better";
  EXPECT_FALSE(model->complete(kQuestion)->usage.cost) << "unknown is not zero";
  EXPECT_EQ(to_json(Usage())["cost"], nullptr);
  EXPECT_DOUBLE_EQ(cost_by_prices({.input = 2, .output = 10, .cached_input = 0.5}, 100, 40, 30).value(),
                   (60 * 2 + 40 * 0.5 + 30 * 10) / 1e6);
}

TEST(Endpoint, AKeyMayTravelInAnotherHeader) {
  Loopback server([](int, const auto&, httplib::Response& response) { hello(response); });
  auto config = config_for(server, Provider::openai);
  config.key_header = "api-key";
  config.headers = {{"X-Title", "PTXBench"}};
  ASSERT_TRUE(model_of(config)->complete(kQuestion));
  EXPECT_EQ(server.requests()[0].header("api-key"), kTestKey);
  EXPECT_EQ(server.requests()[0].header("Authorization"), "");
  EXPECT_EQ(server.requests()[0].header("X-Title"), "PTXBench");
  config.key_variable = "";
  config.key_header = "";
  ASSERT_TRUE(model_of(config)->complete(kQuestion));
  EXPECT_EQ(server.requests()[1].header("Authorization"), "") << "no variable, no key";
}

TEST(Endpoint, AMissingKeyIsNamedBeforeAnythingIsSent) {
  ModelConfig config = default_config(Provider::openai, "fast");
  config.model = "m";
  config.key_variable = "PTXBENCH_NO_SUCH_VARIABLE";
  const auto model = EndpointModel::create(config);
  ASSERT_FALSE(model);
  EXPECT_THAT(model.error().message, HasSubstr("PTXBENCH_NO_SUCH_VARIABLE"));
}

TEST(RateLimiter, NeverAllowsMoreRequestsInAnyMinute) {
  RateLimiter limiter({.requests_per_minute = 5, .tokens_per_minute = {}});
  RateLimiter::Time now{};
  now += 1h;
  std::vector<RateLimiter::Time> started;
  for (int i = 0; i < 200; ++i) {
    const auto wait = limiter.try_start(now, 1);
    if (wait == RateLimiter::Duration::zero()) {
      started.push_back(now);
      now += std::chrono::milliseconds(i * 37 % 5000);
    } else {
      now += wait;
      EXPECT_EQ(limiter.try_start(now, 1), RateLimiter::Duration::zero()) << "the wait is exact";
      started.push_back(now);
    }
  }
  for (std::size_t i = 5; i < started.size(); ++i) EXPECT_GE(started[i] - started[i - 5], 60s);
}

TEST(RateLimiter, KeepsTokensBelowTheLimitAndCorrectsEstimates) {
  RateLimiter limiter({.requests_per_minute = {}, .tokens_per_minute = 1000});
  RateLimiter::Time now{};
  now += 1h;
  EXPECT_EQ(limiter.try_start(now, 600), RateLimiter::Duration::zero());
  EXPECT_EQ(limiter.try_start(now + 10s, 600), 50s);
  limiter.correct(now, 600, 100);
  EXPECT_EQ(limiter.try_start(now + 10s, 600), RateLimiter::Duration::zero());
  EXPECT_EQ(limiter.try_start(now + 11s, 600), 59s) << "until the second one is a minute old";
  EXPECT_EQ(limiter.try_start(now + 71s, 5000), RateLimiter::Duration::zero()) << "what never fits goes alone";
  EXPECT_EQ(limiter.try_start(now + 72s, 1), 59s);
  limiter.hold_until(now + 200s);
  EXPECT_EQ(limiter.try_start(now + 190s, 1), 10s);
}

}  // namespace
}  // namespace ptxbench::models
