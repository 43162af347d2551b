#include "candidate/toolchain.h"

#include <algorithm>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "base/files.h"
#include "base/hash.h"
#include "base/process.h"
#include "base/text.h"

namespace ptxbench::candidate {
namespace {

namespace fs = std::filesystem;

Result<std::string> digest_of_tree(const fs::path& root) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    if (at->is_regular_file()) files.push_back(at->path());
  }
  if (error || files.empty()) {
    return infrastructure_error("{}: the headers for candidates are missing; the installation is incomplete",
                                root.string());
  }
  std::sort(files.begin(), files.end());
  base::Sha256 hash;
  for (const fs::path& file : files) {
    const auto text = base::read_file(file);
    if (!text) return tl::unexpected(text.error());
    hash.update_field(file.lexically_relative(root).string()).update_field(*text);
  }
  return hash.hex();
}

}  // namespace

Result<fs::path> find_ffi_runtime() {
  std::vector<fs::path> places;
  if (const char* own = std::getenv("PTXBENCH_FFI_RUNTIME"); own != nullptr && *own != '\0') places.emplace_back(own);
  if (const auto program = base::executable_path()) {
    places.push_back(program->parent_path() / "lib" / "tvm_ffi" / "libtvm_ffi.so");
  }
  places.push_back(fs::path(PTXBENCH_BUILD_DIR) / "lib" / "tvm_ffi" / "libtvm_ffi.so");
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) return place;
  }
  return infrastructure_error("libtvm_ffi.so is not in {}: build the whole project (make build)",
                              places.front().parent_path().string());
}

Result<Toolchain> find_toolchain() {
  Toolchain toolchain;
  auto cuda = base::find_cuda_toolkit();
  if (!cuda) {
    return infrastructure_error("{}; `ptxbench doctor` shows what is missing, scripts/setup.sh installs it",
                                cuda.error().message);
  }
  toolchain.cuda = std::move(*cuda);

  const auto compiler = base::find_program("g++");
  if (!compiler) return infrastructure_error("no g++ in PATH: nvcc needs one (apt-get install g++)");
  toolchain.host_compiler = *compiler;
  base::ProcessOptions version;
  version.argv = {compiler->string(), "-dumpfullversion"};
  version.wall_limit = std::chrono::seconds(30);
  const auto answer = base::run_process(version);
  if (!answer) return tl::unexpected(answer.error());
  toolchain.host_compiler_version = base::trim(answer->stdout_text);

  const auto home = base::home_dir();
  if (!home) return tl::unexpected(home.error());
  toolchain.lean_include = *home / "src" / "candidate" / "include";
  auto digest = digest_of_tree(toolchain.lean_include);
  if (!digest) return tl::unexpected(digest.error());
  toolchain.lean_digest = std::move(*digest);

  if (auto upstream = base::find_tvm_ffi()) toolchain.upstream = std::move(*upstream);

  auto runtime = find_ffi_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  toolchain.ffi_runtime = std::move(*runtime);
  return toolchain;
}

}  // namespace ptxbench::candidate
