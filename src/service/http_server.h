#pragma once

#include <httplib.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "service/api.h"
#include "service/event_log.h"
#include "service/extra_route.h"
#include "service/metrics.h"

namespace ptxbench::service {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 8000;    ///< 0: any free one
  std::string token;  ///< what clients must show; empty: nothing
  std::size_t max_body = std::size_t{16} << 20;
};

/// HTTP/1.1 around the endpoints: routes, sizes, the token, and errors in one form.
class HttpServer {
 public:
  /// Has the address; clients wait until `run`.
  static Result<std::unique_ptr<HttpServer>> bind(const HttpOptions& options, Api& api, Metrics& metrics, EventLog& log,
                                                  std::vector<ExtraRoute> extra = {});
  void run();
  /// Answers what has arrived and stops.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }

 private:
  struct Call {
    std::vector<std::string> parameters;  ///< what stands for {..} in the path
    const httplib::Request& request;
    std::string body;
  };
  struct Route {
    std::string method, path;  ///< "/tasks/{id}"
    std::function<Reply(const Call&)> answer;
  };
  HttpServer(const HttpOptions& options, Api& api, Metrics& metrics, EventLog& log, std::vector<ExtraRoute> extra);
  void add_routes();
  void dispatch(const httplib::Request& request, httplib::Response& response, const httplib::ContentReader* reader);
  Reply answer(const httplib::Request& request, const httplib::ContentReader* reader, std::string& route);
  bool may(const httplib::Request& request) const;
  /// The body, or the answer that refuses it.
  tl::expected<std::string, Reply> read_body(const httplib::Request& request,
                                             const httplib::ContentReader* reader) const;

  HttpOptions options_;
  Api& api_;
  Metrics& metrics_;
  EventLog& log_;
  std::vector<Route> routes_;
  httplib::Server server_;
  int port_ = 0;
  std::jthread thread_;
};

}  // namespace ptxbench::service
