#include "gpu/workspace.h"

#include <algorithm>
#include <cstring>

#include "base/files.h"

namespace ptxbench::gpu {
namespace {

/// Nobody's bytes before and behind every tensor. 4 KiB also aligns the tensor as an allocation of its own would be.
constexpr std::uint64_t kGuardBytes = 4096;
constexpr std::uint64_t kGuardWord = 0xc5c5'c5c5'c5c5'c5c5ull;

std::optional<ElementType> element_type(std::string_view dtype) {
  if (dtype == "float32") return ElementType::float32;
  if (dtype == "float16") return ElementType::float16;
  if (dtype == "bfloat16") return ElementType::bfloat16;
  if (dtype == "float8_e4m3fn") return ElementType::float8_e4m3fn;
  if (dtype == "float8_e5m2") return ElementType::float8_e5m2;
  return std::nullopt;
}

unsigned blocks_for(const Device& device, std::uint64_t threads_of_work) {
  const std::uint64_t most = static_cast<std::uint64_t>(device.facts().multiprocessors) * 8;
  return static_cast<unsigned>(std::clamp<std::uint64_t>((threads_of_work + 255) / 256, 1, most));
}

}  // namespace

Result<Kernels> Kernels::load(const Device& device) {
  const auto folder = base::runtime_dir("gpu");
  if (!folder) return tl::unexpected<Error>(folder.error());
  const auto image = base::read_file(*folder / "executor_kernels.fatbin");
  if (!image) return infrastructure_error("the executor's kernels are missing: {}", image.error().message);
  const Driver& cuda = device.driver();
  CUmodule module = nullptr;
  if (auto done = device.check(cuda.cuModuleLoadData(&module, image->data()), "loading the executor's kernels"); !done)
    return tl::unexpected<Error>(done.error());
  Kernels out;
  out.device_ = &device;
  CUresult result = cuda.cuModuleGetFunction(&out.fill_random_, module, "ptxbench_fill_random");
  const auto get = [&](CUfunction& function, const char* name) {
    if (result == CUDA_SUCCESS) result = cuda.cuModuleGetFunction(&function, module, name);
  };
  get(out.count_not_random_, "ptxbench_count_not_random");
  get(out.fill_words_, "ptxbench_fill_words");
  get(out.count_differences_, "ptxbench_count_differences");
  get(out.count_guards_, "ptxbench_count_guards");
  get(out.permute_slices_, "ptxbench_permute_slices");
  get(out.gate_, "ptxbench_gate");
  get(out.stamp_, "ptxbench_stamp");
  if (auto done = device.check(result, "looking up the executor's kernels"); !done)
    return tl::unexpected<Error>(done.error());
  return out;
}

Result<void> Kernels::launch(CUfunction function, unsigned blocks, unsigned threads, void** parameters,
                             const char* what, unsigned rows) const {
  CUlaunchConfig config{};
  config.gridDimX = blocks;
  config.gridDimY = rows;
  config.gridDimZ = config.blockDimY = config.blockDimZ = 1;
  config.blockDimX = threads;
  config.hStream = device_->stream();
  return device_->check(device_->driver().cuLaunchKernelEx(&config, function, parameters, nullptr), what);
}

Result<void> Kernels::fill_random(std::uint64_t out, ElementType type, int distribution, std::uint64_t seed,
                                  std::uint32_t tensor, std::uint64_t count) const {
  void* parameters[] = {&out, &type, &distribution, &seed, &tensor, &count};
  return launch(fill_random_, blocks_for(*device_, (count + 7) / 8), 256, parameters, "making inputs");
}

Result<void> Kernels::count_not_random(std::uint64_t in, ElementType type, int distribution, std::uint64_t seed,
                                       std::uint32_t tensor, std::uint64_t count, std::uint64_t counter) const {
  void* parameters[] = {&in, &type, &distribution, &seed, &tensor, &count, &counter};
  return launch(count_not_random_, blocks_for(*device_, (count + 7) / 8), 256, parameters, "comparing inputs");
}

Result<void> Kernels::fill_words(std::uint64_t out, std::uint64_t word, std::uint64_t count) const {
  if (count == 0) return {};
  void* parameters[] = {&out, &word, &count};
  return launch(fill_words_, blocks_for(*device_, (count + 1) / 2), 256, parameters, "filling memory");
}

Result<void> Kernels::count_differences(std::uint64_t left, std::uint64_t right, std::uint64_t words,
                                        std::uint64_t counter) const {
  void* parameters[] = {&left, &right, &words, &counter};
  return launch(count_differences_, blocks_for(*device_, (words + 1) / 2), 256, parameters, "comparing inputs");
}

Result<void> Kernels::count_guards(std::uint64_t table, std::uint32_t zones, unsigned bytes, unsigned char byte,
                                   std::uint64_t counter) const {
  if (zones == 0) return {};
  unsigned wide = byte;
  void* parameters[] = {&table, &bytes, &wide, &counter};
  return launch(count_guards_, zones, 256, parameters, "looking at guard zones");
}

Result<void> Kernels::permute_slices(std::uint64_t out, std::uint64_t in, std::uint64_t bytes,
                                     const SlicePermutation& permutation, std::uint32_t flip) const {
  constexpr unsigned kMostRows = 4096;
  std::uint64_t words = bytes / 4;
  std::uint32_t slices = permutation.slices, factor = permutation.factor, shift = permutation.shift;
  if (words == 0 || slices == 0) return {};
  void* parameters[] = {&out, &in, &words, &slices, &factor, &shift, &flip};
  const unsigned rows = std::min(slices, kMostRows);
  const unsigned blocks = std::max(1u, blocks_for(*device_, (words * slices + 3) / 4) / rows);
  return launch(permute_slices_, blocks, 256, parameters, "permuting inputs", rows);
}

Result<void> Kernels::gate(std::uint64_t gate, std::uint32_t ticket, std::uint64_t stamp) const {
  void* parameters[] = {&gate, &ticket, &stamp};
  return launch(gate_, 1, 1, parameters, "holding the stream");
}

Result<void> Kernels::stamp(std::uint64_t stamp) const {
  void* parameters[] = {&stamp};
  return launch(stamp_, 1, 1, parameters, "stamping the time");
}

Workspace::~Workspace() {
  for (const std::uint64_t block : blocks_) static_cast<void>(memory_.free(block));
}

Result<void> Workspace::place(const base::Json& arguments, std::size_t sets, std::span<const std::byte> upload,
                              const Contents& given) {
  std::uint64_t largest = 8;
  const auto allocate = [&](std::uint64_t bytes, const std::string& name) -> Result<std::uint64_t> {
    auto block = memory_.allocate(bytes, name, true);
    if (block) blocks_.push_back(*block);
    return block;
  };
  for (const base::Json& one : arguments) {
    WorkArgument argument;
    argument.name = one.at("name").get<std::string>();
    argument.output = one.value("output", false);
    argument.bytes = one.value("bytes", std::uint64_t{0});
    argument.count = one.value("count", std::uint64_t{0});
    argument.poison = one.value("poison", std::uint64_t{0});
    if (one.contains("random")) {
      argument.random = element_type(one.at("dtype").get<std::string>());
      argument.tensor = one["random"].get<std::uint32_t>();
      argument.timed = one.value("timed", 0);
      if (!argument.random) return infrastructure_error("{} cannot be generated on the GPU", argument.name);
    }
    if (one.contains("slices")) {
      argument.slices = one["slices"].get<std::uint32_t>();
      argument.groups = one.at("groups").get<unsigned>();
      argument.renewed = argument.random && one.value("renewed", false);
      argument.signs = one.at("dtype") == "float32" ? 0x8000'0000u : 0x8000'8000u;
      if (argument.slices == 0 || argument.bytes % (std::uint64_t{4} * argument.slices) != 0)
        return infrastructure_error("the slices of {} are no whole words", argument.name);
    }
    if (argument.random && argument.slices != 0) {
      auto base = allocate(std::max<std::uint64_t>(8, argument.bytes), argument.name);
      if (!base) return tl::unexpected<Error>(base.error());
      if (auto done = fill_input(argument, *base, given); !done) return done;
      argument.base = *base;
    }
    if (one.contains("upload")) {
      const auto offset = one["upload"].get<std::uint64_t>();
      if (offset > upload.size() || argument.bytes > upload.size() - offset)
        return infrastructure_error("the contents of {} are incomplete", argument.name);
      auto base = allocate(std::max<std::uint64_t>(8, argument.bytes), argument.name);
      if (!base) return tl::unexpected<Error>(base.error());
      argument.base = *base;
      if (argument.bytes > 0) {
        const CUresult copied =
            device_.driver().cuMemcpyHtoDAsync(*base, upload.data() + offset, argument.bytes, device_.stream());
        if (auto done = device_.check(copied, "uploading inputs"); !done) return done;
      }
    }
    if (!argument.output) largest = std::max(largest, argument.bytes);
    arguments_.push_back(std::move(argument));
  }
  for (std::size_t set = 0; set < sets; ++set) {
    std::vector<std::uint64_t>& addresses = sets_.emplace_back();
    for (const WorkArgument& argument : arguments_) {
      if (argument.bytes == 0) {
        addresses.push_back(0);
        continue;
      }
      auto block = allocate(argument.bytes + 2 * kGuardBytes, argument.name);
      if (!block) return tl::unexpected<Error>(block.error());
      addresses.push_back(*block + kGuardBytes);
    }
  }
  auto scratch = allocate(largest + 8, "");
  if (!scratch) return tl::unexpected<Error>(scratch.error());
  scratch_ = *scratch;
  auto counter = allocate(8, "");
  if (!counter) return tl::unexpected<Error>(counter.error());
  counter_ = *counter;
  auto guards = allocate(std::max<std::uint64_t>(1, 2 * sets * arguments_.size()) * sizeof(std::uint64_t), "");
  if (!guards) return tl::unexpected<Error>(guards.error());
  guards_ = *guards;
  return device_.synchronize("placing the problem's tensors");
}

std::vector<std::uint64_t> Workspace::addresses(std::size_t set, bool outputs) const {
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    if (arguments_[i].output == outputs) out.push_back(address(set, i));
  }
  return out;
}

std::vector<cuda_shim::TensorRange> Workspace::ranges(std::size_t set) const {
  std::vector<cuda_shim::TensorRange> out;
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const WorkArgument& argument = arguments_[i];
    if (argument.bytes > 0) out.push_back({address(set, i), argument.bytes, argument.name, argument.output});
  }
  return out;
}

Result<void> Workspace::fill_input(const WorkArgument& argument, std::uint64_t address,
                                   const Contents& contents) const {
  const bool given = contents.kind == Contents::Kind::given;
  const auto generate = [&](std::uint64_t to) {
    return kernels_.fill_random(to, *argument.random, given ? contents.distribution : argument.timed, contents.seed,
                                argument.tensor, argument.count);
  };
  if (contents.kind == Contents::Kind::permuted && argument.slices != 0) {
    const auto permutation = SlicePermutation::from_seed(contents.seed, argument.slices);
    if (argument.renewed) {
      if (auto made = generate(argument.base); !made) return made;
    }
    return kernels_.permute_slices(address, argument.base, argument.bytes / argument.slices, permutation,
                                   permutation.flipped(argument.groups) ? argument.signs : 0);
  }
  if (argument.random) return generate(address);
  return device_.check(device_.driver().cuMemcpyDtoDAsync(address, argument.base, argument.bytes, device_.stream()),
                       "copying inputs");
}

Result<void> Workspace::count_input(const WorkArgument& argument, std::uint64_t address, const Contents& contents,
                                    std::uint64_t counter) const {
  if (contents.kind == Contents::Kind::permuted && argument.slices != 0) {
    if (auto done = fill_input(argument, scratch_, contents); !done) return done;
    return kernels_.count_differences(address, scratch_, argument.bytes / 8, counter);
  }
  if (argument.random) {
    const int distribution = contents.kind == Contents::Kind::given ? contents.distribution : argument.timed;
    return kernels_.count_not_random(address, *argument.random, distribution, contents.seed, argument.tensor,
                                     argument.count, counter);
  }
  return argument.bytes < 8 ? Result<void>{}
                            : kernels_.count_differences(address, argument.base, argument.bytes / 8, counter);
}

Result<void> Workspace::fill_inputs(std::size_t set, const Contents& contents) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const WorkArgument& argument = arguments_[i];
    if (argument.output || argument.bytes == 0) continue;
    if (auto done = fill_input(argument, address(set, i), contents); !done) return done;
  }
  return {};
}

Result<void> Workspace::poison_outputs(std::size_t set) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const WorkArgument& argument = arguments_[i];
    if (!argument.output || argument.bytes == 0) continue;
    const std::uint64_t words = argument.bytes / 8, rest = argument.bytes % 8;
    if (auto done = kernels_.fill_words(address(set, i), argument.poison, words); !done) return done;
    if (rest == 0) continue;
    const auto copied =
        device_.driver().cuMemcpyHtoDAsync(address(set, i) + words * 8, &argument.poison, rest, device_.stream());
    if (auto done = device_.check(copied, "poisoning outputs"); !done) return done;
  }
  return {};
}

Result<void> Workspace::fill_guards() {
  const Driver& cuda = device_.driver();
  std::vector<std::uint64_t> zones;
  for (std::size_t at = 0; at < sets_.size() * arguments_.size(); ++at) {
    const std::size_t set = at / arguments_.size(), i = at % arguments_.size();
    const std::uint64_t bytes = arguments_[i].bytes;
    if (bytes == 0) continue;
    const auto guard = static_cast<unsigned char>(kGuardWord);
    CUresult result = cuda.cuMemsetD8Async(address(set, i) - kGuardBytes, guard, kGuardBytes, device_.stream());
    if (result == CUDA_SUCCESS)
      result = cuda.cuMemsetD8Async(address(set, i) + bytes, guard, kGuardBytes, device_.stream());
    if (auto done = device_.check(result, "filling guard zones"); !done) return done;
    zones.push_back(address(set, i) - kGuardBytes);
    zones.push_back(address(set, i) + bytes);
  }
  guard_count_ = static_cast<std::uint32_t>(zones.size());
  if (zones.empty()) return {};
  const auto told =
      cuda.cuMemcpyHtoDAsync(guards_, zones.data(), zones.size() * sizeof(std::uint64_t), device_.stream());
  return device_.check(told, "the places of guard zones");
}

Result<void> Workspace::count_overrun(std::uint64_t counter) const {
  return kernels_.count_guards(guards_, guard_count_, kGuardBytes, static_cast<unsigned char>(kGuardWord), counter);
}

Result<void> Workspace::count_changed(std::size_t set, const Contents& contents, std::uint64_t counter) const {
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const WorkArgument& argument = arguments_[i];
    if (argument.output || argument.bytes == 0) continue;
    if (auto done = count_input(argument, address(set, i), contents, counter); !done) return done;
  }
  return {};
}

Result<std::vector<std::string>> Workspace::changed_inputs(std::size_t set, const Contents& contents) {
  std::vector<std::string> out;
  const Driver& cuda = device_.driver();
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const WorkArgument& argument = arguments_[i];
    if (argument.output || argument.bytes == 0) continue;
    CUresult result = cuda.cuMemsetD8Async(counter_, 0, 8, device_.stream());
    if (auto done = device_.check(result, "comparing inputs"); !done) return tl::unexpected<Error>(done.error());
    if (auto done = count_input(argument, address(set, i), contents, counter_); !done)
      return tl::unexpected<Error>(done.error());
    std::uint64_t differences = 0, tails[2]{};
    const std::uint64_t rest = argument.random ? 0 : argument.bytes % 8, whole = argument.bytes - rest;
    result = cuda.cuMemcpyDtoHAsync(&differences, counter_, 8, device_.stream());
    if (rest != 0) {
      if (result == CUDA_SUCCESS)
        result = cuda.cuMemcpyDtoHAsync(&tails[0], address(set, i) + whole, rest, device_.stream());
      if (result == CUDA_SUCCESS)
        result = cuda.cuMemcpyDtoHAsync(&tails[1], argument.base + whole, rest, device_.stream());
    }
    if (auto done = device_.check(result, "comparing inputs"); !done) return tl::unexpected<Error>(done.error());
    if (auto done = device_.synchronize("comparing inputs"); !done) return tl::unexpected<Error>(done.error());
    if (differences != 0 || tails[0] != tails[1]) out.push_back(argument.name);
  }
  return out;
}

Result<std::vector<std::string>> Workspace::overrun(std::size_t set) const {
  std::vector<std::string> out;
  std::vector<std::byte> guards(2 * kGuardBytes);
  for (std::size_t i = 0; i < arguments_.size(); ++i) {
    const WorkArgument& argument = arguments_[i];
    if (argument.bytes == 0) continue;
    const Driver& cuda = device_.driver();
    CUresult result =
        cuda.cuMemcpyDtoHAsync(guards.data(), address(set, i) - kGuardBytes, kGuardBytes, device_.stream());
    if (result == CUDA_SUCCESS) {
      result = cuda.cuMemcpyDtoHAsync(guards.data() + kGuardBytes, address(set, i) + argument.bytes, kGuardBytes,
                                      device_.stream());
    }
    if (auto done = device_.check(result, "reading guard zones"); !done) return tl::unexpected<Error>(done.error());
    if (auto done = device_.synchronize("reading guard zones"); !done) return tl::unexpected<Error>(done.error());
    const auto guard = static_cast<std::byte>(kGuardWord & 0xff);
    if (!std::all_of(guards.begin(), guards.end(), [&](std::byte byte) { return byte == guard; }))
      out.push_back(argument.name);
  }
  return out;
}

}  // namespace ptxbench::gpu
