#include "triton/lowering.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/text.h"
#include "candidate/triton_source.h"
#include "cuda_shim/host_process.h"
#include "cuda_shim/shared_memory.h"
#include "problem/inputs.h"

namespace ptxbench::triton {
namespace {

using base::Json;

constexpr const char* kScript =
#include "triton/lower.inc"
    ;
constexpr const char* kStandIn =
#include "triton/torch_stand_in.inc"
    ;
constexpr std::uint64_t kAnswerBytes = std::uint64_t{96} << 20;
constexpr std::size_t kMostLog = 64 << 10;
constexpr int kPtxVersion = 90;  ///< of the toolkit that assembles it

/// What the candidate's host code may ask of the device: for Hopper the emulated one's numbers, which are an H200's.
Json describe_target(unsigned arch) {
  const bool blackwell = arch >= 100;
  return {{"arch", arch},
          {"ptx_version", kPtxVersion},
          {"name", blackwell ? "NVIDIA B200" : "NVIDIA H200"},
          {"sm_count", blackwell ? 148 : 132},
          {"shared_bytes", kMostShared},
          {"memory_bytes", std::uint64_t{blackwell ? 180U : 141U} << 30},
          {"l2_bytes", std::uint64_t{blackwell ? 126U : 50U} << 20}};
}

Json describe(const CallArgument& argument) {
  Json json = {{"name", argument.name}, {"dtype", problem::to_string(argument.dtype)}};
  if (!argument.scalar) {
    json["shape"] = argument.shape;
  } else if (argument.floating) {
    json["value"] = argument.number;
  } else {
    json["value"] = argument.integer;
  }
  return json;
}

std::int64_t integer_of(const problem::Tensor& tensor) {
  switch (tensor.dtype) {
    case problem::Dtype::int64:
      return tensor.as<std::int64_t>()[0];
    case problem::Dtype::int32:
      return tensor.as<std::int32_t>()[0];
    case problem::Dtype::int16:
      return tensor.as<std::int16_t>()[0];
    default:
      return tensor.as<std::int8_t>()[0];
  }
}

}  // namespace

Result<CallArguments> call_arguments(const problem::Problem& problem) {
  CallArguments out;
  for (std::size_t i = 0; i < problem.definition.inputs.size(); ++i) {
    const problem::TensorSpec& spec = problem.definition.inputs[i];
    CallArgument argument;
    argument.name = spec.name;
    argument.dtype = spec.dtype;
    argument.shape = problem.input_shapes[i];
    if (spec.is_scalar()) {
      const auto value = problem::make_input(problem, i, {});
      if (!value) return tl::unexpected<Error>(value.error());
      argument.scalar = true;
      argument.floating = problem::is_float(spec.dtype);
      if (argument.floating) {
        float number = 0;
        problem::to_float(spec.dtype, value->data(), 0, 1, &number);
        argument.number = static_cast<double>(number);
      } else {
        argument.integer = integer_of(*value);
      }
    }
    out.push_back(std::move(argument));
  }
  for (std::size_t i = 0; i < problem.definition.outputs.size(); ++i) {
    CallArgument argument;
    argument.name = problem.definition.outputs[i].name;
    argument.dtype = problem.definition.outputs[i].dtype;
    argument.shape = problem.output_shapes[i];
    out.push_back(std::move(argument));
  }
  return out;
}

std::string lowering_digest() { return base::Sha256().update_field(kScript).update_field(kStandIn).hex(); }

Result<Lowering> lower(const Installation& installation, std::string_view source,
                       const std::vector<CallArguments>& calls, const LoweringOptions& options) {
  auto memory = cuda_shim::SharedMemory::create(kAnswerBytes);
  if (!memory) return tl::unexpected<Error>(memory.error());
  if (auto mapped = memory->map(); !mapped) return tl::unexpected<Error>(mapped.error());
  Json request = {{"source", source},
                  {"stand_in", kStandIn},
                  {"imports", candidate::triton_imports()},
                  {"target", describe_target(options.arch)},
                  {"path", Json::array()},
                  {"output_fd", memory->fd()},
                  {"output_bytes", memory->bytes()},
                  {"calls", Json::array()}};
  if (!installation.package_folder.empty()) request["path"].push_back(installation.package_folder.string());
  for (const CallArguments& call : calls) {
    Json arguments = Json::array();
    for (const CallArgument& argument : call) arguments.push_back(describe(argument));
    request["calls"].push_back({{"arguments", std::move(arguments)}});
  }

  cuda_shim::HostRequest host;
  host.argv = {installation.python.string(), "-I", "-B", "-X", "utf8", "-c", kScript};
  host.untrusted = true;
  host.candidate = true;
  host.clear_environment = true;
  host.environment = {{"PATH", "/usr/bin:/bin"}, {"LANG", "C.UTF-8"}, {"HOME", "/"}};
  host.working_directory = "/";
  host.readable = installation.readable;
  if (!installation.package_folder.empty()) host.readable->push_back(installation.package_folder);
  for (const char* path :
       {"/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/etc/ld.so.cache", "/dev/null", "/dev/zero",
        "/dev/urandom", "/sys/devices/system/cpu", "/proc/cpuinfo", "/proc/meminfo"}) {
    host.readable->emplace_back(path);
  }
  host.stdin_text = request.dump(-1, ' ', false, Json::error_handler_t::replace);
  host.inherited_fds = {memory->fd()};
  host.max_output_bytes = std::size_t{1} << 20;
  host.limits.wall = options.wall_limit;
  host.limits.cpu_seconds =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(options.wall_limit).count()) * 4 + 1;
  host.limits.data_bytes = options.memory_bytes;
  host.limits.file_bytes = 0;
  host.cancel = options.cancel;
  const auto outcome = cuda_shim::run_host_process(host);
  if (!outcome) return tl::unexpected<Error>(outcome.error());

  Lowering out;
  out.seconds = outcome->seconds;
  out.log =
      base::shorten_middle(base::printable(outcome->stdout_text + outcome->stderr_text, base::Lines::kept), kMostLog);
  out.record.triton_version = installation.triton_version;
  out.record.python_version = installation.python_version;
  const auto ended_badly = [&](std::string rule, std::string message) {
    out.record.status = Record::Status::failed;
    out.record.rule = std::move(rule);
    out.record.message = std::move(message);
  };
  if (outcome->end == cuda_shim::HostOutcome::End::cancelled) return infrastructure_error("cancelled");
  if (outcome->end == cuda_shim::HostOutcome::End::timed_out) {
    out.timed_out = true;
    ended_badly("compile.timeout", "Triton did not finish within the time limit");
    return out;
  }
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, memory->view().data(), sizeof bytes);
  if (bytes == 0 || bytes > memory->bytes() - sizeof bytes) {
    // Compilers abort where they get no memory. A process that died with most of its share in use did so.
    out.out_of_memory =
        outcome->end == cuda_shim::HostOutcome::End::crashed && outcome->max_rss_bytes >= options.memory_bytes / 4 * 3;
    ended_badly(out.out_of_memory ? "compile.memory" : "triton.crash",
                fmt::format("compiling with Triton {}", outcome->describe()));
    return out;
  }
  // The process is gone: nobody changes the text any more.
  const std::string text(reinterpret_cast<const char*>(memory->view().data()) + sizeof bytes, bytes);
  auto record = parse_record(text, calls);
  if (!record) {
    ended_badly("triton.record", fmt::format("the record of the lowering is damaged: {}", record.error().message));
    return out;
  }
  out.record = std::move(*record);
  out.out_of_memory = out.record.status == Record::Status::failed && out.record.rule == "compile.memory";
  out.record.triton_version = installation.triton_version;
  out.record.python_version = installation.python_version;
  return out;
}

}  // namespace ptxbench::triton
