#include "service/http_server.h"

#include <openssl/crypto.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>

#include "base/text.h"
#include "service/elastic_pool.h"

namespace ptxbench::service {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxThreads = 1200;
constexpr int kBacklog = 1024;
constexpr std::size_t kDrainedBodies = 4;  ///< times the limit: what is still read of a refused body, to answer it well
constexpr std::chrono::seconds kSilence{10};   ///< longest pause within a request
constexpr std::chrono::seconds kBodyTime{60};  ///< for a whole body
constexpr std::string_view kOpen = "/health";  ///< what needs no token: load balancers ask it

std::vector<std::string> segments(std::string_view path) {
  std::vector<std::string> out;
  for (const std::string_view part : base::split(path, '/')) {
    if (!part.empty()) out.emplace_back(part);
  }
  return out;
}

/// The parameters if the path has the pattern's form.
std::optional<std::vector<std::string>> match(std::string_view pattern, const std::vector<std::string>& path) {
  const auto wanted = segments(pattern);
  if (wanted.size() != path.size()) return std::nullopt;
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (wanted[i].starts_with('{')) {
      parameters.push_back(path[i]);
    } else if (wanted[i] != path[i]) {
      return std::nullopt;
    }
  }
  return parameters;
}

bool is_chunked(const httplib::Request& request) {
  return base::to_lower(request.get_header_value("Transfer-Encoding")).find("chunked") != std::string::npos;
}

std::optional<std::string> query(const httplib::Request& request, const char* name) {
  if (!request.has_param(name)) return std::nullopt;
  return request.get_param_value(name);
}

std::map<std::string, std::string> cookies_of(const httplib::Request& request) {
  std::map<std::string, std::string> out;
  const std::string header = request.get_header_value("Cookie");
  for (const std::string_view pair : base::split(header, ';')) {
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) continue;
    out.emplace(base::trim(pair.substr(0, equals)), base::trim(pair.substr(equals + 1)));
  }
  return out;
}

Reply too_large(std::size_t most) {
  return Reply::detail(413, fmt::format("The body is larger than {}", base::format_bytes(most)));
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::bind(const HttpOptions& options, Api& api, Metrics& metrics,
                                                     EventLog& log, std::vector<ExtraRoute> extra) {
  std::unique_ptr<HttpServer> server(new HttpServer(options, api, metrics, log, std::move(extra)));
  httplib::Server& http = server->server_;
  int listener = -1;
  // Not SO_REUSEPORT: two services on one port would share its clients without a word.
  http.set_socket_options([&](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listener = socket;
  });
  if (options.port == 0) {
    server->port_ = http.bind_to_any_port(options.host);
  } else {
    server->port_ = http.bind_to_port(options.host, options.port) ? options.port : -1;
  }
  if (server->port_ <= 0) {
    return infrastructure_error(
        "cannot listen on {} port {}: in use, or not an address of this machine; choose "
        "others with --host and --port (0: any)",
        options.host, options.port);
  }
  // The library's own backlog of 5 drops connections when hundreds of clients come at once.
  ::listen(listener, kBacklog);
  return server;
}

void HttpServer::run() {
  thread_ = std::jthread([this] { server_.listen_after_bind(); });
  while (!server_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

HttpServer::HttpServer(const HttpOptions& options, Api& api, Metrics& metrics, EventLog& log,
                       std::vector<ExtraRoute> extra)
    : options_(options), api_(api), metrics_(metrics), log_(log) {
  add_routes();
  for (ExtraRoute& one : extra) {
    routes_.push_back({one.method, one.path, [answer = std::move(one.answer)](const Call& call) {
                         ExtraRequest request;
                         request.body = call.body;
                         for (const auto& [name, value] : call.request.params) request.query.emplace(name, value);
                         request.cookies = cookies_of(call.request);
                         return answer(request);
                       }});
  }
  server_.new_task_queue = [] { return new ElasticPool(kMaxThreads); };
  // One request per connection: what is left of a refused body can never pass for the next request, and no thread
  // waits for a client that has nothing to ask.
  server_.set_keep_alive_max_count(1);
  server_.set_read_timeout(kSilence);
  server_.set_write_timeout(kSilence);
  server_.set_tcp_nodelay(true);
  server_.set_payload_max_length(options_.max_body);
  server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const auto length = base::parse_u64(request.get_header_value("Content-Length")).value_or(0);
    if (length / kDrainedBodies <= options_.max_body) return httplib::Server::HandlerResponse::Unhandled;
    response.status = 413;
    response.set_content(too_large(options_.max_body).body, "application/json");
    return httplib::Server::HandlerResponse::Handled;
  });
  const auto plain = [this](const httplib::Request& request, httplib::Response& response) {
    dispatch(request, response, nullptr);
  };
  const auto with_body = [this](const httplib::Request& request, httplib::Response& response,
                                const httplib::ContentReader& reader) { dispatch(request, response, &reader); };
  server_.Get(".*", plain);
  server_.Options(".*", plain);
  server_.Post(".*", with_body);
  server_.Put(".*", with_body);
  server_.Patch(".*", with_body);
  server_.Delete(".*", with_body);
  server_.set_exception_handler(
      [this](const httplib::Request& request, httplib::Response& response, const std::exception_ptr& pointer) {
        std::string what = "unknown";
        try {
          std::rethrow_exception(pointer);
        } catch (const std::exception& error) {
          what = error.what();
        } catch (...) {
        }
        log_.error("http.internal_error", Json{{"path", request.path}, {"error", what}});
        response.status = 500;
        response.set_content(Reply::detail(500, "Internal error").body, "application/json");
      });
  // What the library refuses itself: a malformed request line, a header that is too long.
  server_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (!response.body.empty()) return;
    const std::string text = response.status == 413   ? "The body is too large"
                             : response.status == 404 ? "Not Found"
                                                      : "Bad request";
    response.set_content(Reply::detail(response.status, text).body, "application/json");
  });
}

HttpServer::~HttpServer() {
  server_.stop();
  if (thread_.joinable()) thread_.join();
}

void HttpServer::add_routes() {
  using Form = Api::Form;
  const auto add = [&](const char* method, const char* path, std::function<Reply(const Call&)> answer) {
    routes_.push_back({method, path, std::move(answer)});
  };
  add("GET", "/", [this](const Call&) { return api_.root(); });
  add("GET", "/health", [this](const Call&) { return api_.health(); });
  add("GET", "/metrics", [this](const Call&) { return api_.metrics(); });
  add("GET", "/definitions", [this](const Call&) { return api_.definitions(); });
  add("GET", "/definitions/{name}", [this](const Call& call) { return api_.definition(call.parameters[0]); });
  add("GET", "/definitions/{name}/workloads", [this](const Call& call) { return api_.workloads(call.parameters[0]); });
  add("GET", "/workloads/{uuid}", [this](const Call& call) { return api_.workload(call.parameters[0]); });
  add("POST", "/evaluate", [this](const Call& call) { return api_.submit(TaskKind::evaluate, call.body); });
  add("POST", "/sanitize", [this](const Call& call) { return api_.submit(TaskKind::sanitize, call.body); });
  add("POST", "/debug", [this](const Call& call) { return api_.submit(TaskKind::debug, call.body); });
  add("POST", "/profile", [this](const Call& call) { return api_.submit(TaskKind::profile, call.body); });
  add("POST", "/tasks/batch", [this](const Call& call) { return api_.batch(call.body); });
  add("GET", "/tasks/{task_id}",
      [this](const Call& call) { return api_.task(call.parameters[0], query(call.request, "timeout"), Form::fib); });
  add("DELETE", "/tasks/{task_id}", [this](const Call& call) { return api_.cancel(call.parameters[0], Form::fib); });
  add("POST", "/tasks/{task_id}/cancel",
      [this](const Call& call) { return api_.cancel(call.parameters[0], Form::fib); });
  add("POST", "/shutdown", [this](const Call&) { return api_.shutdown(); });
  add("POST", "/v1/evaluate", [this](const Call& call) { return api_.submit_native(call.body); });
  add("GET", "/v1/tasks/{task_id}",
      [this](const Call& call) { return api_.task(call.parameters[0], query(call.request, "timeout"), Form::native); });
  add("DELETE", "/v1/tasks/{task_id}",
      [this](const Call& call) { return api_.cancel(call.parameters[0], Form::native); });
}

bool HttpServer::may(const httplib::Request& request) const {
  if (options_.token.empty() || request.path == kOpen) return true;
  const std::string given = request.get_header_value("Authorization");
  const std::string wanted = "Bearer " + options_.token;
  return given.size() == wanted.size() && CRYPTO_memcmp(given.data(), wanted.data(), wanted.size()) == 0;
}

tl::expected<std::string, Reply> HttpServer::read_body(const httplib::Request& request,
                                                       const httplib::ContentReader* reader) const {
  // Without a length there is no body; the library would wait for the end of the connection.
  if (reader == nullptr || (!request.has_header("Content-Length") && !is_chunked(request))) return std::string();
  if (request.is_multipart_form_data()) {
    return tl::unexpected<Reply>(Reply::detail(415, "The body must be JSON, not a form"));
  }
  std::string body;
  bool large = false, late = false;
  const auto deadline = Clock::now() + kBodyTime;
  const bool complete = (*reader)([&](const char* data, std::size_t size) {
    late = Clock::now() > deadline;
    large = body.size() + size > options_.max_body;
    if (large || late) return false;
    body.append(data, size);
    return true;
  });
  const std::string length = request.get_header_value("Content-Length");
  if (large || base::parse_u64(length).value_or(0) > options_.max_body) {
    return tl::unexpected<Reply>(too_large(options_.max_body));
  }
  if (late) return tl::unexpected<Reply>(Reply::detail(408, "The body did not arrive in time"));
  if (!complete)
    return tl::unexpected<Reply>(Reply::detail(400, "The body did not arrive, or its encoding is unknown"));
  return body;
}

Reply HttpServer::answer(const httplib::Request& request, const httplib::ContentReader* reader, std::string& route) {
  auto body = read_body(request, reader);
  if (!may(request)) {
    Reply reply = Reply::detail(401, "A bearer token is needed");
    reply.headers["WWW-Authenticate"] = "Bearer";
    metrics_.add("ptxbench_requests_refused_total", {{"reason", "token"}});
    return reply;
  }
  const auto path = segments(request.path);
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& one : routes_) {
    auto parameters = match(one.path, path);
    if (!parameters) continue;
    route = one.path;
    if (one.method != method) {
      allowed += (allowed.empty() ? "" : ", ") + one.method;
      continue;
    }
    if (!body) {
      metrics_.add("ptxbench_requests_refused_total", {{"reason", "body"}});
      return body.error();
    }
    return one.answer({std::move(*parameters), request, std::move(*body)});
  }
  if (allowed.empty()) return Reply::detail(404, "Not Found");
  Reply reply = Reply::detail(405, "Method Not Allowed");
  reply.headers["Allow"] = allowed;
  return reply;
}

void HttpServer::dispatch(const httplib::Request& request, httplib::Response& response,
                          const httplib::ContentReader* reader) {
  const auto started = Clock::now();
  std::string route = "other";
  const Reply reply = answer(request, reader, route);
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, value);
  response.set_content(reply.body, reply.type);
  metrics_.add("ptxbench_http_requests_total",
               {{"route", route}, {"method", request.method}, {"status", std::to_string(reply.status)}});
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  log_.debug("http.request", Json{{"method", request.method},
                                  {"path", request.path},
                                  {"status", reply.status},
                                  {"remote", request.remote_addr},
                                  {"seconds", seconds}});
}

}  // namespace ptxbench::service
