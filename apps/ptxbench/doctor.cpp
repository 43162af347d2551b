// `ptxbench doctor`: what this machine has of what the work needs, and the command that brings what is missing.
#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/process.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/toolkit.h"
#include "commands.h"
#include "gpu/flashinfer_module.h"
#include "triton/installation.h"

namespace ptxbench::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSetup = "run scripts/setup.sh";

struct Check {
  std::string name;
  bool required = true;  ///< without it the main job does not run
  bool found = false;
  std::string version = {};
  std::string path = {};
  std::string detail = {};  ///< what it is for, or what is wrong with it
  std::string remedy = {};  ///< what to do when it was not found
};

std::string first_line(std::string_view text) {
  const auto lines = base::split_lines(text);
  return lines.empty() ? std::string() : std::string(base::trim(lines.front()));
}

/// What a tool prints, or nothing if it cannot run to a good end within ten seconds.
std::optional<std::string> output_of(std::vector<std::string> argv) {
  base::ProcessOptions options;
  options.argv = std::move(argv);
  options.wall_limit = std::chrono::seconds(10);
  const auto result = base::run_process(options);
  if (!result || !result->ok()) return std::nullopt;
  return result->stdout_text + result->stderr_text;
}

Check check_processor() {
  Check check{.name = "processor"};
  check.found =
      __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 && __builtin_cpu_supports("bmi2") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
  check.version = avx512 ? "AVX-512" : check.found ? "AVX2" : "no AVX2";
  struct sysinfo memory {};
  ::sysinfo(&memory);
  const auto bytes = static_cast<std::uint64_t>(memory.totalram) * memory.mem_unit;
  check.detail = fmt::format("{} cores, {} memory", std::thread::hardware_concurrency(), base::format_bytes(bytes));
  check.remedy = "the emulator needs a processor with AVX2, FMA and BMI2 (any x86 server since 2013 or so)";
  return check;
}

Check check_nvcc(const Result<base::CudaToolkit>& toolkit) {
  Check check{.name = "nvcc"};
  check.found = toolkit.has_value();
  if (toolkit) {
    check.version = toolkit->version;
    check.path = toolkit->nvcc.string();
    check.detail = "found through " + toolkit->origin;
  } else {
    check.detail = toolkit.error().message;
    check.remedy = kSetup;
  }
  return check;
}

/// A tool of the CUDA toolkit; its version is in the same words as nvcc's.
Check check_cuda_tool(const std::string& name, bool required, const Result<base::CudaToolkit>& toolkit,
                      std::string purpose, std::string remedy) {
  Check check{.name = name, .required = required, .detail = std::move(purpose), .remedy = std::move(remedy)};
  const auto path = base::find_cuda_tool(name, toolkit ? &*toolkit : nullptr);
  if (!path) return check;
  check.path = path->string();
  const auto text = output_of({check.path, "--version"});
  if (!text) {
    check.detail = "does not run: " + check.path + " --version failed";
    return check;
  }
  check.found = true;
  const auto version = base::parse_cuda_tool_version(*text);
  if (version) {
    check.version = *version;
  } else {
    for (const auto line : base::split_lines(*text)) {
      if (line.find("ersion") != std::string_view::npos) check.version = base::trim(line);
    }
  }
  return check;
}

Check check_cuda_runtime(const Result<base::CudaToolkit>& toolkit) {
  Check check{.name = "CUDA runtime", .detail = "libcudart.so, which candidates link", .remedy = kSetup};
  if (!toolkit) return check;
  const fs::path library = toolkit->library_dir() / "libcudart.so";
  std::error_code error;
  check.found = fs::exists(library, error);
  check.path = library.string();
  const fs::path real = fs::canonical(library, error);
  if (!error) check.version = real.filename().string();
  return check;
}

Check check_host_compiler() {
  Check check{.name = "host compiler", .detail = "g++, which nvcc calls", .remedy = kSetup};
  const auto path = base::find_program("g++");
  if (!path) return check;
  const auto text = output_of({path->string(), "--version"});
  check.found = text.has_value();
  check.path = path->string();
  if (text) check.version = first_line(*text);
  return check;
}

Check check_tvm_ffi() {
  Check check{.name = "TVM-FFI", .detail = "headers and library that candidates use", .remedy = kSetup};
  const auto ffi = base::find_tvm_ffi();
  check.found = ffi.has_value();
  if (ffi) {
    check.version = ffi->version;
    check.path = ffi->include.parent_path().string();
  } else {
    check.detail = ffi.error().message;
  }
  return check;
}

Check check_triton() {
  Check check{.name = "Triton",
              .required = false,
              .detail = "compiler of candidates in Triton",
              .remedy = "scripts/setup_triton.sh"};
  const auto found = triton::find_installation();
  check.found = found.has_value();
  if (found) {
    check.version = fmt::format("{} (Python {})", found->triton_version, found->python_version);
    check.path = found->package_folder.empty() ? found->python.string() : found->package_folder.string();
  } else {
    check.detail = found.error().message;
  }
  return check;
}

Check check_cache() {
  Check check{.name = "cache folder", .remedy = "set PTXBENCH_CACHE to a writable folder"};
  const auto folder = base::cache_dir();
  if (!folder) {
    check.detail = folder.error().message;
    return check;
  }
  check.path = folder->string();
  const fs::path probe = *folder / fmt::format(".doctor.{}", ::getpid());
  const auto written = base::write_file_atomic(probe, "x");
  std::error_code error;
  fs::remove(probe, error);
  check.found = written.has_value();
  const fs::space_info space = fs::space(*folder, error);
  check.detail = written ? base::format_bytes(space.available) + " free" : written.error().message;
  return check;
}

Check check_home() {
  Check check{.name = "home folder", .remedy = "set PTXBENCH_HOME to the checkout or the unpacked bundle"};
  const auto home = base::home_dir();
  if (!home) {
    check.detail = home.error().message;
    return check;
  }
  check.path = home->string();
  std::error_code error;
  check.found = fs::is_directory(*home / "problems", error);
  check.detail = check.found ? "problems and examples" : "has no folder problems/";
  return check;
}

/// The driver is asked through its own tools and files: nothing here may load it.
std::vector<Check> check_gpu() {
  Check driver{.name = "NVIDIA driver",
               .required = false,
               .detail = "only for real-GPU runs",
               .remedy = "none needed for emulation; for a GPU install NVIDIA's driver 580 or newer"};
  Check gpu{.name = "GPU",
            .required = false,
            .detail = "without one, performance is skipped",
            .remedy = "none needed for emulation; performance needs a Hopper or Blackwell GPU"};
  const auto smi = base::find_program("nvidia-smi");
  const auto text = smi ? output_of({smi->string(), "--query-gpu=driver_version,name,compute_cap,memory.total",
                                     "--format=csv,noheader"})
                        : std::nullopt;
  if (text) {
    std::vector<std::string> names;
    for (const auto line : base::split_lines(*text)) {
      const auto fields = base::split(line, ',');
      if (fields.size() != 4) continue;
      driver.version = base::trim(fields[0]);
      names.push_back(fmt::format("{} (compute capability {}, {})", base::trim(fields[1]), base::trim(fields[2]),
                                  base::trim(fields[3])));
    }
    driver.found = !names.empty();
    driver.path = smi->string();
    gpu.found = driver.found;
    gpu.version = fmt::format("{}", fmt::join(names, "; "));
  } else if (const auto version = base::read_file("/proc/driver/nvidia/version", 1 << 16)) {
    driver.found = true;
    driver.version = first_line(*version);
    driver.detail = "nvidia-smi is missing or fails";
  }
  return {driver, gpu};
}

Check check_flashinfer() {
  Check check{.name = "FlashInfer",
              .required = false,
              .detail = "only the baseline of grouped-query attention on a GPU",
              .remedy = "none needed for emulation; scripts/build_flashinfer.sh builds it"};
  const auto folder = gpu::find_flashinfer();
  check.found = folder.has_value();
  if (!folder) return check;
  check.version = folder->version;
  check.path = folder->path.string();
  return check;
}

std::vector<Check> run_checks() {
  const auto toolkit = base::find_cuda_toolkit();
  std::vector<Check> checks;
  checks.push_back(check_processor());
  checks.push_back(check_home());
  checks.push_back(check_cache());
  checks.push_back(check_nvcc(toolkit));
  checks.push_back(check_cuda_tool("ptxas", true, toolkit, "assembles PTX", kSetup));
  checks.push_back(check_cuda_runtime(toolkit));
  checks.push_back(check_host_compiler());
  checks.push_back(check_tvm_ffi());
  checks.push_back(check_triton());
  checks.push_back(check_cuda_tool("cuobjdump", false, toolkit, "shows machine code", kSetup));
  checks.push_back(check_cuda_tool("nvdisasm", false, toolkit, "shows machine code", kSetup));
  checks.push_back(check_cuda_tool("compute-sanitizer", false, toolkit, "only for real-GPU runs",
                                   "none needed for emulation; it comes with a full CUDA 13.0 toolkit"));
  checks.push_back(check_flashinfer());
  for (Check& check : check_gpu()) checks.push_back(std::move(check));
  return checks;
}

base::Json to_json(const std::vector<Check>& checks, bool ok) {
  base::Json list = base::Json::array();
  for (const Check& check : checks) {
    base::Json entry = {{"name", check.name}, {"required", check.required}, {"found", check.found}};
    const auto add = [&entry](const char* key, const std::string& value) {
      if (!value.empty()) entry[key] = value;
    };
    add("version", check.version);
    add("path", check.path);
    add("detail", check.detail);
    if (!check.found) add("remedy", check.remedy);
    list.push_back(std::move(entry));
  }
  return {{"schema", "ptxbench.doctor/1"}, {"program", "ptxbench " PTXBENCH_VERSION}, {"ok", ok}, {"checks", list}};
}

void print_text(const std::vector<Check>& checks, bool ok) {
  const base::Style style(base::use_color(stdout));
  for (const Check& check : checks) {
    const std::string mark = check.found      ? style.green("ok     ")
                             : check.required ? style.red("MISSING")
                                              : style.yellow("absent ");
    std::string facts = check.version;
    for (const std::string& part : {check.path, check.detail}) {
      if (!part.empty()) facts += (facts.empty() ? "" : ", ") + part;
    }
    fmt::print("{}  {:<18} {}\n", mark, check.name, facts);
    if (!check.found && !check.remedy.empty()) fmt::print("         {:<18} -> {}\n", "", check.remedy);
  }
  fmt::print("\n{}\n", ok ? style.green("Everything needed is here.")
                          : style.red("Something needed is missing; see the arrows above."));
}

}  // namespace

void add_doctor(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand("doctor", "What is installed, and how to get what is missing");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "One JSON object (ptxbench.doctor/1) instead of text");
  command->callback([json, &exit_code] {
    const std::vector<Check> checks = run_checks();
    bool ok = true;
    for (const Check& check : checks) ok = ok && (check.found || !check.required);
    if (*json) {
      fmt::print("{}\n", to_json(checks, ok).dump(2, ' ', false, base::Json::error_handler_t::replace));
    } else {
      print_text(checks, ok);
    }
    exit_code = ok ? ExitCode::passed : ExitCode::infrastructure;
  });
}

}  // namespace ptxbench::app
