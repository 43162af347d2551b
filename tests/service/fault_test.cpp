// What can go wrong around a service, done to a real one: killed workers, a killed service, clumsy and hostile clients.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/process.h"
#include "programs.h"
#include "running_service.h"

namespace ptxbench::service {
namespace {

using base::Json;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr const char* kPasses = "5e0c5c5e-0007-4000-8000-000000000007";

Json body(const std::string& source, int workloads = 1) {
  Json json{{"solution", solution(source)}};
  if (workloads == 1) json["workload_uuids"] = Json::array({kPasses});
  return json;
}

RunningService::Options with(std::vector<std::string> arguments, bool fake_workers = true) {
  RunningService::Options options;
  options.arguments = std::move(arguments);
  options.fake_workers = fake_workers;
  return options;
}

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A connection that sends what it is told.
class RawClient {
 public:
  explicit RawClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    timeval patience{30, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~RawClient() { ::close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  bool send(const std::string& text) {
    return ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
  }
  std::string receive() {
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
      text.append(buffer, static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int fd_;
};

TEST(Faults, AKilledWorkerCostsNothingButTime) {
  const RunningService service(with({"--workers", "2"}));
  const std::string first = service.post("/evaluate", body("sleep 1")).json["task_id"];
  const std::string second = service.post("/evaluate", body("sleep 1")).json["task_id"];
  ASSERT_TRUE(service.reaches(first, "running"));
  ASSERT_TRUE(service.reaches(second, "running"));
  const auto workers = service.workers();
  ASSERT_EQ(workers.size(), 2U);
  ::kill(workers[0], SIGKILL);
  for (const std::string& id : {first, second}) {
    const Json task = service.finished(id);
    EXPECT_EQ(task["status"], "completed") << task;
    EXPECT_EQ(task["traces"][0]["evaluation"]["status"], "PASSED");
  }
  EXPECT_EQ(service.metric("ptxbench_worker_restarts_total{reason=\"died\"}"), 1);
  EXPECT_EQ(service.metric("ptxbench_workers_healthy{lane=\"cpu\"}"), 2);
}

TEST(Faults, AnIdleWorkerThatIsKilledIsReplaced) {
  const RunningService service(with({"--workers", "1"}));
  const auto workers = service.workers();
  ASSERT_EQ(workers.size(), 1U);
  ::kill(workers[0], SIGKILL);
  const Json task = service.finished(service.post("/evaluate", body("pass")).json["task_id"]);
  EXPECT_EQ(task["status"], "completed");
  const auto now = service.workers();
  ASSERT_EQ(now.size(), 1U);
  EXPECT_NE(now[0], workers[0]);
}

TEST(Faults, ARealWorkerKilledWhileItJudges) {
  const RunningService service(with({"--workers", "1"}, false));
  const auto source = base::read_file("tests/evaluation/candidates/device_faults.cu");
  ASSERT_TRUE(source);
  const std::string id = service.post("/evaluate", body(*source)).json["task_id"];
  ASSERT_TRUE(service.reaches(id, "running"));
  const auto workers = service.workers();
  ASSERT_FALSE(workers.empty());
  ::kill(workers[0], SIGKILL);
  const Json task = service.finished(id, 90);
  EXPECT_EQ(task["status"], "completed") << task;
  EXPECT_EQ(task["traces"][0]["evaluation"]["status"], "PASSED");
}

TEST(Faults, NothingIsLostWhenTheServiceIsKilled) {
  RunningService service(with({"--workers", "1"}));
  const std::string done = service.post("/evaluate", body("pass")).json["task_id"];
  service.finished(done);
  std::vector<std::string> tasks;
  for (int i = 0; i < 10; ++i) tasks.push_back(service.post("/evaluate", body("sleep 0.02", 5)).json["task_id"]);
  const std::string first = tasks.front();
  ASSERT_TRUE(service.reaches(first, "running"));
  const auto workers = service.workers();
  service.kill_hard();
  // Its workers go with it.
  for (int i = 0; i < 200 && !workers.empty() && ::kill(workers[0], 0) == 0; ++i) std::this_thread::sleep_for(10ms);
  service.start();
  EXPECT_EQ(service.finished(done)["status"], "completed");
  for (const std::string& id : tasks) {
    const Json task = service.finished(id);
    EXPECT_EQ(task["status"], "completed") << task;
    EXPECT_EQ(task["traces"].size(), 5U);
  }
}

TEST(Faults, KillingTheServiceAgainAndAgainEndsInAnError) {
  RunningService service(with({"--workers", "1"}));
  const std::string id = service.post("/evaluate", body("hang")).json["task_id"];
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(service.reaches(id, "running"));
    service.kill_hard();
    service.start();
  }
  const Json task = service.finished(id, 10);
  EXPECT_EQ(task["status"], "failed") << task;
  EXPECT_NE(task["error"].get<std::string>().find("3 attempts"), std::string::npos) << task;
}

TEST(Faults, TwoHundredLongPolls) {
  const RunningService service({});
  const std::string id = service.post("/evaluate", body("sleep 2")).json["task_id"];
  const auto started = Clock::now();
  std::atomic<int> right = 0;
  {
    std::vector<std::jthread> polls;
    for (int i = 0; i < 200; ++i) {
      polls.emplace_back([&] {
        if (service.get("/tasks/" + id + "?timeout=30").json.value("status", "") == "completed") ++right;
      });
    }
    std::this_thread::sleep_for(1s);
    // They keep nobody else waiting.
    const auto asked = Clock::now();
    EXPECT_EQ(service.get("/health").status, 200);
    EXPECT_LT(seconds_since(asked), 1);
    EXPECT_EQ(service.metric("ptxbench_long_polls"), 200);
  }
  EXPECT_EQ(right, 200);
  EXPECT_LT(seconds_since(started), 10);
}

TEST(Faults, BodiesThatAreTooLarge) {
  const RunningService service(with({"--max-body", "64KB"}));
  EXPECT_EQ(service.post("/evaluate", body(std::string(200'000, 'x'))).status, 413);
  // Announced, never sent.
  RawClient announcer(service.port());
  announcer.send("POST /evaluate HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
  // Without a length.
  RawClient chunked(service.port());
  std::string chunks = "POST /evaluate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 30; ++i) chunks += "1000\r\n" + std::string(4096, 'x') + "\r\n";
  chunked.send(chunks + "0\r\n\r\n");
  const std::string answer = chunked.receive();
  EXPECT_NE(answer.find(" 413 "), std::string::npos) << answer;
  EXPECT_EQ(service.post("/evaluate", body("pass")).status, 200);
}

TEST(Faults, ClientsThatDoNotSpeakHttp) {
  const RunningService service({});
  for (const char* text :
       {"\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        "POST /evaluate HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        "POST /evaluate HTTP/1.1\r\nContent-Length: many\r\n\r\n{}",
        "POST /evaluate HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 3\r\n\r\n--x"}) {
    RawClient client(service.port());
    client.send(text);
    std::this_thread::sleep_for(20ms);
  }
  RawClient long_path(service.port());
  long_path.send("GET /" + std::string(100'000, 'a') + " HTTP/1.1\r\n\r\n");
  const std::string answer = long_path.receive();
  EXPECT_TRUE(answer.empty() || answer.find(" 4") != std::string::npos) << answer.substr(0, 100);
  EXPECT_EQ(service.get("/health").json["status"], "ok");
}

TEST(Faults, SlowAndVanishingClients) {
  const RunningService service({});
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 50; ++i) {
    slow.push_back(std::make_unique<RawClient>(service.port()));
    slow.back()->send("POST /evaluate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{");
  }
  const auto asked = Clock::now();
  EXPECT_EQ(service.post("/evaluate", body("pass")).status, 200);
  EXPECT_LT(seconds_since(asked), 2);
  slow.clear();
  // One that goes while it waits.
  const std::string id = service.post("/evaluate", body("sleep 0.5")).json["task_id"];
  {
    RawClient poll(service.port());
    poll.send("GET /tasks/" + id + "?timeout=30 HTTP/1.1\r\nHost: x\r\n\r\n");
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_EQ(service.finished(id)["status"], "completed");
}

TEST(Faults, AFullQueueSaysWhenToComeAgain) {
  const RunningService service(with({"--workers", "1", "--max-queue", "2"}));
  const std::string runs = service.post("/evaluate", body("hang")).json["task_id"];
  ASSERT_TRUE(service.reaches(runs, "running"));
  EXPECT_EQ(service.post("/evaluate", body("pass")).status, 200);
  EXPECT_EQ(service.post("/evaluate", body("pass")).status, 200);
  const auto refused = service.post("/evaluate", body("pass"));
  EXPECT_EQ(refused.status, 429) << refused.body;
  const auto wait = refused.headers.find("Retry-After");
  ASSERT_NE(wait, refused.headers.end());
  EXPECT_GE(std::atoi(wait->second.c_str()), 1);
  service.remove("/tasks/" + runs);
}

TEST(Faults, ShutdownFinishesWhatRunsAndKeepsWhatWaits) {
  RunningService service(with({"--workers", "1"}));
  const std::string runs = service.post("/evaluate", body("sleep 1")).json["task_id"];
  ASSERT_TRUE(service.reaches(runs, "running"));
  const std::string waits = service.post("/evaluate", body("pass")).json["task_id"];
  std::jthread poll([&] { service.get("/tasks/" + waits + "?timeout=60"); });
  const auto answer = service.post_text("/shutdown", "");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.json, (Json{{"status", "shutting_down"}}));
  std::this_thread::sleep_for(100ms);
  const auto refused = service.post("/evaluate", body("pass"));
  EXPECT_EQ(refused.status, 503) << refused.body;
  EXPECT_EQ(service.get("/health").json["status"], "unhealthy");
  EXPECT_EQ(service.stop(false), 0);
  service.start();
  EXPECT_EQ(service.finished(runs)["status"], "completed");
  EXPECT_EQ(service.finished(waits)["status"], "completed");
}

TEST(Faults, SlowClientsDoNotKeepItFromStopping) {
  RunningService service(with({"--workers", "1"}));
  RawClient slow(service.port());
  slow.send("POST /evaluate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{");
  std::jthread drip([&](const std::stop_token& stop) {
    while (!stop.stop_requested() && slow.send(" ")) std::this_thread::sleep_for(500ms);
  });
  std::this_thread::sleep_for(100ms);
  const auto asked = Clock::now();
  EXPECT_EQ(service.stop(), 0);
  EXPECT_LT(seconds_since(asked), 9);
}

TEST(Faults, ASecondSignalEndsItAtOnce) {
  RunningService service(with({"--workers", "1"}));
  const std::string id = service.post("/evaluate", body("hang")).json["task_id"];
  ASSERT_TRUE(service.reaches(id, "running"));
  ::kill(service.pid(), SIGINT);
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(service.stop(), 3);
}

TEST(Faults, EvaluationsSurviveARestartOfTheService) {
  RunningService service(with({"--workers", "1"}));
  std::ofstream(service.folder() / "k.cu") << "sleep 1\n";
  base::ProcessOptions options;
  options.argv = {
      ptxbench_program(), "eval",       (service.folder() / "k.cu").string(), "-p", "gemm_small", "--axis", "M=7",
      "--service",        service.url()};
  std::jthread killer([&] {
    std::this_thread::sleep_for(500ms);
    service.kill_hard();
    std::this_thread::sleep_for(200ms);
    service.start();
  });
  const auto result = base::run_process(options);
  killer.join();
  ASSERT_TRUE(result);
  // The fake's evaluation passes.
  EXPECT_EQ(result->exit_code, 0) << result->stdout_text << result->stderr_text;
}

base::ProcessResult serve(std::vector<std::string> arguments,
                          std::map<std::string, std::optional<std::string>> environment = {}) {
  base::ProcessOptions options;
  options.argv = {ptxbench_program(), "serve"};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment = std::move(environment);
  options.environment.try_emplace("PTXBENCH_WORKER", fake_worker());
  options.environment.try_emplace("PTXBENCH_CACHE", TEST_CACHE);
  options.wall_limit = 20s;
  auto result = base::run_process(options);
  EXPECT_TRUE(result);
  return result ? std::move(*result) : base::ProcessResult();
}

TEST(Start, MistakesAreErrorsAtOnce) {
  const auto folder = base::TempDir::create("serve-start");
  ASSERT_TRUE(folder);
  const std::string state = (folder->path() / "state").string(), data = "tests/service/data";
  std::ofstream(folder->path() / "empty") << "\n";
  const struct {
    std::vector<std::string> arguments;
    int code;
    const char* says;
  } kCases[] = {
      {{"--data", "no/such/root"}, 2, "no/such/root"},
      {{"--data", "tests/service"}, 2, "neither definitions/ nor workloads/"},
      {{"--data", data, "--port", "70000"}, 2, "--port"},
      {{"--data", data, "--log-level", "loud"}, 2, "--log-level loud"},
      {{"--data", data, "--devices", "gpu0"}, 2, "--devices gpu0"},
      {{"--data", data, "--devices", "cuda:0,cuda:0"}, 2, "twice"},
      {{"--data", data, "--token-file", "no/such/file"}, 2, "no/such/file"},
      {{"--data", data, "--token-file", (folder->path() / "empty").string()}, 2, "token"},
      {{"--data", data, "--host", "not-an-address.invalid", "--port", "0"}, 3, "not-an-address.invalid"},
      {{"--data", data, "--tolerance", "loose"}, 2, "--tolerance"},
      {{"--data", data, "--state-dir", "/proc/no"}, 3, "/proc/no"},
  };
  for (const auto& test : kCases) {
    std::vector<std::string> arguments{"--state-dir", state};
    if (test.arguments.back() == "/proc/no") arguments.clear();
    arguments.insert(arguments.end(), test.arguments.begin(), test.arguments.end());
    const auto result = serve(arguments);
    EXPECT_EQ(result.exit_code, test.code) << test.says << '\n' << result.stdout_text << result.stderr_text;
    EXPECT_NE(result.stderr_text.find(test.says), std::string::npos) << test.says << " in " << result.stderr_text;
  }
}

TEST(Start, PortsAndFoldersBelongToOneService) {
  const RunningService service({});
  const auto taken = serve({"--data", "tests/service/data", "--state-dir", (service.folder() / "other").string(),
                            "--port", std::to_string(service.port())});
  EXPECT_EQ(taken.exit_code, 3) << taken.stderr_text;
  EXPECT_NE(taken.stderr_text.find("cannot listen"), std::string::npos) << taken.stderr_text;
  const auto shared =
      serve({"--data", "tests/service/data", "--state-dir", (service.folder() / "state").string(), "--port", "0"});
  EXPECT_EQ(shared.exit_code, 3) << shared.stderr_text;
  EXPECT_NE(shared.stderr_text.find("--state-dir"), std::string::npos) << shared.stderr_text;
}

TEST(Start, ABackendThatIsMissingIsAnError) {
  const auto folder = base::TempDir::create("serve-start");
  ASSERT_TRUE(folder);
  const auto result = serve(
      {"--data", "tests/service/data", "--state-dir", folder->path().string(), "--port", "0", "--devices", "cuda:63"},
      {{"PTXBENCH_WORKER", std::nullopt}});
  EXPECT_EQ(result.exit_code, 3) << result.stdout_text << result.stderr_text;
  EXPECT_NE(result.stderr_text.find("cuda:63"), std::string::npos) << result.stderr_text;
}

}  // namespace
}  // namespace ptxbench::service
