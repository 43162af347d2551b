#include "synthetic.h"

#include <fmt/format.h>

#include <array>
#include <fstream>
#include <random>
#include <stdexcept>

#include "agent/trajectory.h"
#include "base/json.h"

namespace ptxbench::report {
namespace {

using base::Json;
namespace fs = std::filesystem;

constexpr std::array<const char*, 8> kLabels = {
    "Compilation error",        "Runtime error",    "Numerical error", "Correct",
    "Kernel Execution Timeout", "Extraction error", "Other error",     "Profiling Service Timeout"};
constexpr std::array<const char*, 5> kProblems = {"gemm_n7168_k5120", "mha_with_lse_d128", "mha_with_lse_d128_causal",
                                                  "mha_bwd_d128", "mha_bwd_d128_causal"};
constexpr std::string_view kAttack =
    "</script><img src=x onerror=\"window.attacked=1\"><!-- {{data}} & 'q' \"d\" `t` ${1}";

/// Without waiting for the disk: there are thousands of these.
void write(const fs::path& file, std::string_view text) {
  fs::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::binary);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + file.string());
}

struct Draw {
  std::mt19937 engine;
  double strength = 1;
  /// 0 .. 1
  double share() { return static_cast<double>(engine()) / 4294967296.0; }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(share() * n); }
  /// An index into kLabels; models learn from turn to turn.
  std::size_t label(unsigned model, unsigned turn) {
    const double correct = std::min(0.9, strength * (0.05 + 0.08 * (model % 4) + 0.02 * turn));
    if (share() < correct) return 3;
    static constexpr std::array<double, 8> kUpTo = {0.33, 0.62, 0.83, 0.83, 0.97, 0.99, 0.998, 1};
    const double at = share();
    for (std::size_t i = 0; i < kUpTo.size(); ++i) {
      if (at < kUpTo[i]) return i;
    }
    return 0;
  }
};

std::string kernel_of(Draw& draw, unsigned turn, const SyntheticOptions& options) {
  std::string text =
      "#include <cuda_runtime.h>\n\n/* A kernel\n   nobody wrote. */\n__global__ void kernel(float* out) {\n";
  if (options.hostile) text += fmt::format("  // {}\n", kAttack);
  for (unsigned i = 0; i < options.kernel_lines; ++i) {
    text += fmt::format(
        "  asm volatile(\"mbarrier.try_wait.parity.shared::cta.b64 p, [%0], {};\" ::\"r\"({}u));  // step {}\n",
        draw.share() < 0.06 ? turn : 0, i, i);
  }
  return text + "}\n";
}

Json place_of(unsigned line) {
  return {{"kernel", "kernel"},    {"file", "kernel.cu"},
          {"line", line},          {"column", 0},
          {"ptx_line", 10 + line}, {"instruction", "mbarrier.try_wait.parity.shared::cta.b64 p, [%r1], %r2;"},
          {"output", ""},          {"host_call", ""}};
}

Json evaluation_of(Draw& draw, std::size_t label, double speedup, const SyntheticOptions& options) {
  const std::array<const char*, 5> names = {"compile", "execute", "correctness", "instructions", "performance"};
  const std::size_t failed = label == 0 ? 0 : label == 1 || label == 4 ? 1 : label == 2 ? 2 : 9;
  const bool correct = label == 3, target = correct && draw.share() < 0.75;
  Json stages = Json::array(), findings = Json::array(), performance = Json::array();
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::string status = i < failed ? "passed" : i == failed ? "failed" : "skipped";
    if (label == 6 || label == 7) status = i == 0 ? "passed" : "unknown";
    if (correct && i == 3) status = target ? "passed" : "failed";
    if (correct && i == 4 && !options.speedups) status = "skipped";
    stages.push_back({{"name", names[i]},
                      {"status", status},
                      {"reason", status == "failed" ? "found" : ""},
                      {"decisive", i < 4},
                      {"seconds", 0.1}});
  }
  const auto find = [&](const char* rule, const char* stage, const std::string& message) {
    findings.push_back({{"rule", rule},
                        {"severity", "error"},
                        {"stage", stage},
                        {"message", message},
                        {"place", place_of(6 + draw.below(40))},
                        {"remedy", options.hostile ? std::string(kAttack) : "wait for the right phase"}});
  };
  if (label == 0) find("compile.ptx_error", "compile", "Arguments mismatch for instruction 'mbarrier.arrive'");
  if (label == 1)
    find(draw.share() < 0.5 ? "memory.out-of-bounds" : "host.cuda_error", "execute",
         options.hostile ? std::string(kAttack) : "a store beyond the tensor's end");
  if (label == 2)
    find(draw.share() < 0.5 ? "numeric.operand-swizzle" : "numeric.mismatch", "correctness", "C is wrong");
  if (label == 4) {
    find("sync.deadlock", "execute",
         "no warp can make progress:\n  CTA (0,0,0) warp 0-7 lanes 0xffffffff waits for phase parity 0 of the mbarrier "
         "at shared + 0x0: phase 0 is "
         "current, 0 of 1 arrivals pending, 16384 bytes pending at kernel.cu:20, called from kernel.cu:30 "
         "(mbarrier.try_wait.parity.shared::cta.b64 "
         "complete, [%r11], %r278;)\n  CTA (0,0,0) warp 8 lanes 0x00000001 waits for barrier 1 (2 of 4 warps arrived) "
         "at PTX line 77 (bar.sync 1;)\nin block (0, 0, 0), warp 0");
  }
  Json instructions = nullptr;
  if (correct || label == 2) {
    instructions = {
        {"source", "ptx"},
        {"families",
         {{"wgmma", {{"warps", 71680}, {"lanes", 2293760}}}, {"other", {{"warps", 1090180}, {"lanes", 31556112}}}}},
        {"mac_share", target ? 1.0 : 0.0},
        {"wgmma_executed", target},
        {"tma_executed", target},
        {"compat_target", target},
        {"threshold", {{"mac_share_at_least", 0.9}, {"status", target ? "passed" : "failed"}}}};
  }
  if (correct && options.speedups) {
    performance.push_back(
        {{"axes", {{"M", 8192}}},
         {"latency_ms", {{"value", 1 / speedup}, {"low", 0.99 / speedup}, {"high", 1.01 / speedup}, {"count", 50}}},
         {"baseline", {{"name", "cublasLt"}, {"version", "13"}, {"latency_ms", {{"value", 1.0}}}}},
         {"speedup", {{"value", speedup}, {"low", speedup * 0.99}, {"high", speedup * 1.01}, {"count", 50}}},
         {"gpu_seconds", 0.25}});
  }
  const bool passed = correct && target;
  return {{"schema", "ptxbench.evaluation/1"},
          {"definition", "synthetic"},
          {"target", "sm_90a"},
          {"backend", {{"name", options.speedups ? "gpu" : "emulator"}, {"completion", "eager"}}},
          {"verdict",
           {{"status", passed       ? "passed"
                       : label >= 6 ? "unknown"
                                    : "failed"},
            {"summary", passed ? "passed" : "not passed"},
            {"sampled", false},
            {"coverage", 1.0}}},
          {"stages", stages},
          {"findings", findings},
          {"compile",
           {{"kernels", Json::array({{{"demangled", "kernel(float*)"},
                                      {"registers", 64},
                                      {"static_shared_bytes", 0},
                                      {"stack_bytes", 0},
                                      {"spill_store_bytes", 0},
                                      {"spill_load_bytes", 0}}})},
            {"log", ""}}},
          {"runs", Json::array({{{"backend", "emulator"},
                                 {"axes", {{"M", 64}}},
                                 {"execute", "passed"},
                                 {"correctness", correct ? "passed" : "failed"}}})},
          {"instructions", instructions},
          {"performance", performance},
          {"timings", {{"total", 0.5 + draw.share()}, {"cpu", 1 + draw.share()}}}};
}

}  // namespace

void write_published_shape(const fs::path& folder, const SyntheticOptions& options) {
  Draw draw{std::mt19937(options.seed), options.strength};
  std::string turns =
      "model,arch,required_arch_tag,workload,workload_name,definition,exp_dir,trajectory_id,turn,reasoning_tokens,"
      "reasoning_token_source,"
      "correctness,speedup,arch_tag,correct_with_arch,performance_score\n";
  std::string runs = "model,arch,definition,workload,exp_dir\n", dates = "model,date\n";
  for (unsigned r = 0; r < options.runs; ++r) {
    const unsigned m = r / static_cast<unsigned>(kProblems.size());
    // In a published file, hostile is what CSV can hold without quotes.
    const std::string model =
        fmt::format("Model {}{}{}", m, options.tag, options.hostile ? " <b>&amp;</b></script>" : "");
    const char* problem = kProblems[r % kProblems.size()];
    const std::string arch = m % 2 == 0 ? "hopper" : "blackwell",
                      path = fmt::format("/somewhere/runs/run-{}{}", r, options.tag);
    runs += fmt::format("{},{},{},uuid-{},{}\n", model, arch, problem, r % kProblems.size(), path);
    if (r % kProblems.size() == 0) dates += fmt::format("{},2026-0{:03}\n", model, 100 + m);
    for (unsigned t = 0; t < options.trajectories; ++t) {
      const unsigned count = draw.share() < 0.02 ? options.turns - 1 : options.turns;
      for (unsigned turn = 0; turn < count; ++turn) {
        const std::size_t label = draw.label(m, turn);
        const double speedup = label == 3 ? 0.01 + 1.2 * draw.share() * draw.share() : 0;
        const std::string shown = label == 3 ? fmt::format("{}", speedup) : "0.0";
        turns += fmt::format("{},{},{},uuid-{},{}_M8192,{},{},exp_{:03},{},{},synthetic,{},{},{},{},{}\n", model, arch,
                             arch == "hopper" ? "H" : "B", r % kProblems.size(), problem, problem, path, t, turn,
                             draw.below(60000), kLabels[label], shown, label == 3 ? "H" : "",
                             label == 3 && draw.share() < 0.7 ? 1 : 0, shown);
      }
    }
  }
  write(folder / "reasoning_tokens_vs_performance.csv", turns);
  write(folder / "experiments.csv", runs);
  write(folder / "model_release_dates.csv", dates);
}

void write_experiment_shape(const fs::path& folder, const SyntheticOptions& options) {
  Draw draw{std::mt19937(options.seed), options.strength};
  Json plan = Json::array();
  unsigned number = 0;
  for (unsigned replica = 0; replica < options.trajectories; ++replica) {
    for (unsigned m = 0; m < options.runs; ++m, ++number) {
      const std::string name = fmt::format("exp_{:03}", number);
      const std::string model = fmt::format("model-{}{}{}", m, options.tag, options.hostile ? kAttack : "");
      const char* problem = kProblems[(replica + m) % kProblems.size()];
      agent::Trajectory trajectory;
      trajectory.problem = problem;
      trajectory.model = {{"provider", "stand-in"}};
      trajectory.settings = {{"turns", options.turns},
                             {"target", "sm_90a"},
                             {"model_name", model},
                             {"prompt_tag", m % 2 == 0 ? "none" : "H.ab"},
                             {"workloads", Json::array({{{"uuid", "u"}, {"axes", {{"M", 8192}}}}})}};
      if (!options.language.empty()) trajectory.settings["language"] = options.language;
      for (unsigned t = 0; t < options.turns; ++t) {
        const std::size_t label = draw.label(m, t);
        agent::Turn turn;
        turn.number = t + 1;
        turn.timestamp = "2026-12-01T00:00:00Z";
        turn.finish_reason = "stop";
        turn.usage.prompt_tokens = 1000 + draw.below(5000);
        turn.usage.reasoning_tokens = draw.below(30000);
        turn.usage.completion_tokens = *turn.usage.reasoning_tokens + 4000;
        turn.usage.cost = 0.01 * (1 + draw.share());
        turn.model_seconds = 10 + 50 * draw.share();
        turn.judge_seconds = 1 + draw.share();
        turn.event = label == 5 ? "no_code" : label == 0 ? "test_failed" : "evaluation";
        turn.feedback =
            options.hostile ? std::string(kAttack) : fmt::format("Evaluation of turn {}\n{}\n", t, kLabels[label]);
        if (label != 5) {
          turn.source = kernel_of(draw, t, options);
          turn.answer = "```cpp\n" + *turn.source + "```\n";
          turn.evaluation = evaluation_of(draw, label, 0.01 + 1.2 * draw.share() * draw.share(), options);
        } else {
          turn.answer = "I think about it.";
        }
        trajectory.turns.push_back(std::move(turn));
      }
      trajectory.exit_status = "LimitsExceeded";
      trajectory.stop_reason = "turns";
      write(folder / "trajectories" / (name + ".jsonl"), agent::trajectory_text(trajectory));
      plan.push_back({{"exp_name", name},
                      {"model", model},
                      {"definition", problem},
                      {"workloads", Json::array()},
                      {"prompt_tag", "none"},
                      {"replica", replica},
                      {"num_turns", options.turns},
                      {"target_speedup", nullptr}});
    }
  }
  write(folder / "plan.json",
        Json({{"schema", "ptxbench.plan/1"}, {"config", {{"name", "synthetic"}}}, {"plan", plan}}).dump(1) + "\n");
}

}  // namespace ptxbench::report
