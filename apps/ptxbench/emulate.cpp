// `ptxbench emulate -- PROGRAM ARGS...`: runs a CUDA program on the emulated GPU.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "base/text.h"
#include "commands.h"
#include "cuda_shim/device_backend.h"
#include "cuda_shim/host_process.h"
#include "cuda_shim/program_check.h"
#include "cuda_shim/server.h"

namespace ptxbench::app {
namespace {

using cuda_shim::HostDiagnostic;
using cuda_shim::HostOutcome;
using cuda_shim::ShimReport;

struct EmulateOptions {
  std::vector<std::string> argv;
  double timeout_seconds = 0;
  unsigned threads = 0;
  std::string schedule = "eager";
  std::string tensor_cores = "fast";
  uint64_t seed = 1;
  uint64_t instruction_budget = 20'000'000'000;
  bool quiet = false;
};

/// Lines after the first are indented under it.
void print_block(std::string_view head, std::string_view text) {
  std::string_view lead = head;
  for (const std::string_view line : base::split_lines(text)) {
    fmt::print(stderr, "{}{}\n", lead, line);
    lead = "    ";
  }
}

void print_fault(const emulator::Fault& fault, const std::string& kernel) {
  fmt::print(stderr, "ptxbench: {} in kernel {}\n", fault.rule,
             fault.place.kernel.empty() ? kernel : fault.place.kernel);
  print_block("  ", fault.message);
  if (!fault.place.file.empty()) fmt::print(stderr, "  at {}:{}\n", fault.place.file, fault.place.line);
  for (const auto& [file, line] : fault.place.called_from) fmt::print(stderr, "  inlined at {}:{}\n", file, line);
  if (!fault.place.instruction.empty()) {
    fmt::print(stderr, "  instruction: {} (PTX line {})\n", fault.place.instruction, fault.place.ptx_line);
  }
  fmt::print(stderr, "  block ({}, {}, {}), warp {}, lanes {:#010x}\n", fault.cta[0], fault.cta[1], fault.cta[2],
             fault.warp, fault.lanes);
  if (!fault.remedy.empty()) print_block("  remedy: ", fault.remedy);
}

void print_diagnostics(const ShimReport& report) {
  for (const HostDiagnostic& diagnostic : report.diagnostics) {
    // The client has already said this one on the spot.
    if (diagnostic.rule == "unsupported.host-call" || diagnostic.note) continue;
    print_block(fmt::format("ptxbench: {}: ", diagnostic.rule), diagnostic.message);
    if (!diagnostic.remedy.empty()) print_block("  remedy: ", diagnostic.remedy);
  }
  if (report.diagnostics_dropped != 0) fmt::print(stderr, "ptxbench: {} more of these\n", report.diagnostics_dropped);
}

std::string listed(const std::set<std::string>& names) {
  return names.empty() ? std::string("none") : fmt::format("{}", fmt::join(names, ", "));
}

void print_footer(const ShimReport& report) {
  fmt::print(
      stderr,
      "ptxbench: {} launch{}, {} warp instructions in {} on the emulated GPU; approximate: {}; unsupported: {}\n",
      report.launches, report.launches == 1 ? "" : "es", report.warp_instructions,
      base::format_seconds(report.kernel_seconds), listed(report.approximate), listed(report.unsupported));
}

bool is_failure(const HostDiagnostic& diagnostic) {
  return diagnostic.rule.starts_with("unsupported.") || diagnostic.rule == "launch.no-ptx" ||
         diagnostic.rule == "launch.module" || diagnostic.rule.starts_with("memory.");
}

Result<ExitCode> emulate(const EmulateOptions& options) {
  // With a slash the file itself is looked at, so that what is no program is told from what does not exist.
  const std::string& name = options.argv.front();
  const bool has_folder = name.find('/') != std::string::npos;
  const auto program = has_folder ? std::optional(std::filesystem::path(name)) : base::find_program(name);
  if (!program) return input_error("no program '{}' in PATH; write ./ before one in this folder", name);
  const auto info = cuda_shim::check_program(*program);
  if (!info) return tl::unexpected<Error>(info.error());

  const auto output = std::make_shared<cuda_shim::DeviceOutput>();
  emulator::DeviceOptions device_options;
  device_options.threads = options.threads;
  device_options.seed = options.seed;
  device_options.completion = options.schedule == "lazy"     ? emulator::CompletionPolicy::lazy
                              : options.schedule == "random" ? emulator::CompletionPolicy::random
                                                             : emulator::CompletionPolicy::eager;
  device_options.exact_tensor_cores = options.tensor_cores == "exact";
  device_options.instruction_budget = options.instruction_budget;
  device_options.print = [output](std::string_view text) { output->append(text); };
  auto device = emulator::Device::create(std::move(device_options));
  if (!device) return tl::unexpected<Error>(device.error());
  const auto backend = cuda_shim::make_emulator_backend(**device);
  auto server = cuda_shim::ShimServer::start(*backend, output);
  if (!server) return tl::unexpected<Error>(server.error());

  cuda_shim::HostRequest request;
  request.argv = options.argv;
  request.socket = (*server)->socket_path();
  request.preload = info->needs_preload;
  request.inherit_streams = true;
  if (options.timeout_seconds > 0) {
    request.limits.wall = std::chrono::milliseconds(static_cast<int64_t>(options.timeout_seconds * 1000));
  }
  const auto outcome = cuda_shim::run_host_process(request);
  if (!outcome) return tl::unexpected<Error>(outcome.error());
  // A program that ended by itself gets its queued work finished.
  const ShimReport report = (*server)->stop(outcome->end == HostOutcome::End::exited);

  // What kernels printed after the program's last synchronisation.
  const std::string rest = output->take(cuda_shim::DeviceOutput::kMaxBytes + 4096);
  std::fwrite(rest.data(), 1, rest.size(), stdout);
  std::fflush(stdout);

  bool passed = outcome->ok() && !report.fault && report.unsupported.empty();
  for (const HostDiagnostic& diagnostic : report.diagnostics) passed = passed && !is_failure(diagnostic);
  if (report.fault) print_fault(*report.fault, report.fault_kernel);
  print_diagnostics(report);
  if (!outcome->ok()) fmt::print(stderr, "ptxbench: the program {}\n", outcome->describe());
  if (!options.quiet) print_footer(report);
  if (report.launches_cancelled != 0) {
    fmt::print(stderr,
               "ptxbench: a kernel was still executing and was stopped; --instructions bounds how long one may\n");
  }
  return passed ? ExitCode::passed : ExitCode::not_passed;
}

}  // namespace

void add_emulate(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand(
      "emulate",
      "Run a CUDA program (built with nvcc -cudart shared) on the emulated GPU, fast, without hazard checks");
  const auto options = std::make_shared<EmulateOptions>();
  command->add_option("--timeout", options->timeout_seconds, "Stop the program after this many seconds")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", options->threads, "Threads that execute kernels (default: one per core)");
  command->add_option("--schedule", options->schedule, "When asynchronous operations complete")
      ->check(CLI::IsMember({"eager", "lazy", "random"}))
      ->capture_default_str();
  command
      ->add_option("--tensor-cores", options->tensor_cores,
                   "Sums of tensor-core products: fast (fp32) or exact (the hardware's bits, slower)")
      ->check(CLI::IsMember({"fast", "exact"}))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed of the random schedule")->capture_default_str();
  command->add_option("--instructions", options->instruction_budget, "Warp instructions one launch may execute")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--quiet", options->quiet, "Print no line about the run unless something is wrong");
  command->add_option("program", options->argv, "The program and its arguments, after --")->required()->expected(-1);
  command->footer(
      "Exit codes: 0 the program ended with 0 and no kernel failed; 1 it did not; 2 it cannot be run here; 3 our "
      "failure.");
  command->callback([options, &exit_code] {
    const auto result = emulate(*options);
    exit_code = result ? *result : report_error(result.error());
  });
}

}  // namespace ptxbench::app
