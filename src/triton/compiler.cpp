#include "triton/compiler.h"

#include <algorithm>
#include <array>
#include <system_error>

#include "base/files.h"
#include "base/hash.h"
#include "base/text.h"
#include "candidate/run_tool.h"
#include "candidate/triton_source.h"
#include "triton/lowering.h"
#include "triton/merge.h"
#include "triton/package.h"

namespace ptxbench::triton {
namespace {

namespace fs = std::filesystem;
using candidate::CompileOptions;
using candidate::CompileReport;
using candidate::CompilerMessage;
using candidate::CompileStatus;
using Clock = std::chrono::steady_clock;

/// Part of every artifact id: raise it when what is stored, or how it is made, changes.
constexpr std::string_view kFormat = "ptxbench-triton-artifact-1";
constexpr unsigned kHopper = 90;
constexpr std::size_t kMaxLogBytes = 256 << 10;
constexpr std::array<const char*, 4> kFiles = {"kernel.so", "kernel.o", "kernel.ptx", "kernel.cubin"};

CompilerMessage message_of(candidate::MessageLevel level, std::string rule, std::string text, int line) {
  CompilerMessage message;
  message.level = level;
  message.tool = "triton";
  message.rule = std::move(rule);
  message.text = std::move(text);
  if (line > 0) {
    message.where.file = candidate::source_name(candidate::Language::triton);
    message.where.line = line;
  }
  return message;
}

std::string text_of(const CallArgument& argument) {
  std::string text = fmt::format("{} {}", argument.name, problem::to_string(argument.dtype));
  if (!argument.scalar) return fmt::format("{} [{}]", text, fmt::join(argument.shape, ","));
  return argument.floating ? fmt::format("{} = {}", text, argument.number)
                           : fmt::format("{} = {}", text, argument.integer);
}

/// What Triton's passes print: "kernel.py:19:29: error: 'tt.descriptor_store' op ...".
void add_pass_errors(std::string_view log, CompileReport& report) {
  constexpr std::size_t kMost = 8;
  constexpr std::string_view kMark = ": error: ";
  const std::string file = fmt::format("{}:", candidate::source_name(candidate::Language::triton));
  for (const std::string_view line : base::split_lines(log)) {
    const std::size_t mark = line.find(kMark);
    if (!line.starts_with(file) || mark == std::string_view::npos || report.messages.size() >= kMost) continue;
    const auto numbers = base::split(line.substr(file.size(), mark - file.size()), ':');
    const auto number = base::parse_u64(numbers.front());
    const std::string_view text = line.substr(mark + kMark.size());
    // The last line says only that there were errors.
    if (!number || *number > 10'000'000 || text.starts_with("Failures have been detected")) continue;
    report.messages.push_back(
        message_of(candidate::MessageLevel::error, "triton.compile", std::string(text), static_cast<int>(*number)));
  }
}

/// Of each workload; equal ones once.
Result<std::vector<CallArguments>> calls_of(const std::vector<problem::Problem>& workloads) {
  std::vector<CallArguments> out;
  std::vector<std::string> seen;
  for (const problem::Problem& workload : workloads) {
    auto call = call_arguments(workload);
    if (!call) return tl::unexpected<Error>(call.error());
    std::string key;
    for (const CallArgument& one : *call) key += text_of(one) + ';';
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    seen.push_back(std::move(key));
    out.push_back(std::move(*call));
  }
  return out;
}

}  // namespace

Result<const Compiler::Found*> Compiler::found() const {
  const std::lock_guard lock(mutex_);
  if (!found_) {
    auto installation = find_installation();
    if (!installation) return tl::unexpected<Error>(installation.error());
    auto launcher = find_launcher();
    if (!launcher) return tl::unexpected<Error>(launcher.error());
    auto digest = base::sha256_file(*launcher);
    if (!digest) return tl::unexpected<Error>(digest.error());
    found_ = Found{std::move(*installation), std::move(*launcher), std::move(*digest)};
  }
  return &*found_;
}

std::string Compiler::artifact_id(const Found& found, std::string_view source, const std::vector<CallArguments>& calls,
                                  const CompileOptions& options) const {
  base::Sha256 hash;
  hash.update_field(kFormat).update_field(source).update_field(candidate::to_string(options.target));
  hash.update_field(cuda_.toolchain().cuda.version).update_field(found.installation.triton_version);
  hash.update_field(found.installation.python_version).update_field(lowering_digest());
  hash.update_field(found.launcher_digest);
  for (const CallArguments& call : calls) {
    hash.update_field("call");
    for (const CallArgument& argument : call) hash.update_field(text_of(argument));
  }
  return hash.hex();
}

/// From the source to machine code: kernel.ptx and kernel.cubin in `work` if the report says `succeeded`.
Result<Compiler::Made> Compiler::assemble(const Found& found, std::string_view source,
                                          const std::vector<CallArguments>& calls, unsigned arch,
                                          const CompileOptions& options, Clock::time_point deadline,
                                          const fs::path& work) const {
  Made made;
  CompileReport& report = made.report;
  report.compiler =
      fmt::format("triton {}, ptxas {}", found.installation.triton_version, cuda_.toolchain().cuda.version);

  LoweringOptions lowering_options;
  lowering_options.arch = arch;
  lowering_options.wall_limit = options.wall_limit;
  lowering_options.memory_bytes = options.memory_limit_bytes;
  auto lowering = lower(found.installation, source, calls, lowering_options);
  if (!lowering) return tl::unexpected<Error>(lowering.error());
  made.record = std::move(lowering->record);
  const Record& record = made.record;
  report.log = lowering->log;
  for (const std::string& note : record.notes) {
    report.messages.push_back(message_of(candidate::MessageLevel::info, "triton.note", note, 0));
  }
  // Whoever runs a candidate's code may say anything; that Triton is missing is believed of a run without one.
  if (record.status == Record::Status::missing) {
    auto alone = lower(found.installation, "", calls, lowering_options);
    if (!alone) return tl::unexpected<Error>(alone.error());
    if (alone->record.status != Record::Status::missing) {
      report.status = CompileStatus::failed;
      report.messages.push_back(message_of(candidate::MessageLevel::error, "triton.record",
                                           "the record says that Triton is missing, and it is there", 0));
      return made;
    }
    return infrastructure_error("{} (Python {} in {}); run scripts/setup_triton.sh, or correct PTXBENCH_TRITON_PYTHON",
                                record.message, record.python_version, found.installation.python.string());
  }
  if (record.status != Record::Status::lowered) {
    report.status = lowering->timed_out       ? CompileStatus::timed_out
                    : lowering->out_of_memory ? CompileStatus::out_of_memory
                                              : CompileStatus::failed;
    made.stable = report.status == CompileStatus::failed && record.rule != "triton.crash";
    add_pass_errors(lowering->log, report);
    report.messages.push_back(message_of(candidate::MessageLevel::error,
                                         record.rule.starts_with("triton.") ? record.rule : "triton.compile",
                                         record.message, record.line));
    return made;
  }

  // Modules for other targets than Hopper cannot be joined, as their PTX is not parsed; nor are they ever loaded.
  std::vector<std::string> modules;
  if (arch == kHopper) {
    auto merged = merge_ptx(record.kernels);
    if (!merged) {
      report.messages.push_back(message_of(candidate::MessageLevel::error, "triton.ptx", merged.error().message, 0));
      return made;
    }
    made.kernel_names = std::move(merged->names);
    modules.push_back(std::move(merged->text));
  } else {
    modules.reserve(record.kernels.size());
    for (const Kernel& kernel : record.kernels) modules.push_back(kernel.ptx);
  }
  for (const std::string& module : modules) {
    if (auto done = assemble_module(module, arch, options, deadline, work, made); !done) {
      return tl::unexpected<Error>(done.error());
    }
    if (!report.succeeded()) break;
  }
  return made;
}

/// ptxas, with its remarks added to the report.
Result<void> Compiler::assemble_module(const std::string& ptx, unsigned arch, const CompileOptions& options,
                                       Clock::time_point deadline, const fs::path& work, Made& made) const {
  const candidate::Toolchain& tools = cuda_.toolchain();
  CompileReport& report = made.report;
  if (auto written = base::write_file_atomic(work / "kernel.ptx", ptx); !written) {
    return tl::unexpected<Error>(written.error());
  }
  std::vector<std::string> argv = {(tools.cuda.nvcc.parent_path() / "ptxas").string(), "-v", "-lineinfo",
                                   fmt::format("-arch=sm_{}a", arch)};
  const std::vector<Kernel>& kernels = made.record.kernels;
  const bool fmad = std::all_of(kernels.begin(), kernels.end(), [](const Kernel& one) { return one.fmad; });
  if (!fmad) argv.emplace_back("--fmad=false");
  report.flags.assign(argv.begin() + 1, argv.end());
  argv.insert(argv.end(), {"kernel.ptx", "-o", "kernel.cubin"});
  const auto assembled = candidate::run_tool(std::move(argv), work, tools, {deadline, options.memory_limit_bytes});
  if (!assembled) return tl::unexpected<Error>(assembled.error());
  const std::string said = candidate::log_of(*assembled);
  parse_compiler_output(said, ptx, report);
  report.log = base::shorten_middle(report.log + said, kMaxLogBytes);
  report.status = assembled->ok()                        ? CompileStatus::succeeded
                  : assembled->timed_out                 ? CompileStatus::timed_out
                  : candidate::out_of_memory(*assembled) ? CompileStatus::out_of_memory
                                                         : CompileStatus::failed;
  made.stable = report.succeeded() || report.status == CompileStatus::failed;
  return {};
}

/// Leaves the artifact's files in `work` if the report says `succeeded`.
Result<Compiler::Made> Compiler::make(const Found& found, std::string_view source,
                                      const std::vector<CallArguments>& calls, const CompileOptions& options,
                                      const fs::path& work) const {
  const auto deadline = Clock::now() + options.wall_limit;
  const std::string arch(candidate::to_string(options.target).substr(3));
  auto made = assemble(found, source, calls, kHopper, options, deadline, work);
  if (!made || !made->report.succeeded()) return made;
  const std::string plan = write_plan(made->record, made->kernel_names, calls, found.launcher_digest);
  for (const auto& [name, text] : {std::pair<const char*, std::string>{"plan.bin", plan}, {"kernel.S", assembly()}}) {
    if (auto written = base::write_file_atomic(work / name, text); !written) {
      return tl::unexpected<Error>(written.error());
    }
  }
  const candidate::Toolchain& tools = cuda_.toolchain();
  const fs::path libraries = tools.cuda.library_dir();
  const std::vector<std::vector<std::string>> rest = {
      {(tools.cuda.nvcc.parent_path() / "fatbinary").string(), "-64", "--create=kernel.fatbin",
       fmt::format("--image3=kind=elf,sm={},file=kernel.cubin", arch),
       fmt::format("--image3=kind=ptx,sm={},file=kernel.ptx", arch)},
      {tools.host_compiler.string(), "-c", "kernel.S", "-o", "kernel.o"},
      {tools.host_compiler.string(), "-shared", "-o", "kernel.so", "kernel.o", "-Wl,--whole-archive",
       found.launcher.string(), "-Wl,--no-whole-archive", "-Wl,--no-undefined", "-Wl,--as-needed", "-Wl,-z,now",
       tools.ffi_runtime.string(), "-L" + (libraries / "stubs").string(),
       "-L" + (tools.cuda.root / "targets/x86_64-linux/lib/stubs").string(), "-lcuda"}};
  for (const std::vector<std::string>& argv : rest) {
    const auto done = candidate::run_tool(argv, work, tools, {deadline, options.memory_limit_bytes});
    if (!done) return tl::unexpected<Error>(done.error());
    if (done->timed_out) {
      made->report.status = CompileStatus::timed_out;
      made->stable = false;
      return made;
    }
    if (!done->ok()) {
      return infrastructure_error("{} {}: {}", argv.front(), done->outcome(),
                                  base::shorten_middle(candidate::log_of(*done), 2000));
    }
  }
  return made;
}

Result<CompileReport> Compiler::try_compile(std::string_view source, const std::vector<problem::Problem>& workloads,
                                            unsigned arch) const {
  auto calls = calls_of(workloads);
  if (!calls) return tl::unexpected<Error>(calls.error());
  const auto there = found();
  if (!there) return tl::unexpected<Error>(there.error());
  const auto work = base::TempDir::create("ptxbench-compile");
  if (!work) return tl::unexpected<Error>(work.error());
  const CompileOptions options;
  auto made = assemble(**there, source, *calls, arch, options, Clock::now() + options.wall_limit, work->path());
  if (!made) return tl::unexpected<Error>(made.error());
  return std::move(made->report);
}

Result<candidate::Compilation> Compiler::compile(std::string_view source,
                                                 const std::vector<problem::Problem>& workloads,
                                                 const CompileOptions& options) const {
  const auto calls = calls_of(workloads);
  if (!calls) return tl::unexpected<Error>(calls.error());
  candidate::Compilation result;
  result.static_findings = candidate::check_triton_source(source);
  const auto there = found();
  if (!there) return tl::unexpected<Error>(there.error());
  const candidate::ArtifactCache& cache = cuda_.cache();
  const std::string id = artifact_id(**there, source, *calls, options);
  const auto finish = [&](candidate::ArtifactCache::Entry entry) {
    result.report = std::move(entry.report);
    if (result.report.succeeded()) result.artifact = std::move(entry.artifact);
    return std::move(result);
  };
  if (options.use_cache) {
    if (auto entry = cache.find(id)) return finish(std::move(*entry));
  }
  const auto lock = cache.lock(id);
  if (!lock) return tl::unexpected<Error>(lock.error());
  if (options.use_cache) {
    if (auto entry = cache.find(id)) return finish(std::move(*entry));
  }

  const auto start = Clock::now();
  const auto build = base::TempDir::create("ptxbench-compile");
  if (!build) return tl::unexpected<Error>(build.error());
  auto made = make(**there, source, *calls, options, build->path());
  if (!made) return tl::unexpected<Error>(made.error());
  made->report.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (!made->stable) {
    result.report = std::move(made->report);
    return result;
  }
  const auto work = cache.new_work_folder();
  if (!work) return tl::unexpected<Error>(work.error());
  std::vector<std::string> files = {std::string(candidate::source_name(candidate::Language::triton))};
  if (auto written = base::write_file_atomic(*work / files.front(), source); !written) {
    return tl::unexpected<Error>(written.error());
  }
  if (made->report.succeeded()) {
    for (const char* name : kFiles) {
      std::error_code error;
      fs::copy_file(build->path() / name, *work / name, error);
      if (error) return infrastructure_error("{}: {}", (*work / name).string(), error.message());
      files.emplace_back(name);
    }
  }
  if (!options.use_cache) {  // replaces what may be there
    std::error_code error;
    fs::remove_all(cache.root() / id.substr(0, 2) / id, error);
  }
  auto entry = cache.publish(id, *work, files, made->report);
  if (!entry) return tl::unexpected<Error>(entry.error());
  return finish(std::move(*entry));
}

}  // namespace ptxbench::triton
