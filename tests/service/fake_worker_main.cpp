// Stands in for `ptxbench worker` in tests of the service: its "candidate" is a line of words that says what the worker
// does. Nothing is compiled, so faults and lanes are tested in milliseconds and without tools.
//
//   pass | fail | input | infra | crash | hang | garbage     what happens
//   crash_once FILE | hang_once FILE                         only as long as FILE does not exist, else pass
//   sleep SECONDS                                            then pass
//   crash_on UUID                                            for this workload, else pass
//   stop                                                     fails when it is screened, else passes
//   (with $FAKE_LOST_GPU=FILE: cuda:1 is lost with the first unit it gets, and cannot be opened again)
//   run SECONDS                                              says that the candidate executes, sleeps, passes

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

namespace {

using Json = nlohmann::ordered_json;

Json evaluation(bool passed, const Json& request) {
  const char* status = passed ? "passed" : "failed";
  Json stages = Json::array();
  for (const char* name : {"compile", "execute"}) stages.push_back({{"name", name}, {"status", "passed"}});
  stages.push_back({{"name", "correctness"}, {"status", status}});
  Json output{{"compat", {{"max_absolute_error", passed ? 0.001 : 3.0}, {"max_relative_error", passed ? 0.004 : 5.0}}}};
  return Json{{"schema", "ptxbench.evaluation/1"},
              {"definition", request.value("definition", "")},
              {"target", "sm_90a"},
              {"backend", {{"name", request.value("backend", "emulator")}}},
              {"verdict", {{"status", status}, {"summary", status}}},
              {"stages", stages},
              {"findings", Json::array()},
              {"compile", {{"compiler", "nvcc 13.0.88"}}},
              {"runs", Json::array({{{"outputs", Json::array({output})}, {"launches", Json::array()}}})},
              {"instructions", nullptr},
              {"device", request.value("device", "")}};
}

Json judged(bool passed, const Json& request) {
  return Json{{"evaluation", evaluation(passed, request)},
              {"text", passed ? "verdict: passed\n" : "verdict: failed\n"}};
}

Json error(const char* kind, const char* message) { return Json{{"error", {{"kind", kind}, {"message", message}}}}; }

[[noreturn]] void hang() {
  while (true) std::this_thread::sleep_for(std::chrono::hours(1));
}

/// Creates the file; whether it was not there.
bool first_time(const std::string& file) {
  const bool first = !std::filesystem::exists(file);
  std::ofstream(file) << "seen\n";
  return first;
}

void sleep(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

Json answer(const Json& request) {
  const std::string kind = request.value("kind", "");
  const char* lost = std::getenv("FAKE_LOST_GPU");
  const bool is_lost = lost != nullptr && request.value("device", "") == "cuda:1";
  if (is_lost && kind == "probe" && std::filesystem::exists(lost)) return error("infrastructure", "no such GPU");
  if (kind == "probe") return Json{{"ready", true}};
  if (is_lost) {
    first_time(lost);
    return error("infrastructure", "the GPU has fallen off the bus");
  }
  std::istringstream words(request.value("source", ""));
  std::string word, argument;
  words >> word >> argument;
  if (kind == "prepare") {
    if (word == "stop") return judged(false, request);
    return Json{{"prepared", true}};
  }
  const std::string uuid = request.contains("workloads") ? request["workloads"].at(0).get<std::string>() : "";
  if (word == "crash" || (word == "crash_on" && uuid == argument)) ::_exit(42);
  if (word == "crash_once" && first_time(argument)) ::_exit(42);
  if (word == "hang" || (word == "hang_once" && first_time(argument))) hang();
  if (word == "sleep") sleep(std::stod(argument));
  if (word == "run") {
    std::cout << Json{{"id", request.at("id")}, {"progress", "running"}, {"running", true}}.dump() << std::endl;
    sleep(std::stod(argument));
  }
  if (word == "wait") {
    // Runs, waits for what others hold, runs again.
    const auto tell = [&](const char* state, bool running) {
      std::cout << Json{{"id", request.at("id")}, {"progress", state}, {"running", running}}.dump() << std::endl;
    };
    tell("running", true);
    sleep(0.05);
    tell("waiting", false);
    sleep(0.6);
    tell("running", true);
    sleep(std::stod(argument));
  }
  if (word == "input") return error("input", "the tensors do not fit");
  if (word == "infra") return error("infrastructure", "nvcc is gone");
  if (kind == "check") {
    return Json{{"check", {{"verdict", "clean"}, {"findings", Json::array()}, {"fidelity", Json::object()}}},
                {"text", "verdict: clean\n"}};
  }
  return judged(word != "fail", request);
}

}  // namespace

int main() {
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json request = Json::parse(line);
    if (request.value("source", "").starts_with("garbage")) {
      std::cout << "Segmentation fault" << std::endl;
      continue;
    }
    Json whole{{"id", request.at("id")}};
    whole.update(answer(request));
    std::cout << whole.dump() << std::endl;
  }
  return 0;
}
