#include "candidate/compiler.h"

#include <signal.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <regex>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"
#include "candidate/elf_symbols.h"
#include "candidate/extraction.h"
#include "candidate/nvcc_plan.h"
#include "candidate/run_tool.h"

namespace ptxbench::candidate {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Part of every artifact id: raise it when what is stored, or how it is made, changes.
constexpr std::string_view kFormat = "ptxbench-artifact-4";
constexpr std::size_t kMaxLogBytes = 256 << 10;

/// Names of std:: that upstream's headers happen to bring in, and the macro that brings them in here.
struct StdName {
  std::string_view name;
  std::string_view macro;
};
constexpr StdName kStdNames[] = {
    {"string", "STRING"},
    {"to_string", "STRING"},
    {"stoi", "STRING"},
    {"string_view", "STRING_VIEW"},
    {"vector", "VECTOR"},
    {"array", "ARRAY"},
    {"optional", "OPTIONAL"},
    {"nullopt", "OPTIONAL"},
    {"make_optional", "OPTIONAL"},
    {"tuple", "TUPLE"},
    {"make_tuple", "TUPLE"},
    {"tie", "TUPLE"},
    {"ostringstream", "SSTREAM"},
    {"stringstream", "SSTREAM"},
    {"istringstream", "SSTREAM"},
    {"hex", "SSTREAM"},
    {"setw", "SSTREAM"},
    {"cout", "IOSTREAM"},
    {"cerr", "IOSTREAM"},
    {"endl", "IOSTREAM"},
    {"ostream", "IOSTREAM"},
    {"runtime_error", "STDEXCEPT"},
    {"invalid_argument", "STDEXCEPT"},
    {"logic_error", "STDEXCEPT"},
    {"out_of_range", "STDEXCEPT"},
    {"unique_ptr", "MEMORY"},
    {"shared_ptr", "MEMORY"},
    {"make_unique", "MEMORY"},
    {"make_shared", "MEMORY"},
    {"function", "FUNCTIONAL"},
    {"hash", "FUNCTIONAL"},
    {"unordered_map", "UNORDERED_MAP"},
    {"numeric_limits", "LIMITS"},
    {"clamp", "ALGORITHM"},
    {"sort", "ALGORITHM"},
    {"fill", "ALGORITHM"},
    {"copy", "ALGORITHM"},
    {"find", "ALGORITHM"},
    {"any_of", "ALGORITHM"},
    {"all_of", "ALGORITHM"},
    {"transform", "ALGORITHM"},
    {"max_element", "ALGORITHM"},
};

/// An undefined symbol of TVM-FFI is not the candidate's fault: the runtime here is smaller than upstream's.
CompileStatus status_of_failed_link(const CompileReport& report) {
  const bool ours = std::any_of(report.messages.begin(), report.messages.end(), [](const CompilerMessage& message) {
    return message.tool == "ld" && message.function.starts_with("TVMFFI");
  });
  return ours ? CompileStatus::unsupported : CompileStatus::failed;
}

}  // namespace

std::string_view to_string(Target target) {
  switch (target) {
    case Target::sm_90a:
      return "sm_90a";
  }
  return "sm_90a";
}

Result<Target> parse_target(std::string_view text) {
  const std::string lower = base::to_lower(text);
  for (const std::string_view name : {"sm_90a", "sm90a", "90a", "compute_90a", "hopper", "h100", "h200"}) {
    if (lower == name) return Target::sm_90a;
  }
  return input_error("unknown target '{}': the only target so far is sm_90a (Hopper)", text);
}

Result<Compiler> Compiler::create() {
  auto toolchain = find_toolchain();
  if (!toolchain) return tl::unexpected(toolchain.error());
  const auto folder = base::cache_dir("artifacts");
  if (!folder) return tl::unexpected(folder.error());
  auto cache = ArtifactCache::open(*folder);
  if (!cache) return tl::unexpected(cache.error());
  return Compiler(std::move(*toolchain), std::move(*cache));
}

std::vector<std::string> std_header_macros(std::string_view source) {
  const std::string code = blank_comments_and_strings(source);
  std::vector<std::string> macros;
  constexpr std::string_view kPrefix = "std::";
  for (std::size_t at = code.find(kPrefix); at != std::string::npos; at = code.find(kPrefix, at + 1)) {
    const std::size_t start = at + kPrefix.size();
    std::size_t end = start;
    while (end < code.size() && ((code[end] >= 'a' && code[end] <= 'z') || code[end] == '_')) ++end;
    const std::string_view name = std::string_view(code).substr(start, end - start);
    for (const StdName& known : kStdNames) {
      if (known.name != name) continue;
      std::string macro = fmt::format("PTXBENCH_STD_{}", known.macro);
      if (std::find(macros.begin(), macros.end(), macro) == macros.end()) macros.push_back(std::move(macro));
    }
  }
  std::sort(macros.begin(), macros.end());
  return macros;
}

std::vector<std::string> Compiler::compile_command(std::string_view source, const CompileOptions& options,
                                                   HeaderSet headers) const {
  const std::string arch(to_string(options.target).substr(3));
  // -shared is only for the final link, which nvcc would precede with a device link that candidates never need. -O is
  // of host code alone, which prepares launches.
  std::vector<std::string> command = {toolchain_.cuda.nvcc.string(),
                                      "-c",
                                      "-std=c++17",
                                      "-O1",
                                      "-lineinfo",
                                      "-cudart",
                                      "shared",
                                      "-gencode",
                                      fmt::format("arch=compute_{},code=[sm_{},compute_{}]", arch, arch, arch),
                                      "--ptxas-options=-v",
                                      "-Xcompiler",
                                      "-fPIC,-fvisibility=hidden",
                                      "--keep",
                                      "--keep-dir",
                                      ".",
                                      "-ccbin",
                                      toolchain_.host_compiler.string()};
  if (headers == HeaderSet::lean) {
    for (const std::string& macro : std_header_macros(source)) command.push_back("-D" + macro);
    command.insert(command.end(), {"-isystem", toolchain_.lean_include.string()});
  } else {
    command.insert(command.end(), {"-isystem", toolchain_.upstream->include.string()});
  }
  command.insert(command.end(), {"kernel.cu", "-o", "kernel.o"});
  return command;
}

std::vector<std::string> Compiler::link_command(HeaderSet) const {
  const fs::path cuda = toolchain_.cuda.library_dir();
  return {toolchain_.host_compiler.string(),
          "-shared",
          "-o",
          "kernel.so",
          "kernel.o",
          "-Wl,--no-undefined",
          "-Wl,--as-needed",
          "-Wl,-z,now",
          toolchain_.ffi_runtime.string(),
          "-L" + cuda.string(),
          "-lcudart",
          "-L" + (cuda / "stubs").string(),
          "-L" + (toolchain_.cuda.root / "targets/x86_64-linux/lib/stubs").string(),
          "-lcuda"};
}

std::string Compiler::artifact_id(std::string_view source, const CompileOptions& options) const {
  base::Sha256 hash;
  hash.update_field(kFormat).update_field(source).update_field(to_string(options.target));
  hash.update_field(toolchain_.cuda.version).update_field(toolchain_.host_compiler_version);
  const bool lean = options.headers != HeaderChoice::upstream;
  const bool upstream = options.headers != HeaderChoice::lean && toolchain_.upstream.has_value();
  hash.update_field(lean ? toolchain_.lean_digest : "").update_field(upstream ? toolchain_.upstream->version : "");
  // Flags without the places of tools and headers, so that moving a checkout keeps the cache.
  for (const std::string& flag : compile_command(source, options, HeaderSet::lean)) {
    if (!flag.starts_with("/")) hash.update_field(flag);
  }
  return hash.hex();
}

bool lean_headers_to_blame(const CompileReport& report, const fs::path&) {
  static constexpr std::array<std::string_view, 8> kSigns = {
      "tvm", "TVM", "namespace \"std\"", "std::", "operator \"<<\"", "incomplete type", "DL", "dlpack"};
  return std::any_of(report.messages.begin(), report.messages.end(), [](const CompilerMessage& message) {
    if (message.level != MessageLevel::error || (message.tool != "nvcc" && message.tool != "gcc")) return false;
    if (message.where.file.starts_with("tvm/ffi") || message.where.file.starts_with("dlpack")) return true;
    return std::any_of(kSigns.begin(), kSigns.end(),
                       [&](std::string_view sign) { return message.text.find(sign) != std::string::npos; });
  });
}

/// The commands of one nvcc run side by side; nvcc itself where they are not the usual ones.
Result<base::ProcessResult> Compiler::run_nvcc(const std::vector<std::string>& command, const fs::path& work,
                                               const CompileOptions& options, Clock::time_point deadline) const {
  const ToolLimits limits{deadline, options.memory_limit_bytes};
  if (options.side_by_side) {
    std::vector<std::string> list = command;
    list.emplace_back("--dryrun");
    const auto listed = run_tool(list, work, toolchain_, limits);
    if (!listed) return tl::unexpected(listed.error());
    const auto plan = listed->ok() ? parse_plan(listed->stderr_text) : std::nullopt;
    if (plan) {
      auto done = run_plan(*plan, work, [&](const NvccPlan::Command& one, const std::stop_token& cancel) {
        return run_tool(one, work, toolchain_, limits, plan->variables, cancel);
      });
      if (!done) return tl::unexpected(done.error());
      if (*done) return std::move(**done);
    }
  }
  return run_tool(command, work, toolchain_, limits);
}

/// Compiles and links in `work`, which then holds kernel.so, kernel.o, kernel.ptx and kernel.cubin if that succeeded.
Result<CompileReport> Compiler::run(const fs::path& work, std::string_view source, const CompileOptions& options,
                                    HeaderSet headers, Clock::time_point deadline) const {
  CompileReport report;
  report.headers = headers;
  report.compiler = fmt::format("nvcc {}", toolchain_.cuda.version);
  const auto command = compile_command(source, options, headers);
  report.flags.assign(command.begin() + 1, command.end());

  const auto compiled = run_nvcc(command, work, options, deadline);
  if (!compiled) return tl::unexpected(compiled.error());
  report.log = log_of(*compiled);
  const auto ptx = base::read_file(work / "kernel.ptx");
  parse_compiler_output(report.log, ptx ? std::string_view(*ptx) : std::string_view(), report);
  if (!compiled->ok()) {
    if (ptx) explain_ptx_errors(*ptx, report);
    report.status = compiled->timed_out        ? CompileStatus::timed_out
                    : out_of_memory(*compiled) ? CompileStatus::out_of_memory
                                               : CompileStatus::failed;
  } else {
    const auto linked = run_tool(link_command(headers), work, toolchain_, {deadline, options.memory_limit_bytes});
    if (!linked) return tl::unexpected(linked.error());
    report.log += log_of(*linked);
    if (linked->ok()) {
      report.status = CompileStatus::succeeded;
    } else {
      parse_linker_output(log_of(*linked), report);
      report.status = linked->timed_out ? CompileStatus::timed_out : status_of_failed_link(report);
    }
  }
  report.log = base::shorten_middle(base::replace_all(report.log, work.string() + "/", ""), kMaxLogBytes);
  if (report.succeeded()) {
    std::error_code error;
    fs::rename(work / fmt::format("kernel.{}.cubin", to_string(options.target)), work / "kernel.cubin", error);
    if (error || !ptx) {
      return infrastructure_error("nvcc left no PTX or cubin in {}: an unexpected compiler version?", work.string());
    }
  }
  return report;
}

Result<Compilation> Compiler::compile(std::string_view source, const CompileOptions& options) const {
  Compilation result;
  result.static_findings = check_source(source);
  if (options.headers == HeaderChoice::upstream && !toolchain_.upstream) {
    return infrastructure_error("TVM-FFI's own headers are not installed: run scripts/setup.sh");
  }
  const std::string id = artifact_id(source, options);
  const auto finish = [&](ArtifactCache::Entry entry) -> Result<Compilation> {
    result.report = std::move(entry.report);
    if (result.report.succeeded()) {
      result.artifact = std::move(entry.artifact);
      const auto symbols = read_dynamic_symbols(result.artifact->library());
      if (!symbols) return tl::unexpected(symbols.error());
      for (StaticFinding& finding : check_library(*symbols)) result.static_findings.push_back(std::move(finding));
    }
    return std::move(result);
  };

  if (options.use_cache) {
    if (auto entry = cache_.find(id)) return finish(std::move(*entry));
  }
  const auto lock = cache_.lock(id);
  if (!lock) return tl::unexpected(lock.error());
  if (options.use_cache) {
    if (auto entry = cache_.find(id)) return finish(std::move(*entry));  // made while we waited
  }

  const auto start = Clock::now();
  const auto deadline = start + options.wall_limit;
  // The intermediate files stay out of the folder that is published.
  const auto build = base::TempDir::create("ptxbench-compile");
  if (!build) return tl::unexpected(build.error());
  const auto attempt = [&](HeaderSet headers) -> Result<CompileReport> {
    const fs::path work = build->path() / (headers == HeaderSet::lean ? "lean" : "upstream");
    if (const auto written = base::write_file_atomic(work / "kernel.cu", source); !written) {
      return tl::unexpected(written.error());
    }
    return run(work, source, options, headers, deadline);
  };

  auto report = attempt(options.headers == HeaderChoice::upstream ? HeaderSet::upstream : HeaderSet::lean);
  if (!report) return tl::unexpected(report.error());
  const bool retry = options.headers == HeaderChoice::automatic && report->status == CompileStatus::failed &&
                     lean_headers_to_blame(*report, toolchain_.lean_include);
  if (retry && toolchain_.upstream) {
    const std::string why = report->summary(1);
    report = attempt(HeaderSet::upstream);
    if (!report) return tl::unexpected(report.error());
    report->header_note =
        fmt::format("compiled with TVM-FFI's own headers, since the lean ones did not suffice: {}", base::trim(why));
  } else if (retry) {
    report->header_note = "TVM-FFI's own headers might compile this, but are not installed: run scripts/setup.sh";
  }
  report->seconds = std::chrono::duration<double>(Clock::now() - start).count();

  const auto work = cache_.new_work_folder();
  if (!work) return tl::unexpected(work.error());
  if (const auto written = base::write_file_atomic(*work / "kernel.cu", source); !written) {
    return tl::unexpected(written.error());
  }
  std::vector<std::string> files = {"kernel.cu"};
  if (report->succeeded()) {
    const fs::path made = build->path() / (report->headers == HeaderSet::lean ? "lean" : "upstream");
    for (const char* name : {"kernel.so", "kernel.o", "kernel.ptx", "kernel.cubin"}) {
      std::error_code error;
      fs::copy_file(made / name, *work / name, error);
      if (error) return infrastructure_error("{}: {}", (*work / name).string(), error.message());
      files.emplace_back(name);
    }
  }
  // How long it took, how much memory there was and what set-up installed may differ next time.
  const bool stable = report->status != CompileStatus::timed_out && report->status != CompileStatus::out_of_memory &&
                      !(retry && !toolchain_.upstream);
  if (!stable) {
    std::error_code error;
    fs::remove_all(*work, error);
    result.report = std::move(*report);
    return result;
  }
  if (!options.use_cache) {  // replaces what may be there
    std::error_code error;
    fs::remove_all(cache_.root() / id.substr(0, 2) / id, error);
  }
  auto entry = cache_.publish(id, *work, files, *report);
  if (!entry) return tl::unexpected(entry.error());
  return finish(std::move(*entry));
}

}  // namespace ptxbench::candidate
