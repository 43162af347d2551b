// Runs an experiment whose model and judge are stand-ins: what is left is the loop itself. For tests that kill it, and
// for measurements (bench/agent_loop.py).
//
// Usage: agent_loop_program FOLDER TRAJECTORIES TURNS [key=value ...]
//   in_flight=64    questions under way          bytes=0     of padding per answer and per evaluation
//   model_ms=0      an answer takes              judge_us=0  a judgement takes
//   asked=FILE      questions asked, a line each, written before they are
//   answers=FOLDER  recorded answers instead of the stand-in model's
// Goes on where FOLDER stands. Prints one JSON object.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "agent/experiment.h"
#include "models/replay.h"
#include "stand_ins.h"

int main(int argc, char** argv) {
  using namespace ptxbench;
  if (argc < 4) return 2;
  std::map<std::string, std::string> options;
  for (int i = 4; i < argc; ++i) {
    const std::string text = argv[i];
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos) return 2;
    options[text.substr(0, equals)] = text.substr(equals + 1);
  }
  const auto number = [&](const std::string& key, unsigned long otherwise) {
    const auto at = options.find(key);
    return at == options.end() ? otherwise : std::stoul(at->second);
  };
  agent::ExperimentConfig config;
  config.name = "loop";
  config.models = {"stand-in"};
  config.problems = {{"gemm_n8_k16", {}, {}}};
  config.replicas = static_cast<unsigned>(std::stoul(argv[2]));
  config.rules.max_turns = static_cast<unsigned>(std::stoul(argv[3]));
  config.rules.stop = agent::StopWhen::never;
  config.limits.generation = static_cast<unsigned>(number("in_flight", 64));
  config.limits.in_flight = config.limits.generation;

  const std::size_t bytes = number("bytes", 0);
  agent::ExperimentParts parts;
  parts.problems = {{agent::stand_in_problem()}};
  auto model = std::make_unique<agent::StandInModel>(bytes, std::chrono::milliseconds(number("model_ms", 0)));
  if (options.contains("asked")) {
    const int fd = ::open(options["asked"].c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return 3;
    model->on_ask = [fd](const models::CompletionOptions& question) {
      const std::string line = fmt::format("{} {}\n", question.trajectory, question.turn);
      if (::write(fd, line.data(), line.size()) < 0) std::abort();
    };
  }
  parts.models["stand-in"] = std::move(model);
  if (options.contains("answers")) {
    auto replay = models::ReplayModel::open(options["answers"]);
    if (!replay) return 3;
    parts.models["stand-in"] = std::move(*replay);
  }
  parts.judge = std::make_unique<agent::StandInJudge>(12, std::chrono::microseconds(number("judge_us", 0)), bytes);

  agent::RunOptions run;
  run.folder = argv[1];
  run.resume = std::filesystem::exists(run.folder / "plan.json");
  const auto started = std::chrono::steady_clock::now();
  const auto result = agent::run_experiment(config, parts, run);
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    return 3;
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto cpu = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  const base::Json report = {{"done", result->progress.done},
                             {"turns", result->progress.turns},
                             {"seconds", seconds},
                             {"cpu_seconds", cpu(usage.ru_utime) + cpu(usage.ru_stime)},
                             {"peak_bytes", static_cast<std::uint64_t>(usage.ru_maxrss) * 1024},
                             {"model_seconds", result->summary["model_seconds"]},
                             {"judge_seconds", result->summary["judge_seconds"]},
                             {"stops", result->stops}};
  fmt::print("{}\n", report.dump());
  return result->progress.done == config.replicas ? 0 : 1;
}
