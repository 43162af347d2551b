#include "base/toolkit.h"

#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/process.h"
#include "base/text.h"

namespace ptxbench::base {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The set-up's folder for what is no system package; empty when there is no home folder.
fs::path deps_dir() {
  const auto home = home_dir();
  return home ? *home / ".deps" : fs::path();
}

Result<CudaToolkit> open_toolkit(const fs::path& root, std::string origin) {
  CudaToolkit toolkit;
  toolkit.root = root;
  toolkit.nvcc = root / "bin" / "nvcc";
  toolkit.origin = std::move(origin);
  if (!is_there(toolkit.nvcc)) return infrastructure_error("{} ({}): no bin/nvcc", root.string(), toolkit.origin);
  ProcessOptions options;
  options.argv = {toolkit.nvcc.string(), "--version"};
  options.wall_limit = std::chrono::seconds(30);
  const auto result = run_process(options);
  if (!result) return tl::unexpected<Error>(result.error());
  const auto version = parse_cuda_tool_version(result->stdout_text);
  if (!result->ok() || !version) {
    return infrastructure_error("{} ({}): nvcc --version {}", root.string(), toolkit.origin, result->outcome());
  }
  toolkit.version = *version;
  if (!version->starts_with(fmt::format("{}.", kCudaRelease))) {
    return infrastructure_error("{} ({}): release {}, {} is needed", root.string(), toolkit.origin, *version,
                                kCudaRelease);
  }
  return toolkit;
}

}  // namespace

fs::path CudaToolkit::library_dir() const {
  for (const char* name : {"lib64", "lib", "targets/x86_64-linux/lib"}) {
    if (is_there(root / name / "libcudart.so") || is_there(root / name / "libcudart.so.13")) return root / name;
  }
  return root / "lib64";
}

std::optional<std::string> parse_cuda_tool_version(std::string_view text) {
  constexpr std::string_view kMark = ", V";
  const std::size_t release = text.find("release ");
  if (release == std::string_view::npos) return std::nullopt;
  const std::size_t mark = text.find(kMark, release);
  if (mark == std::string_view::npos) return std::nullopt;
  const std::string_view rest = text.substr(mark + kMark.size());
  const std::string_view version = rest.substr(0, rest.find_first_not_of("0123456789."));
  if (version.empty()) return std::nullopt;
  return std::string(version);
}

Result<CudaToolkit> find_cuda_toolkit() {
  const fs::path own = deps_dir().empty() ? fs::path() : deps_dir() / "cuda";
  std::vector<std::pair<fs::path, std::string>> places;
  const bool wheels_only = environment("PTXBENCH_FORCE_WHEEL_CUDA") == "1";
  if (!wheels_only) {
    if (const std::string home = environment("CUDA_HOME"); !home.empty()) places.emplace_back(home, "CUDA_HOME");
    places.emplace_back("/usr/local/cuda", "/usr/local/cuda");
    if (const auto nvcc = find_program("nvcc")) {
      std::error_code error;
      const fs::path real = fs::canonical(*nvcc, error);
      if (!error) places.emplace_back(real.parent_path().parent_path(), "PATH");
    }
  }
  if (!own.empty()) places.emplace_back(own, ".deps/cuda");
  std::string tried;
  for (const auto& [root, origin] : places) {
    if (origin != "CUDA_HOME" && !is_there(root / "bin" / "nvcc")) continue;
    auto toolkit = open_toolkit(root, origin);
    if (toolkit) return toolkit;
    tried += "; " + toolkit.error().message;
  }
  return infrastructure_error("no CUDA {} toolkit (nvcc): run scripts/setup.sh, or set CUDA_HOME to one{}",
                              kCudaRelease, tried);
}

std::optional<fs::path> find_cuda_tool(std::string_view name, const CudaToolkit* toolkit) {
  if (toolkit != nullptr) {
    if (auto found = find_program((toolkit->root / "bin" / name).string())) return found;
  }
  if (const fs::path deps = deps_dir(); !deps.empty()) {
    if (auto found = find_program((deps / "cuda-tools" / "bin" / name).string())) return found;
  }
  return find_program(name);
}

Result<TvmFfi> find_tvm_ffi() {
  const std::string own = environment("PTXBENCH_TVM_FFI");
  const fs::path root = own.empty() ? deps_dir() / "tvm_ffi" : fs::path(own);
  TvmFfi ffi;
  ffi.include = root / "include";
  ffi.library = root / "lib" / "libtvm_ffi.so";
  if (!is_there(ffi.include / "tvm" / "ffi" / "tvm_ffi.h") || !is_there(ffi.library)) {
    return infrastructure_error("TVM-FFI is not in {}: run scripts/setup.sh{}", root.string(),
                                own.empty() ? "" : ", or correct PTXBENCH_TVM_FFI");
  }
  if (const auto version = read_file(root / "VERSION", 100)) ffi.version = trim(*version);
  return ffi;
}

}  // namespace ptxbench::base
