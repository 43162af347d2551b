// How many candidates a GPU judges: the cached path (one process; inputs and truth kept, executors started ahead,
// several evaluations under way), the uncached one (everything anew each time), and the kernels alone.
//
//   bench_gpu_throughput [--timed-calls N] ROUNDS CONCURRENCY KERNEL.cu:PROBLEM:AXIS=V,AXIS=V ...
//
// Compiling is left out of both paths: artifacts come from the cache. Prints one JSON object.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/files.h"
#include "base/text.h"
#include "evaluation/evaluator.h"
#include "problem/dataset.h"

namespace {

using namespace ptxbench;
using Clock = std::chrono::steady_clock;

struct Case {
  std::string name, source;
  std::vector<problem::Problem> problems;
};

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "gpu_throughput: %s\n", message.c_str());
  std::exit(3);
}

template <class T>
T need(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(*result);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == at) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

struct Tally {
  double wall = 0, kernels = 0, turn = 0, latency = 0;
  std::vector<double> speedups, latencies;
  std::map<std::string, double> steps;
  std::size_t evaluations = 0, passed = 0;
  base::Json json() const {
    return {{"evaluations", evaluations},
            {"passed", passed},
            {"wall_seconds", wall},
            {"seconds_per_evaluation", wall / static_cast<double>(evaluations)},
            {"latency_seconds", latency / static_cast<double>(evaluations)},
            {"kernel_seconds_per_evaluation", kernels / static_cast<double>(evaluations)},
            {"timed_seconds_per_evaluation", turn / static_cast<double>(evaluations)},
            {"wall_over_kernels", wall / kernels},
            {"evaluations_per_gpu_hour", 3600 * static_cast<double>(evaluations) / wall},
            {"latency_ms_spread", spread(latencies)},
            {"speedup_spread", spread(speedups)},
            {"seconds_by_step", per_evaluation()}};
  }
  /// Most less least, over the median.
  static double spread(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    return (values.back() - values.front()) / values[values.size() / 2];
  }
  base::Json per_evaluation() const {
    base::Json out = base::Json::object();
    for (const auto& [step, seconds] : steps) out[step] = seconds / static_cast<double>(evaluations);
    return out;
  }
};

}  // namespace

int main(int argc, char** argv) {
  std::size_t timed_calls = 0;
  if (argc > 2 && std::string_view(argv[1]) == "--timed-calls") {
    timed_calls = static_cast<std::size_t>(std::atoi(argv[2]));
    argc -= 2;
    argv += 2;
  }
  if (argc < 4) {
    std::fprintf(stderr,
                 "bench_gpu_throughput [--timed-calls N] ROUNDS CONCURRENCY KERNEL.cu:PROBLEM:AXIS=V,... ...\n");
    return 2;
  }
  const auto rounds = static_cast<std::size_t>(std::atoi(argv[1]));
  const auto concurrency = static_cast<std::size_t>(std::atoi(argv[2]));
  const auto dataset = need(problem::Dataset::load(need(problem::dataset_roots({}))));
  std::vector<Case> cases;
  for (int i = 3; i < argc; ++i) {
    const auto parts = split(argv[i], ':');
    if (parts.size() != 3) fail(fmt::format("{}: KERNEL.cu:PROBLEM:AXES", argv[i]));
    const auto* definition = need(dataset.find_definition(parts[1]));
    const auto workload = need(dataset.workload_for_axes(*definition, split(parts[2], ',')));
    cases.push_back({argv[i], need(base::read_file(parts[0])), {need(problem::make_problem(*definition, workload))}});
  }
  evaluation::EvaluateOptions options;
  options.backend = evaluation::EvaluateOptions::Backend::gpu;
  options.seeds = 1;
  // Instructions are counted once for an artifact, not at every evaluation.
  options.count_instructions = false;
  if (timed_calls != 0) options.stop = gpu::StopRule::exactly(timed_calls);

  std::mutex mutex;
  const auto judge = [&](evaluation::Evaluator& evaluator, const Case& one, bool more, Tally* tally) {
    auto mine = options;
    mine.more_to_come = more;
    const auto started = Clock::now();
    const auto result = need(evaluator.evaluate(one.source, one.problems, mine));
    const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
    if (tally == nullptr) return;
    const std::lock_guard lock(mutex);
    ++tally->evaluations;
    tally->latency += seconds;
    tally->kernels += result.timings.kernels;
    tally->steps["compare"] += result.timings.compare;
    tally->steps["compile"] += result.timings.compile;
    tally->steps["execute"] += result.timings.execute;
    for (const auto& performance : result.performance) {
      tally->kernels += performance.kernel_seconds;
      tally->turn += performance.gpu_seconds;
      tally->latencies.push_back(performance.times.candidate.value);
      if (performance.times.speedup) tally->speedups.push_back(performance.times.speedup->value);
      for (const auto& [step, value] : performance.seconds.items()) tally->steps[step] += value.get<double>();
    }
    if (result.passed()) {
      ++tally->passed;
    } else {
      std::fprintf(stderr, "%s: %s\n", one.name.c_str(), result.summary.c_str());
    }
  };

  base::Json out = {
      {"rounds", rounds}, {"concurrency", concurrency}, {"timed_calls", timed_calls}, {"cases", base::Json::array()}};
  const auto run = [&](const std::vector<const Case*>& list, const std::string& name) {
    Tally cached, uncached;
    {
      const auto evaluator = need(evaluation::Evaluator::create());
      for (const Case* one : list) judge(*evaluator, *one, true, nullptr);
      std::atomic<std::size_t> next = 0;
      const std::size_t total = rounds * list.size();
      const auto started = Clock::now();
      std::vector<std::thread> threads;
      for (std::size_t i = 0; i < concurrency; ++i) {
        threads.emplace_back([&] {
          for (std::size_t at = next++; at < total; at = next++)
            judge(*evaluator, *list[at % list.size()], at + concurrency < total, &cached);
        });
      }
      for (std::thread& thread : threads) thread.join();
      cached.wall = std::chrono::duration<double>(Clock::now() - started).count();
    }
    const std::size_t few = std::max<std::size_t>(1, rounds / 8);
    const auto started = Clock::now();
    for (std::size_t i = 0; i < few * list.size(); ++i) {
      const auto evaluator = need(evaluation::Evaluator::create());
      judge(*evaluator, *list[i % list.size()], false, &uncached);
    }
    uncached.wall = std::chrono::duration<double>(Clock::now() - started).count();
    const double ratio = uncached.wall / static_cast<double>(uncached.evaluations) /
                         (cached.wall / static_cast<double>(cached.evaluations));
    out["cases"].push_back(
        {{"case", name}, {"cached", cached.json()}, {"uncached", uncached.json()}, {"uncached_over_cached", ratio}});
  };
  std::vector<const Case*> all;
  for (const Case& one : cases) {
    run({&one}, one.name);
    all.push_back(&one);
  }
  if (cases.size() > 1) run(all, "all");
  std::printf("%s\n", out.dump(1).c_str());
}
