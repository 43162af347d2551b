#include "emulator/memory_access.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "emulator/definedness.h"

namespace ptxbench::emulator {

using ptx::StateSpace;

namespace {

constexpr uint64_t kOffsetMask = (1u << kCtaRankShift) - 1;

bool is_shared(StateSpace space) {
  return space == StateSpace::shared || space == StateSpace::shared_cta || space == StateSpace::shared_cluster;
}

std::byte* fault_null(Warp& warp, const Inst& inst, std::string rule, std::string message, std::string remedy,
                      uint64_t address, unsigned lane) {
  warp.fault(inst, std::move(rule), std::move(message), std::move(remedy), address, 1u << lane);
  return nullptr;
}

/// Global memory: a small cache of look-ups per thread, then the allocation table.
bool in_allocation(Warp& warp, uint64_t low, uint64_t end, bool write) {
  if (end < low) return false;  // the range wraps around the address space
  thread_local std::array<AllocationCache, 16> caches;
  thread_local const AddressSpace* owner = nullptr;
  const AddressSpace& memory = *warp.cluster->launch->memory;
  if (owner != &memory) {
    owner = &memory;
    caches.fill({});
  }
  // Kernels walk a few arrays at once: entries are chosen by address so that the arrays do not evict each other.
  AllocationCache& cache = caches[((low >> 21) ^ (low >> 25)) % caches.size()];
  if (low >= cache.begin && end <= cache.end && cache.version == memory.version()) return !(write && cache.read_only);
  auto block = memory.find(low);
  if (block == nullptr || block->freed || end > block->end()) return false;
  cache = {block->begin, block->end(), memory.version(), block->read_only};
  return !(write && block->read_only);
}

std::byte* global_fault(Warp& warp, const Inst& inst, uint64_t address, uint64_t bytes, bool write, unsigned lane) {
  const AddressSpace& memory = *warp.cluster->launch->memory;
  const char* verb = write ? "write" : "read";
  auto block = memory.find(address);
  if (block == nullptr && bytes > 1) block = memory.find(address + bytes - 1);
  const auto name = [](const Allocation& a) {
    return a.label.empty() ? fmt::format("the {}-byte allocation at {:#x}", a.bytes, a.begin)
                           : fmt::format("{} ({} bytes at {:#x})", a.label, a.bytes, a.begin);
  };
  if (block != nullptr && block->freed) {
    return fault_null(warp, inst, "memory.use-after-free",
                      fmt::format("{}-byte {} at {:#x}, {} bytes into {}, which was freed", bytes, verb, address,
                                  address - block->begin, name(*block)),
                      "keep the buffer alive until the kernel has finished", address, lane);
  }
  if (block != nullptr && write && block->read_only) {
    return fault_null(warp, inst, "memory.out-of-bounds",
                      fmt::format("{}-byte write at {:#x} into {}, which is read-only", bytes, address, name(*block)),
                      "constant and parameter memory cannot be written by a kernel", address, lane);
  }
  std::string where;
  if (block == nullptr) block = memory.nearest_below(address);
  if (block != nullptr && address >= block->begin && address - block->begin < block->bytes + (uint64_t{1} << 26)) {
    where = address >= block->end()
                ? fmt::format(", {} bytes past the end of {}", address - block->end(), name(*block))
                : fmt::format(", running {} bytes past the end of {}", address + bytes - block->end(), name(*block));
  } else {
    where = address < 4096 ? ", a null pointer" : ", which is near no allocation";
  }
  return fault_null(warp, inst, "memory.out-of-bounds",
                    fmt::format("{}-byte {} at {:#x}{}", bytes, verb, address, where),
                    "check the index or guard the access at the tail", address, lane);
}

std::byte* shared_fault(Warp& warp, const Inst& inst, uint64_t address, uint64_t bytes, bool write, unsigned lane) {
  const Launch& launch = *warp.cluster->launch;
  const uint64_t rank = address >> kCtaRankShift, offset = address & kOffsetMask;
  std::string what;
  if (rank >= launch.ctas_per_cluster) {
    what = fmt::format("shared address {:#x} is not in the shared memory of any CTA of the cluster", address);
  } else if (offset < kReservedSharedBytes) {
    what = fmt::format("shared address {:#x} is below the first variable (null pointer?)", offset);
  } else {
    what = fmt::format("shared + {:#x} runs past the {} bytes of shared memory the CTA was launched with",
                       offset - kReservedSharedBytes, launch.shared_bytes - kReservedSharedBytes);
  }
  return fault_null(warp, inst, "memory.out-of-bounds",
                    fmt::format("{}-byte {}: {}", bytes, write ? "write" : "read", what),
                    "check the shared memory layout against the launch's dynamic shared bytes", address, lane);
}

std::byte* misaligned(Warp& warp, const Inst& inst, uint64_t address, uint32_t alignment, unsigned lane) {
  return fault_null(warp, inst, "memory.misaligned",
                    fmt::format("address {:#x} is not aligned to {} bytes, as this access needs", address, alignment),
                    "align the buffer or use a narrower access", address, lane);
}

}  // namespace

Located locate(StateSpace space, uint64_t address) {
  if (is_shared(space)) return {Space::shared, address & 0xffffffffu};
  if (space == StateSpace::local) return {Space::local, address};
  if (space == StateSpace::const_) return {Space::constant, address};
  if (space == StateSpace::param) return {Space::param, address};
  if (space == StateSpace::generic) {
    if (address - kSharedWindow < kSmallWindowBytes) return {Space::shared, address - kSharedWindow};
    if (address - kLocalWindow < kSmallWindowBytes) return {Space::local, address - kLocalWindow};
  }
  return {Space::global, address};
}

std::byte* resolve_address(Warp& warp, const Inst& inst, StateSpace space, uint64_t address, uint64_t bytes,
                           uint32_t alignment, bool write, unsigned lane) {
  const Located where = locate(space, address);
  if ((where.address & (alignment - 1)) != 0) return misaligned(warp, inst, address, alignment, lane);
  switch (where.space) {
    case Space::shared: {
      std::byte* pointer = warp.cluster->shared_pointer(where.address, static_cast<uint32_t>(bytes));
      return pointer != nullptr ? pointer : shared_fault(warp, inst, where.address, bytes, write, lane);
    }
    case Space::local:
      if (bytes > warp.local_stride || where.address > warp.local_stride - bytes) {
        return fault_null(warp, inst, "memory.out-of-bounds",
                          fmt::format("local address {:#x} + {} bytes leaves the thread's {} bytes of local memory",
                                      where.address, bytes, warp.local_stride),
                          "check the index into the local array", address, lane);
      }
      return warp.local_pointer(lane, where.address);
    default:
      if (!in_allocation(warp, where.address, where.address + bytes, write)) {
        return global_fault(warp, inst, where.address, bytes, write, lane);
      }
      return host_pointer(where.address);
  }
}

std::byte* resolve_uniform(Warp& warp, const Inst& inst, const MemoryOp& op, uint64_t address, uint32_t bytes,
                           uint32_t alignment) {
  if (is_shared(op.space) && (address & (alignment - 1)) == 0) {
    const uint64_t own = uint64_t{warp.cta->rank} << kCtaRankShift;
    const uint64_t offset = address - own;
    if (offset >= kReservedSharedBytes && offset < warp.cta->shared_bytes && bytes <= warp.cta->shared_bytes - offset) {
      return warp.cta->shared + offset;
    }
  }
  return resolve_address(warp, inst, op.space, address, bytes, alignment, op.kind != AccessKind::read,
                         static_cast<unsigned>(std::countr_zero(warp.mask)));
}

bool resolve_strided(Warp& warp, const MemoryOp& op, uint64_t& first) {
  if (op.stride == INT64_MIN) return false;
  uint64_t low = lane_address(warp, op, 0);
  const uint64_t last = lane_address(warp, op, kLanes - 1);
  const auto distance = static_cast<uint64_t>(op.stride) * (kLanes - 1);
  if (last - low != distance) return false;  // a 32-bit index wrapped on its way to 64 bits
  const uint64_t lane0 = low;
  uint64_t high = last;
  if (op.stride < 0) std::swap(low, high);
  // Only without a wrap of the address space do the ends bound all lanes.
  if (high < low || high + op.bytes < high) return false;
  if (((lane0 | static_cast<uint64_t>(op.stride)) & (op.bytes - 1)) != 0) return false;
  const bool generic_shared = op.space == StateSpace::generic && low - kSharedWindow < kSmallWindowBytes;
  if (is_shared(op.space) || generic_shared) {
    const uint64_t own = (generic_shared ? kSharedWindow : 0) + (uint64_t{warp.cta->rank} << kCtaRankShift);
    if (low < own + kReservedSharedBytes || high + op.bytes > own + warp.cta->shared_bytes) return false;
    first = lane0 - own + reinterpret_cast<uint64_t>(warp.cta->shared);
    return true;
  }
  if (op.space == StateSpace::local || low < kGlobalWindow ||
      !in_allocation(warp, low, high + op.bytes, op.kind != AccessKind::read)) {
    return false;
  }
  first = lane0;
  return true;
}

bool resolve_lanes(Warp& warp, const Inst& inst, const MemoryOp& op, LanePointers& pointers, uint32_t alignment) {
  if (alignment == 0) alignment = op.bytes;
  const bool write = op.kind != AccessKind::read;
  alignas(64) uint64_t address[kLanes];
  const auto offset = static_cast<uint64_t>(op.offset);
  if (op.address.shape == Shape::uniform) {
    const uint64_t one = lane_address(warp, op, 0);
    for (auto& a : address) a = one;
  } else if (op.address_bits == 32) {
    const auto* base = warp.slot<const uint32_t>(op.address.offset);
    const auto low = static_cast<uint32_t>(offset);
    for (unsigned l = 0; l < kLanes; ++l) address[l] = base[l] + low;
  } else {
    const auto* base = warp.slot<const uint64_t>(op.address.offset);
    for (unsigned l = 0; l < kLanes; ++l) address[l] = base[l] + offset;
  }
  // Inactive lanes repeat an active one so that the checks below need no mask.
  const auto first = static_cast<unsigned>(std::countr_zero(warp.mask));
  if (warp.mask != kFullMask) {
    for (unsigned l = 0; l < kLanes; ++l) address[l] = warp.lane_mask[l] != 0 ? address[l] : address[first];
  }
  if (op.space != StateSpace::local) {
    uint64_t low = ~0ull, high = 0, bits = 0;
    for (unsigned l = 0; l < kLanes; ++l) {
      low = address[l] < low ? address[l] : low;
      high = address[l] > high ? address[l] : high;
      bits |= address[l];
    }
    if ((bits & (alignment - 1)) == 0 && high + op.bytes > high) {
      if (is_shared(op.space) || (op.space == StateSpace::generic && low - kSharedWindow < kSmallWindowBytes &&
                                  high - kSharedWindow < kSmallWindowBytes)) {
        const uint64_t window = is_shared(op.space) ? 0 : kSharedWindow;
        const uint64_t own = window + (uint64_t{warp.cta->rank} << kCtaRankShift);
        if (low >= own + kReservedSharedBytes && high + op.bytes <= own + warp.cta->shared_bytes) {
          const uint64_t delta = reinterpret_cast<uint64_t>(warp.cta->shared) - own;
          for (unsigned l = 0; l < kLanes; ++l) pointers.host[l] = address[l] + delta;
          return true;
        }
      } else if (low >= kGlobalWindow && in_allocation(warp, low, high + op.bytes, write)) {
        for (unsigned l = 0; l < kLanes; ++l) pointers.host[l] = address[l];
        return true;
      }
    }
  }
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(m));
    std::byte* pointer = resolve_address(warp, inst, op.space, address[lane], op.bytes, alignment, write, lane);
    if (pointer == nullptr) return false;
    pointers.host[lane] = reinterpret_cast<uint64_t>(pointer);
  }
  for (unsigned l = 0; l < kLanes; ++l) {
    if (((warp.mask >> l) & 1) == 0) pointers.host[l] = pointers.host[first];
  }
  return true;
}

std::string describe_address(const Launch& launch, Space space, uint64_t address) {
  switch (space) {
    case Space::shared: {
      const uint64_t rank = address >> kCtaRankShift, offset = address & kOffsetMask;
      const std::string at = fmt::format("shared + {:#x}", offset - kReservedSharedBytes);
      return launch.ctas_per_cluster > 1 ? fmt::format("{} of CTA rank {}", at, rank) : at;
    }
    case Space::local:
      return fmt::format("local + {:#x}", address);
    default: {
      auto block = launch.memory->find(address);
      if (block == nullptr) return fmt::format("{:#x}", address);
      return fmt::format("{} + {:#x}",
                         block->label.empty() ? fmt::format("allocation {:#x}", block->begin) : block->label,
                         address - block->begin);
    }
  }
}

// --- proofs by touches

void give_up_proof(Warp& warp) {
  Launch& launch = *warp.cluster->launch;
  launch.unproven.store(true, std::memory_order_relaxed);
  launch.stopped.store(true, std::memory_order_relaxed);
}

namespace {

uint32_t first_thread(const Warp& warp) {
  return warp.cluster->index * warp.cluster->launch->threads_per_cta + warp.index * kLanes + 1;
}

enum class Place : uint8_t { shared, global, other };

Place place_of(const Warp& warp, uint64_t host) {
  if (host - reinterpret_cast<uint64_t>(warp.cta->shared) < warp.cta->shared_bytes) return Place::shared;
  return host - kGlobalWindow < kGlobalWindowBytes ? Place::global : Place::other;
}

TouchKind kind_of(const MemoryOp& op) {
  return op.kind == AccessKind::read    ? TouchKind::read
         : op.kind == AccessKind::write ? TouchKind::write
                                        : TouchKind::atomic;
}

/// Neither can be written by a kernel.
bool is_constant(const MemoryOp& op) { return op.space == StateSpace::const_ || op.space == StateSpace::param; }

uint32_t shared_offset(const Warp& warp, uint64_t host) {
  return static_cast<uint32_t>(host - reinterpret_cast<uint64_t>(warp.cta->shared));
}

/// Atomics are strong among each other if they have one size and reach each other.
bool agree(Warp& warp, const MemoryOp& op, Place place) {
  uint32_t& known = warp.touches->atomic_bytes[place == Place::shared ? 0 : 1];
  if (known == 0) known = op.element_bytes;
  const bool reaches = place == Place::shared || op.scope == Scope::gpu || op.scope == Scope::sys;
  return known == op.element_bytes && reaches;
}

}  // namespace

void note_touch(Warp& warp, uint64_t host, uint32_t bytes, TouchKind kind) {
  Definedness& definedness = *warp.cluster->launch->definedness;
  // Once is enough: the run will be repeated.
  if (definedness.met()) return;
  const uint64_t shared = host - reinterpret_cast<uint64_t>(warp.cta->shared);
  if (shared < warp.cta->shared_bytes) {
    CtaDefinedness& state = *warp.cta->definedness;
    if (state.unwritten == 0) return;
    if (kind != TouchKind::write && !all_set(state.written.data(), shared, bytes)) return definedness.meet();
    if (kind != TouchKind::read)
      state.unwritten -= static_cast<uint32_t>(set_bits<false>(state.written.data(), shared, bytes));
    return;
  }
  Definedness::View view;
  if (host - kGlobalWindow < kGlobalWindowBytes) {
    view = definedness.global_view(host);
  } else {
    // The threads' local memories follow each other, and so may their accesses.
    const uint64_t offset = host - reinterpret_cast<uint64_t>(warp.local.data());
    if (offset >= warp.local.size() || bytes > warp.local.size() - offset) return;
    view.space = Space::local;
    view.written = warp.definedness->local_written.data();
    view.bit = offset;
  }
  if (kind != TouchKind::write && !definedness.written(view, bytes)) definedness.meet();
  if (kind != TouchKind::read) Definedness::mark(view, bytes);
}

namespace {

void note_lanes(Warp& warp, const LanePointers& pointers, uint32_t bytes, TouchKind kind) {
  if (kind == TouchKind::read) {
    // Lanes that read here and there in a tile: mostly all of what lies between is written.
    uint64_t low = ~0ull, high = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {  // inactive lanes repeat an active one
      low = std::min(low, pointers.host[lane]);
      high = std::max(high, pointers.host[lane]);
    }
    const uint64_t origin = reinterpret_cast<uint64_t>(warp.cta->shared), span = high - low + bytes;
    constexpr uint64_t kFar = 1024;
    if (low >= origin && span <= kFar && low - origin + span <= warp.cta->shared_bytes &&
        all_set(warp.cta->definedness->written.data(), low - origin, span)) {
      return;
    }
  }
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1)
    note_touch(warp, pointers.host[std::countr_zero(rest)], bytes, kind);
}

}  // namespace

void touch_row(Warp& warp, const std::byte* first, uint32_t bytes, const MemoryOp& op) {
  if (is_constant(op)) return;
  const auto host = reinterpret_cast<uint64_t>(first);
  if (warp.definedness != nullptr) note_touch(warp, host, bytes * kLanes, kind_of(op));
  const Place place = place_of(warp, host);
  const TouchKind kind = kind_of(op);
  bool fine = true;
  if (place == Place::shared) {
    fine = warp.touches->shared.row(warp.index, shared_offset(warp, host),
                                    static_cast<unsigned>(std::countr_zero(bytes)), kind);
  } else if (place == Place::global) {
    // The non-coherent path must not see what anybody writes, the same thread included.
    const uint32_t thread = op.proxy == Proxy::read_only ? GlobalTouches::kMany : first_thread(warp);
    fine = warp.touches->global.range(host, bytes, kLanes, thread, kind);
  }
  if (!fine) give_up_proof(warp);
}

void touch_one(Warp& warp, const std::byte* at, uint32_t bytes, const MemoryOp& op) {
  if (is_constant(op)) return;
  const auto host = reinterpret_cast<uint64_t>(at);
  const Place place = place_of(warp, host);
  const TouchKind kind = kind_of(op);
  if (warp.definedness != nullptr) note_touch(warp, host, bytes, kind);
  const bool alone = std::has_single_bit(warp.mask);
  const auto lane = static_cast<unsigned>(std::countr_zero(warp.mask));
  bool fine = alone || kind != TouchKind::write;
  if (place == Place::shared) {
    const uint32_t offset = shared_offset(warp, host);
    fine = fine && (alone ? warp.touches->shared.lane(warp.index, lane, offset, bytes, kind)
                          : warp.touches->shared.broadcast(warp.index, offset, bytes, kind));
    if (kind == TouchKind::atomic) fine = fine && agree(warp, op, place);
  } else if (place == Place::global) {
    uint32_t thread = alone && op.proxy != Proxy::read_only ? first_thread(warp) + lane : GlobalTouches::kMany;
    if (kind == TouchKind::atomic) thread = GlobalTouches::kAtomics;
    fine = fine && warp.touches->global.range(host, bytes, 1, thread, kind);
    if (kind == TouchKind::atomic) fine = fine && agree(warp, op, place);
  } else {
    fine = true;
  }
  if (!fine) give_up_proof(warp);
}

void touch_lanes(Warp& warp, const LanePointers& pointers, uint32_t bytes, const MemoryOp& op) {
  if (is_constant(op)) return;
  const TouchKind kind = kind_of(op);
  if (warp.mask == kFullMask && kind != TouchKind::atomic && std::has_single_bit(bytes)) {
    const uint64_t first = pointers.host[0];
    uint64_t apart = 0, different = 0;
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      apart |= pointers.host[lane] ^ (first + uint64_t{lane} * bytes);
      different |= pointers.host[lane] ^ first;
    }
    // In a row that begins in one space all of it lies there: spaces have gaps between them.
    if (apart == 0) return touch_row(warp, pointers.at<std::byte>(0), bytes, op);
    if (different == 0) return touch_one(warp, pointers.at<std::byte>(0), bytes, op);
    if (kind == TouchKind::read && bytes <= 4) {
      const auto origin = reinterpret_cast<uint64_t>(warp.cta->shared);
      uint64_t farthest = 0;
      for (unsigned lane = 0; lane < kLanes; ++lane) farthest = std::max(farthest, pointers.host[lane] - origin);
      if (farthest < warp.cta->shared_bytes) {
        if (warp.definedness != nullptr && warp.cta->definedness->unwritten != 0)
          note_lanes(warp, pointers, bytes, kind);
        const auto shift = static_cast<unsigned>(std::countr_zero(bytes));
        if (!warp.touches->shared.gather(warp.index, pointers.host, origin, shift)) give_up_proof(warp);
        return;
      }
    }
  }
  if (warp.definedness != nullptr) note_lanes(warp, pointers, bytes, kind);
  const uint32_t thread = first_thread(warp);
  bool fine = true;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    const uint64_t host = pointers.host[lane];
    switch (const Place place = place_of(warp, host); place) {
      case Place::shared:
        fine = warp.touches->shared.lane(warp.index, lane, shared_offset(warp, host), bytes, kind) && fine;
        if (kind == TouchKind::atomic) fine = fine && agree(warp, op, place);
        break;
      case Place::global: {
        uint32_t owner = op.proxy == Proxy::read_only ? GlobalTouches::kMany : thread + lane;
        if (kind == TouchKind::atomic) {
          owner = GlobalTouches::kAtomics;
          fine = fine && agree(warp, op, place);
        }
        fine = warp.touches->global.range(host, bytes, 1, owner, kind) && fine;
        break;
      }
      case Place::other:
        break;
    }
  }
  if (!fine) give_up_proof(warp);
}

namespace {

/// Whether a lane's store would leave its bytes as they are. Bytes that cannot be stored to count as changed.
bool stores_same(Warp& warp, const MemoryOp& op, const Located& where, unsigned lane) {
  const std::byte* memory = nullptr;
  if (where.space == Space::shared) {
    memory = warp.cluster->shared_pointer(where.address, op.bytes);
  } else if (warp.cluster->launch->memory->contains(where.address, op.bytes)) {
    memory = host_pointer(where.address);
  }
  if (memory == nullptr) return false;
  for (unsigned e = 0; e < op.elements; ++e) {
    // Registers are at least as wide as what is stored; their low bytes are it.
    const uint32_t register_bytes = op.data_bits[e] / 8u;
    const uint32_t at = op.data[e].shape == Shape::uniform ? 0 : lane * register_bytes;
    if (std::memcmp(memory + size_t{e} * op.element_bytes, warp.slot<std::byte>(op.data[e].offset) + at,
                    op.element_bytes) != 0) {
      return false;
    }
  }
  return true;
}

/// Whether two lanes store the same value.
bool lanes_store_same(Warp& warp, const MemoryOp& op, unsigned a, unsigned b) {
  for (unsigned e = 0; e < op.elements; ++e) {
    if (op.data[e].shape == Shape::uniform) continue;
    // A register of 128 bits is two planes of 64; their low bytes and those of narrower registers are what is stored.
    const uint32_t plane_bytes = std::min(op.data_bits[e] / 8u, 8u);
    const auto* register_bytes = warp.slot<std::byte>(op.data[e].offset);
    for (uint32_t done = 0; done < op.element_bytes; done += plane_bytes, register_bytes += kLanes * plane_bytes) {
      if (std::memcmp(register_bytes + size_t{a} * plane_bytes, register_bytes + size_t{b} * plane_bytes,
                      std::min(plane_bytes, op.element_bytes - done)) != 0) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

void observe_access(Warp& warp, const Inst& inst, const MemoryOp& op, bool plain_store) {
  Observer* observer = warp.cluster->launch->observer;
  if (observer == nullptr) return;
  uint64_t addresses[kLanes] = {};
  uint32_t unchanged = 0;
  // The lanes of a generic access may lie in several spaces: an event for each.
  struct Part {
    Space space;
    uint32_t lanes;
  };
  Part parts[4] = {{Space::shared, 0}, {Space::global, 0}, {Space::local, 0}, {Space::constant, 0}};
  for (uint32_t m = warp.mask; m != 0; m &= m - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(m));
    const Located where = locate(op.space, lane_address(warp, op, lane));
    addresses[lane] = where.address;
    for (Part& part : parts) {
      const bool constant = part.space == Space::constant && where.space == Space::param;
      if (part.space == where.space || constant) part.lanes |= 1u << lane;
    }
    if (plain_store && op.element_bytes <= 8 && stores_same(warp, op, where, lane)) unchanged |= 1u << lane;
  }
  for (const Part& part : parts) {
    if (part.lanes == 0) continue;
    AccessEvent event;
    event.space = part.space;
    event.unchanged = unchanged & part.lanes;
    if (plain_store) {
      event.clashing = clashing_lanes(part.lanes, addresses, op.bytes,
                                      [&](unsigned x, unsigned y) { return lanes_store_same(warp, op, x, y); });
    }
    event.agent = agent_of(warp, part.lanes);
    event.site = site_of(warp, inst);
    event.kind = op.kind;
    event.semantics = op.semantics;
    event.scope = op.scope;
    event.proxy = op.proxy;
    event.bytes = op.bytes;
    event.addresses = addresses;
    observer->on_access(event);
  }
}

}  // namespace ptxbench::emulator
