#include "evaluation/device_run.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <numeric>

#include "cuda_shim/program_check.h"
#include "cuda_shim/server.h"
#include "evaluation/choose_clusters.h"
#include "problem/comparison.h"
#include "problem/parallel.h"

namespace ptxbench::evaluation {
namespace {

namespace abi = candidate::abi;
using candidate::kMaxArguments;
using candidate::kMaxDimensions;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPage = 4096;
constexpr int kGuardByte = 0xc5;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

abi::Dtype abi_dtype(problem::Dtype dtype) {
  using enum problem::Dtype;
  switch (dtype) {
    case float32:
      return {abi::DtypeCode::floating, 32, 1};
    case float16:
      return {abi::DtypeCode::floating, 16, 1};
    case bfloat16:
      return {abi::DtypeCode::bfloat, 16, 1};
    case float8_e4m3fn:
      return {abi::DtypeCode::float8_e4m3fn, 8, 1};
    case float8_e5m2:
      return {abi::DtypeCode::float8_e5m2, 8, 1};
    case float4_e2m1:
      return {abi::DtypeCode::float4_e2m1fn, 4, 1};
    case int64:
      return {abi::DtypeCode::integer, 64, 1};
    case int32:
      return {abi::DtypeCode::integer, 32, 1};
    case int16:
      return {abi::DtypeCode::integer, 16, 1};
    case int8:
      return {abi::DtypeCode::integer, 8, 1};
    case boolean:
      return {abi::DtypeCode::boolean, 8, 1};
  }
  return {};
}

/// Bytes from the end of the block to the end of its last page: accessible, but nobody's.
struct Guard {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};
Guard guard_of(std::uint64_t address, std::uint64_t bytes) {
  const std::uint64_t end = address + bytes;
  const std::uint64_t page_end = (end + kPage - 1) / kPage * kPage;
  return {emulator::host_pointer(end), static_cast<std::size_t>(page_end - end)};
}

constexpr std::uint64_t kChunk = std::uint64_t{4} << 20;

void copy_parallel(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  problem::parallel_for((bytes + kChunk - 1) / kChunk, 0, [&](std::uint64_t chunk) {
    const std::uint64_t first = chunk * kChunk;
    std::memcpy(to + first, from + first, static_cast<std::size_t>(std::min(kChunk, bytes - first)));
  });
}

bool equal_parallel(const std::byte* left, const std::byte* right, std::uint64_t bytes) {
  std::atomic<bool> equal = true;
  problem::parallel_for((bytes + kChunk - 1) / kChunk, 0, [&](std::uint64_t chunk) {
    const std::uint64_t first = chunk * kChunk;
    if (std::memcmp(left + first, right + first, static_cast<std::size_t>(std::min(kChunk, bytes - first))) != 0)
      equal = false;
  });
  return equal;
}

/// The problem's tensors in device memory, and what they must look like afterwards.
class DeviceTensors {
 public:
  struct Block {
    const DeviceArgument* argument = nullptr;
    std::uint64_t address = 0, bytes = 0;
    problem::Tensor output;
  };

  static Result<DeviceTensors> create(emulator::Device& device, const std::vector<DeviceArgument>& arguments) {
    DeviceTensors out;
    if (arguments.size() > kMaxArguments) {
      return input_error("a definition may have at most {} tensors, this one has {}", kMaxArguments, arguments.size());
    }
    out.call_->argument_count = static_cast<std::uint32_t>(arguments.size());
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const DeviceArgument& argument = arguments[i];
      auto described = describe_argument(argument);
      if (!described) return tl::unexpected<Error>(described.error());
      CallArgument& call = out.call_->arguments[i];
      call = *described;
      if (argument.scalar) continue;
      if (auto placed = out.place(device, argument); !placed) return tl::unexpected<Error>(placed.error());
      call.address = out.blocks_.back().address;
    }
    return out;
  }

  const Call& call() const { return *call_; }

  std::vector<cuda_shim::TensorRange> ranges() const {
    std::vector<cuda_shim::TensorRange> out;
    for (const Block& block : blocks_) {
      out.push_back({block.address, block.bytes, block.argument->name, block.argument->output});
    }
    return out;
  }

  /// Outputs must depend on nothing that nobody wrote, where the device follows such values.
  void check_defined(emulator::Device& device) const {
    for (const Block& block : blocks_) {
      if (block.argument->output && !block.argument->shape.empty()) {
        const std::uint64_t elements = std::max<std::uint64_t>(
            1, static_cast<std::uint64_t>(std::accumulate(block.argument->shape.begin(), block.argument->shape.end(),
                                                          std::int64_t{1}, std::multiplies<>())));
        device.check_defined(block.address, block.bytes,
                             static_cast<std::uint32_t>(std::max<std::uint64_t>(1, block.bytes / elements)));
      }
    }
  }

  /// Called before the only launch that is cut down to a sample, where others came before it: what those left in an
  /// output that this one writes as well may not be the candidate's answer.
  void remember_outputs() {
    for (Block& block : blocks_) {
      if (!block.argument->output) continue;
      copy_parallel(static_cast<std::byte*>(block.output.data()), emulator::host_pointer(block.address), block.bytes);
    }
    remembered_ = true;
  }

  void collect(DeviceObservation& observation) {
    for (Block& block : blocks_) {
      const Guard guard = guard_of(block.address, block.bytes);
      const bool intact = std::all_of(guard.begin, guard.begin + guard.bytes,
                                      [](std::byte byte) { return byte == static_cast<std::byte>(kGuardByte); });
      if (!intact) observation.overrun_tensors.push_back(block.argument->name);
      const std::byte* memory = emulator::host_pointer(block.address);
      if (block.argument->output) {
        if (remembered_) observation.changed_last.push_back(changes(block.output, memory));
        copy_parallel(static_cast<std::byte*>(block.output.data()), memory, block.bytes);
        observation.outputs.push_back(std::move(block.output));
      } else if (!equal_parallel(memory, static_cast<const std::byte*>(block.argument->input->data()), block.bytes)) {
        observation.changed_inputs.push_back(block.argument->name);
      }
    }
  }

 private:
  /// What `memory` holds where it differs from `before`, else poison; no elements if it differs nowhere.
  static problem::Tensor changes(const problem::Tensor& before, const std::byte* memory) {
    const auto* known = static_cast<const std::byte*>(before.data());
    const std::uint64_t size = problem::bits_of(before.dtype) / 8;
    if (size == 0 || equal_parallel(known, memory, before.bytes())) return {};
    problem::Tensor changed = *problem::Tensor::create(before.name, before.dtype, before.shape);
    problem::fill_poison(changed);
    auto* out = static_cast<std::byte*>(changed.data());
    constexpr std::uint64_t kElements = std::uint64_t{1} << 20;
    problem::parallel_for((before.count + kElements - 1) / kElements, 0, [&](std::uint64_t chunk) {
      const std::uint64_t end = std::min(before.count, (chunk + 1) * kElements) * size;
      for (std::uint64_t at = chunk * kElements * size; at < end; at += size) {
        if (std::memcmp(known + at, memory + at, size) != 0) std::memcpy(out + at, memory + at, size);
      }
    });
    return changed;
  }

  Result<void> place(emulator::Device& device, const DeviceArgument& argument) {
    Block block;
    block.argument = &argument;
    const std::byte* contents = nullptr;
    if (argument.output) {
      auto tensor = problem::Tensor::create(argument.name, argument.dtype, argument.shape);
      if (!tensor) return tl::unexpected<Error>(tensor.error());
      block.output = std::move(*tensor);
      problem::fill_poison(block.output);
      block.bytes = block.output.bytes();
      contents = static_cast<const std::byte*>(block.output.data());
    } else {
      block.bytes = argument.input->bytes();
      contents = static_cast<const std::byte*>(argument.input->data());
    }
    auto address = device.memory().allocate(block.bytes, emulator::AllocationKind::device, argument.name);
    if (!address) return tl::unexpected<Error>(address.error());
    block.address = *address;
    copy_parallel(emulator::host_pointer(block.address), contents, block.bytes);
    // An output's poison stands for whatever the memory held before.
    if (!argument.output) device.note_written(block.address, block.bytes);
    const Guard guard = guard_of(block.address, block.bytes);
    std::memset(guard.begin, kGuardByte, guard.bytes);
    blocks_.push_back(std::move(block));
    return {};
  }

  std::vector<Block> blocks_;
  bool remembered_ = false;
  std::unique_ptr<Call> call_ = std::make_unique<Call>();
};

}  // namespace

Result<CallArgument> describe_argument(const DeviceArgument& argument) {
  CallArgument call;
  call.dtype = abi_dtype(argument.dtype);
  if (argument.scalar) {
    const bool is_bool = argument.dtype == problem::Dtype::boolean;
    call.kind = problem::is_float(argument.dtype) ? CallArgument::Kind::floating
                : is_bool                         ? CallArgument::Kind::boolean
                                                  : CallArgument::Kind::integer;
    call.integer = argument.integer;
    call.floating = argument.floating;
    return call;
  }
  if (argument.shape.size() > kMaxDimensions) {
    return input_error("tensor '{}' has {} dimensions, at most {} are supported", argument.name, argument.shape.size(),
                       kMaxDimensions);
  }
  call.kind = CallArgument::Kind::tensor;
  call.dimensions = static_cast<std::int32_t>(argument.shape.size());
  std::copy(argument.shape.begin(), argument.shape.end(), call.shape);
  return call;
}

Result<DeviceObservation> run_on_device(const std::filesystem::path& library, const std::filesystem::path& ffi_runtime,
                                        const std::vector<DeviceArgument>& arguments, const DeviceRunOptions& options) {
  const auto started = Clock::now();
  DeviceObservation observation;
  const auto output = std::make_shared<cuda_shim::DeviceOutput>();
  emulator::DeviceOptions device_options;
  device_options.threads = options.threads;
  device_options.completion = options.completion;
  device_options.exact_tensor_cores = options.exact_tensor_cores;
  device_options.seed = options.seed;
  if (options.instruction_budget != 0) device_options.instruction_budget = options.instruction_budget;
  device_options.print = [output](std::string_view text) { output->append(text); };
  std::unique_ptr<emulator::Device> made;
  if (options.device == nullptr) {
    auto device = emulator::Device::create(std::move(device_options));
    if (!device) return tl::unexpected<Error>(device.error());
    made = std::move(*device);
  }
  emulator::Device& gpu = made != nullptr ? *made : *options.device;
  auto tensors = DeviceTensors::create(gpu, arguments);
  if (!tensors) return tl::unexpected<Error>(tensors.error());

  std::uint64_t launch_number = 0;
  std::mutex launches_mutex;
  LaunchSummary shape;  // by the launch that runs: there is one at a time
  const auto adjust = [&](emulator::LaunchRequest& request) {
    const std::uint64_t number = launch_number++;
    const auto attributes = gpu.attributes(request.function);
    {
      const std::lock_guard lock(launches_mutex);
      shape = {};
      std::copy_n(request.grid, 3, shape.grid.begin());
      std::copy_n(request.block, 3, shape.block.begin());
      for (std::size_t d = 0; d < 3; ++d) {
        const std::uint32_t own = attributes ? attributes->required_cluster[d] : 0;
        shape.cluster[d] = request.cluster[d] != 0 ? request.cluster[d] : std::max(1U, own);
      }
      shape.dynamic_shared_bytes = request.dynamic_shared_bytes;
    }
    if (!options.sample_clusters || (options.sample_launch && *options.sample_launch != number) || !attributes) return;
    std::uint32_t clusters[3];
    for (int d = 0; d < 3; ++d) {
      const std::uint32_t own = attributes->required_cluster[d], asked = request.cluster[d];
      const std::uint32_t size = asked != 0 ? asked : std::max(1u, own);
      clusters[d] = std::max(1u, request.grid[d] / size);
    }
    std::vector<std::uint32_t> chosen =
        choose_clusters(clusters, *options.sample_clusters, options.sample_seed + number);
    const std::uint64_t all = std::uint64_t{clusters[0]} * clusters[1] * clusters[2];
    for (const std::uint32_t also : options.also_clusters) {
      if (also < all && std::find(chosen.begin(), chosen.end(), also) == chosen.end()) chosen.push_back(also);
    }
    std::sort(chosen.begin(), chosen.end());
    if (chosen.size() >= all) return;
    request.sample = std::move(chosen);
    ++observation.launches_cut;
    if (options.sample_launch && number > 0) tensors->remember_outputs();
  };
  cuda_shim::GuardedBackend::Limits limits;
  // A solution of several kernels may use the budget more than once, but not for ever.
  if (options.instruction_budget != 0) limits.instructions = options.instruction_budget * 4;
  cuda_shim::GuardedBackend backend(cuda_shim::make_emulator_backend(gpu), tensors->ranges(), adjust, limits);

  auto own_code = cuda_shim::ptx_digests(library);
  if (!own_code) return tl::unexpected<Error>(own_code.error());
  backend.allow_ptx(std::move(*own_code));

  cuda_shim::ShimOptions shim_options;
  shim_options.on_launch = [&](const emulator::LaunchReport& report) {
    const std::lock_guard lock(launches_mutex);
    observation.census.add(report);
    observation.kernel_seconds += report.seconds;
    constexpr std::size_t kMaxLaunches = 256;
    if (observation.launches.size() < kMaxLaunches) {
      LaunchSummary& launch = observation.launches.emplace_back();
      launch = {report.kernel, report.clusters_run, report.clusters_total, report.warp_instructions, report.seconds};
      launch.grid = shape.grid;
      launch.block = shape.block;
      launch.cluster = shape.cluster;
      launch.dynamic_shared_bytes = shape.dynamic_shared_bytes;
    }
    if (options.on_launch) options.on_launch(report.kernel);
    if (options.on_report) options.on_report(report);
  };
  shim_options.expects_client = true;
  auto server = cuda_shim::ShimServer::start(backend, output, std::move(shim_options));
  if (!server) return tl::unexpected<Error>(server.error());

  HostCall call;
  call.library = library;
  call.ffi_runtime = ffi_runtime;
  call.socket = (*server)->socket_path();
  call.call = &tensors->call();
  call.limits = options.limits;
  call.on_started = [&](pid_t process) { (*server)->expect(process); };
  call.cancel = options.cancel;
  call.idle = [&]() -> std::optional<std::chrono::milliseconds> {
    Clock::time_point since;
    if (!backend.idle_since(since)) return std::nullopt;
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - since);
  };
  auto host = run_candidate(call);
  const bool finish = host && !host->cancelled && !host->idle_timeout;
  observation.shim = (*server)->stop(finish);
  server->reset();
  if (!host) return tl::unexpected<Error>(host.error());
  observation.host = std::move(*host);
  observation.backend = backend.observed();
  if (observation.host.finished()) tensors->check_defined(gpu);
  tensors->collect(observation);
  observation.seconds = seconds_since(started);
  return observation;
}

}  // namespace ptxbench::evaluation
