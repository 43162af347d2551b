#include "evaluation/python_reference.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "base/json.h"
#include "base/printable.h"
#include "base/process.h"
#include "base/text.h"
#include "cuda_shim/host_process.h"
#include "cuda_shim/shared_memory.h"

namespace ptxbench::evaluation {
namespace {

using base::Json;
using problem::Tensor;

constexpr const char* kScript =
#include "evaluation/run_reference.inc"
    ;
constexpr int kNoTorch = 77;  // EXIT_NO_TORCH
constexpr std::uint64_t kAlignment = 64;
constexpr std::size_t kTokenBytes = 16;
constexpr std::uint64_t kProcesses = 4096;  ///< of the user, threads included: enough for any machine's PyTorch

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Json shape_json(const problem::Shape& shape) {
  Json json = Json::array();
  for (const std::int64_t extent : shape) json.push_back(extent);
  return json;
}

std::string interpreter(const PythonReferenceOptions& options) {
  if (!options.python.empty()) return options.python;
  const char* given = std::getenv("PTXBENCH_PYTHON");
  return given != nullptr && *given != '\0' ? given : "python3";
}

/// What the script puts behind the results once all are there, as it stands in memory.
std::string make_token() {
  std::random_device random;
  std::string token;
  while (token.size() < kTokenBytes) token.push_back(static_cast<char>(random() & 0xffu));
  return token;
}

std::string hex_of(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

/// What a Python process said last: the exception's line.
std::string last_line(std::string_view text) {
  std::string last;
  for (const std::string_view line : base::split_lines(text)) {
    if (!base::trim(line).empty()) last = base::trim(line);
  }
  return base::shorten_middle(base::printable(last), 300);
}

}  // namespace

Result<PythonTruth> python_truth(const problem::Problem& problem, const std::vector<Tensor>& inputs,
                                 const PythonReferenceOptions& options) {
  const problem::Definition& definition = problem.definition;
  const auto none = [](std::string reason) { return PythonTruth{std::nullopt, std::move(reason)}; };
  const std::string python = interpreter(options);
  if (!base::find_program(python)) return none(fmt::format("there is no {}", python));

  auto outputs = problem::make_truth_tensors(problem);
  if (!outputs) return tl::unexpected<Error>(outputs.error());
  Json request = {{"reference", definition.reference}, {"inputs", Json::array()}, {"outputs", Json::array()}};
  std::uint64_t input_bytes = 0, output_bytes = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    request["inputs"].push_back({{"name", definition.inputs[i].name},
                                 {"dtype", problem::to_string(inputs[i].dtype)},
                                 {"shape", shape_json(problem.input_shapes[i])},
                                 {"scalar", definition.inputs[i].is_scalar()},
                                 {"offset", input_bytes}});
    input_bytes += aligned(inputs[i].bytes());
  }
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    request["outputs"].push_back({{"name", definition.outputs[i].name},
                                  {"shape", shape_json(problem.output_shapes[i])},
                                  {"offset", output_bytes}});
    output_bytes += aligned((*outputs)[i].bytes());
  }
  auto in = cuda_shim::SharedMemory::create(std::max<std::uint64_t>(input_bytes, kAlignment));
  static_assert(kTokenBytes <= kAlignment);
  auto out = cuda_shim::SharedMemory::create(output_bytes + kAlignment);
  for (auto* memory : {&in, &out}) {
    if (!*memory) return tl::unexpected<Error>(memory->error());
    if (auto mapped = (*memory)->map(); !mapped) return tl::unexpected<Error>(mapped.error());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].bytes() == 0) continue;
    std::memcpy(in->view().data() + request["inputs"][i]["offset"].get<std::uint64_t>(), inputs[i].data(),
                inputs[i].bytes());
  }
  request["input_fd"] = in->fd();
  request["input_bytes"] = in->bytes();
  request["output_fd"] = out->fd();
  request["output_bytes"] = out->bytes();
  const std::string token = make_token();
  request["token"] = hex_of(token);
  request["threads"] =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));

  cuda_shim::HostRequest host;
  // -I: neither the working directory nor the user's own packages and variables come in.
  host.argv = {python, "-I", "-B", "-c", kScript};
  host.untrusted = true;
  // What a user's variables hold is none of its business, and must not change its results.
  host.clear_environment = true;
  const char* path = std::getenv("PATH");
  host.environment = {
      {"PATH", path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin"}, {"LANG", "C.UTF-8"}, {"HOME", "/"}};
  host.working_directory = "/";
  host.stdin_text = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  host.inherited_fds = {in->fd(), out->fd()};
  host.max_output_bytes = std::size_t{1} << 20;
  host.limits.wall = options.wall_limit;
  host.limits.data_bytes = 8 * (problem.tensor_bytes + (std::uint64_t{1} << 30));
  host.limits.file_bytes = 0;  // files in memory are not counted as data
  host.limits.processes = kProcesses;
  host.cancel = options.cancel;
  const auto outcome = cuda_shim::run_host_process(host);
  if (!outcome) return tl::unexpected<Error>(outcome.error());
  if (outcome->end == cuda_shim::HostOutcome::End::cancelled ||
      outcome->end == cuda_shim::HostOutcome::End::timed_out) {
    return PythonTruth{std::nullopt, fmt::format("its Python reference {}", outcome->describe()), false};
  }
  if (!outcome->ok()) {
    const std::string said = last_line(outcome->stderr_text);
    if (outcome->exit_code == kNoTorch) return none(said);
    return none(fmt::format("its Python reference {}{}{}", outcome->describe(), said.empty() ? "" : ": ", said));
  }
  if (std::memcmp(out->view().data() + out->bytes() - kTokenBytes, token.data(), kTokenBytes) != 0) {
    return none("its Python reference ended without giving results");
  }
  for (std::size_t i = 0; i < outputs->size(); ++i) {
    Tensor& output = (*outputs)[i];
    if (output.bytes() == 0) continue;
    std::memcpy(output.data(), out->view().data() + request["outputs"][i]["offset"].get<std::uint64_t>(),
                output.bytes());
  }
  PythonTruth result;
  result.truth.emplace();
  result.truth->term_norms.resize(outputs->size());
  result.truth->outputs = std::move(*outputs);
  return result;
}

}  // namespace ptxbench::evaluation
