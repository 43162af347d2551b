#include "running_service.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "base/text.h"
#include "programs.h"

extern char** environ;

namespace ptxbench::service {

using base::Json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

RunningService::RunningService(Options options) : options_(std::move(options)) {
  auto folder = base::TempDir::create("serve-test");
  EXPECT_TRUE(folder);
  folder_ = std::move(*folder);
  start();
}

RunningService::~RunningService() {
  if (pid_ > 0) stop();
}

void RunningService::start() {
  std::vector<std::string> arguments{ptxbench_program(), "serve",
                                     "--data",           "tests/service/data",
                                     "--port",           std::to_string(port_),
                                     "--state-dir",      (folder() / "state").string(),
                                     "--log-level",      "debug"};
  arguments.insert(arguments.end(), options_.arguments.begin(), options_.arguments.end());
  std::map<std::string, std::string> variables = options_.environment;
  variables.try_emplace("PTXBENCH_CACHE", TEST_CACHE);
  if (options_.fake_workers) variables.try_emplace("PTXBENCH_WORKER", fake_worker());
  if (!options_.token.empty()) variables.try_emplace("PTXBENCH_SERVICE_TOKEN", options_.token);
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  for (const auto& [name, value] : variables) environment.push_back(fmt::format("{}={}", name, value));
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
  };
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, pipe[1], 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, (folder() / "log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  const std::string program = ptxbench_program();
  const int code = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers(arguments).data(),
                                 pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(pipe[1]);
  ASSERT_EQ(code, 0);
  std::string line;
  char letter = 0;
  while (line.find('\n') == std::string::npos && ::read(pipe[0], &letter, 1) == 1) line += letter;
  ::close(pipe[0]);
  const std::size_t colon = line.rfind(':');
  ASSERT_NE(colon, std::string::npos) << "it did not start: " << log();
  port_ = std::atoi(line.c_str() + colon + 1);
}

void RunningService::kill_hard() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

int RunningService::stop(bool send_signal) {
  if (send_signal) ::kill(pid_, SIGTERM);
  int status = 0;
  const auto deadline = Clock::now() + 30s;
  while (::waitpid(pid_, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) {
      ADD_FAILURE() << "the service does not end: " << log();
      kill_hard();
      return -1;
    }
    std::this_thread::sleep_for(5ms);
  }
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string RunningService::url() const { return fmt::format("http://127.0.0.1:{}", port_); }

httplib::Client RunningService::client() const {
  httplib::Client client(url());
  client.set_connection_timeout(5s);
  client.set_read_timeout(100s);
  if (!options_.token.empty()) client.set_bearer_token_auth(options_.token);
  return client;
}

RunningService::Answer RunningService::answer_of(const httplib::Result& result) const {
  if (!result) return {};
  auto json = base::parse_json(result->body, "answer");
  return {result->status, json ? *json : Json(), result->body, result->headers};
}

RunningService::Answer RunningService::get(const std::string& path) const { return answer_of(client().Get(path)); }

RunningService::Answer RunningService::post_text(const std::string& path, const std::string& body) const {
  return answer_of(client().Post(path, body, "application/json"));
}

RunningService::Answer RunningService::remove(const std::string& path) const {
  return answer_of(client().Delete(path));
}

Json RunningService::finished(const std::string& id, int seconds) const {
  const auto answer = get(fmt::format("/tasks/{}?timeout={}", id, seconds));
  EXPECT_EQ(answer.status, 200) << answer.body;
  return answer.json;
}

bool RunningService::reaches(const std::string& id, const std::string& status, int seconds) const {
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  while (Clock::now() < deadline) {
    const auto answer = get("/tasks/" + id);
    if (answer.status == 200 && answer.json.value("status", "") == status) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

double RunningService::metric(const std::string& line_start) const {
  const std::string text = get("/metrics").body;
  for (const std::string_view line : base::split_lines(text)) {
    if (line.starts_with(line_start + " ")) return std::strtod(line.data() + line_start.size() + 1, nullptr);
  }
  return 0;
}

std::vector<pid_t> RunningService::workers() const {
  std::vector<pid_t> out;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid_), error)) {
    const auto children = base::read_file(task.path() / "children");
    if (!children) continue;
    for (const std::string_view child : base::split(*children, ' ')) {
      if (const auto pid = base::parse_u64(child)) out.push_back(static_cast<pid_t>(*pid));
    }
  }
  return out;
}

std::string RunningService::log() const { return base::read_file(folder() / "log").value_or(""); }

Json solution(const std::string& source, const std::string& definition) {
  return Json{{"name", "eval_kernel"},
              {"definition", definition},
              {"author", "eval"},
              {"spec",
               {{"language", "cuda"},
                {"binding", "tvm-ffi"},
                {"target_hardware", Json::array({"H100"})},
                {"entry_point", "kernel.cu::run"},
                {"dependencies", Json::array()},
                {"destination_passing_style", true}}},
              {"sources", Json::array({{{"path", "kernel.cu"}, {"content", source}}})}};
}

}  // namespace ptxbench::service
