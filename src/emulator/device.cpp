#include "emulator/device.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "emulator/definedness.h"
#include "emulator/isa/system.h"
#include "emulator/launch.h"
#include "emulator/launch_watch.h"
#include "emulator/loader.h"
#include "ptx/parser.h"
#include "ptx/printer.h"

namespace ptxbench::emulator {

namespace {

constexpr uint32_t kStackBytes = 8192;  ///< per thread, for activations of recursive functions
constexpr uint32_t kMaxLocalPerThread = 1u << 20;

uint32_t estimate_registers(const ptx::Function& function) {
  // PTX has virtual registers; ptxas decides. Launch bounds cap the number, and without them 32-bit pressure is guessed
  // from the declared registers. Only occupancy queries depend on it.
  if (function.maxnreg != 0) return function.maxnreg;
  // The directives may hold any number, and a block has at most 1024 threads.
  uint64_t threads = 1;
  for (const uint32_t extent : function.maxntid)
    threads = std::min<uint64_t>(1024, threads * std::min(1024u, std::max(1u, extent)));
  if (function.maxntid[0] == 0) threads = 0;
  const uint64_t per_sm = std::max(1u, function.minnctapersm);
  uint32_t cap = 255;
  if (threads != 0) {
    const uint64_t each = DeviceLimits::kRegistersPerSm / ((threads + 31) / 32 * 32 * per_sm) / 8 * 8;
    cap = static_cast<uint32_t>(std::clamp<uint64_t>(each, 24, 255));
  }
  uint32_t declared = 0;
  for (const auto& reg : function.registers) declared += std::max(1u, type_bits(reg.type) / 32);
  if (threads != 0 && function.minnctapersm != 0) return cap;
  return std::clamp(declared / 4, 24u, cap);
}

/// "ex2.approx.ftz.f32"
std::string full_name(const ptx::Instruction& instruction) {
  std::string name(ptx::opcode_text(instruction.op));
  for (ptx::Mod mod : instruction.mods) {
    name += '.';
    name += ptx::modifier_text(mod);
  }
  return name;
}

/// What a launch was refused for, with the runtime's error code.
tl::unexpected<LaunchError> refuse(int cuda_error, std::string message, const char* rule = "launch.refused") {
  return tl::unexpected<LaunchError>(LaunchError{cuda_error, std::move(message), rule});
}

}  // namespace

class Device::State {
 public:
  DeviceOptions options;
  std::unique_ptr<AddressSpace> memory;
  std::unique_ptr<Definedness> definedness;  ///< null unless options ask for it
  mutable std::mutex mutex;                  // programs_
  std::mutex launch_mutex;
  std::map<ModuleId, std::shared_ptr<Program>> programs;
  /// Unloaded ones, while values that nobody wrote are followed: an output may show at the end what they stored.
  std::map<ModuleId, std::shared_ptr<Program>> unloaded;
  ModuleId next_module = 1;
  uint64_t next_launch = 1;

  std::shared_ptr<Program> program(ModuleId id) const {
    std::lock_guard lock(mutex);
    auto it = programs.find(id);
    return it == programs.end() ? nullptr : it->second;
  }

  static const FunctionCode* function_of(const Program& program, Site site) {
    const FunctionCode* found = nullptr;
    for (const auto& code : program.functions) {
      if (code != nullptr && code->site_base <= site.instruction) found = code.get();
    }
    return found;
  }

  static CodePlace describe(const Program& program, Site site) {
    CodePlace place;
    const FunctionCode* found = function_of(program, site);
    if (found == nullptr) return place;
    place.kernel = found->source->name;
    const uint32_t index = site.instruction - found->site_base;
    if (index >= found->source->instructions.size()) {
      place.instruction = "(end of function)";
      return place;
    }
    const ptx::Instruction& instruction = found->source->instructions[index];
    place.file = program.module->file_path(instruction.file);
    place.line = instruction.line;
    // A chain longer than this says nothing more; the bound also guards against a module that ties it into a ring.
    constexpr size_t kMaxDepth = 8;
    uint32_t call_site = instruction.inlined_at;
    while (call_site != ptx::kNone && place.called_from.size() < kMaxDepth) {
      const ptx::CallSite& call = found->source->call_sites[call_site];
      place.called_from.emplace_back(program.module->file_path(call.file), call.line);
      call_site = call.parent;
    }
    place.ptx_line = instruction.position.line;
    place.instruction = ptx::print_instruction(*program.module, *found->source, instruction);
    return place;
  }
};

Device::Device(std::unique_ptr<State> state) : state_(std::move(state)) {}
Device::~Device() = default;

Result<std::unique_ptr<Device>> Device::create(DeviceOptions options) {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return infrastructure_error("this processor lacks AVX2 or FMA, which the emulator needs (x86-64-v3)");
  }
  if (options.threads == 0) options.threads = std::max(1u, std::thread::hardware_concurrency());
  auto memory = AddressSpace::create(options.memory_bytes);
  if (!memory) return tl::unexpected(memory.error());
  auto state = std::make_unique<State>();
  if (!options.print) {
    options.print = [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); };
  }
  state->options = std::move(options);
  state->memory = std::move(*memory);
  if (state->options.observer == nullptr) state->options.definedness = DefinednessMode::off;
  if (state->options.definedness != DefinednessMode::off) {
    auto definedness = Definedness::create(state->options.definedness, *state->memory, state->options.observer);
    if (!definedness) return tl::unexpected(definedness.error());
    state->definedness = std::move(*definedness);
    state->memory->on_allocate(
        [raw = state->definedness.get()](uint64_t address, uint64_t bytes) { raw->allocated(address, bytes); });
  }
  return std::unique_ptr<Device>(new Device(std::move(state)));
}

AddressSpace& Device::memory() { return *state_->memory; }
const DeviceOptions& Device::options() const { return state_->options; }

Result<ModuleId> Device::load_ptx(std::string_view text, std::string name) {
  auto module = ptx::parse_module(text, name);
  if (!module) return tl::unexpected(module.error());
  return load_module(std::make_shared<const ptx::Module>(std::move(*module)), std::move(name));
}

Result<ModuleId> Device::load_module(std::shared_ptr<const ptx::Module> module, std::string name) {
  ModuleId id = 0;
  {
    std::lock_guard lock(state_->mutex);
    id = state_->next_module++;
  }
  auto program = load_program(std::move(module), std::move(name), id, *state_->memory, state_->options);
  if (!program) return tl::unexpected(program.error());
  std::lock_guard lock(state_->mutex);
  state_->programs[id] = std::move(*program);
  return id;
}

Result<void> Device::unload(ModuleId module) {
  auto program = state_->program(module);
  if (program == nullptr) return input_error("module {} is not loaded", module);
  for (uint64_t address : program->allocations) (void)state_->memory->free(address);
  std::lock_guard lock(state_->mutex);
  state_->programs.erase(module);
  if (state_->definedness != nullptr && state_->definedness->tracking()) state_->unloaded[module] = std::move(program);
  return {};
}

std::shared_ptr<const ptx::Module> Device::module(ModuleId module) const {
  auto program = state_->program(module);
  return program == nullptr ? nullptr : program->module;
}

Result<FunctionId> Device::find_kernel(ModuleId module, std::string_view name) const {
  auto program = state_->program(module);
  if (program == nullptr) return input_error("module {} is not loaded", module);
  const auto& functions = program->module->functions;
  for (uint32_t f = 0; f < functions.size(); ++f) {
    if (functions[f].name == name && functions[f].is_entry && functions[f].has_body) return FunctionId{module, f};
  }
  return input_error("{}: no kernel named {} in this module", program->name, name);
}

Result<FunctionAttributes> Device::attributes(FunctionId function) const {
  auto program = state_->program(function.module);
  if (program == nullptr || function.function >= program->functions.size() ||
      program->functions[function.function] == nullptr) {
    return input_error("no such kernel");
  }
  const FunctionCode& code = *program->functions[function.function];
  const ptx::Function& source = *code.source;
  FunctionAttributes a;
  a.static_shared_bytes = layout_shared(*program, function.function).static_bytes;
  a.local_bytes = code.local_bytes;
  for (const auto& variable : program->module->variables) {
    if (variable.space == ptx::StateSpace::const_) a.constant_bytes += static_cast<uint32_t>(variable.size);
  }
  a.registers = estimate_registers(source);
  auto product = [](const uint32_t* d) { return d[0] * std::max(1u, d[1]) * std::max(1u, d[2]); };
  if (source.reqntid[0] != 0) {
    a.max_threads_per_block = product(source.reqntid);
  } else if (source.maxntid[0] != 0) {
    a.max_threads_per_block = product(source.maxntid);
  }
  a.parameter_bytes = code.parameter_bytes;
  for (size_t p = 0; p < code.parameter_offset.size(); ++p) {
    a.parameter_offsets.push_back(static_cast<uint32_t>(code.parameter_offset[p]));
    a.parameter_sizes.push_back(static_cast<uint32_t>(source.variables[source.parameters[p]].size));
  }
  std::copy(source.reqnctapercluster, source.reqnctapercluster + 3, a.required_cluster);
  a.explicit_cluster = source.explicit_cluster;
  return a;
}

Result<Device::Symbol> Device::find_symbol(ModuleId module, std::string_view name) const {
  auto program = state_->program(module);
  if (program == nullptr) return input_error("module {} is not loaded", module);
  const auto& variables = program->module->variables;
  for (size_t v = 0; v < variables.size(); ++v) {
    if (variables[v].name == name && variables[v].space != ptx::StateSpace::shared) {
      return Symbol{program->variable_address[v], variables[v].size};
    }
  }
  return input_error("{}: no variable named {} in this module", program->name, name);
}

Result<uint32_t> Device::occupancy(FunctionId function, uint32_t block_threads, uint32_t dynamic_shared_bytes) const {
  auto a = attributes(function);
  if (!a) return tl::unexpected(a.error());
  if (block_threads == 0 || block_threads > DeviceLimits::kMaxThreadsPerBlock) return 0u;
  const uint32_t warps = (block_threads + 31) / 32;
  const uint32_t shared = (a->static_shared_bytes + dynamic_shared_bytes + kReservedSharedBytes + 127) / 128 * 128;
  const uint32_t registers = std::max(1u, (a->registers + 7) / 8 * 8 * 32 * warps);
  return std::min({DeviceLimits::kMaxBlocksPerSm, DeviceLimits::kMaxThreadsPerSm / (warps * 32),
                   DeviceLimits::kRegistersPerSm / registers, DeviceLimits::kSharedPerSm / std::max(1u, shared)});
}

tl::expected<LaunchReport, LaunchError> Device::launch(const LaunchRequest& request) {
  constexpr int kInvalidValue = 1, kInvalidConfiguration = 9, kInvalidFunction = 98, kOutOfResources = 701,
                kInvalidClusterSize = 912;
  auto program = state_->program(request.function.module);
  if (program == nullptr || request.function.function >= program->functions.size() ||
      program->functions[request.function.function] == nullptr) {
    return refuse(kInvalidFunction, "launch of a kernel that is not loaded");
  }
  const FunctionCode& code = *program->functions[request.function.function];
  const ptx::Function& source = *code.source;
  const uint32_t* grid = request.grid;
  const uint32_t* block = request.block;
  if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0 || grid[0] > DeviceLimits::kMaxGridX ||
      grid[1] > DeviceLimits::kMaxGridYZ || grid[2] > DeviceLimits::kMaxGridYZ) {
    return refuse(kInvalidConfiguration,
                  fmt::format("grid ({},{},{}) of {}: each dimension must be at least 1 and at most "
                              "2147483647, 65535, 65535",
                              grid[0], grid[1], grid[2], source.name),
                  "launch.grid");
  }
  const uint64_t threads = uint64_t{block[0]} * block[1] * block[2];
  if (threads == 0 || threads > DeviceLimits::kMaxThreadsPerBlock || block[0] > 1024 || block[1] > 1024 ||
      block[2] > 64) {
    return refuse(kInvalidConfiguration,
                  fmt::format("block ({},{},{}) of {}: needs 1 to 1024 threads, z at most 64", block[0], block[1],
                              block[2], source.name),
                  "launch.threads");
  }
  auto attributes_of = attributes(request.function);
  const FunctionAttributes& a = *attributes_of;
  if (source.reqntid[0] != 0 && (block[0] != source.reqntid[0] || block[1] != std::max(1u, source.reqntid[1]) ||
                                 block[2] != std::max(1u, source.reqntid[2]))) {
    return refuse(kInvalidValue,
                  fmt::format("{} requires a block of ({},{},{}) threads (.reqntid)", source.name, source.reqntid[0],
                              source.reqntid[1], source.reqntid[2]),
                  "launch.threads");
  }
  if (threads > a.max_threads_per_block) {
    return refuse(kOutOfResources,
                  fmt::format("{} was compiled for at most {} threads per block (launch bounds), {} requested",
                              source.name, a.max_threads_per_block, threads),
                  "launch.threads");
  }
  if (request.dynamic_shared_bytes > request.max_dynamic_shared_bytes) {
    return refuse(kInvalidValue,
                  fmt::format("{} asks for {} bytes of dynamic shared memory, {} are allowed: opt in with "
                              "cudaFuncSetAttribute(cudaFuncAttributeMaxDynamicSharedMemorySize)",
                              source.name, request.dynamic_shared_bytes, request.max_dynamic_shared_bytes),
                  "launch.shared-memory");
  }
  const uint64_t shared_of_block = uint64_t{a.static_shared_bytes} + request.dynamic_shared_bytes;
  if (shared_of_block > DeviceLimits::kSharedPerBlockOptIn) {
    return refuse(kInvalidValue,
                  fmt::format("{} needs {} bytes of shared memory, a block has at most {}", source.name,
                              shared_of_block, DeviceLimits::kSharedPerBlockOptIn),
                  "launch.shared-memory");
  }
  uint32_t cluster[3] = {1, 1, 1};
  if (a.required_cluster[0] != 0) {
    for (int i = 0; i < 3; ++i) cluster[i] = std::max(1u, a.required_cluster[i]);
    if (request.cluster[0] != 0 && !std::equal(cluster, cluster + 3, request.cluster)) {
      return refuse(
          kInvalidClusterSize,
          fmt::format("{} requires clusters of ({},{},{}), the launch asks for ({},{},{})", source.name, cluster[0],
                      cluster[1], cluster[2], request.cluster[0], request.cluster[1], request.cluster[2]),
          "launch.cluster-shape");
    }
  } else if (request.cluster[0] != 0) {
    std::copy(request.cluster, request.cluster + 3, cluster);
  }
  const uint64_t cluster_size = uint64_t{cluster[0]} * cluster[1] * cluster[2];
  if (cluster_size == 0 || cluster_size > DeviceLimits::kMaxCluster ||
      (cluster_size > DeviceLimits::kMaxPortableCluster && !request.non_portable_cluster)) {
    return refuse(kInvalidClusterSize,
                  fmt::format("cluster of {} CTAs: at most 8 are portable, 16 with "
                              "cudaFuncAttributeNonPortableClusterSizeAllowed",
                              cluster_size),
                  "launch.cluster-size");
  }
  for (int i = 0; i < 3; ++i) {
    if (grid[i] % cluster[i] != 0) {
      return refuse(kInvalidConfiguration,
                    fmt::format("grid ({},{},{}) is not a multiple of the cluster ({},{},{})", grid[0], grid[1],
                                grid[2], cluster[0], cluster[1], cluster[2]),
                    "launch.cluster-shape");
    }
  }
  if (request.parameters.size() < code.parameter_bytes) {
    return refuse(kInvalidValue, fmt::format("{} takes {} bytes of parameters, {} were given", source.name,
                                             code.parameter_bytes, request.parameters.size()));
  }
  const auto occupancy_of = occupancy(request.function, static_cast<uint32_t>(threads), request.dynamic_shared_bytes);
  if (*occupancy_of == 0)
    return refuse(kOutOfResources, fmt::format("{}: no block of this shape fits on an SM", source.name),
                  "launch.resources");

  std::lock_guard running(state_->launch_mutex);
  const auto started = std::chrono::steady_clock::now();
  Launch launch;
  launch.program = program.get();
  launch.kernel = &code;
  launch.request = &request;
  launch.memory = state_->memory.get();
  launch.device = state_.get();
  launch.observer = state_->options.observer;
  launch.definedness = state_->definedness.get();
  launch.id = state_->next_launch++;
  auto parameters = state_->memory->allocate(std::max<uint64_t>(code.parameter_bytes, 1), AllocationKind::parameters,
                                             "kernel parameters");
  if (!parameters) return refuse(2, parameters.error().message);
  launch.parameters = *parameters;
  // Not memcpy: a kernel without parameters has no address to copy from.
  std::copy_n(request.parameters.data(), code.parameter_bytes, host_pointer(*parameters));
  state_->memory->protect(*parameters);
  SharedLayout shared = layout_shared(*program, request.function.function);
  launch.shared_offset = std::move(shared.offset);
  launch.shared_bytes = kReservedSharedBytes + shared.static_bytes + request.dynamic_shared_bytes;
  launch.local_stride = std::max(16u, local_bytes_of(*program, request.function.function, kStackBytes));
  if (launch.local_stride > kMaxLocalPerThread) {
    (void)state_->memory->free(*parameters);
    return refuse(
        2, fmt::format("{} and the functions it calls need {} bytes of local memory per thread, the emulator has {}",
                       source.name, launch.local_stride, kMaxLocalPerThread));
  }
  launch.explicit_cluster = request.cluster[0] != 0 || a.explicit_cluster || a.required_cluster[0] != 0;
  launch.ctas_per_cluster = static_cast<uint32_t>(cluster_size);
  for (int i = 0; i < 3; ++i) {
    launch.cluster_dim[i] = cluster[i];
    launch.grid_clusters[i] = grid[i] / cluster[i];
  }
  const uint64_t clusters = uint64_t{launch.grid_clusters[0]} * launch.grid_clusters[1] * launch.grid_clusters[2];
  if (clusters > 0xffffffffull) {
    (void)state_->memory->free(*parameters);
    return refuse(kInvalidConfiguration, "the emulator runs at most 2^32 clusters a launch");
  }
  launch.clusters = static_cast<uint32_t>(clusters);
  launch.threads_per_cta = static_cast<uint32_t>(threads);
  launch.aligned_warps = block[0] % kLanes == 0 || (block[1] == 1 && block[2] == 1);
  launch.warps_per_cta = (launch.threads_per_cta + kLanes - 1) / kLanes;
  launch.completion = state_->options.completion;
  launch.seed = state_->options.seed;
  launch.instruction_budget = state_->options.instruction_budget;
  launch.print = &state_->options.print;
  launch.registers_per_thread = entry_registers(source);
  launch.describe = [&](Site site) { return State::describe(*program, site); };
  for (uint32_t index : request.sample) {
    if (index >= launch.clusters) {
      (void)state_->memory->free(*parameters);
      return refuse(kInvalidValue, fmt::format("sampled cluster {} of a grid of {}", index, launch.clusters));
    }
  }
  for (const Allocation& block_of : state_->memory->live()) {
    launch.host_can_write = launch.host_can_write || block_of.kind == AllocationKind::host_shared;
  }
  LaunchEvent event;
  event.launch = launch.id;
  event.program = program->id;
  std::copy(grid, grid + 3, event.grid);
  std::copy(block, block + 3, event.block);
  std::copy(cluster, cluster + 3, event.cluster);
  event.shared_bytes = launch.shared_bytes;
  event.stream = request.stream;
  event.parameters = {launch.parameters, code.parameter_bytes};
  event.order = request.order.get();
  if (launch.observer != nullptr) launch.observer->on_launch_begin(event);
  const uint32_t resident =
      std::max<uint32_t>(1, static_cast<uint32_t>(DeviceLimits::kSmCount * *occupancy_of / cluster_size));
  const auto run = [&](unsigned workers, bool proving, const std::vector<uint32_t>& chosen) {
    const std::stop_callback end_early(request.stop, [&launch] { launch.stopped.store(true); });
    return run_clusters(launch, chosen, workers, resident, proving);
  };
  LaunchTotals totals;
  if (launch.definedness != nullptr && launch.definedness->tracking()) {
    // Neither the code of a proof nor several threads follow undefined values; watching for them goes with both.
    totals = run(1, false, request.sample);
  } else if (launch.observer != nullptr && launch.observer->serial()) {
    LaunchWatch watch({launch, *program, request, event, state_->options, launch.definedness}, run);
    std::optional<LaunchTotals> fast = watch.run_fast();
    totals = fast ? std::move(*fast) : run(1, false, request.sample);
  } else {
    totals = run(state_->options.threads, false, request.sample);
  }
  const uint64_t wanted = request.sample.empty() ? launch.clusters : request.sample.size();
  if (request.stop.stop_requested() && !totals.fault && totals.clusters_run < wanted) {
    totals.fault.emplace();
    totals.fault->rule = "launch.cancelled";
    totals.fault->message =
        fmt::format("the launch was ended from outside after {} of {} clusters", totals.clusters_run, wanted);
  }
  if (launch.definedness != nullptr && totals.clusters_run < launch.clusters) launch.definedness->lose_global();
  if (launch.observer != nullptr) launch.observer->on_launch_end(event);
  (void)state_->memory->free(*parameters);

  LaunchReport report;
  report.kernel = source.name;
  report.fault = std::move(totals.fault);
  report.clusters_run = totals.clusters_run;
  report.clusters_total = launch.clusters;
  report.module = program->module;
  report.tensor_core_macs = totals.tensor_core_macs;
  report.legacy_mma_macs = totals.legacy_mma_macs;
  report.asynchronous = totals.asynchronous;
  report.tma_bytes = totals.tma_bytes;
  for (const auto& function : program->functions) {
    if (function == nullptr) continue;
    std::map<uint32_t, uint32_t> guard_of;
    for (const auto& [counter, instruction] : function->guards) guard_of[instruction] = counter;
    for (size_t b = 0; b < function->blocks.size(); ++b) {
      const uint64_t* block_count = &totals.block_counts[(function->counter_base + b) * 2];
      if (block_count[0] == 0) continue;
      for (uint32_t i = function->blocks[b].first; i < function->blocks[b].last; ++i) {
        const uint64_t* count = block_count;
        if (auto it = guard_of.find(i); it != guard_of.end()) count = &totals.guard_counts[size_t{it->second} * 2];
        report.warp_instructions += block_count[0];
        if (count[0] != 0) report.counts.push_back({i, function->index, count[0], count[1]});
        if (count[0] != 0 && std::binary_search(function->approximate.begin(), function->approximate.end(), i)) {
          const ptx::Instruction& instruction = function->source->instructions[i];
          report.approximate.push_back(full_name(instruction));
        }
      }
    }
  }
  std::sort(report.approximate.begin(), report.approximate.end());
  report.approximate.erase(std::unique(report.approximate.begin(), report.approximate.end()), report.approximate.end());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return report;
}

Result<void> Device::write(uint64_t address, std::span<const std::byte> bytes) {
  if (bytes.empty()) return {};
  if (!state_->memory->contains(address, bytes.size())) {
    return input_error("write of {} bytes at {:#x} is outside every live allocation", bytes.size(), address);
  }
  std::memcpy(host_pointer(address), bytes.data(), bytes.size());
  if (state_->definedness != nullptr) state_->definedness->host_wrote(address, bytes.size());
  return {};
}

Result<void> Device::read(uint64_t address, std::span<std::byte> bytes) const {
  if (bytes.empty()) return {};
  if (!state_->memory->contains(address, bytes.size())) {
    return input_error("read of {} bytes at {:#x} is outside every live allocation", bytes.size(), address);
  }
  std::memcpy(bytes.data(), host_pointer(address), bytes.size());
  return {};
}

Result<void> Device::copy(uint64_t destination, uint64_t source, uint64_t bytes) {
  if (bytes == 0) return {};
  if (!state_->memory->contains(destination, bytes) || !state_->memory->contains(source, bytes)) {
    return input_error("copy of {} bytes from {:#x} to {:#x} leaves the live allocations", bytes, source, destination);
  }
  std::memmove(host_pointer(destination), host_pointer(source), bytes);
  if (state_->definedness != nullptr) state_->definedness->host_copied(destination, source, bytes);
  return {};
}

Result<void> Device::fill(uint64_t address, uint32_t value, unsigned value_bytes, uint64_t count) {
  if (count == 0) return {};
  if (count > kGlobalWindowBytes || !state_->memory->contains(address, count * value_bytes)) {
    return input_error("fill of {} x {} bytes at {:#x} is outside every live allocation", count, value_bytes, address);
  }
  std::byte* out = host_pointer(address);
  switch (value_bytes) {
    case 1:
      std::memset(out, static_cast<int>(value & 0xff), count);
      break;
    case 2:
      std::fill_n(reinterpret_cast<uint16_t*>(out), count, static_cast<uint16_t>(value));
      break;
    case 4:
      std::fill_n(reinterpret_cast<uint32_t*>(out), count, value);
      break;
    default:
      return input_error("fill with {}-byte values", value_bytes);
  }
  if (state_->definedness != nullptr) state_->definedness->host_wrote(address, count * value_bytes);
  return {};
}

void Device::note_written(uint64_t address, uint64_t bytes) {
  if (state_->definedness != nullptr) state_->definedness->host_wrote(address, bytes);
}
void Device::note_undefined(uint64_t address, uint64_t bytes) {
  if (state_->definedness != nullptr) state_->definedness->allocated(address, bytes);
}
bool Device::met_undefined() const { return state_->definedness != nullptr && state_->definedness->met(); }
void Device::check_defined(uint64_t address, uint64_t bytes, uint32_t element_bytes) {
  if (state_->definedness == nullptr || !state_->definedness->tracking()) return;
  state_->definedness->check_output(address, bytes, element_bytes);
}
std::set<std::string> Device::definedness_gaps() const {
  return state_->definedness != nullptr ? state_->definedness->gaps() : std::set<std::string>{};
}
void Device::observe(const StreamCopyEvent& event) const {
  if (state_->options.observer == nullptr) return;
  const std::lock_guard running(state_->launch_mutex);
  state_->options.observer->on_stream_copy(event);
}

CodePlace Device::describe(Site site) const {
  auto program = state_->program(site.program);
  if (program == nullptr) {
    std::lock_guard lock(state_->mutex);
    if (const auto found = state_->unloaded.find(site.program); found != state_->unloaded.end())
      program = found->second;
  }
  return program == nullptr ? CodePlace{} : State::describe(*program, site);
}

uint32_t Device::rest_of_block(Site site) const {
  const auto program = state_->program(site.program);
  const FunctionCode* function = program == nullptr ? nullptr : State::function_of(*program, site);
  if (function == nullptr) return 0;
  const uint32_t index = site.instruction - function->site_base;
  const auto after = std::upper_bound(function->blocks.begin(), function->blocks.end(), index,
                                      [](uint32_t at, const BasicBlock& block) { return at < block.last; });
  return after == function->blocks.end() || index < after->first ? 0 : after->last - index;
}

const Inst* Warp::fault(const Inst& inst, std::string rule, std::string message, std::string remedy, uint64_t address,
                        uint32_t lanes) {
  Fault f;
  f.rule = std::move(rule);
  f.message = std::move(message);
  f.remedy = std::move(remedy);
  f.place = cluster->launch->describe(site_of(*this, inst));
  std::copy(cta->id, cta->id + 3, f.cta);
  f.warp = index;
  f.lanes = lanes != 0 ? lanes : mask;
  f.address = address;
  if (!cluster->fault) cluster->fault = std::move(f);
  return leave(Stop::fault, &inst);
}

}  // namespace ptxbench::emulator
