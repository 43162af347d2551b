#include "gpu/device_memory.h"

#include <algorithm>

namespace ptxbench::gpu {
namespace {

constexpr std::uint64_t kBase = emulator::kGlobalWindow;
constexpr std::uint64_t kSpan = emulator::kHostSharedBase - emulator::kGlobalWindow;
constexpr std::uint64_t kAlignment = 512;
constexpr std::uint64_t kSharedChunk = std::uint64_t{64} << 20;
constexpr std::uint64_t kSmall = std::uint64_t{8} << 20;

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

}  // namespace

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::create(const Device& device) {
  std::unique_ptr<DeviceMemory> out(new DeviceMemory(device));
  const Driver& cuda = device.driver();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device.handle();
  std::size_t granularity = 0;
  if (auto done = device.check(
          cuda.cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
          "asking for the size of pages");
      !done) {
    return tl::unexpected<Error>(done.error());
  }
  out->granularity_ = granularity;
  CUdeviceptr base = 0;
  if (auto done = device.check(cuda.cuMemAddressReserve(&base, kSpan, 0, kBase, 0), "reserving device addresses");
      !done)
    return tl::unexpected<Error>(done.error());
  if (base != kBase) {
    cuda.cuMemAddressFree(base, kSpan);
    return infrastructure_error("the driver reserves device addresses at {:#x} instead of {:#x}", base, kBase);
  }
  return out;
}

DeviceMemory::~DeviceMemory() {
  while (!chunks_.empty()) unmap_chunk(chunks_.begin()->first);
  device_.driver().cuMemAddressFree(kBase, kSpan);
}

Result<std::uint64_t> DeviceMemory::map_chunk(std::uint64_t bytes, bool shared) {
  const Driver& cuda = device_.driver();
  const std::uint64_t size = round_up(bytes, granularity_);
  std::uint64_t address = 0;
  const auto is_free = [&](std::uint64_t begin) {
    const auto next = chunks_.lower_bound(begin);
    // A page between chunks stays unmapped, so that running over one faults.
    if (next != chunks_.end() && begin + size + granularity_ > next->first) return false;
    return next == chunks_.begin() || std::prev(next)->first + std::prev(next)->second.bytes + granularity_ <= begin;
  };
  const std::uint64_t places = (kSpan - size) / granularity_;
  for (int attempt = 0; attempt < 1000 && address == 0; ++attempt) {
    const std::uint64_t begin = kBase + std::uniform_int_distribution<std::uint64_t>(1, places)(random_) * granularity_;
    if (is_free(begin)) address = begin;
  }
  if (address == 0) return input_error("no room for {} bytes in the device's address range", bytes);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device_.handle();
  Chunk chunk{size, 0, shared};
  const CUresult made = cuda.cuMemCreate(&chunk.handle, size, &properties, 0);
  if (made == CUDA_ERROR_OUT_OF_MEMORY) return input_error("the GPU has no {} bytes left", bytes);
  if (auto done = device_.check(made, "cuMemCreate"); !done) return tl::unexpected<Error>(done.error());
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUresult mapped = cuda.cuMemMap(address, size, 0, chunk.handle, 0);
  if (mapped == CUDA_SUCCESS) mapped = cuda.cuMemSetAccess(address, size, &access, 1);
  if (auto done = device_.check(mapped, "mapping device memory"); !done) {
    cuda.cuMemRelease(chunk.handle);
    return tl::unexpected<Error>(done.error());
  }
  chunks_.emplace(address, chunk);
  return address;
}

void DeviceMemory::unmap_chunk(std::uint64_t address) {
  const auto found = chunks_.find(address);
  device_.driver().cuMemUnmap(address, found->second.bytes);
  device_.driver().cuMemRelease(found->second.handle);
  chunks_.erase(found);
}

Result<std::uint64_t> DeviceMemory::allocate(std::uint64_t bytes, std::string label, bool apart) {
  if (bytes == 0 || bytes > kSpan / 2) return input_error("cannot allocate {} bytes", bytes);
  device_.activate();
  const std::lock_guard lock(mutex_);
  std::uint64_t address = 0;
  if (apart || bytes > kSmall) {
    auto chunk = map_chunk(bytes, false);
    if (!chunk) return chunk;
    address = *chunk;
  } else {
    // The gap behind a block keeps a small overrun from hitting its neighbour unnoticed by all checks.
    const std::uint64_t span = round_up(bytes, kAlignment) + kAlignment;
    auto gap = std::find_if(gaps_.begin(), gaps_.end(), [&](const auto& one) { return one.second >= span; });
    if (gap == gaps_.end()) {
      auto chunk = map_chunk(kSharedChunk, true);
      if (!chunk) return chunk;
      gap = gaps_.emplace(*chunk, round_up(kSharedChunk, granularity_)).first;
    }
    address = gap->first;
    const std::uint64_t rest = gap->second - span;
    gaps_.erase(gap);
    if (rest > 0) gaps_.emplace(address + span, rest);
  }
  auto block = std::make_shared<emulator::Allocation>();
  block->begin = address;
  block->bytes = bytes;
  block->kind = emulator::AllocationKind::device;
  block->serial = ++serial_;
  block->label = std::move(label);
  used_ += bytes;
  blocks_.emplace(address, std::move(block));
  if (apart) apart_.insert(address);
  return address;
}

Result<void> DeviceMemory::free(std::uint64_t address) {
  device_.activate();
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end()) return input_error("{:#x} is no block of device memory", address);
  const std::uint64_t bytes = found->second->bytes;
  used_ -= bytes;
  found->second->freed = true;
  blocks_.erase(found);
  apart_.erase(address);
  if (chunks_.contains(address) && !chunks_.at(address).shared) {
    unmap_chunk(address);
    return {};
  }
  auto gap = gaps_.emplace(address, round_up(bytes, kAlignment) + kAlignment).first;
  // Chunks are never adjacent, so gaps that touch are of one chunk.
  if (const auto next = std::next(gap); next != gaps_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    gaps_.erase(next);
  }
  if (gap != gaps_.begin()) {
    const auto before = std::prev(gap);
    if (before->first + before->second == gap->first) {
      before->second += gap->second;
      gaps_.erase(gap);
    }
  }
  return {};
}

std::shared_ptr<const emulator::Allocation> DeviceMemory::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return nullptr;
  const auto& block = std::prev(next)->second;
  return address < block->end() && !apart_.contains(block->begin) ? block : nullptr;
}

bool DeviceMemory::contains(std::uint64_t address, std::uint64_t bytes) const {
  const auto block = find(address);
  return block != nullptr && bytes <= block->end() - address;
}

std::uint64_t DeviceMemory::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace ptxbench::gpu
