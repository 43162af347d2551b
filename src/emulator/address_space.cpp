#include "emulator/address_space.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace ptxbench::emulator {
namespace {

constexpr uint64_t kPage = 4096;
uint64_t round_up(uint64_t value, uint64_t to) { return (value + to - 1) / to * to; }

}  // namespace

Result<std::unique_ptr<AddressSpace>> AddressSpace::create(uint64_t capacity) {
  void* wanted = host_pointer(kGlobalWindow);
  void* got = mmap(wanted, kGlobalWindowBytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != wanted) {
    if (got != MAP_FAILED) munmap(got, kGlobalWindowBytes);
    return infrastructure_error(
        "cannot reserve the emulated GPU's address window at {:#x} ({} GiB): {}; only one emulated device can live in "
        "a "
        "process, and `ulimit -v` must be unlimited",
        kGlobalWindow, kGlobalWindowBytes >> 30, std::strerror(errno));
  }
  auto space = std::unique_ptr<AddressSpace>(new AddressSpace(capacity));
  // Look-ups are cached per thread by version: no two address spaces of a process may share one.
  static std::atomic<uint64_t> epoch{1};
  space->version_.store(epoch.fetch_add(1) << 32);
  return space;
}

AddressSpace::~AddressSpace() { munmap(host_pointer(kGlobalWindow), kGlobalWindowBytes); }

Result<uint64_t> AddressSpace::allocate(uint64_t bytes, AllocationKind kind, std::string label, uint64_t alignment) {
  alignment = std::max<uint64_t>(alignment, 512);
  std::lock_guard lock(mutex_);
  if (bytes > capacity_ || used_ > capacity_ - bytes) {
    return input_error("out of device memory: {} bytes requested, {} of {} bytes in use", bytes, used_, capacity_);
  }
  // Every block has pages of its own and an unmapped guard page behind it: stray host access cannot go unnoticed, and a
  // block can be given back to the system when it is freed.
  const uint64_t span = round_up(std::max<uint64_t>(bytes, 1), kPage) + kPage;
  const auto reuse = [&]() -> uint64_t {
    for (auto it = free_ranges_.begin(); it != free_ranges_.end(); ++it) {
      const uint64_t candidate = round_up(it->first, std::max(alignment, kPage));
      if (candidate + span > it->first + it->second) continue;
      const uint64_t range_begin = it->first, range_end = it->first + it->second;
      free_ranges_.erase(it);
      if (candidate > range_begin) free_ranges_[range_begin] = candidate - range_begin;
      if (range_end > candidate + span) free_ranges_[candidate + span] = range_end - candidate - span;
      return candidate;
    }
    return 0;
  };
  uint64_t begin = reuse();
  if (begin == 0) {
    begin = round_up(next_, std::max(alignment, kPage));
    if (begin + span <= kHostSharedBase) {
      next_ = begin + span;
    } else {
      for (const auto& [address, length] : quarantine_) free_ranges_[address] = length;
      quarantine_.clear();
      begin = reuse();
      if (begin == 0) return input_error("out of device address space: {} bytes requested", bytes);
    }
  }
  if (mprotect(host_pointer(begin), span - kPage, PROT_READ | PROT_WRITE) != 0) {
    free_ranges_[begin] = span;
    return infrastructure_error("cannot commit {} bytes of emulated device memory: {}", bytes, std::strerror(errno));
  }
  auto block = std::make_shared<Allocation>();
  block->begin = begin;
  block->bytes = bytes;
  block->kind = kind;
  block->label = std::move(label);
  block->serial = ++serial_;
  freed_.erase(freed_.lower_bound(begin), freed_.lower_bound(begin + span));
  blocks_[begin] = std::move(block);
  used_ += bytes;
  if (on_allocate_) on_allocate_(begin, bytes);
  version_.fetch_add(1, std::memory_order_acq_rel);
  return begin;
}

Result<void> AddressSpace::adopt(uint64_t address, uint64_t bytes, std::string label) {
  if (address < kHostSharedBase || bytes > kGlobalWindow + kGlobalWindowBytes - address) {
    return input_error("host-shared block [{:#x}, +{}) lies outside the shared part of the window", address, bytes);
  }
  std::lock_guard lock(mutex_);
  auto next = blocks_.lower_bound(address);
  const bool hits_next = next != blocks_.end() && next->first - address < bytes;
  const bool hits_previous = next != blocks_.begin() && std::prev(next)->second->end() > address;
  if (hits_next || hits_previous) {
    return input_error("host-shared block [{:#x}, +{}) overlaps another allocation", address, bytes);
  }
  auto block = std::make_shared<Allocation>();
  block->begin = address;
  block->bytes = bytes;
  block->kind = AllocationKind::host_shared;
  block->label = std::move(label);
  block->serial = ++serial_;
  freed_.erase(address);
  blocks_[address] = std::move(block);
  version_.fetch_add(1, std::memory_order_acq_rel);
  return {};
}

void AddressSpace::protect(uint64_t address) {
  std::lock_guard lock(mutex_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end()) return;
  auto changed = std::make_shared<Allocation>(*it->second);
  changed->read_only = true;
  it->second = std::move(changed);
  version_.fetch_add(1, std::memory_order_acq_rel);
}

Result<void> AddressSpace::free(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto it = blocks_.find(address);
  if (it == blocks_.end()) return input_error("free of {:#x}, which is not the start of a live allocation", address);
  auto freed = std::make_shared<Allocation>(*it->second);
  freed->freed = true;
  if (freed->kind != AllocationKind::host_shared) {
    const uint64_t span = round_up(std::max<uint64_t>(freed->bytes, 1), kPage) + kPage;
    // A fresh anonymous mapping gives the pages back to the system and makes them inaccessible.
    (void)mmap(host_pointer(address), span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    used_ -= freed->bytes;
    if (freed->kind == AllocationKind::parameters) {
      free_ranges_[address] = span;
    } else {
      // Not at once somebody else's: a stale pointer should meet nothing.
      quarantine_.emplace_back(address, span);
      if (quarantine_.size() > kQuarantine) {
        free_ranges_[quarantine_.front().first] = quarantine_.front().second;
        quarantine_.pop_front();
      }
    }
  }
  if (freed->kind != AllocationKind::parameters) freed_[address] = std::move(freed);
  blocks_.erase(it);
  version_.fetch_add(1, std::memory_order_acq_rel);
  return {};
}

std::shared_ptr<const Allocation> AddressSpace::find(uint64_t address) const {
  std::lock_guard lock(mutex_);
  for (const auto* table : {&blocks_, &freed_}) {
    auto it = table->upper_bound(address);
    if (it == table->begin()) continue;
    --it;
    if (address < it->second->end()) return it->second;
  }
  return nullptr;
}

std::shared_ptr<const Allocation> AddressSpace::nearest_below(uint64_t address) const {
  std::lock_guard lock(mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  return std::prev(it)->second;
}

bool AddressSpace::contains(uint64_t address, uint64_t bytes) const {
  // The block that this thread asked about last.
  thread_local AllocationCache last;
  const auto inside = [&](uint64_t begin, uint64_t end) {
    return address >= begin && address <= end && bytes <= end - address;
  };
  if (last.version == version() && inside(last.begin, last.end)) return true;
  std::lock_guard lock(mutex_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return false;
  --it;
  if (!inside(it->second->begin, it->second->end())) return false;
  last = {it->second->begin, it->second->end(), version(), it->second->read_only};
  return true;
}

uint64_t AddressSpace::used() const {
  std::lock_guard lock(mutex_);
  return used_;
}

std::vector<Allocation> AddressSpace::live() const {
  std::lock_guard lock(mutex_);
  std::vector<Allocation> out;
  for (const auto& [begin, block] : blocks_) out.push_back(*block);
  return out;
}

}  // namespace ptxbench::emulator
