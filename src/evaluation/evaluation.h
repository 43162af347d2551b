#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "candidate/compile_report.h"
#include "evaluation/performance.h"
#include "problem/comparison.h"

/// What judging one candidate gave. docs/evaluation.md explains the rules, docs/schemas.md the JSON.
namespace ptxbench::evaluation {

enum class Status : std::uint8_t { passed, failed, unknown, skipped };
std::string_view to_string(Status status);

/// In the order in which they run.
enum class StageName : std::uint8_t { compile, execute, correctness, instructions, performance };
inline constexpr std::size_t kStageCount = 5;
std::string_view to_string(StageName stage);

/// `error` and `warning` decide the verdict, `note` never does.
enum class Severity : std::uint8_t { error, warning, note };
std::string_view to_string(Severity severity);

struct Place {
  std::string kernel;      ///< entry name as in PTX
  std::string file;        ///< "kernel.cu" for the candidate itself
  std::uint32_t line = 0;  ///< 0: unknown
  std::uint32_t column = 0;
  std::uint32_t ptx_line = 0;
  std::string instruction;  ///< the PTX instruction's text
  std::string output;       ///< the output tensor that wrong numbers are in
  std::string host_call;    ///< of a launch: "cudaLaunchKernel (<<<>>>)"
  /// Calls that were inlined, innermost first: the last one stands in the kernel's body.
  std::vector<std::pair<std::string, std::uint32_t>> called_from = {};
  std::string access = {};  ///< what happened there: "wgmma reads"
  std::string thread = {};  ///< who did it: "cluster 0 CTA rank 1 warp 4 lane 0"
};

struct Finding {
  std::string rule;  ///< stable: "memory.out-of-bounds"
  Severity severity = Severity::error;
  StageName stage = StageName::execute;
  std::string message;
  Place place;
  std::string remedy;
  std::optional<Place> other = {};  ///< the access or instruction on the other side, of a hazard
  std::string address = {};         ///< "A + 0x40", "shared + 0x400"
  std::uint64_t occurrences = 1;    ///< how often it happened
  std::vector<std::string> policies =
      {};  ///< completion policies under which the hazard check saw it; empty: not by it
};

struct Stage {
  Status status = Status::skipped;
  std::string reason;  ///< one line; empty when there is nothing to add
  double seconds = 0;
  bool decisive = false;  ///< takes part in the verdict
};

struct LaunchSummary {
  std::string kernel;
  std::uint64_t clusters_run = 0, clusters_total = 0;
  std::uint64_t warp_instructions = 0;
  double seconds = 0;
  std::array<std::uint32_t, 3> grid = {}, block = {}, cluster = {};  ///< zeros: not known
  std::uint32_t dynamic_shared_bytes = 0;
};

/// One call of the candidate: a workload with one set of inputs.
struct Run {
  std::string backend = "emulator";  ///< or "gpu"
  std::string workload;              ///< uuid; empty for axes from the command line
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::uint64_t seed = 0;
  std::string distribution;
  Status execute = Status::skipped;
  Status correctness = Status::skipped;
  std::string reason;
  double coverage = 0;  ///< share of output elements that were checked
  bool sampled = false;
  std::vector<LaunchSummary> launches;
  std::vector<problem::TensorComparison> outputs;
  std::string host_output;  ///< what the candidate and its kernels printed, shortened
};

/// Exact counts of one instruction family, of the clusters that ran.
struct FamilyCount {
  std::string family;
  std::uint64_t warps = 0;  ///< warp-level executions, predicated-off ones excluded
  std::uint64_t lanes = 0;  ///< predicate-true threads
};

struct InstructionEvidence {
  std::string source = "ptx";  ///< counted on the emulator; or "machine code", on a GPU
  std::vector<FamilyCount> families;
  std::uint64_t warp_instructions = 0;
  std::uint64_t tensor_core_macs = 0;   ///< multiply-adds by wgmma
  std::uint64_t legacy_mma_macs = 0;    ///< by mma.sync
  std::uint64_t tma_bytes = 0;          ///< moved by tensor copies
  std::optional<double> required_macs;  ///< that the problem needs, of the part that was executed
  double required_bytes = 0;            ///< every input read once, every output written once; 0 of a sampled run
  bool scaled = false;                  ///< the run was sampled and the requirements are scaled by the coverage
  std::optional<double> mac_share, legacy_mma_share, tma_byte_share;
  bool wgmma_executed = false, tma_executed = false;
  bool compat_target = false;  ///< the reference's rule: wgmma or a tensor copy executed at all
  double mac_share_threshold = 0.9;
  Status threshold = Status::unknown;  ///< mac_share >= mac_share_threshold
  Status strict = Status::unknown;     ///< threshold, and every output element depends on a wgmma result
  std::string strict_reason;
};

/// One run under a tool of compute-sanitizer, on a GPU. What it found is among the findings, as `sanitizer.TOOL`.
struct SanitizerRun {
  std::string tool;      ///< "memcheck"
  std::string workload;  ///< uuid; empty for axes from the command line
  std::vector<std::pair<std::string, std::int64_t>> axes;
  std::uint64_t errors = 0, warnings = 0;
  double seconds = 0;
};

/// How far the emulator's execution of this candidate can be trusted.
struct Fidelity {
  std::uint64_t warp_instructions = 0;
  std::vector<std::string> approximate;  ///< instructions whose results only approximate the hardware's
  std::vector<std::string> unsupported;  ///< what stopped the run because it is not modelled
};

/// The hazard check of the candidate (docs/hazards.md), where one was asked for. What it found is among the findings.
struct HazardCheck {
  Status status = Status::skipped;    ///< passed: nothing found and everything looked at
  std::string reason;                 ///< why it is unknown, or was skipped
  std::vector<std::string> policies;  ///< completion policies that ran
  double seconds = 0;
};

struct Timings {
  double compile = 0, inputs = 0, truth = 0, execute = 0, kernels = 0, compare = 0, total = 0;  ///< seconds
  /// Processor seconds, hazard check included: of this process's threads, the compilers and the candidate's host code.
  /// Processes that drive a GPU are not among them.
  double cpu = 0;
  std::uint64_t peak_memory_bytes = 0;  ///< of this process so far
};

struct BackendSettings {
  std::string name = "emulator";
  unsigned threads = 0;
  std::string completion;
  std::string tensor_cores;  ///< "fast" or "exact"
  std::uint64_t seed = 0;
  std::uint64_t instruction_budget = 0;
  std::optional<unsigned> sample_clusters;
};

struct Evaluation {
  static constexpr std::string_view kSchema = "ptxbench.evaluation/1";

  std::string definition;
  std::string target = "sm_90a";
  std::string language = "cuda";  ///< of the candidate: candidate/language.h
  std::string candidate_sha256;
  std::string artifact_id;  ///< empty when nothing was built
  std::string ptx_sha256, library_sha256;
  BackendSettings backend;

  Status verdict = Status::unknown;
  std::string summary;   ///< one line
  bool sampled = false;  ///< some decisive stage looked at a part of the work only
  double coverage = 0;   ///< the smallest of the runs

  std::array<Stage, kStageCount> stages;
  Stage& stage(StageName name) { return stages[static_cast<std::size_t>(name)]; }
  const Stage& stage(StageName name) const { return stages[static_cast<std::size_t>(name)]; }

  candidate::CompileReport compile;
  std::vector<Finding> findings;
  std::vector<Run> runs;
  std::optional<InstructionEvidence> instructions;  ///< of the first run that executed
  std::vector<Performance> performance;             ///< per workload; empty without a GPU
  std::vector<SanitizerRun> sanitizer;              ///< on request; empty without a GPU
  HazardCheck hazards;
  Fidelity fidelity;
  Timings timings;

  bool passed() const { return verdict == Status::passed; }
};

/// Sets verdict, summary, `sampled` and `coverage` from stages, findings and runs: failed if a decisive stage failed or
/// a finding of severity error or warning stands; else unknown if a decisive stage is not `passed`; else passed.
void conclude(Evaluation& evaluation);

/// The object of schema "ptxbench.evaluation/1". Text from outside is made valid UTF-8.
base::Json to_json(const Evaluation& evaluation);

}  // namespace ptxbench::evaluation
