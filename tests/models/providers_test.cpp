// What each provider is sent, and how its replies are read, whole and as streams.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "loopback.h"
#include "models/event_stream.h"

namespace ptxbench::models {
namespace {

using base::Json;
using ::testing::HasSubstr;

struct Dialogue {
  Provider provider;
  std::string path;        ///< with streams
  std::string key_header;  ///< name and what stands before the key
  std::string whole, stream;
  const char* finish;
  const char* stream_end;  ///< the part of `stream` without which it is cut off
};

std::string sse(std::initializer_list<std::string> events) {
  std::string out;
  for (const std::string& event : events) out += "data: " + event + "\n\n";
  return out;
}

/// Every one says "Hello" after thinking "hm", with 100 prompt tokens of which 40 were cached, and 30 completion tokens
/// of which 10 were reasoning.
std::vector<Dialogue> dialogues() {
  const std::string chat_usage =
      R"("usage":{"prompt_tokens":100,"completion_tokens":30,"prompt_tokens_details":{"cached_tokens":40},"completion_tokens_details":{"reasoning_tokens":10}})";
  const std::string responses_usage =
      R"("usage":{"input_tokens":100,"output_tokens":30,"input_tokens_details":{"cached_tokens":40},"output_tokens_details":{"reasoning_tokens":10}})";
  const std::string gemini_usage =
      R"("usageMetadata":{"promptTokenCount":100,"candidatesTokenCount":20,"thoughtsTokenCount":10,"cachedContentTokenCount":40,"totalTokenCount":130})";
  return {
      {Provider::openai, "/v1/chat/completions", "Authorization: Bearer ",
       R"({"choices":[{"message":{"role":"assistant","content":"Hello","reasoning_content":"hm"},"finish_reason":"stop"}],)" +
           chat_usage + "}",
       ": a comment\n\n" +
           sse({R"({"choices":[{"delta":{"reasoning_content":"h"}}]})",
                R"({"choices":[{"delta":{"reasoning_content":"m"}}]})", R"({"choices":[{"delta":{"content":"Hel"}}]})",
                R"({"choices":[{"delta":{"content":"lo"},"finish_reason":"stop"}]})",
                R"({"choices":[],)" + chat_usage + "}", "[DONE]"}),
       "stop", R"("finish_reason":"stop")"},
      {Provider::openrouter, "/v1/chat/completions", "Authorization: Bearer ",
       R"({"choices":[{"message":{"content":[{"type":"text","text":"Hello"}],"reasoning":"hm"},"finish_reason":"stop"}],)" +
           chat_usage + "}",
       ": OPENROUTER PROCESSING\n\n" + sse({R"({"choices":[{"delta":{"reasoning":"hm","content":""}}]})",
                                            R"({"choices":[{"delta":{"content":"Hello"},"finish_reason":"stop"}]})",
                                            R"({"choices":[{"delta":{"content":""}}],)" + chat_usage + "}", "[DONE]"}),
       "stop", R"("finish_reason":"stop")"},
      {Provider::responses, "/v1/responses", "Authorization: Bearer ",
       R"({"status":"completed","error":null,"incomplete_details":null,"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"Hello"}]}],)" +
           responses_usage + "}",
       "event: response.created\n" + sse({R"({"type":"response.created","response":{"status":"in_progress"}})"}) +
           sse({R"({"type":"response.reasoning_summary_text.delta","delta":"hm"})",
                R"({"type":"response.output_text.delta","delta":"Hel"})",
                R"({"type":"response.output_text.delta","delta":"lo"})",
                R"({"type":"response.completed","response":{"status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Hello"}]}],)" +
                    responses_usage + "}}"}),
       "stop", R"("type":"response.completed")"},
      {Provider::anthropic, "/v1/messages", "x-api-key: ",
       R"({"type":"message","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":50,"cache_read_input_tokens":40,"cache_creation_input_tokens":10,"output_tokens":30,"output_tokens_details":{"thinking_tokens":10}}})",
       "event: message_start\n" +
           sse({R"({"type":"message_start","message":{"content":[],"usage":{"input_tokens":50,"cache_read_input_tokens":40,"cache_creation_input_tokens":10,"output_tokens":1}}})",
                R"({"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}})",
                R"({"type":"ping"})",
                R"({"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}})",
                R"({"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}})",
                R"({"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}})",
                R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hel"}})",
                R"({"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"lo"}})",
                R"({"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":30,"output_tokens_details":{"thinking_tokens":10}}})",
                R"({"type":"message_stop"})"}),
       "end_turn", R"("type":"message_stop")"},
      {Provider::gemini, "/v1/models/test-model:streamGenerateContent?alt=sse", "x-goog-api-key: ",
       R"({"candidates":[{"content":{"role":"model","parts":[{"text":"hm","thought":true},{"text":"Hello"}]},"finishReason":"STOP"}],)" +
           gemini_usage + "}",
       sse({R"({"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}],)" + gemini_usage + "}",
            R"({"candidates":[{"content":{"parts":[{"text":"Hel"}]}}]})",
            R"({"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}],)" + gemini_usage + "}"}),
       "STOP", R"("finishReason":"STOP")"},
  };
}

void expect_hello(const Result<Completion>& completion, const Dialogue& dialogue) {
  ASSERT_TRUE(completion) << to_string(dialogue.provider) << ": " << completion.error().message;
  EXPECT_EQ(completion->text, "Hello") << to_string(dialogue.provider);
  EXPECT_EQ(completion->reasoning, "hm") << to_string(dialogue.provider);
  EXPECT_EQ(completion->finish_reason, dialogue.finish);
  EXPECT_EQ(completion->usage.prompt_tokens, 100u) << to_string(dialogue.provider);
  EXPECT_EQ(completion->usage.completion_tokens, 30u);
  EXPECT_EQ(completion->usage.reasoning_tokens, 10u);
  EXPECT_EQ(completion->usage.cached_tokens, 40u);
  EXPECT_FALSE(completion->usage.cost) << "no price is known";
  EXPECT_EQ(completion->attempts, 1u);
}

TEST(Providers, RepliesInOnePieceAreRead) {
  for (const Dialogue& dialogue : dialogues()) {
    Loopback server([&](int, const auto&, httplib::Response& response) {
      response.set_content(dialogue.whole, "application/json");
    });
    auto config = config_for(server, dialogue.provider);
    config.stream = false;
    expect_hello(model_of(config)->complete(kQuestion), dialogue);
    EXPECT_EQ(server.requests()[0].body.find("\"stream\""), std::string::npos);
  }
}

TEST(Providers, StreamsAreRead) {
  for (const Dialogue& dialogue : dialogues()) {
    Loopback server([&](int, const auto&, httplib::Response& response) {
      response.set_content(dialogue.stream, "text/event-stream; charset=utf-8");
    });
    expect_hello(model_of(config_for(server, dialogue.provider))->complete(kQuestion), dialogue);
    const auto request = server.requests()[0];
    EXPECT_EQ(request.path, dialogue.path);
    const std::size_t colon = dialogue.key_header.find(": ");
    EXPECT_EQ(request.header(dialogue.key_header.substr(0, colon)), dialogue.key_header.substr(colon + 2) + kTestKey);
  }
}

TEST(Providers, StreamsCutByteByByteAreRead) {
  for (const Dialogue& dialogue : dialogues()) {
    auto dialect = make_dialect(dialogue.provider);
    for (const std::string ends : {"\n", "\r\n"}) {
      std::string text = dialogue.stream;
      if (ends != "\n") {
        std::string other;
        for (const char c : text) other += c == '\n' ? ends : std::string(1, c);
        text = other;
      }
      auto reader = dialect->reader();
      EventStream stream([&](std::string_view data) { return reader->event(data); });
      for (const char c : text) ASSERT_TRUE(stream.feed({&c, 1}));
      ASSERT_TRUE(stream.finish());
      ASSERT_TRUE(reader->finish()) << to_string(dialogue.provider);
      EXPECT_EQ(reader->completion.text, "Hello");
    }
  }
}

TEST(Providers, AStreamWithoutItsEndIsNoAnswer) {
  for (const Dialogue& dialogue : dialogues()) {
    const std::size_t end = dialogue.stream.find(dialogue.stream_end);
    ASSERT_NE(end, std::string::npos) << to_string(dialogue.provider);
    const std::string part = dialogue.stream.substr(0, dialogue.stream.rfind("data:", end));
    Loopback server(
        [&](int, const auto&, httplib::Response& response) { response.set_content(part, "text/event-stream"); });
    const auto completion = model_of(config_for(server, dialogue.provider))->complete(kQuestion);
    ASSERT_FALSE(completion) << to_string(dialogue.provider);
    EXPECT_EQ(completion.error().kind, ErrorKind::infrastructure);
    EXPECT_THAT(completion.error().message, HasSubstr("broke off"));
    EXPECT_EQ(server.count(), 3u) << "a broken stream is worth another attempt";
  }
}

TEST(Providers, AnyDamageToAReplyIsAnErrorOrAnAnswerAndNeverACrash) {
  for (const Dialogue& dialogue : dialogues()) {
    auto dialect = make_dialect(dialogue.provider);
    for (const bool is_whole : {true, false}) {
      const std::string& text = is_whole ? dialogue.whole : dialogue.stream;
      for (std::size_t at = 0; at < text.size(); ++at) {
        for (const char c : {'"', '{', ']', '0', '\n', '\xff'}) {
          std::string damaged = text;
          damaged[at] = c;
          auto reader = dialect->reader();
          if (is_whole) {
            static_cast<void>(reader->whole(damaged));
          } else {
            EventStream stream([&](std::string_view data) { return reader->event(data); });
            if (stream.feed(damaged)) static_cast<void>(stream.finish());
            static_cast<void>(reader->finish());
          }
        }
      }
    }
    // Members of every wrong type, everywhere.
    const Json whole = *base::parse_json(dialogue.whole, "reply");
    const Json flat = whole.flatten();
    for (const auto& [pointer, value] : flat.items()) {
      for (const Json& other :
           {Json(nullptr), Json(1), Json(-1), Json("x"), Json::array(), Json::object(), Json(true)}) {
        Json changed = whole;
        changed[Json::json_pointer(pointer)] = other;
        auto reader = dialect->reader();
        static_cast<void>(reader->whole(changed.dump()));
        reader = dialect->reader();
        static_cast<void>(reader->event(changed.dump()));
      }
    }
  }
}

TEST(Providers, AreAskedInTheirOwnWords) {
  Loopback server(
      [&](int, const auto&, httplib::Response& response) { response.set_content("{}", "application/json"); });
  const auto body_for = [&](Provider provider) {
    auto config = config_for(server, provider);
    config.max_tokens = 1000;
    config.temperature = 0.5;
    config.top_p = 0.9;
    config.options = {{"top_k", 20}, {"generationConfig", {{"thinkingConfig", {{"thinkingLevel", "low"}}}}}};
    return request_body(*make_dialect(provider), config, kQuestion);
  };
  Json body = body_for(Provider::openai);
  EXPECT_EQ(body["model"], "test-model");
  EXPECT_EQ(body["messages"].size(), 4u);
  EXPECT_EQ(body["messages"][0], Json({{"role", "system"}, {"content", "be brief"}}));
  EXPECT_EQ(body["max_tokens"], 1000);
  EXPECT_EQ(body["top_k"], 20);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
  EXPECT_FALSE(body.contains("usage"));
  EXPECT_EQ(body_for(Provider::openrouter)["usage"]["include"], true);
  body = body_for(Provider::responses);
  EXPECT_EQ(body["instructions"], "be brief");
  EXPECT_EQ(body["input"].size(), 3u);
  EXPECT_EQ(body["max_output_tokens"], 1000);
  body = body_for(Provider::anthropic);
  EXPECT_EQ(body["system"], "be brief");
  EXPECT_EQ(body["messages"][1], Json({{"role", "assistant"}, {"content", "hi"}}));
  body = body_for(Provider::gemini);
  EXPECT_EQ(body["systemInstruction"]["parts"][0]["text"], "be brief");
  EXPECT_EQ(body["contents"][1]["role"], "model");
  EXPECT_EQ(body["generationConfig"]["maxOutputTokens"], 1000);
  EXPECT_EQ(body["generationConfig"]["thinkingConfig"]["thinkingLevel"], "low") << "options are merged, not replaced";
  EXPECT_FALSE(body.contains("model"));
}

TEST(Providers, ErrorsInsideAStreamSayWhatTheyAre) {
  const struct {
    Provider provider;
    const char* event;
    ErrorKind kind;
  } kCases[] = {
      {Provider::openai, R"({"error":{"message":"overloaded","code":502}})", ErrorKind::infrastructure},
      {Provider::openai, R"({"error":{"message":"overloaded, too long","code":"context_length_exceeded"}})",
       ErrorKind::input},
      {Provider::openrouter, R"({"choices":[{"error":{"message":"overloaded"},"delta":{}}]})",
       ErrorKind::infrastructure},
      {Provider::anthropic, R"({"type":"error","error":{"type":"overloaded_error","message":"overloaded"}})",
       ErrorKind::infrastructure},
      {Provider::anthropic, R"({"type":"error","error":{"type":"invalid_request_error","message":"overloaded"}})",
       ErrorKind::input},
      {Provider::responses, R"({"type":"error","code":"server_error","message":"overloaded"})",
       ErrorKind::infrastructure},
      {Provider::responses,
       R"({"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"overloaded"}}})",
       ErrorKind::infrastructure},
      {Provider::gemini, R"({"error":{"code":503,"status":"UNAVAILABLE","message":"overloaded"}})",
       ErrorKind::infrastructure},
  };
  for (const auto& test : kCases) {
    auto reader = make_dialect(test.provider)->reader();
    const auto taken = reader->event(test.event);
    ASSERT_FALSE(taken) << test.event;
    EXPECT_EQ(taken.error().kind, test.kind) << test.event;
    EXPECT_THAT(taken.error().message, HasSubstr("overloaded"));
  }
}

TEST(Providers, AnUnansweredPromptOfGeminisIsAnEmptyAnswer) {
  auto reader = make_gemini_dialect()->reader();
  ASSERT_TRUE(reader->whole(R"({"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":5}})"));
  EXPECT_EQ(reader->completion.text, "");
  EXPECT_EQ(reader->completion.finish_reason, "SAFETY");
  EXPECT_EQ(reader->completion.usage.prompt_tokens, 5u);
  EXPECT_FALSE(reader->completion.usage.completion_tokens);
}

}  // namespace
}  // namespace ptxbench::models
