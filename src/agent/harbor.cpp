#include "agent/harbor.h"

#include <algorithm>
#include <system_error>

#include "agent/prompt.h"
#include "base/files.h"
#include "base/json.h"
#include "base/text.h"

namespace ptxbench::agent {
namespace {

using base::Json;
namespace fs = std::filesystem;

#include "agent/harbor_files.inc"

constexpr int kMostCheckRuns = 2, kQueueSeconds = 240, kSanitizerSeconds = 120;
constexpr double kAgentSeconds = 300, kVerifierSeconds = 900;

/// A TOML string. JSON's escapes are among TOML's.
std::string toml_string(std::string_view text) {
  return Json(std::string(text)).dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// "org/name" of letters, digits, '.', '_' and '-', as Harbor wants it.
bool is_package_name(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || name.find("..") != std::string_view::npos) return false;
  for (const std::string_view part : {name.substr(0, slash), name.substr(slash + 1)}) {
    const bool good = !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
             c == '-';
    });
    if (!good) return false;
  }
  return true;
}

std::string task_toml(const std::string& name, const problem::Definition& definition, const HarborOptions& options) {
  const std::string url = toml_string(options.service_url);
  return fmt::format(
      R"(schema_version = "1.4"

[task]
name = {}
description = {}
keywords = ["cuda", "ptx", {}]

[metadata]
definition = {}
target_hardware = ["H100"]

[agent]
timeout_sec = {:.1f}

[verifier]
timeout_sec = {:.1f}
env = {{ PTXBENCH_SERVICE_URL = {}, PTXBENCH_SERVICE_TOKEN = "${{PTXBENCH_SERVICE_TOKEN:-}}" }}

[environment]
gpus = 0
workdir = "/workspace"
env = {{ PTXBENCH_SERVICE_URL = {}, PTXBENCH_SERVICE_TOKEN = "${{PTXBENCH_SERVICE_TOKEN:-}}" }}
)",
      toml_string(name), toml_string("Write a CUDA kernel with inline PTX for " + definition.name),
      toml_string(definition.op_type), toml_string(definition.name), kAgentSeconds, kVerifierSeconds, url, url);
}

Json task_json(const std::string& name, const std::vector<problem::Problem>& workloads, const HarborOptions& options) {
  Json uuids = Json::array();
  for (const problem::Problem& one : workloads) uuids.push_back(one.workload.uuid);
  return {{"task_id", name.substr(name.find('/') + 1)},
          {"definition", workloads.front().definition.name},
          {"workload_uuids", uuids},
          {"target_hardware", {"H100"}},
          {"nvcc_gencode", "arch=compute_90a,code=sm_90a"},
          {"tvm_ffi_dir", "/opt/tvm_ffi"},
          {"max_check_runs", kMostCheckRuns},
          {"queue_timeout_sec", kQueueSeconds},
          {"sanitizer_timeout_sec", kSanitizerSeconds},
          {"target_speedup", options.target_speedup}};
}

std::string instruction(const std::vector<problem::Problem>& workloads, const HarborOptions& options) {
  std::string text = system_message("sm_90a", "") + "\n\n" + task_message(workloads, options.tell_shape);
  text +=
      "\n\n## How to work here\n\n"
      "Write the kernel into the file `/workspace/kernel.cu`; the file is what is judged in the end, not your "
      "answer.\n\n"
      "    ptxbench eval /workspace/kernel.cu\n\n"
      "has it compiled, checked and run by the evaluation service, and prints what was found. Use it as often as you "
      "like, and go on until it says PASSED.\n";
  if (!options.knowledge.empty()) {
    text += "\nWhat you need to know of the architecture is in `/opt/ptxbench/reference/README.md`. Read it first.\n";
  }
  return text;
}

}  // namespace

Result<void> write_harbor_task(const fs::path& folder, const std::vector<problem::Problem>& workloads,
                               const HarborOptions& options) {
  const problem::Definition& definition = workloads.front().definition;
  std::string name = options.name;
  if (name.empty()) {
    name = "ptxbench/" + definition.name;
    std::replace(name.begin(), name.end(), '_', '-');
  }
  if (!is_package_name(name)) {
    return input_error("the task's name '{}' must be ORG/NAME of letters, digits, '.', '_' and '-'", name);
  }
  if (options.service_url.find_first_of("\r\n") != std::string::npos || options.service_url.empty()) {
    return input_error("the service's address is needed, as the container sees it, such as {}",
                       "http://host.docker.internal:8000");
  }
  for (const problem::Problem& one : workloads) {
    if (one.workload.ad_hoc) {
      return input_error("{}: only stored workloads can be a task, as the service finds them by uuid", one.title());
    }
  }
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    return input_error("{} exists and is not an empty folder", folder.string());
  }
  const std::string task = task_json(name, workloads, options).dump(1) + "\n";
  const std::string pack = options.knowledge.empty() ? "No knowledge pack belongs to this task.\n" : options.knowledge;
  const std::pair<const char*, std::string> files[] = {
      {"task.toml", task_toml(name, definition, options)},
      {"instruction.md", instruction(workloads, options)},
      {"environment/Dockerfile", std::string(kDockerfile)},
      {"environment/docker-compose.yaml", std::string(kCompose)},
      {"environment/ptxbench.py", std::string(kTool)},
      {"environment/task.json", task},
      {"environment/reference/README.md", pack},
      {"tests/task.json", task},
      {"tests/ptxbench.py", std::string(kTool)},
      {"tests/test.sh", std::string(kTest)},
  };
  for (const auto& [file, text] : files) {
    if (auto written = base::write_file_atomic(folder / file, text); !written) return written;
  }
  fs::permissions(folder / "tests/test.sh", fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec,
                  fs::perm_options::add, error);
  return {};
}

}  // namespace ptxbench::agent
