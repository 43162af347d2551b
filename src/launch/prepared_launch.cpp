#include "launch/prepared_launch.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "emulator/tensor/tensor_map.h"
#include "ptx/module.h"

namespace ptxbench::launch {
namespace {

template <class T>
std::vector<std::byte> bytes_of_value(const T& value, size_t count = sizeof(T)) {
  std::vector<std::byte> bytes(count);
  std::memcpy(bytes.data(), &value, count);
  return bytes;
}

std::vector<std::byte> contents(const Argument& argument, const Fill& fill, uint32_t index) {
  const size_t rank = argument.shape.size();
  const uint64_t columns = rank > 0 ? argument.shape[rank - 1] : 1;
  const uint64_t rows = rank > 1 ? argument.shape[rank - 2] : 1;
  return filled(argument.type, fill, argument.elements(), rows, columns, index);
}

/// Sizes and strides come from the description: their products may exceed 64 bits.
uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<uint64_t>::max() : product;
}
uint64_t saturating_add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<uint64_t>::max() : sum;
}

std::string kind_name(const Argument& argument) {
  switch (argument.kind) {
    case ArgumentKind::memory:
      return "an address (8 bytes)";
    case ArgumentKind::tensor_map:
      return argument.map.in_memory ? "a tensor map's address (8 bytes)" : "a tensor map by value (128 bytes)";
    case ArgumentKind::scalar:
      return fmt::format("a {} ({} bytes)", to_string(argument.type), bytes_of(argument.type));
  }
  return {};
}

}  // namespace

std::string OutputMismatch::text() const {
  return fmt::format("argument '{}': {} of {} elements are wrong, the first at index {}: expected {}, got {}", argument,
                     wrong, elements, first_wrong, expected, got);
}

template <class... Args>
tl::unexpected<Error> PreparedLaunch::error(uint32_t line, fmt::format_string<Args...> format, Args&&... args) const {
  return input_error("{}:{}: {}", description_.name, line, fmt::format(format, std::forward<Args>(args)...));
}

PreparedLaunch::PreparedLaunch(emulator::Device& device, LaunchDescription description)
    : device_(&device), description_(std::move(description)) {}

PreparedLaunch::PreparedLaunch(PreparedLaunch&& other) noexcept
    : device_(other.device_),
      description_(std::move(other.description_)),
      request_(std::move(other.request_)),
      ranges_(std::move(other.ranges_)),
      owned_(std::exchange(other.owned_, {})),
      parameters_(std::move(other.parameters_)) {}

PreparedLaunch::~PreparedLaunch() {
  for (const uint64_t address : owned_) static_cast<void>(device_->memory().free(address));
}

Result<PreparedLaunch> PreparedLaunch::create(emulator::Device& device, emulator::ModuleId module,
                                              const LaunchDescription& description) {
  PreparedLaunch prepared(device, description);
  // The kernel first: a wrong parameter list should not cost gigabytes of allocations.
  auto done = prepared.find_kernel(module)
                  .and_then([&] { return prepared.allocate(); })
                  .and_then([&] { return prepared.encode_maps(); })
                  .and_then([&] { return prepared.lay_out(); });
  if (!done) return tl::unexpected(done.error());
  return prepared;
}

Result<void> PreparedLaunch::find_kernel(emulator::ModuleId module_id) {
  const auto module = device_->module(module_id);
  if (module == nullptr) return error(description_.kernel_line, "there is no loaded module {}", module_id);
  std::vector<std::string> entries;
  for (const ptx::Function& function : module->functions) {
    if (function.is_entry && function.has_body) entries.push_back(function.name);
  }
  std::string name = description_.kernel;
  if (entries.empty()) {
    return error(description_.kernel_line, "the module has no kernel (.entry); describe one that has");
  }
  if (name.empty()) {
    if (entries.size() != 1) {
      return error(description_.kernel_line, "the module has {} kernels; say which with kernel = \"NAME\": {}",
                   entries.size(), fmt::join(entries, ", "));
    }
    name = entries.front();
  }
  if (std::find(entries.begin(), entries.end(), name) == entries.end()) {
    return error(description_.kernel_line, "the module has no kernel '{}'{}; it has {}", name,
                 base::did_you_mean(name, entries), fmt::join(entries, ", "));
  }
  auto found = device_->find_kernel(module_id, name);
  if (!found) return tl::unexpected(found.error());
  auto attributes = device_->attributes(*found);
  if (!attributes) return tl::unexpected(attributes.error());
  const auto& sizes = attributes->parameter_sizes;
  const auto& arguments = description_.arguments;
  if (sizes.size() != arguments.size()) {
    return error(arguments.empty() ? description_.kernel_line : arguments.back().line,
                 "kernel '{}' has {} parameters (of {} bytes), the description {} arguments; give one [[argument]] per "
                 "parameter, in order",
                 name, sizes.size(), fmt::join(sizes, ", "), arguments.size());
  }
  const ptx::Function& function = *module->find_function(name);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const Argument& argument = arguments[i];
    uint64_t bytes = 8;
    if (argument.kind == ArgumentKind::scalar) bytes = bytes_of(argument.type);
    if (argument.kind == ArgumentKind::tensor_map && !argument.map.in_memory) bytes = emulator::kTensorMapBytes;
    if (bytes == sizes[i]) continue;
    return error(argument.line, "argument '{}' is {}, but parameter {} of kernel '{}' ({}) has {} bytes; {}",
                 argument.name, kind_name(argument), i, name, function.variables[function.parameters[i]].name, sizes[i],
                 sizes[i] == emulator::kTensorMapBytes ? "pass a tensor map there" : "change the type or the order");
  }
  request_.function = *found;
  std::copy_n(description_.grid, 3, request_.grid);
  std::copy_n(description_.block, 3, request_.block);
  std::copy_n(description_.cluster, 3, request_.cluster);
  request_.dynamic_shared_bytes = description_.dynamic_shared_bytes;
  // Opting in to more than 48 KiB and to clusters of sixteen is host code, of which there is none here.
  request_.max_dynamic_shared_bytes =
      emulator::DeviceLimits::kSharedPerBlockOptIn -
      std::min(attributes->static_shared_bytes, emulator::DeviceLimits::kSharedPerBlockOptIn);
  request_.non_portable_cluster = true;
  request_.parameters.resize(attributes->parameter_bytes);
  parameters_.resize(arguments.size());
  return {};
}

Result<void> PreparedLaunch::allocate() {
  std::vector<uint64_t> freed;
  const auto& all = description_.arguments;
  if (std::any_of(all.begin(), all.end(), [](const Argument& argument) { return argument.freed; })) {
    // A launch allocates its parameters and takes the first hole that fits; this one lies before the stale memory,
    // which thus stays free.
    constexpr uint64_t hole_bytes = 64 * 1024;
    auto hole = device_->memory().allocate(hole_bytes, emulator::AllocationKind::device, "");
    if (!hole) return tl::unexpected(hole.error());
    freed.push_back(*hole);
  }
  for (size_t i = 0; i < description_.arguments.size(); ++i) {
    const Argument& argument = description_.arguments[i];
    if (argument.kind != ArgumentKind::memory) continue;
    auto address =
        device_->memory().allocate(argument.bytes(), emulator::AllocationKind::device, std::string(argument.name));
    if (!address) return tl::unexpected(address.error());
    ranges_.push_back({argument.name, *address, argument.bytes()});
    (argument.freed ? freed : owned_).push_back(*address);
    auto written = device_->write(*address, contents(argument, argument.fill, static_cast<uint32_t>(i)));
    if (!written) return written;
    // Poison stands for whatever the memory held before.
    if (argument.fill.kind == Fill::Kind::poison) device_->note_undefined(*address, argument.bytes());
    parameters_[i].bytes = bytes_of_value(*address);
  }
  // Last, so that no later argument gets the same addresses.
  for (const uint64_t address : freed) {
    if (auto done = device_->memory().free(address); !done) return done;
  }
  return {};
}

const NamedRange* PreparedLaunch::range_of(const std::string& name) const {
  for (const NamedRange& range : ranges_) {
    if (range.name == name) return &range;
  }
  return nullptr;
}

Result<void> PreparedLaunch::encode_maps() {
  for (size_t i = 0; i < description_.arguments.size(); ++i) {
    const Argument& argument = description_.arguments[i];
    if (argument.kind != ArgumentKind::tensor_map) continue;
    const TensorMapDescription& map = argument.map;
    const NamedRange& memory = *range_of(map.memory);
    std::vector<uint64_t> strides = map.stride;
    const uint64_t row_bytes = saturating_multiply(map.size[0], bytes_of(argument.type));
    if (strides.empty()) {
      uint64_t packed = row_bytes;
      for (size_t d = 1; d < map.size.size(); ++d) {
        strides.push_back(packed);
        packed = saturating_multiply(packed, map.size[d]);
      }
    }
    uint64_t last_row = 0;
    for (size_t d = 1; d < map.size.size(); ++d)
      last_row = saturating_add(last_row, saturating_multiply(strides[d - 1], map.size[d] - 1));
    if (saturating_add(last_row, row_bytes) > memory.bytes) {
      return error(argument.line,
                   "tensor map '{}' describes more bytes than the {} of argument '{}'; reduce 'size' or 'stride'",
                   argument.name, memory.bytes, memory.name);
    }
    uint32_t swizzle = 0;
    for (uint32_t span = map.swizzle; span >= 32; span /= 2) ++swizzle;
    emulator::TensorMap encoded;
    auto done = emulator::encode_tiled(&encoded, static_cast<uint32_t>(tensor_type(argument.type)),
                                       static_cast<uint32_t>(map.size.size()), memory.address, map.size.data(),
                                       strides.data(), map.box.data(), map.element_stride.data(), map.interleave / 16,
                                       swizzle, 0, map.fill_nan ? 1 : 0);
    if (!done) return error(argument.line, "tensor map '{}': {}", argument.name, done.error().message);
    parameters_[i].bytes = bytes_of_value(encoded);
    if (!map.in_memory) continue;
    auto address = device_->memory().allocate(emulator::kTensorMapBytes, emulator::AllocationKind::device,
                                              std::string(argument.name));
    if (!address) return tl::unexpected(address.error());
    owned_.push_back(*address);
    ranges_.push_back({argument.name, *address, emulator::kTensorMapBytes});
    if (auto written = device_->write(*address, parameters_[i].bytes); !written) return written;
    parameters_[i].bytes = bytes_of_value(*address);
  }
  return {};
}

Result<void> PreparedLaunch::lay_out() {
  auto attributes = device_->attributes(request_.function);
  if (!attributes) return tl::unexpected(attributes.error());
  for (size_t i = 0; i < description_.arguments.size(); ++i) {
    const Argument& argument = description_.arguments[i];
    if (argument.kind == ArgumentKind::scalar)
      parameters_[i].bytes = bytes_of_value(argument.scalar_bits, bytes_of(argument.type));
    std::copy(parameters_[i].bytes.begin(), parameters_[i].bytes.end(),
              request_.parameters.begin() + attributes->parameter_offsets[i]);
  }
  return {};
}

Result<std::vector<OutputMismatch>> PreparedLaunch::check_outputs() const {
  std::vector<OutputMismatch> mismatches;
  for (const Argument& argument : description_.arguments) {
    if (!argument.output || !argument.expect) continue;
    const NamedRange& range = *range_of(argument.name);
    std::vector<std::byte> got(range.bytes);
    if (auto read = device_->read(range.address, got); !read) return tl::unexpected(read.error());
    const auto& arguments = description_.arguments;
    const auto source = argument.expect->argument.empty()
                            ? std::find_if(arguments.begin(), arguments.end(),
                                           [&](const Argument& a) { return a.name == argument.name; })
                            : std::find_if(arguments.begin(), arguments.end(),
                                           [&](const Argument& a) { return a.name == argument.expect->argument; });
    const Fill& fill = argument.expect->argument.empty() ? argument.expect->fill : source->fill;
    const std::vector<std::byte> expected = contents(*source, fill, static_cast<uint32_t>(source - arguments.begin()));
    OutputMismatch mismatch;
    mismatch.argument = argument.name;
    mismatch.elements = argument.elements();
    for (uint64_t i = 0; i < mismatch.elements; ++i) {
      const double want = element(source->type, expected.data(), i);
      const double have = element(argument.type, got.data(), i);
      if (want == have || (std::isnan(want) && std::isnan(have))) continue;
      if (mismatch.wrong++ != 0) continue;
      mismatch.first_wrong = i;
      mismatch.expected = want;
      mismatch.got = have;
    }
    if (mismatch.wrong != 0) mismatches.push_back(std::move(mismatch));
  }
  return mismatches;
}

}  // namespace ptxbench::launch
