#include "triton/installation.h"

#include <cstdlib>
#include <system_error>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/text.h"

namespace ptxbench::triton {
namespace {

namespace fs = std::filesystem;
using base::Json;

/// Where things are, without loading Triton, which takes half a second.
constexpr const char* kProbe = R"(
import importlib.metadata, json, os, sys, sysconfig
sys.path[:0] = sys.argv[1:]
try:
    version = importlib.metadata.version("triton")
    place = os.path.realpath(str(importlib.metadata.distribution("triton").locate_file("triton")))
except importlib.metadata.PackageNotFoundError:
    version = place = ""
paths = sysconfig.get_paths()
print(json.dumps({"python": "{}.{}.{}".format(*sys.version_info[:3]), "triton": version, "place": place,
                  "readable": [os.path.realpath(sys.executable), paths["stdlib"], paths["platstdlib"],
                               os.path.realpath(paths["stdlib"]),
                               os.path.join(sys.base_prefix, "pyvenv.cfg"), os.path.join(sys.prefix, "pyvenv.cfg"),
                               sysconfig.get_config_var("LIBDIR") or "/usr/lib"],
                  "executable": os.path.realpath(sys.executable) if sys.prefix == sys.base_prefix else sys.executable}))
)";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Result<Installation> probe(const std::string& python, const fs::path& package_folder) {
  base::ProcessOptions process;
  process.argv = {python, "-I", "-B", "-c", kProbe};
  if (!package_folder.empty()) process.argv.push_back(package_folder.string());
  process.wall_limit = std::chrono::seconds(60);
  const auto result = base::run_process(process);
  if (!result) return tl::unexpected<Error>(result.error());
  if (!result->ok()) {
    return infrastructure_error("{}: {}: {}", python, result->outcome(),
                                base::shorten_middle(base::printable(result->stderr_text), 300));
  }
  const auto json = base::parse_json(result->stdout_text, python);
  if (!json) return infrastructure_error("{}", json.error().message);
  Installation found;
  auto version = base::required<std::string>(*json, "triton", python);
  auto python_version = base::required<std::string>(*json, "python", python);
  auto place = base::required<std::string>(*json, "place", python);
  auto executable = base::required<std::string>(*json, "executable", python);
  const auto readable = base::required_member(*json, "readable", python);
  if (!version || !python_version || !place || !executable || !readable || !(*readable)->is_array()) {
    return infrastructure_error("{} does not say where its libraries are", python);
  }
  found.python = *executable;
  found.package_folder = package_folder;
  found.triton_version = std::move(*version);
  found.python_version = std::move(*python_version);
  for (const Json& one : **readable) {
    if (one.is_string()) found.readable.emplace_back(one.get<std::string>());
  }
  if (!place->empty()) found.readable.push_back(fs::path(*place).parent_path());
  return found;
}

/// Triton's extension module is built for one minor version of Python: 3.11, Debian 12's.
constexpr std::string_view kPython = "3.11.";

}  // namespace

Result<Installation> find_installation() {
  constexpr std::string_view kRemedy =
      "run scripts/setup_triton.sh, or set PTXBENCH_TRITON_PYTHON to a Python that has Triton";
  if (const std::string python = environment("PTXBENCH_TRITON_PYTHON"); !python.empty()) {
    if (!base::find_program(python)) return infrastructure_error("PTXBENCH_TRITON_PYTHON: there is no {}", python);
    auto found = probe(python, environment("PTXBENCH_TRITON"));
    if (found && found->triton_version.empty()) {
      return infrastructure_error("{} has no Triton: install it there, or correct PTXBENCH_TRITON_PYTHON", python);
    }
    return found;
  }
  fs::path folder = environment("PTXBENCH_TRITON");
  if (folder.empty()) {
    const auto home = base::home_dir();
    if (!home) return tl::unexpected<Error>(home.error());
    folder = *home / ".deps" / "triton";
  }
  std::error_code error;
  if (!fs::is_directory(folder / "triton", error)) {
    return infrastructure_error("Triton is not in {}: {}", folder.string(), kRemedy);
  }
  std::string tried;
  for (const char* python : {"/usr/bin/python3.11", "python3.11", "python3"}) {
    if (!base::find_program(python)) continue;
    auto found = probe(python, folder);
    if (!found) {
      tried += fmt::format("; {}", found.error().message);
      continue;
    }
    if (!found->python_version.starts_with(kPython)) {
      tried += fmt::format("; {} is Python {}", python, found->python_version);
      continue;
    }
    if (found->triton_version.empty()) return infrastructure_error("{}: no Triton in it: {}", folder.string(), kRemedy);
    return found;
  }
  return infrastructure_error("Triton's compiler needs Python 3.11 (Debian 12: apt-get install python3){}", tried);
}

Result<fs::path> find_launcher() {
  constexpr const char* kName = "libptxbench_triton_launcher.a";
  std::vector<fs::path> places;
  if (const std::string own = environment("PTXBENCH_TRITON_LAUNCHER"); !own.empty()) places.emplace_back(own);
  if (const auto program = base::executable_path()) {
    places.push_back(program->parent_path() / "lib" / "triton" / kName);
    places.push_back(program->parent_path().parent_path() / "lib" / "triton" / kName);
  }
  places.push_back(fs::path(PTXBENCH_BUILD_DIR) / "lib" / "triton" / kName);
  for (const fs::path& place : places) {
    std::error_code error;
    if (fs::is_regular_file(place, error)) return place;
  }
  return infrastructure_error("{} is not in {}: build the whole project (make build)", kName,
                              places.front().parent_path().string());
}

}  // namespace ptxbench::triton
