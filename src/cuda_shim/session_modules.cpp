#include <algorithm>
#include <cstring>

#include "cuda_shim/fatbin.h"
#include "cuda_shim/session.h"

namespace ptxbench::cuda_shim {
namespace {

using Limits = emulator::DeviceLimits;
constexpr uint32_t kDefaultSharedPerBlock = 48 * 1024;

bool is_elf(std::span<const std::byte> bytes) {
  static constexpr unsigned char kElf[4] = {0x7f, 'E', 'L', 'F'};
  return bytes.size() >= 4 && std::memcmp(bytes.data(), kElf, 4) == 0;
}

struct ImageError {
  int cuda_error;
  std::string message;
};
/// The machine code of an image: of a fat binary, as nothing else is what was compiled and looked at.
tl::expected<std::string, ImageError> image_code(std::span<const std::byte> image) {
  if (!fatbin_bytes(image)) {
    return tl::unexpected(
        ImageError{cuda_error::kNoBinary, "only the fat binary of the compiled program can be loaded here"});
  }
  auto code = select_machine_code(image);
  if (code) return std::move(*code);
  return tl::unexpected(ImageError{cuda_error::kNoBinary, code.error().message});
}

/// The PTX text of an image, or an error with the CUDA error number it deserves.
tl::expected<std::string, ImageError> image_text(std::span<const std::byte> image) {
  if (fatbin_bytes(image)) {
    auto text = select_ptx(image);
    if (text) return std::move(*text);
    const bool damaged = text.error().message.starts_with("fat binary:");
    return tl::unexpected(
        ImageError{damaged ? cuda_error::kInvalidImage : cuda_error::kNoBinary, text.error().message});
  }
  if (is_elf(image)) {
    return tl::unexpected(
        ImageError{cuda_error::kNoBinary, fmt::format("machine code (a cubin) without PTX; {}", kPtxRemedy)});
  }
  std::string text(reinterpret_cast<const char*>(image.data()), image.size());
  text.erase(std::find(text.begin(), text.end(), '\0'), text.end());
  if (text.find(".version") == std::string::npos) {
    return tl::unexpected(ImageError{cuda_error::kInvalidImage, "neither PTX text nor a fat binary"});
  }
  return text;
}

uint64_t product(const uint32_t (&values)[3]) { return uint64_t{values[0]} * values[1] * values[2]; }

constexpr std::string_view kClusterRemedy =
    "launch with cudaLaunchKernelEx and cudaLaunchAttributeClusterDimension, or give the kernel __cluster_dims__";

std::string_view call_name(LaunchCall call) {
  switch (call) {
    case LaunchCall::unknown:
      break;
    case LaunchCall::runtime:
      return "cudaLaunchKernel (<<<>>>)";
    case LaunchCall::runtime_extensible:
      return "cudaLaunchKernelEx";
    case LaunchCall::runtime_cooperative:
      return "cudaLaunchCooperativeKernel";
    case LaunchCall::driver:
      return "cuLaunchKernel";
    case LaunchCall::driver_extensible:
      return "cuLaunchKernelEx";
    case LaunchCall::driver_cooperative:
      return "cuLaunchCooperativeKernel";
  }
  return "an unknown call";
}

/// Whether a kernel stopped because it wanted another CTA of its cluster. Addresses of a peer's shared memory hold its
/// rank above 24 bits of offset; those of device memory are far beyond.
bool reaches_for_a_peer(const emulator::Fault& fault) {
  const uint64_t rank = fault.address >> 24;
  return fault.rule == "tma.multicast" ||
         (fault.rule == "memory.out-of-bounds" && rank >= 1 && rank < Limits::kMaxCluster);
}

}  // namespace

int Session::append_image(const BytesBody& body, Connection& connection) {
  if (body.bytes == 0 || body.bytes > kStagingBytes) return cuda_error::kInvalidValue;
  {
    const std::lock_guard lock(mutex_);
    if (body.bytes > options_.max_image_bytes - image_bytes_) return cuda_error::kOutOfMemory;
    image_bytes_ += body.bytes;
  }
  const std::byte* staging = connection.staging.view().data();
  connection.image.insert(connection.image.end(), staging, staging + body.bytes);
  return 0;
}

int Session::load_image(const BytesBody& body, Connection& connection, Reply& reply) {
  const std::vector<std::byte> image = std::exchange(connection.image, {});
  {
    const std::lock_guard lock(mutex_);
    image_bytes_ -= image.size();
  }
  if (image.empty() || body.bytes != image.size() || body.kind > static_cast<uint64_t>(ImageKind::any)) {
    return cuda_error::kInvalidValue;
  }
  uint32_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (modules_.size() >= options_.max_modules) return cuda_error::kOutOfMemory;
    id = next_id_++;
  }
  const bool machine_code = backend_.wants_machine_code();
  const auto code = machine_code ? image_code(image) : image_text(image);
  if (!code) {
    diagnose(machine_code ? "launch.no-machine-code" : "launch.no-ptx", code.error().message, std::string(kPtxRemedy));
    return code.error().cuda_error;
  }
  const std::string name = fmt::format("module {}", id);
  auto module = machine_code ? backend_.load_machine_code(*code, name) : backend_.load_ptx(*code, name);
  if (!module) {
    diagnose("launch.module", module.error().message, "");
    return cuda_error::kInvalidPtx;
  }
  const std::lock_guard lock(mutex_);
  modules_[id].id = *module;
  set_body(reply, ModuleBody{id, 0});
  return 0;
}

int Session::unload_module(const ModuleBody& body) {
  {
    const std::lock_guard lock(mutex_);
    if (!modules_.contains(body.module)) return cuda_error::kInvalidHandle;
  }
  if (const int error = executor_.synchronize_all(); error != 0) return error;
  const std::lock_guard lock(mutex_);
  const auto found = modules_.find(body.module);
  if (found == modules_.end()) return cuda_error::kInvalidHandle;
  const auto unloaded = backend_.unload(found->second.id);
  for (const auto& [name, function] : found->second.functions) functions_.erase(function);
  modules_.erase(found);
  return unloaded ? 0 : cuda_error::kInvalidHandle;
}

int Session::find_function(const ModuleBody& body, const Connection& connection, Reply& reply) {
  const auto name = staged_text(connection, body.name_bytes);
  if (!name) return cuda_error::kInvalidValue;
  const std::lock_guard lock(mutex_);
  const auto module = modules_.find(body.module);
  if (module == modules_.end()) return cuda_error::kInvalidHandle;
  auto known = module->second.functions.find(*name);
  if (known == module->second.functions.end()) {
    if (functions_.size() >= options_.max_functions) return cuda_error::kOutOfMemory;
    const auto found = backend_.find_kernel(module->second.id, *name);
    if (!found) return cuda_error::kNotFound;
    auto attributes = backend_.attributes(*found);
    if (!attributes || attributes->parameter_offsets.size() != attributes->parameter_sizes.size() ||
        attributes->parameter_offsets.size() > kMaxParameters || attributes->parameter_bytes > kMaxParameterBytes) {
      return cuda_error::kInvalidImage;
    }
    const uint32_t id = next_id_++;
    Function function;
    function.id = *found;
    function.attributes = std::move(*attributes);
    function.name = *name;
    function.module = body.module;
    function.max_dynamic_shared_bytes =
        kDefaultSharedPerBlock - std::min(kDefaultSharedPerBlock, function.attributes.static_shared_bytes);
    functions_.emplace(id, std::move(function));
    known = module->second.functions.emplace(*name, id).first;
  }
  const Function& function = functions_.at(known->second);
  const emulator::FunctionAttributes& attributes = function.attributes;
  FunctionReply answer;
  answer.function = known->second;
  answer.static_shared_bytes = attributes.static_shared_bytes;
  answer.local_bytes = attributes.local_bytes;
  answer.constant_bytes = attributes.constant_bytes;
  answer.registers = attributes.registers;
  answer.max_threads_per_block = attributes.max_threads_per_block;
  answer.parameter_bytes = attributes.parameter_bytes;
  answer.parameter_count = static_cast<uint32_t>(attributes.parameter_offsets.size());
  std::copy_n(attributes.required_cluster, 3, answer.required_cluster);
  answer.max_dynamic_shared_bytes = function.max_dynamic_shared_bytes;
  answer.explicit_cluster = attributes.explicit_cluster ? 1 : 0;
  std::byte* out = connection.staging.view().data();
  const std::size_t bytes = answer.parameter_count * sizeof(uint32_t);
  std::memcpy(out, attributes.parameter_offsets.data(), bytes);
  std::memcpy(out + bytes, attributes.parameter_sizes.data(), bytes);
  set_body(reply, answer);
  return 0;
}

int Session::find_symbol(const ModuleBody& body, const Connection& connection, Reply& reply) {
  const auto name = staged_text(connection, body.name_bytes);
  if (!name) return cuda_error::kInvalidValue;
  const std::lock_guard lock(mutex_);
  const auto module = modules_.find(body.module);
  if (module == modules_.end()) return cuda_error::kInvalidHandle;
  const auto symbol = backend_.find_symbol(module->second.id, *name);
  if (!symbol) return cuda_error::kNotFound;
  set_body(reply, SymbolReply{symbol->address, symbol->bytes});
  return 0;
}

int Session::set_function_limits(const FunctionLimitsBody& body) {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(body.function);
  if (found == functions_.end()) return cuda_error::kInvalidHandle;
  Function& function = found->second;
  if ((body.which & 1) != 0) {
    const uint32_t fixed = function.attributes.static_shared_bytes;
    if (fixed > Limits::kSharedPerBlockOptIn || body.max_dynamic_shared_bytes > Limits::kSharedPerBlockOptIn - fixed) {
      return cuda_error::kInvalidValue;
    }
    function.max_dynamic_shared_bytes = body.max_dynamic_shared_bytes;
    function.opted_in = true;
  }
  if ((body.which & 2) != 0) function.non_portable_cluster = body.non_portable_cluster != 0;
  return 0;
}

int Session::occupancy(const OccupancyBody& body, Reply& reply) {
  emulator::FunctionId id;
  {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(body.function);
    if (found == functions_.end()) return cuda_error::kInvalidHandle;
    id = found->second.id;
  }
  const auto blocks = backend_.occupancy(id, body.block_threads, body.dynamic_shared_bytes);
  if (!blocks) return cuda_error::kInvalidValue;
  set_body(reply, CountReply{*blocks});
  return 0;
}

int Session::check_launch(const LaunchBody& body, const Function& function) {
  const auto refuse = [&](int error, const char* rule, const std::string& message, std::string remedy) {
    diagnose({rule, fmt::format("{}, launched by {}: {}", function.name, call_name(body.call), message),
              std::move(remedy), function.name, std::string(call_name(body.call)), false});
    return error;
  };
  const uint64_t threads = product(body.block);
  if (product(body.grid) == 0 || body.grid[0] > Limits::kMaxGridX || body.grid[1] > Limits::kMaxGridYZ ||
      body.grid[2] > Limits::kMaxGridYZ) {
    return refuse(cuda_error::kInvalidValue, "launch.grid",
                  fmt::format("grid {}x{}x{} is not within 1..2147483647 x 1..65535 x 1..65535", body.grid[0],
                              body.grid[1], body.grid[2]),
                  "give the longest dimension to x, and launch nothing for an empty problem");
  }
  if (threads == 0 || body.block[0] > 1024 || body.block[1] > 1024 || body.block[2] > 64 ||
      threads > Limits::kMaxThreadsPerBlock) {
    return refuse(cuda_error::kInvalidValue, "launch.threads",
                  fmt::format("block {}x{}x{} is empty or exceeds 1024x1024x64 or 1024 threads", body.block[0],
                              body.block[1], body.block[2]),
                  "launch between 1 and 1024 threads per block");
  }
  if (threads > function.attributes.max_threads_per_block) {
    return refuse(
        cuda_error::kInvalidValue, "launch.threads",
        fmt::format("{} threads per block, the kernel allows {}", threads, function.attributes.max_threads_per_block),
        "launch fewer threads or change __launch_bounds__");
  }
  if (body.dynamic_shared_bytes > function.max_dynamic_shared_bytes) {
    const uint32_t fixed = function.attributes.static_shared_bytes;
    const uint32_t most = Limits::kSharedPerBlockOptIn - std::min(fixed, Limits::kSharedPerBlockOptIn);
    const bool can_opt_in = body.dynamic_shared_bytes <= most;
    return refuse(
        cuda_error::kInvalidValue, "launch.shared-memory",
        fmt::format("{} bytes of dynamic shared memory, {} are allowed (with {} static){}", body.dynamic_shared_bytes,
                    function.max_dynamic_shared_bytes, fixed,
                    !can_opt_in         ? fmt::format(", and {} with an opt-in", most)
                    : function.opted_in ? ": the host opted in to fewer"
                                        : ": cudaFuncSetAttribute(kernel, "
                                          "cudaFuncAttributeMaxDynamicSharedMemorySize, ...) was not called before"),
        can_opt_in ? fmt::format("opt in with cudaFuncSetAttribute(kernel, "
                                 "cudaFuncAttributeMaxDynamicSharedMemorySize, {}) before the launch",
                                 body.dynamic_shared_bytes)
                   : "use fewer or smaller stages");
  }
  uint32_t required[3]{};
  if (function.attributes.required_cluster[0] != 0) {
    for (int d = 0; d < 3; ++d) required[d] = std::max(1u, function.attributes.required_cluster[d]);
  }
  uint32_t cluster[3] = {body.cluster[0], body.cluster[1], body.cluster[2]};
  if (product(cluster) == 0) {
    if (cluster[0] + uint64_t{cluster[1]} + cluster[2] != 0) {
      return refuse(cuda_error::kInvalidClusterSize, "launch.cluster-shape",
                    fmt::format("cluster {}x{}x{} has a dimension of 0", cluster[0], cluster[1], cluster[2]),
                    "set unused cluster dimensions to 1");
    }
    if (function.attributes.explicit_cluster && product(required) == 0) {
      return refuse(cuda_error::kInvalidClusterSize, "launch.cluster-attribute",
                    "the kernel must be launched with cluster dimensions (.explicitcluster), the launch has none",
                    std::string(kClusterRemedy));
    }
    std::copy_n(required, 3, cluster);
    if (product(cluster) == 0) std::fill_n(cluster, 3, 1u);
  } else if (product(required) != 0 && !std::equal(cluster, cluster + 3, required)) {
    return refuse(cuda_error::kInvalidClusterSize, "launch.cluster-shape",
                  fmt::format("cluster {}x{}x{} at the launch, {}x{}x{} in the kernel", cluster[0], cluster[1],
                              cluster[2], required[0], required[1], required[2]),
                  "launch with the kernel's cluster dimensions");
  }
  const uint64_t size = product(cluster);
  const uint32_t limit = function.non_portable_cluster ? Limits::kMaxCluster : Limits::kMaxPortableCluster;
  if (size > limit) {
    return refuse(cuda_error::kInvalidClusterSize, "launch.cluster-size",
                  fmt::format("cluster of {} blocks, {} are allowed", size, limit),
                  size <= Limits::kMaxCluster
                      ? "call cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) before"
                      : "use at most 8 blocks per cluster (16 with an opt-in)");
  }
  for (int d = 0; d < 3; ++d) {
    if (body.grid[d] % cluster[d] != 0) {
      return refuse(cuda_error::kInvalidClusterSize, "launch.cluster-shape",
                    fmt::format("grid {}x{}x{} is not a multiple of the cluster {}x{}x{}", body.grid[0], body.grid[1],
                                body.grid[2], cluster[0], cluster[1], cluster[2]),
                    "round the grid up to whole clusters");
    }
  }
  const auto blocks = backend_.occupancy(function.id, static_cast<uint32_t>(threads), body.dynamic_shared_bytes);
  if (blocks && *blocks == 0) {
    return refuse(
        cuda_error::kLaunchOutOfResources, "launch.resources",
        fmt::format("no block of {} threads with {} registers each and {} bytes of shared memory fits on an SM",
                    threads, function.attributes.registers,
                    body.dynamic_shared_bytes + function.attributes.static_shared_bytes),
        "launch smaller blocks, or bound registers with __launch_bounds__");
  }
  if ((body.flags & kLaunchCooperative) != 0) {
    if (blocks && product(body.grid) > uint64_t{*blocks} * Limits::kSmCount) {
      return refuse(cuda_error::kCooperativeTooLarge, "launch.cooperative",
                    fmt::format("cooperative grid of {} blocks, {} fit at a time", product(body.grid),
                                uint64_t{*blocks} * Limits::kSmCount),
                    "size the grid with cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    }
  }
  return 0;
}

int Session::launch(const LaunchBody& body, const Connection& connection) {
  Function function;
  {
    const std::lock_guard lock(mutex_);
    const auto found = functions_.find(body.function);
    if (found == functions_.end()) return cuda_error::kInvalidHandle;
    function = found->second;
  }
  if (!executor_.has_stream(body.stream)) return cuda_error::kInvalidHandle;
  if (body.parameter_bytes != function.attributes.parameter_bytes || body.parameter_bytes > kMaxParameterBytes) {
    return cuda_error::kInvalidValue;
  }
  const int refused = check_launch(body, function);
  if (body.call == LaunchCall::runtime) {
    const std::lock_guard lock(mutex_);
    if (unchecked_.launches++ == 0) unchecked_.first = function.name;
    if (refused != 0 && unchecked_.failed.empty()) {
      unchecked_.failed = function.name;
      unchecked_.error = refused;
    }
  }
  if (refused != 0) return refused;
  emulator::LaunchRequest request;
  request.function = function.id;
  std::copy_n(body.grid, 3, request.grid);
  std::copy_n(body.block, 3, request.block);
  std::copy_n(body.cluster, 3, request.cluster);
  request.dynamic_shared_bytes = body.dynamic_shared_bytes;
  const std::byte* staging = connection.staging.view().data();
  request.parameters.assign(staging, staging + body.parameter_bytes);
  request.max_dynamic_shared_bytes =
      std::max(kDefaultSharedPerBlock, function.max_dynamic_shared_bytes + function.attributes.static_shared_bytes);
  request.non_portable_cluster = function.non_portable_cluster;
  request.stream = body.stream;
  request.stop = stop_launches_.get_token();
  const uint64_t held = sizeof request + body.parameter_bytes + function.name.size();
  return executor_.submit_kernel(
      body.stream,
      [this, request = std::move(request), name = std::move(function.name), call = body.call] {
        run_launch(request, name, call);
      },
      held, (body.flags & kLaunchProgrammatic) != 0);
}

void Session::run_launch(emulator::LaunchRequest request, const std::string& name, LaunchCall call) {
  request.order = executor_.running();
  const auto report = backend_.launch(request);
  if (!report) {
    diagnose({report.error().rule, fmt::format("{}: {}", name, report.error().message), "", name,
              std::string(call_name(call)), false});
    executor_.lose(report.error().cuda_error);
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    ++report_.launches;
    report_.warp_instructions += report->warp_instructions;
    report_.kernel_seconds += report->seconds;
    report_.approximate.insert(report->approximate.begin(), report->approximate.end());
    if (report->fault && report->fault->rule == "launch.cancelled") {
      ++report_.launches_cancelled;  // our doing, not the kernel's
    } else if (report->fault && !report_.fault) {
      report_.fault = report->fault;
      report_.fault_kernel = name;
      if (report->fault->rule.starts_with("unsupported.")) {
        report_.unsupported.insert(report->fault->place.instruction.empty() ? report->fault->rule
                                                                            : report->fault->place.instruction);
      }
    }
  }
  if (report->fault && request.cluster[0] == 0 && report->clusters_total == product(request.grid) &&
      reaches_for_a_peer(*report->fault)) {
    diagnose(
        {"launch.cluster-attribute",
         fmt::format("{}, launched by {}, was launched without cluster dimensions and stopped where it reaches for "
                     "another CTA of its cluster",
                     name, call_name(call)),
         std::string(kClusterRemedy), name, std::string(call_name(call)), true});
  }
  if (options_.on_launch) options_.on_launch(*report);
  if (report->fault) executor_.lose(fault_error(report->fault->rule));
}

void Session::tell_unchecked_launches() {
  UncheckedLaunches unchecked;
  {
    const std::lock_guard lock(mutex_);
    unchecked = unchecked_;
  }
  const std::string call(call_name(LaunchCall::runtime));
  constexpr std::string_view kRemedy =
      "call cudaGetLastError() after every launch: nothing else tells that one was refused";
  if (!unchecked.failed.empty()) {
    diagnose({"launch.unchecked",
              fmt::format("the launch of {} by {} failed with error {}, and neither cudaGetLastError nor "
                          "cudaPeekAtLastError was called after it",
                          unchecked.failed, call, unchecked.error),
              std::string(kRemedy), unchecked.failed, call, true});
  } else if (unchecked.launches != 0 && !unchecked.checked) {
    diagnose(
        {"launch.unchecked",
         fmt::format("{} launch{} by {}, the first of {}, and neither cudaGetLastError nor cudaPeekAtLastError was "
                     "called after any",
                     unchecked.launches, unchecked.launches == 1 ? "" : "es", call, unchecked.first),
         std::string(kRemedy), unchecked.first, call, true});
  }
}

}  // namespace ptxbench::cuda_shim
