#pragma once

#include <httplib.h>

#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "models/endpoint.h"

namespace ptxbench::models {

/// A provider on the loopback interface: answers every POST as it is told, and remembers what it was asked.
class Loopback {
 public:
  struct Request {
    std::string path, body;
    httplib::Headers headers;
    std::string header(const std::string& name) const {
      const auto at = headers.find(name);
      return at == headers.end() ? "" : at->second;
    }
  };
  /// `number` counts requests from 1.
  using Handler = std::function<void(int number, const httplib::Request&, httplib::Response&)>;

  explicit Loopback(Handler handler) {
    server_.new_task_queue = [] { return new httplib::ThreadPool(64); };
    server_.set_keep_alive_max_count(1);  // a connection that is kept would be waited for at the end
    server_.Post(".*",
                 [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
                   int number = 0;
                   {
                     const std::lock_guard lock(mutex_);
                     requests_.push_back({request.target, request.body, request.headers});
                     number = static_cast<int>(requests_.size());
                   }
                   handler(number, request, response);
                 });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ~Loopback() {
    server_.stop();
    thread_.join();
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  std::size_t count() const { return requests().size(); }

 private:
  httplib::Server server_;
  mutable std::mutex mutex_;
  std::vector<Request> requests_;
  int port_ = 0;
  std::thread thread_;
};

inline constexpr const char* kTestKey = "sk-secret/with+odd\"characters";

/// A model at the loopback server, with pauses of a millisecond.
inline ModelConfig config_for(const Loopback& server, Provider provider) {
  ModelConfig config = default_config(provider, "test");
  config.base_url = server.url() + "/v1";
  config.model = "test-model";
  config.key_variable = "PTXBENCH_TEST_KEY";
  config.first_pause = config.longest_pause = std::chrono::milliseconds(1);
  config.attempts = 3;
  setenv("PTXBENCH_TEST_KEY", kTestKey, 1);
  return config;
}

inline std::unique_ptr<EndpointModel> model_of(ModelConfig config) {
  auto model = EndpointModel::create(std::move(config));
  if (!model) std::abort();
  return std::move(*model);
}

/// Sends the pieces with pauses between them; `whole` says whether the stream then ends as HTTP wants it.
inline void stream_pieces(httplib::Response& response, std::vector<std::string> pieces, std::chrono::milliseconds pause,
                          bool whole = true) {
  auto left = std::make_shared<std::vector<std::string>>(std::move(pieces));
  auto at = std::make_shared<std::size_t>(0);
  response.set_chunked_content_provider("text/event-stream", [=](std::size_t, httplib::DataSink& sink) {
    if (*at == left->size()) {
      if (!whole) return false;
      sink.done();
      return true;
    }
    std::this_thread::sleep_for(pause);
    const std::string& piece = (*left)[(*at)++];
    return sink.write(piece.data(), piece.size());
  });
}

inline const std::vector<Message> kQuestion = {
    {Role::system, "be brief"}, {Role::user, "hello"}, {Role::assistant, "hi"}, {Role::user, "again"}};

}  // namespace ptxbench::models
