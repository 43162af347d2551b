#include "report/serve.h"

#include <httplib.h>
#include <sys/socket.h>

#include <chrono>
#include <mutex>
#include <thread>

#include "base/gzip.h"
#include "base/text.h"

namespace ptxbench::report {
namespace {

using base::Json;

constexpr std::chrono::milliseconds kLeastPause{500};  ///< between two looks at the files, however many pages ask

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

class Server : public PageServer {
 public:
  Server(ServeOptions options, std::unique_ptr<Loader> loader)
      : options_(std::move(options)), loader_(std::move(loader)) {
    options_.page.live = true;
    page_ = page_html(Table(), options_.page);
    http_.set_keep_alive_max_count(20);
    http_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      if (host_is_ours(request)) return httplib::Server::HandlerResponse::Unhandled;
      // Another site's page that had its name point here must not read results.
      response.status = 403;
      response.set_content("this server does not go by that name\n", "text/plain");
      return httplib::Server::HandlerResponse::Handled;
    });
    http_.Get("/", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(page_, "text/html; charset=utf-8");
    });
    http_.Get("/version", [this](const httplib::Request&, httplib::Response& response) {
      const std::lock_guard lock(mutex_);
      refresh();
      response.set_header("Cache-Control", "no-store");
      response.set_content(dump({{"version", version_}, {"error", error_.empty() ? Json(nullptr) : Json(error_)}}),
                           "application/json");
    });
    http_.Get("/data", [this](const httplib::Request&, httplib::Response& response) {
      const std::lock_guard lock(mutex_);
      refresh();
      response.set_header("Cache-Control", "no-store");
      response.set_header("X-Version", std::to_string(version_));
      response.set_content(data_, "application/octet-stream");
    });
    http_.Get("/texts",
              [this](const httplib::Request& request, httplib::Response& response) { texts(request, response); });
  }

  bool bind() {
    // Two servers on one port would share its visitors without a word.
    http_.set_socket_options([](socket_t socket) {
      const int yes = 1;
      ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    port_ = options_.port == 0 ? http_.bind_to_any_port(options_.host)
                               : (http_.bind_to_port(options_.host, options_.port) ? options_.port : -1);
    return port_ > 0;
  }

  /// The first reading, whose errors end the program.
  Result<void> begin() {
    const std::lock_guard lock(mutex_);
    refresh();
    if (!error_.empty()) return input_error("{}", error_);
    return {};
  }

  int port() const override { return port_; }
  void run() override { http_.listen_after_bind(); }
  void stop() override {
    // Before it listens there is nothing that could stop.
    while (!http_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    http_.stop();
  }
  std::size_t files_read() const override {
    const std::lock_guard lock(mutex_);
    return files_read_;
  }

 private:
  bool host_is_ours(const httplib::Request& request) const {
    if (!options_.host.starts_with("127.") && options_.host != "::1" && options_.host != "localhost") return true;
    std::string host = request.get_header_value("Host");
    if (const std::size_t colon = host.rfind(':');
        colon != std::string::npos && host.find(']', colon) == std::string::npos) {
      host.resize(colon);
    }
    return host == options_.host || host == "127.0.0.1" || host == "localhost" || host == "[::1]";
  }

  /// Reads what has changed. With the lock held.
  void refresh() {
    const auto now = std::chrono::steady_clock::now();
    if (version_ > 0 && now - looked_ < kLeastPause) return;
    std::string state = loader_->state();
    looked_ = now;
    if (version_ > 0 && state == state_) return;
    Loader::Work work;
    auto table = loader_->load(&work);
    files_read_ += work.read;
    if (table && options_.select) {
      if (auto selected = options_.select(*table); !selected) table = tl::unexpected<Error>(selected.error());
    }
    state_ = std::move(state);
    ++version_;
    if (!table) {
      error_ = table.error().message;  // what was read before stays
      return;
    }
    error_.clear();
    table_ = std::move(*table);
    std::vector<bool> texts;
    for (const TrajectoryRow& one : table_.trajectories) texts.push_back(!one.file.empty());
    data_ = base::gzip(dump(page_data(table_, options_.page, texts, 0)), 1);
  }

  void texts(const httplib::Request& request, httplib::Response& response) {
    const auto index = base::parse_u64(request.get_param_value("trajectory"));
    TrajectoryRow row;
    {
      const std::lock_guard lock(mutex_);
      // The number belongs to a version: another one's trajectory must not be shown under this name.
      if (!index || *index >= table_.trajectories.size() ||
          request.get_param_value("version") != std::to_string(version_)) {
        response.status = 404;
        response.set_content("no such trajectory in this version\n", "text/plain");
        return;
      }
      row.file = table_.trajectories[*index].file;
    }
    const auto found = trajectory_texts(row);
    if (!found) {
      response.status = 404;
      response.set_content(found.error().message + "\n", "text/plain");
      return;
    }
    response.set_header("Cache-Control", "no-store");
    response.set_content(base::gzip(dump(*found), 1), "application/octet-stream");
  }

  ServeOptions options_;
  std::unique_ptr<Loader> loader_;
  mutable std::mutex mutex_;
  Table table_;
  std::string page_, data_, state_, error_;
  std::uint64_t version_ = 0;
  std::size_t files_read_ = 0;
  std::chrono::steady_clock::time_point looked_;
  httplib::Server http_;
  int port_ = 0;
};

}  // namespace

Result<std::unique_ptr<PageServer>> PageServer::bind(ServeOptions options, std::unique_ptr<Loader> loader) {
  const std::string host = options.host;
  const int port = options.port;
  auto server = std::make_unique<Server>(std::move(options), std::move(loader));
  if (auto begun = server->begin(); !begun) return tl::unexpected<Error>(begun.error());
  if (!server->bind()) {
    return infrastructure_error(
        "cannot listen on {} port {}: in use, or not an address of this machine; choose others with --host and --port "
        "(0: any)",
        host, port);
  }
  return server;
}

}  // namespace ptxbench::report
