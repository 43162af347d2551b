#pragma once

#include <httplib.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"

namespace ptxbench::service {

/// A real `ptxbench serve` on the loopback interface, over a state folder that outlives it.
class RunningService {
 public:
  struct Options {
    std::vector<std::string> arguments;
    std::map<std::string, std::string> environment;
    bool fake_workers = true;
    std::string token;
  };
  explicit RunningService(Options options);
  ~RunningService();
  RunningService(const RunningService&) = delete;
  RunningService& operator=(const RunningService&) = delete;

  void start();      ///< again, on the same port
  void kill_hard();  ///< kill -9
  /// Sends SIGTERM, or only waits, and gives the exit code.
  int stop(bool send_signal = true);

  struct Answer {
    int status = 0;  ///< 0: no answer
    base::Json json;
    std::string body;
    httplib::Headers headers;
  };
  Answer get(const std::string& path) const;
  Answer post(const std::string& path, const base::Json& body) const { return post_text(path, body.dump()); }
  Answer post_text(const std::string& path, const std::string& body) const;
  Answer remove(const std::string& path) const;
  /// GET /tasks/{id} until it is final.
  base::Json finished(const std::string& id, int seconds = 60) const;
  /// Waits until the task has this status.
  bool reaches(const std::string& id, const std::string& status, int seconds = 20) const;
  double metric(const std::string& line_start) const;

  int port() const { return port_; }
  pid_t pid() const { return pid_; }
  std::string url() const;
  std::vector<pid_t> workers() const;
  std::string log() const;
  const std::filesystem::path& folder() const { return folder_->path(); }

 private:
  httplib::Client client() const;
  Answer answer_of(const httplib::Result& result) const;
  Options options_;
  std::optional<base::TempDir> folder_;
  pid_t pid_ = 0;
  int port_ = 0;
};

/// A solution of gemm_small as FIBServe's clients send it.
base::Json solution(const std::string& source, const std::string& definition = "gemm_small");

}  // namespace ptxbench::service
