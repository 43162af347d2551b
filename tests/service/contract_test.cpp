// FIBServe's HTTP contract as its clients rely on it, against a real service: every endpoint, status and error form.
// Fake workers where the verdict does not matter; one test judges real kernels.

#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "base/process.h"
#include "programs.h"
#include "running_service.h"

namespace ptxbench::service {
namespace {

using base::Json;

constexpr const char* kPasses = "5e0c5c5e-0007-4000-8000-000000000007";
constexpr const char* kWrong = "5e0c5c5e-0008-4000-8000-000000000008";
constexpr const char* kOutOfBounds = "5e0c5c5e-0002-4000-8000-000000000002";
constexpr const char* kDeadlock = "5e0c5c5e-0001-4000-8000-000000000001";
constexpr const char* kLarger = "5e0c5c5e-0037-4000-8000-000000000037";

Json body(const std::string& source, std::vector<std::string> uuids = {}) {
  Json json{{"solution", solution(source)}};
  if (!uuids.empty()) json["workload_uuids"] = uuids;
  return json;
}

std::set<std::string> members(const Json& object) {
  std::set<std::string> out;
  for (const auto& [key, value] : object.items()) out.insert(key);
  return out;
}

void expect_detail(const RunningService::Answer& answer, int status, const std::string& says) {
  EXPECT_EQ(answer.status, status) << answer.body;
  ASSERT_TRUE(answer.json.is_object() && answer.json.contains("detail")) << answer.body;
  ASSERT_TRUE(answer.json["detail"].is_string()) << answer.body;
  EXPECT_NE(answer.json["detail"].get<std::string>().find(says), std::string::npos) << answer.body;
}

/// The place of the first error of a 422.
void expect_invalid(const RunningService::Answer& answer, const Json& place) {
  EXPECT_EQ(answer.status, 422) << answer.body;
  ASSERT_TRUE(answer.json.is_object() && answer.json.value("detail", Json()).is_array()) << answer.body;
  const Json& first = answer.json["detail"].at(0);
  EXPECT_EQ(first.at("loc"), place) << answer.body;
  EXPECT_TRUE(first.at("msg").is_string() && first.at("type").is_string());
}

TEST(Contract, DescribesItselfAndItsHealth) {
  const RunningService service({});
  const auto root = service.get("/");
  EXPECT_EQ(root.status, 200);
  EXPECT_EQ(members(root.json), (std::set<std::string>{"name", "version", "commit", "upstream", "docs", "endpoints"}));
  const auto health = service.get("/health");
  EXPECT_EQ(health.status, 200);
  EXPECT_EQ(members(health.json), (std::set<std::string>{"status", "workers", "queue_size"}));
  EXPECT_EQ(health.json["status"], "ok");
  EXPECT_EQ(health.json["queue_size"], 0);
  ASSERT_FALSE(health.json["workers"].empty());
  EXPECT_EQ(health.json["workers"][0], (Json{{"device", "emulator:0"}, {"healthy", true}}));
}

TEST(Contract, ListsDefinitionsAndWorkloads) {
  const RunningService service({});
  const auto list = service.get("/definitions");
  EXPECT_EQ(list.status, 200);
  ASSERT_EQ(list.json.size(), 2U);
  EXPECT_EQ(members(list.json[0]), (std::set<std::string>{"name", "description"}));
  const auto definition = service.get("/definitions/gemm_small");
  EXPECT_EQ(definition.status, 200);
  EXPECT_EQ(definition.json["name"], "gemm_small");
  EXPECT_EQ(definition.json["axes"]["N"], (Json{{"type", "const"}, {"value", 256}}));
  const auto workloads = service.get("/definitions/gemm_small/workloads");
  EXPECT_EQ(workloads.status, 200);
  ASSERT_EQ(workloads.json.size(), 5U);
  EXPECT_EQ(workloads.json[0]["uuid"], kPasses);
  const auto workload = service.get(fmt::format("/workloads/{}", kWrong));
  EXPECT_EQ(workload.status, 200);
  EXPECT_EQ(workload.json["axes"]["M"], 8);
  expect_detail(service.get("/definitions/nothing"), 404, "Definition not found: nothing");
  expect_detail(service.get("/definitions/nothing/workloads"), 404, "Definition not found: nothing");
  expect_detail(service.get("/workloads/nothing"), 404, "Workload not found");
}

TEST(Contract, JudgesRealKernels) {
  RunningService::Options options;
  options.fake_workers = false;
  const RunningService service(options);
  const auto source = base::read_file("tests/evaluation/candidates/device_faults.cu");
  ASSERT_TRUE(source);
  // Not the order of the file.
  const auto accepted = service.post("/evaluate", body(*source, {kWrong, kDeadlock, kPasses, kOutOfBounds}));
  ASSERT_EQ(accepted.status, 200) << accepted.body;
  EXPECT_EQ(members(accepted.json), (std::set<std::string>{"task_id", "normalized_solution_name"}));
  const std::string id = accepted.json["task_id"];
  EXPECT_EQ(id.size(), 32U);
  EXPECT_EQ(id.find_first_not_of("0123456789abcdef"), std::string::npos);
  const Json task = service.finished(id, 90);
  EXPECT_EQ(members(task), (std::set<std::string>{"task_id", "kind", "status", "definition", "solution", "traces"}));
  EXPECT_EQ(task["kind"], "evaluate");
  EXPECT_EQ(task["status"], "completed");
  EXPECT_EQ(task["solution"], accepted.json["normalized_solution_name"]);
  ASSERT_EQ(task["traces"].size(), 4U);
  const char* kStatuses[] = {"INCORRECT_NUMERICAL", "TIMEOUT", "PASSED", "RUNTIME_ERROR"};
  const char* kUuids[] = {kWrong, kDeadlock, kPasses, kOutOfBounds};
  for (std::size_t i = 0; i < 4; ++i) {
    const Json& trace = task["traces"][i];
    EXPECT_EQ(members(trace), (std::set<std::string>{"definition", "workload", "solution", "evaluation"}));
    EXPECT_EQ(trace["workload"]["uuid"], kUuids[i]);
    const Json& evaluation = trace["evaluation"];
    EXPECT_EQ(members(evaluation),
              (std::set<std::string>{"status", "environment", "timestamp", "log", "correctness", "performance"}));
    EXPECT_EQ(evaluation["status"], kStatuses[i]) << evaluation["log"];
    EXPECT_EQ(evaluation["correctness"].is_null(), i == 1 || i == 3);
    EXPECT_EQ(evaluation["performance"].is_null(), i != 2);
    EXPECT_EQ(evaluation["log"].get<std::string>().empty(), i == 2);
  }
  EXPECT_NE(task["traces"][3]["evaluation"]["log"].get<std::string>().find("memory.out-of-bounds"), std::string::npos);

  const auto broken = base::read_file("tests/evaluation/candidates/compile_error.cu");
  ASSERT_TRUE(broken);
  const auto second = service.post("/evaluate", body(*broken, {kPasses}));
  const auto third = service.post("/sanitize", body(*source, {kPasses, kOutOfBounds}));
  const auto fourth = service.post("/debug", body(*source, {kOutOfBounds}));
  const auto fifth = service.post("/profile", body(*source, {kPasses}));
  for (const auto* answer : {&second, &third, &fourth, &fifth}) ASSERT_EQ(answer->status, 200) << answer->body;

  const Json failed = service.finished(second.json["task_id"], 90);
  EXPECT_EQ(failed["traces"][0]["evaluation"]["status"], "COMPILE_ERROR");
  EXPECT_NE(failed["traces"][0]["evaluation"]["log"].get<std::string>().find("no_such_function"), std::string::npos);

  const Json sanitized = service.finished(third.json["task_id"], 90);
  EXPECT_EQ(members(sanitized), (std::set<std::string>{"task_id", "kind", "status", "definition", "solution", "logs"}));
  ASSERT_EQ(sanitized["logs"].size(), 2U);
  EXPECT_EQ(members(sanitized["logs"][0]), (std::set<std::string>{"definition", "workload", "solution", "log"}));
  EXPECT_EQ(sanitized["logs"][0]["log"].get<std::string>().find("Program hit"), std::string::npos);
  EXPECT_NE(sanitized["logs"][1]["log"].get<std::string>().find("Program hit memory.out-of-bounds"), std::string::npos)
      << sanitized["logs"][1]["log"];

  const Json debugged = service.finished(fourth.json["task_id"], 90);
  ASSERT_EQ(debugged["logs"].size(), 1U);
  const Json& fault = debugged["logs"][0]["metadata"]["Most precise fault"];
  EXPECT_EQ(fault["exist"], true);
  EXPECT_NE(fault["msg"].get<std::string>().find("[bounds]"), std::string::npos) << fault["msg"];

  const Json profiled = service.finished(fifth.json["task_id"], 90);
  EXPECT_NE(profiled["logs"][0]["log"].get<std::string>().find("fma"), std::string::npos) << profiled["logs"];
}

TEST(Contract, NullAndEmptyListsMeanAllWorkloadsAndUnknownOnesVanish) {
  const RunningService service({});
  Json request = body("pass");
  request["workload_uuids"] = nullptr;
  EXPECT_EQ(service.finished(service.post("/evaluate", request).json["task_id"])["traces"].size(), 5U);
  request["workload_uuids"] = Json::array();
  EXPECT_EQ(service.finished(service.post("/evaluate", request).json["task_id"])["traces"].size(), 5U);
  request["workload_uuids"] = Json::array({"unknown", kLarger, kPasses});
  const Json task = service.finished(service.post("/evaluate", request).json["task_id"]);
  ASSERT_EQ(task["traces"].size(), 2U);
  EXPECT_EQ(task["traces"][0]["workload"]["uuid"], kLarger);
  request["workload_uuids"] = Json::array({"unknown"});
  expect_detail(service.post("/evaluate", request), 400, "Workload not found");
}

TEST(Contract, RefusesWhatItCannotJudge) {
  const RunningService service({});
  Json request = body("pass");
  request["solution"]["definition"] = "nothing";
  for (const char* path : {"/evaluate", "/sanitize", "/debug", "/profile"}) {
    expect_detail(service.post(path, request), 400, "Definition not found: nothing");
  }
  request = body("pass");
  request["run_baseline"] = false;
  expect_detail(service.post("/evaluate", request), 400, "run_baseline");
  request = body("pass");
  request["solution"]["spec"]["language"] = "tilelang";
  expect_detail(service.post("/evaluate", request), 400, "tilelang");
  request["solution"]["spec"]["language"] = "cuda";
  request["solution"]["spec"]["binding"] = "torch";
  expect_detail(service.post("/evaluate", request), 400, "torch");
  request = body("pass");
  request["solution"]["spec"]["target_hardware"] = Json::array({"Blackwell"});
  expect_detail(service.post("/evaluate", request), 400, "Hopper");
}

TEST(Contract, MalformedRequestsAreListed) {
  const RunningService service({});
  for (const char* path : {"/evaluate", "/sanitize", "/debug", "/profile", "/v1/evaluate", "/tasks/batch"}) {
    expect_invalid(service.post_text(path, "{\"solution\": "), Json::array({"body"}));
    expect_invalid(service.post_text(path, ""), Json::array({"body"}));
    expect_invalid(service.post_text(path, "[1]"), Json::array({"body"}));
  }
  expect_invalid(service.post("/evaluate", Json::object()), Json::array({"body", "solution"}));
  Json request = body("pass");
  request["baseline_cache_mode"] = "never";
  expect_invalid(service.post("/evaluate", request), Json::array({"body", "baseline_cache_mode"}));
  request = body("pass");
  request["solution"]["sources"][0].erase("content");
  expect_invalid(service.post("/evaluate", request), Json::array({"body", "solution", "sources", 0, "content"}));
  expect_invalid(service.post("/tasks/batch", Json{{"task_ids", 5}}), Json::array({"body", "task_ids"}));
  expect_invalid(service.post("/tasks/batch", Json{{"task_ids", Json::array()}, {"timeout", 3601}}),
                 Json::array({"body", "timeout"}));
  std::string deep = "{\"solution\":";
  for (int i = 0; i < 100'000; ++i) deep += '[';
  expect_invalid(service.post_text("/evaluate", deep), Json::array({"body"}));
}

TEST(Contract, LongPollsReturnAtTheEndOrAtTheTimeout) {
  const RunningService service({});
  const auto started = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count(); };
  const std::string id = service.post("/evaluate", body("sleep 1.5", {kPasses})).json["task_id"];
  const auto early = service.get("/tasks/" + id);
  EXPECT_TRUE(early.json["status"] == "pending" || early.json["status"] == "running") << early.body;
  EXPECT_EQ(members(early.json), (std::set<std::string>{"task_id", "kind", "status", "definition", "solution"}));
  const auto timed = service.get("/tasks/" + id + "?timeout=0.3");
  EXPECT_EQ(timed.json["status"], "running");
  EXPECT_GE(passed(), 0.3);
  EXPECT_LT(passed(), 1.4);
  EXPECT_EQ(service.get("/tasks/" + id + "?timeout=3600").json["status"], "completed");
  EXPECT_LT(passed(), 10);
  for (const char* wrong : {"-1", "3601", "soon", "nan", ""}) {
    expect_invalid(service.get("/tasks/" + id + "?timeout=" + wrong), Json::array({"query", "timeout"}));
  }
  expect_detail(service.get("/tasks/0123456789abcdef0123456789abcdef?timeout=30"), 404, "Task not found");
  expect_detail(service.get("/tasks/nonsense"), 404, "Task not found");
}

TEST(Contract, BatchesKeepTheirOrder) {
  const RunningService service({});
  const std::string slow = service.post("/evaluate", body("sleep 0.5", {kPasses})).json["task_id"];
  const std::string fast = service.post("/evaluate", body("fail", {kPasses})).json["task_id"];
  const auto now = service.post("/tasks/batch", Json{{"task_ids", Json::array({fast, slow})}});
  EXPECT_EQ(now.status, 200) << now.body;
  ASSERT_EQ(now.json.size(), 2U);
  const auto batch = service.post("/tasks/batch", Json{{"task_ids", Json::array({slow, fast, slow})}, {"timeout", 30}});
  ASSERT_EQ(batch.json.size(), 3U) << batch.body;
  EXPECT_EQ(batch.json[0]["task_id"], slow);
  EXPECT_EQ(batch.json[0]["status"], "completed");
  EXPECT_EQ(batch.json[1]["traces"][0]["evaluation"]["status"], "INCORRECT_NUMERICAL");
  EXPECT_EQ(batch.json[2]["task_id"], slow);
  expect_detail(service.post("/tasks/batch", Json{{"task_ids", Json::array({slow, "unknown"})}, {"timeout", 30}}), 404,
                "Task not found");
  EXPECT_EQ(service.post("/tasks/batch", Json{{"task_ids", Json::array()}}).json, Json::array());
}

TEST(Contract, FailedTasksSayWhyAndKeepFinishedTraces) {
  const RunningService service({});
  const auto accepted = service.post("/evaluate", body(fmt::format("crash_on {}", kWrong), {kPasses, kWrong}));
  const Json task = service.finished(accepted.json["task_id"]);
  EXPECT_EQ(task["status"], "failed");
  EXPECT_TRUE(task["error"].is_string());
  ASSERT_EQ(task["traces"].size(), 1U);
  EXPECT_EQ(task["traces"][0]["workload"]["uuid"], kPasses);
}

TEST(Contract, TasksCanBeCancelled) {
  const RunningService service({});
  const std::string runs = service.post("/evaluate", body("hang", {kPasses})).json["task_id"];
  ASSERT_TRUE(service.reaches(runs, "running"));
  const std::string waits = service.post("/evaluate", body("pass", {kPasses})).json["task_id"];
  const std::string other = service.post("/evaluate", body("pass", {kPasses})).json["task_id"];
  const auto removed = service.remove("/tasks/" + waits);
  EXPECT_EQ(removed.status, 200) << removed.body;
  EXPECT_EQ(removed.json["status"], "failed");
  EXPECT_EQ(removed.json["error"], "cancelled");
  const auto cancelled = service.post_text("/tasks/" + runs + "/cancel", "");
  EXPECT_EQ(cancelled.status, 200);
  EXPECT_EQ(cancelled.json["status"], "failed") << cancelled.body;
  EXPECT_EQ(service.finished(other)["status"], "completed");
  // A final task stays what it is.
  EXPECT_EQ(service.remove("/tasks/" + other).json["status"], "completed");
  expect_detail(service.remove("/tasks/unknown"), 404, "Task not found");
  expect_detail(service.post_text("/tasks/unknown/cancel", ""), 404, "Task not found");
}

TEST(Contract, UnknownRoutesAndMethods) {
  const RunningService service({});
  expect_detail(service.get("/nothing"), 404, "Not Found");
  expect_detail(service.get("/definitions/a/b/c"), 404, "Not Found");
  expect_detail(service.get("/evaluate"), 405, "Method Not Allowed");
  expect_detail(service.post("/health", Json::object()), 405, "Method Not Allowed");
  expect_detail(service.remove("/definitions/gemm_small"), 405, "Method Not Allowed");
}

TEST(Contract, TokensAreAskedForWhenSet) {
  RunningService::Options options;
  options.token = "s3cret";
  const RunningService service(options);
  EXPECT_EQ(service.get("/definitions").status, 200);
  httplib::Client stranger(service.url());
  for (const char* path : {"/", "/definitions", "/metrics", "/tasks/x", "/nothing"}) {
    const auto answer = stranger.Get(path);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 401) << path;
    EXPECT_EQ(answer->get_header_value("WWW-Authenticate"), "Bearer");
  }
  EXPECT_EQ(stranger.Get("/health")->status, 200);
  EXPECT_EQ(stranger.Post("/shutdown")->status, 401);
  stranger.set_bearer_token_auth("s3cre");
  EXPECT_EQ(stranger.Post("/evaluate", "{}", "application/json")->status, 401);
  EXPECT_EQ(service.log().find("s3cret"), std::string::npos);
}

TEST(Contract, MetricsAreInPrometheusForm) {
  const RunningService service({});
  service.finished(service.post("/evaluate", body("pass", {kPasses, kWrong})).json["task_id"]);
  const auto answer = service.get("/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(service.metric("ptxbench_tasks_finished_total{kind=\"evaluate\",status=\"completed\"}"), 1);
  EXPECT_EQ(service.metric("ptxbench_units_finished_total{lane=\"cpu\",outcome=\"done\"}"), 2);
  EXPECT_NE(answer.body.find("# TYPE ptxbench_unit_seconds summary"), std::string::npos);
}

TEST(Contract, LogsAreJsonLines) {
  const RunningService service({});
  service.finished(service.post("/evaluate", body("pass", {kPasses})).json["task_id"]);
  const std::string log = service.log();
  std::istringstream lines(log);
  std::set<std::string> events;
  for (std::string line; std::getline(lines, line);) {
    const auto json = base::parse_json(line, "log");
    ASSERT_TRUE(json) << line;
    EXPECT_TRUE(json->contains("time") && json->contains("level")) << line;
    events.insert(json->value("event", ""));
  }
  for (const char* event : {"service.started", "task.accepted", "unit.ended", "task.finished", "http.request"}) {
    EXPECT_TRUE(events.contains(event)) << event;
  }
}

base::ProcessResult eval(const RunningService& service, std::vector<std::string> arguments) {
  base::ProcessOptions options;
  options.argv = {ptxbench_program(), "eval", "--service", service.url()};
  options.argv.insert(options.argv.end(), arguments.begin(), arguments.end());
  options.environment["PTXBENCH_CACHE"] = TEST_CACHE;
  auto result = base::run_process(options);
  EXPECT_TRUE(result);
  return result ? std::move(*result) : base::ProcessResult();
}

/// Without what a clock says.
std::string timeless(const std::string& text) {
  static const std::regex kTimes(R"( +[0-9.]+ (ns|us|ms|s)  )");
  return std::regex_replace(text, kTimes, " T  ");
}

TEST(EvalService, PrintsWhatALocalEvaluationPrints) {
  RunningService::Options options;
  options.fake_workers = false;
  const RunningService service(options);
  const std::string kernel = "tests/evaluation/candidates/device_faults.cu";
  const struct {
    const char* rows;
    int code;
  } kCases[] = {{"M=7", 0}, {"M=8", 1}};
  for (const auto& test : kCases) {
    const std::vector<std::string> arguments{kernel, "-p", "gemm_small", "--axis", test.rows};
    const auto remote = eval(service, arguments);
    EXPECT_EQ(remote.exit_code, test.code) << remote.stdout_text << remote.stderr_text;
    base::ProcessOptions local;
    local.argv = {ptxbench_program(), "eval", "--data", "tests/service/data"};
    local.argv.insert(local.argv.end(), arguments.begin(), arguments.end());
    local.environment["PTXBENCH_CACHE"] = TEST_CACHE;
    const auto here = base::run_process(local);
    ASSERT_TRUE(here);
    EXPECT_EQ(here->exit_code, test.code);
    EXPECT_EQ(timeless(remote.stdout_text), timeless(here->stdout_text));
  }
  const auto json = eval(service, {kernel, "-p", "gemm_small", "--axis", "M=7", "--json"});
  const auto parsed = base::parse_json(json.stdout_text, "output");
  ASSERT_TRUE(parsed) << json.stdout_text;
  EXPECT_EQ(parsed->at("schema"), "ptxbench.evaluation/1");
  EXPECT_EQ(parsed->at("verdict").at("status"), "passed");

  const auto misspelt = eval(service, {kernel, "-p", "gem_small", "--axis", "M=7"});
  EXPECT_EQ(misspelt.exit_code, 2);
  EXPECT_NE(misspelt.stderr_text.find("gemm_small"), std::string::npos) << misspelt.stderr_text;
  EXPECT_EQ(eval(service, {kernel, "-p", "gemm_small", "--axis", "Q=7"}).exit_code, 2);
  EXPECT_EQ(eval(service, {kernel, "-p", "gemm_small", "--data", "tests/service/data"}).exit_code, 2);
  EXPECT_EQ(eval(service, {kernel, "-p", "gemm_small", "--backend", "gpu"}).exit_code, 2);
}

TEST(EvalService, WhatIsNotThereIsThree) {
  base::ProcessOptions options;
  options.argv = {
      ptxbench_program(),  "eval", "tests/evaluation/candidates/device_faults.cu", "-p", "gemm_small", "--service",
      "http://127.0.0.1:1"};
  auto result = base::run_process(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit_code, 3) << result->stderr_text;
  EXPECT_NE(result->stderr_text.find("http://127.0.0.1:1"), std::string::npos);
  options.argv.back() = "nonsense";
  result = base::run_process(options);
  ASSERT_TRUE(result);
  EXPECT_EQ(result->exit_code, 2) << result->stderr_text;
}

TEST(NativeTasks, GiveWholeEvaluations) {
  const RunningService service({});
  const auto accepted = service.post(
      "/v1/evaluate",
      Json{{"source", "pass"}, {"problem", "gemm_small"}, {"workloads", Json::array({"5e0c5c5e-0008", kPasses})}});
  ASSERT_EQ(accepted.status, 200) << accepted.body;
  const auto task = service.get("/v1/tasks/" + accepted.json["task_id"].get<std::string>() + "?timeout=30");
  EXPECT_EQ(task.json["schema"], "ptxbench.task/1");
  EXPECT_EQ(task.json["status"], "completed");
  ASSERT_EQ(task.json["evaluations"].size(), 2U);
  EXPECT_EQ(task.json["evaluations"][0]["schema"], "ptxbench.evaluation/1");
  EXPECT_EQ(task.json["units"][0]["workload"]["axes"]["M"], 8);
  EXPECT_EQ(task.json["units"][0]["attempts"], 1);
  EXPECT_TRUE(task.json["error"].is_null());
  expect_detail(service.post("/v1/evaluate", Json{{"source", "pass"}, {"problem", "gemm_smal"}}), 400, "gemm_small");
  expect_detail(
      service.post("/v1/evaluate", Json{{"source", "pass"}, {"problem", "gemm_small"}, {"options", {{"seedd", 1}}}}),
      400, "did you mean 'seed'");
  expect_invalid(service.post("/v1/evaluate", Json{{"problem", "gemm_small"}}), Json::array({"body", "source"}));
  expect_detail(service.get("/v1/tasks/unknown"), 404, "Task not found");
}

}  // namespace
}  // namespace ptxbench::service
