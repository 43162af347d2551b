#include "models/openai.h"

#include <gtest/gtest.h>
#include <httplib.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace ptxbench::models {
namespace {

/// A chat-completions endpoint on the loopback interface.
class Endpoint {
 public:
  explicit Endpoint(httplib::Server::Handler handler) {
    server_.Post("/v1/chat/completions", std::move(handler));
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
  }
  ~Endpoint() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1/"; }

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

OpenAiOptions options_for(const Endpoint& endpoint) {
  OpenAiOptions options;
  options.base_url = endpoint.url();
  options.model = "test-model";
  options.key_variable = "PTXBENCH_TEST_KEY";
  options.first_pause = std::chrono::milliseconds(1);
  options.attempts = 3;
  setenv("PTXBENCH_TEST_KEY", "sk-secret", 1);
  return options;
}

const std::vector<Message> kQuestion = {{Role::system, "be brief"}, {Role::user, "hello"}};

TEST(OpenAiModel, ReadsAStreamAndSendsTheRequest) {
  std::string seen, authorization;
  Endpoint endpoint([&](const httplib::Request& request, httplib::Response& response) {
    seen = request.body;
    authorization = request.get_header_value("Authorization");
    response.set_content(
        "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
        "data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\r\n\r\n"
        ": a comment\n\n"
        "data: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\"finish_reason\":\"stop\"}]}\n\n"
        "data: "
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":9,\"completion_tokens_details\":{"
        "\"reasoning_"
        "tokens\":4}}}\n\n"
        "data: [DONE]\n\n",
        "text/event-stream");
  });
  auto model = OpenAiModel::create(options_for(endpoint));
  ASSERT_TRUE(model) << model.error().message;
  auto completion = (*model)->complete(kQuestion);
  ASSERT_TRUE(completion) << completion.error().message;
  EXPECT_EQ(completion->text, "Hello");
  EXPECT_EQ(completion->reasoning, "hm");
  EXPECT_EQ(completion->finish_reason, "stop");
  EXPECT_EQ(completion->usage.completion_tokens, 9u);
  EXPECT_EQ(completion->usage.reasoning_tokens, 4u);
  EXPECT_EQ(authorization, "Bearer sk-secret");
  auto body = base::parse_json(seen, "request");
  ASSERT_TRUE(body);
  EXPECT_EQ((*body)["model"], "test-model");
  EXPECT_EQ((*body)["messages"][1]["content"], "hello");
  EXPECT_EQ((*model)->describe().dump().find("secret"), std::string::npos);
}

TEST(OpenAiModel, TriesAgainAfterABusyAnswer) {
  std::atomic<int> calls{0};
  Endpoint endpoint([&](const httplib::Request&, httplib::Response& response) {
    if (++calls == 1) {
      response.status = 429;
      response.set_content("{\"error\":{\"message\":\"slow down\"}}", "application/json");
      return;
    }
    response.set_content("{\"choices\":[{\"message\":{\"content\":\"ok\"},\"finish_reason\":\"stop\"}]}",
                         "application/json");
  });
  auto options = options_for(endpoint);
  options.stream = false;
  auto model = OpenAiModel::create(options);
  ASSERT_TRUE(model);
  auto completion = (*model)->complete(kQuestion);
  ASSERT_TRUE(completion) << completion.error().message;
  EXPECT_EQ(completion->text, "ok");
  EXPECT_EQ(completion->attempts, 2u);
}

TEST(OpenAiModel, AWrongKeyIsTheUsersErrorAndIsNotRepeatedInTheMessage) {
  std::atomic<int> calls{0};
  Endpoint endpoint([&](const httplib::Request&, httplib::Response& response) {
    ++calls;
    response.status = 401;
    response.set_content("{\"error\":{\"message\":\"bad key sk-secret\"}}", "application/json");
  });
  auto model = OpenAiModel::create(options_for(endpoint));
  ASSERT_TRUE(model);
  auto completion = (*model)->complete(kQuestion);
  ASSERT_FALSE(completion);
  EXPECT_EQ(completion.error().kind, ErrorKind::input);
  EXPECT_EQ(completion.error().message.find("sk-secret"), std::string::npos);
  EXPECT_EQ(calls.load(), 1);
}

TEST(OpenAiModel, AStreamThatBreaksOffIsAnInfrastructureErrorAfterAllAttempts) {
  std::atomic<int> calls{0};
  Endpoint endpoint([&](const httplib::Request&, httplib::Response& response) {
    ++calls;
    response.set_content("data: {\"choices\":[{\"delta\":{\"content\":\"Hel\"}}]}\n\n", "text/event-stream");
  });
  auto model = OpenAiModel::create(options_for(endpoint));
  ASSERT_TRUE(model);
  auto completion = (*model)->complete(kQuestion);
  ASSERT_FALSE(completion);
  EXPECT_EQ(completion.error().kind, ErrorKind::infrastructure);
  EXPECT_NE(completion.error().message.find("broke off"), std::string::npos);
  EXPECT_EQ(calls.load(), 3);
}

TEST(OpenAiModel, ChecksItsOptions) {
  OpenAiOptions options;
  EXPECT_FALSE(OpenAiModel::create(options));
  options.model = "m";
  options.base_url = "localhost:1";
  EXPECT_FALSE(OpenAiModel::create(options));
  options.base_url = "http://localhost:1";
  options.key_variable = "PTXBENCH_NO_SUCH_VARIABLE";
  auto model = OpenAiModel::create(options);
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("PTXBENCH_NO_SUCH_VARIABLE"), std::string::npos);
}

TEST(EventStream, TakesAnyCutOfItsBytes) {
  const std::string text =
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\\u00e9\"}}]}\n\ndata: "
      "{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\ndata: "
      "[DONE]\n\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EventStream stream;
    ASSERT_TRUE(stream.feed(text.substr(0, cut)));
    ASSERT_TRUE(stream.feed(text.substr(cut)));
    ASSERT_TRUE(stream.finish());
    EXPECT_EQ(stream.completion.text,
              "a\u00e9"
              "b");
  }
}

TEST(EventStream, ReportsAnErrorInsideTheStream) {
  EventStream stream;
  auto fed = stream.feed("data: {\"error\":{\"message\":\"overloaded\"}}\n\n");
  ASSERT_FALSE(fed);
  EXPECT_NE(fed.error().message.find("overloaded"), std::string::npos);
}

}  // namespace
}  // namespace ptxbench::models
