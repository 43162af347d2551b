#include "emulator/definedness.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "emulator/memory_access.h"
#include "emulator/tensor/operand_ranges.h"

namespace ptxbench::emulator {

namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kOffsetMask = (1u << kCtaRankShift) - 1;

void* reserve(uint64_t bytes) {
  void* got = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return got == MAP_FAILED ? nullptr : got;
}

/// Zeroes [begin, begin + bytes) of a reserved map: whole pages go back to the system.
void clear(std::byte* begin, uint64_t bytes) {
  const auto first = reinterpret_cast<uintptr_t>(begin), end = first + bytes;
  const uintptr_t page_first = (first + kPage - 1) / kPage * kPage, page_end = end / kPage * kPage;
  if (page_first >= page_end) {
    std::memset(begin, 0, bytes);
    return;
  }
  std::memset(begin, 0, page_first - first);
  (void)madvise(reinterpret_cast<void*>(page_first), page_end - page_first, MADV_DONTNEED);
  std::memset(reinterpret_cast<void*>(page_end), 0, end - page_end);
}

bool is_zero(const std::byte* bytes, uint64_t count) {
  while (count >= 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, 8);
    if (word != 0) return false;
    bytes += 8;
    count -= 8;
  }
  for (; count != 0; --count) {
    if (*bytes++ != std::byte{0}) return false;
  }
  return true;
}

/// An origin map holds one id for every two bytes of memory; `address` is the memory's.
OriginId origin_at(const Definedness::View& view, uint64_t byte) {
  const std::byte* at = view.origin + byte - ((view.address + byte) & 1);
  OriginId id = 0;
  std::memcpy(&id, at, sizeof id);
  return id;
}
void set_origin(const Definedness::View& view, uint64_t byte, OriginId id) {
  std::memcpy(view.origin + byte - ((view.address + byte) & 1), &id, sizeof id);
}

bool test_bit(const uint64_t* words, uint64_t bit) { return (words[bit / 64] >> (bit % 64) & 1) != 0; }

Definedness::View skip(Definedness::View view, uint64_t bytes) {
  view.bit += bytes;
  view.address += bytes;
  if (view.undefined != nullptr) view.undefined += bytes;
  if (view.origin != nullptr) view.origin += bytes;
  return view;
}

}  // namespace

uint32_t plane_count(const ptx::Function& function) {
  const auto wide = std::count_if(function.registers.begin(), function.registers.end(),
                                  [](const ptx::Register& reg) { return type_bits(reg.type) == 128; });
  return static_cast<uint32_t>(function.registers.size()) + static_cast<uint32_t>(wide) + 1;
}

uint32_t high_plane(const ptx::Function& function, uint32_t reg) {
  const auto before = std::count_if(function.registers.begin(), function.registers.begin() + reg,
                                    [](const ptx::Register& one) { return type_bits(one.type) == 128; });
  return static_cast<uint32_t>(function.registers.size()) + static_cast<uint32_t>(before);
}

Result<std::unique_ptr<Definedness>> Definedness::create(DefinednessMode mode, const AddressSpace& memory,
                                                         Observer* observer) {
  auto made = std::unique_ptr<Definedness>(new Definedness(mode, memory, observer));
  made->written_ = static_cast<uint64_t*>(reserve(kGlobalWindowBytes / 8));
  if (mode == DefinednessMode::track) {
    made->undefined_ = static_cast<std::byte*>(reserve(kGlobalWindowBytes));
    made->origin_ = static_cast<std::byte*>(reserve(kGlobalWindowBytes));
  }
  if (made->written_ == nullptr ||
      (mode == DefinednessMode::track && (made->undefined_ == nullptr || made->origin_ == nullptr))) {
    return infrastructure_error("cannot reserve address space for the search for uninitialised values: {}",
                                std::strerror(errno));
  }
  return made;
}

Definedness::~Definedness() {
  if (written_ != nullptr) munmap(written_, kGlobalWindowBytes / 8);
  if (undefined_ != nullptr) munmap(undefined_, kGlobalWindowBytes);
  if (origin_ != nullptr) munmap(origin_, kGlobalWindowBytes);
}

std::set<std::string> Definedness::gaps() const {
  const std::lock_guard lock(gaps_mutex_);
  return gaps_;
}
void Definedness::add_gap(std::string reason) {
  const std::lock_guard lock(gaps_mutex_);
  gaps_.insert(std::move(reason));
}

// --- the host's side

void Definedness::allocated(uint64_t address, uint64_t bytes) {
  if (address - kGlobalWindow >= kGlobalWindowBytes || bytes == 0) return;
  const uint64_t first = address - kGlobalWindow;
  // Only host code comes here, for memory of its own: no word is shared with an allocation in use, whose pages are
  // others, except by callers that name a part of an allocation.
  auto* bits = reinterpret_cast<std::byte*>(written_);
  uint64_t begin = first, end = first + bytes;
  for (; begin < end && begin % 8 != 0; ++begin) written_[begin / 64] &= ~(1ull << (begin % 64));
  for (; end > begin && end % 8 != 0; --end) written_[(end - 1) / 64] &= ~(1ull << ((end - 1) % 64));
  if (end > begin) clear(bits + begin / 8, (end - begin) / 8);
  if (!tracking()) return;
  clear(undefined_ + first, bytes);
  clear(origin_ + first, bytes);
}

uint64_t Definedness::digest() const {
  const auto* bits = reinterpret_cast<const std::byte*>(written_);
  uint64_t digest = global_known_ ? 1 : 2;
  for (const Allocation& block : memory_.live()) {
    if (block.begin - kGlobalWindow >= kGlobalWindowBytes || block.bytes == 0) continue;
    const uint64_t first = (block.begin - kGlobalWindow) / 8, last = (block.end() - 1 - kGlobalWindow) / 8;
    digest = XXH3_64bits_withSeed(bits + first, last - first + 1, digest);
  }
  return digest;
}

void Definedness::host_wrote(uint64_t address, uint64_t bytes) {
  if (address - kGlobalWindow >= kGlobalWindowBytes) return;
  const uint64_t first = address - kGlobalWindow;
  set_bits<true>(written_, first, bytes);
  if (tracking() && !is_zero(undefined_ + first, bytes)) clear(undefined_ + first, bytes);
}

void Definedness::host_copied(uint64_t destination, uint64_t source, uint64_t bytes) {
  if (destination - kGlobalWindow >= kGlobalWindowBytes) return;
  const uint64_t to = destination - kGlobalWindow, from = source - kGlobalWindow;
  const auto block = memory_.find(source);
  const bool known =
      !global_known_ || block == nullptr || block->kind != AllocationKind::device || all_set(written_, from, bytes);
  if (known && (!tracking() || is_zero(undefined_ + from, bytes))) {
    host_wrote(destination, bytes);
    return;
  }
  if (destination == source) return;
  // Byte by byte, from the end where the ranges overlap that way.
  const bool backwards = destination > source;
  for (uint64_t i = 0; i < bytes; ++i) {
    const uint64_t byte = backwards ? bytes - 1 - i : i;
    const uint64_t bit = 1ull << ((to + byte) % 64);
    if (known || test_bit(written_, from + byte)) {
      written_[(to + byte) / 64] |= bit;
    } else {
      written_[(to + byte) / 64] &= ~bit;
    }
  }
  if (!tracking()) return;
  std::memmove(undefined_ + to, undefined_ + from, bytes);
  std::memmove(origin_ + to, origin_ + from, bytes);
}

void Definedness::check_output(uint64_t address, uint64_t bytes, uint32_t element_bytes) {
  if (address - kGlobalWindow >= kGlobalWindowBytes) return;
  const std::byte* undefined = undefined_ + (address - kGlobalWindow);
  element_bytes = std::max(1u, element_bytes);
  std::set<std::pair<uint32_t, OriginId>> reported;
  for (uint64_t at = 0; at < bytes; at += kPage) {
    const uint64_t here = std::min(kPage, bytes - at);
    if (is_zero(undefined + at, here)) continue;
    for (uint64_t e = at; e < at + here; e += element_bytes) {
      const uint64_t count = std::min<uint64_t>(element_bytes, bytes - e);
      if (is_zero(undefined + e, count) || !all_set(written_, address - kGlobalWindow + e, count)) continue;
      uint64_t byte = e;
      while (undefined[byte] == std::byte{0}) ++byte;
      const auto writer = written_by_.find((address + byte) / 4);
      const uint32_t who = writer != written_by_.end() ? writer->second : ~0u;
      OriginId from = 0;
      std::memcpy(&from, origin_ + (address + byte - kGlobalWindow) - (address + byte) % 2, sizeof from);
      if (who == ~0u || !reported.insert({who, from}).second) continue;
      report(UndefinedUse::output, writers_[who].agent, writers_[who].site, from);
    }
  }
}

bool Definedness::settle(uint64_t address) {
  if (!global_known_.load(std::memory_order_relaxed)) return true;
  const auto block = memory_.find(address);
  if (block != nullptr && !block->freed && block->kind == AllocationKind::device) return false;
  // Module variables, parameters and memory shared with the host are initialised: asked once.
  if (block != nullptr) set_bits<true>(written_, block->begin - kGlobalWindow, block->bytes);
  return true;
}

// --- a launch's side

void Definedness::start_cta(Cta& cta) {
  if (cta.definedness == nullptr) cta.definedness = std::make_shared<CtaDefinedness>();
  CtaDefinedness& state = *cta.definedness;
  state.written.assign(cta.shared_bytes / 64 + 1, 0);
  state.unwritten = cta.shared_bytes;
  state.written_operands.clear();
  state.unwritten -= static_cast<uint32_t>(set_bits<false>(state.written.data(), 0, kReservedSharedBytes));
  if (!tracking()) return;
  // Vector slots of the mirrors start on even addresses, as origins need.
  state.undefined.assign(cta.shared_bytes + 16, std::byte{0});
  state.origin.assign(cta.shared_bytes + 16, std::byte{0});
}

void Definedness::start_warp(Warp& warp) {
  if (warp.definedness == nullptr) warp.definedness = std::make_shared<WarpDefinedness>();
  WarpDefinedness& state = *warp.definedness;
  const size_t bytes = size_t{warp.local_stride} * kLanes;
  state.local_written.assign(bytes / 64 + 1, 0);
  state.frames.clear();
  state.last_frame = nullptr;
  if (!tracking()) return;
  state.undefined.assign(bytes + 16, std::byte{0});
  state.origin.assign(bytes + 16, std::byte{0});
}

void Definedness::start_frame(Warp& warp, const Frame& frame) {
  if (!tracking()) return;
  WarpDefinedness& state = *warp.definedness;
  state.frames[&frame] = std::make_unique<FrameDefinedness>(plane_count(*frame.function->source));
  state.last_frame = nullptr;
}

FrameDefinedness& Definedness::frame_of(Warp& warp) {
  WarpDefinedness& state = *warp.definedness;
  if (state.last_frame != warp.frame) {
    state.last_frame = warp.frame;
    state.last = state.frames.at(warp.frame).get();
  }
  return *state.last;
}

// --- memory

Definedness::View Definedness::view(Cluster& cluster, Space space, uint64_t address, uint32_t bytes) {
  View view;
  view.space = space;
  view.address = address;
  if (space == Space::shared) {
    Cta* cta = cluster.cta_of_shared(address);
    const uint64_t offset = address & kOffsetMask;
    // What lies outside faults in a moment.
    if (cta == nullptr || offset + bytes > cta->shared_bytes) return view;
    view.cta = cta->definedness.get();
    view.written = view.cta->written.data();
    view.bit = offset;
    if (tracking()) {
      view.undefined = view.cta->undefined.data() + offset;
      view.origin = view.cta->origin.data() + offset;
    }
    return view;
  }
  if (space != Space::global || address - kGlobalWindow >= kGlobalWindowBytes - bytes) return view;
  const uint64_t at = address - kGlobalWindow;
  view.written = written_;
  view.bit = at;
  if (tracking()) {
    view.undefined = undefined_ + at;
    view.origin = origin_ + at;
  }
  return view;
}

Definedness::View Definedness::local_view(Warp& warp, unsigned lane, uint64_t offset, uint32_t bytes) {
  View view;
  view.space = Space::local;
  view.address = offset;
  if (bytes > warp.local_stride || offset > warp.local_stride - bytes) return view;
  WarpDefinedness& state = *warp.definedness;
  view.bit = uint64_t{lane} * warp.local_stride + offset;
  view.written = state.local_written.data();
  if (!state.undefined.empty()) {
    view.undefined = state.undefined.data() + view.bit;
    view.origin = state.origin.data() + view.bit;
  }
  return view;
}

void Definedness::copy_local(Warp& warp, unsigned lane, uint64_t to, uint64_t from, uint32_t bytes) {
  const View target = local_view(warp, lane, to, bytes), source = local_view(warp, lane, from, bytes);
  if (target.written == nullptr || source.written == nullptr) return;
  for (uint32_t i = 0; i < bytes; ++i) {
    const uint64_t bit = 1ull << ((target.bit + i) % 64);
    uint64_t& word = target.written[(target.bit + i) / 64];
    word = test_bit(source.written, source.bit + i) ? word | bit : word & ~bit;
  }
  if (target.undefined == nullptr) return;
  std::memmove(target.undefined, source.undefined, bytes);
  std::memmove(target.origin, source.origin, bytes);
}

// --- tracking

OriginId Definedness::new_origin(const UndefinedOrigin& origin) {
  // Different addresses of one instruction are different origins as long as there is room; then one stands for all.
  constexpr size_t kMany = 48 * 1024, kMost = 65'000;
  uint64_t key = (uint64_t{origin.site.program} << 32 | origin.site.instruction) * 0x9e3779b97f4a7c15ull;
  if (origins_.size() < kMany) key = (key ^ origin.address ^ origin.agent.cluster) * 0xff51afd7ed558ccdull;
  const auto found = origin_index_.find(key);
  if (found != origin_index_.end()) return found->second;
  if (origins_.size() >= kMost) return static_cast<OriginId>(origins_.size());
  origins_.push_back(origin);
  const auto id = static_cast<OriginId>(origins_.size());
  origin_index_[key] = id;
  return id;
}

void Definedness::report(UndefinedUse use, const Agent& agent, Site site, OriginId from) {
  UndefinedEvent event;
  event.agent = agent;
  event.site = site;
  event.use = use;
  if (from != 0 && from <= origins_.size()) {
    const UndefinedOrigin& origin = origins_[from - 1u];
    event.has_origin = true;
    event.origin_agent = origin.agent;
    event.origin_site = origin.site;
    event.from_register = origin.from_register;
    event.space = origin.space;
    event.address = origin.address;
    event.bytes = origin.bytes;
  }
  observer_->on_undefined_use(event);
}

void Definedness::settle_mirror(const View& view, uint32_t bytes, const Agent& agent, Site site) {
  if (view.written == nullptr || written(view, bytes)) return;
  OriginId from = 0;
  for (uint32_t i = 0; i < bytes; ++i) {
    if (test_bit(view.written, view.bit + i)) continue;
    if (from == 0) {
      UndefinedOrigin origin{site, agent, false, view.space, view.address + i, 0};
      uint32_t end = i + 1;
      while (end < bytes && !test_bit(view.written, view.bit + end)) ++end;
      origin.bytes = end - i;
      from = new_origin(origin);
    }
    view.undefined[i] = std::byte{0xff};
    set_origin(view, i, from);
  }
}

bool Definedness::read(const View& view, uint32_t bytes, std::byte* undefined, OriginId& from, const Agent& agent,
                       Site site) {
  std::memset(undefined, 0, bytes);
  from = 0;
  if (view.written == nullptr) return false;
  const bool all_written = written(view, bytes);
  if (all_written && is_zero(view.undefined, bytes)) return false;
  bool fresh = false, any = false;
  uint32_t first = 0, count = 0;
  for (uint32_t i = 0; i < bytes; ++i) {
    const bool never = !all_written && !test_bit(view.written, view.bit + i);
    undefined[i] = never ? std::byte{0xff} : view.undefined[i];
    any = any || undefined[i] != std::byte{0};
    if (never) {
      if (!fresh) first = i;
      fresh = true;
      if (i == first + count) ++count;
    } else if (undefined[i] != std::byte{0} && from == 0) {
      from = origin_at(view, i);
    }
  }
  if (fresh && from == 0) from = new_origin({site, agent, false, view.space, view.address + first, count});
  return any;
}

void Definedness::remember_writer(const View& view, uint32_t bytes, const Agent& agent, Site site) {
  if (view.space != Space::global) return;
  constexpr size_t kMost = 1u << 24;
  if (written_by_.size() >= kMost) {
    add_gap("too many undefined values were stored to global memory: not all of their stores are remembered");
    return;
  }
  const uint64_t key = ((uint64_t{site.program} << 32 | site.instruction) * 0x9e3779b97f4a7c15ull) ^
                       (uint64_t{agent.cluster} << 16) ^ (uint64_t{agent.cta_rank} << 8) ^ agent.warp;
  const auto [it, inserted] = writer_index_.try_emplace(key, static_cast<uint32_t>(writers_.size()));
  if (inserted) writers_.push_back({agent, site});
  for (uint64_t word = view.address / 4; word <= (view.address + bytes - 1) / 4; ++word) written_by_[word] = it->second;
}

void Definedness::write(const View& view, uint32_t bytes, const std::byte* undefined, OriginId from, const Agent& agent,
                        Site site) {
  if (view.written == nullptr) return;
  mark(view, bytes);
  if (undefined == nullptr || is_zero(undefined, bytes)) {
    if (!is_zero(view.undefined, bytes)) std::memset(view.undefined, 0, bytes);
    return;
  }
  std::memcpy(view.undefined, undefined, bytes);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (undefined[i] != std::byte{0}) set_origin(view, i, from);
  }
  remember_writer(view, bytes, agent, site);
}

void Definedness::define(const View& view, uint32_t bytes, const Agent& agent, Site site) {
  write(view, bytes, nullptr, 0, agent, site);
}

void Definedness::copy(const View& to, const View& from, uint32_t bytes, const Agent& agent, Site site) {
  if (bytes == 0) return;
  if (from.written == nullptr || (written(from, bytes) && is_zero(from.undefined, bytes))) {
    define(to, bytes, agent, site);
    return;
  }
  settle_mirror(from, bytes, agent, site);
  if (to.written == nullptr) return;
  mark(to, bytes);
  std::memmove(to.undefined, from.undefined, bytes);
  for (uint32_t i = 0; i < bytes; ++i) {
    if (from.undefined[i] != std::byte{0}) set_origin(to, i, origin_at(from, i));
  }
  remember_writer(to, bytes, agent, site);
}

/// A reduction: an element is undefined if either operand has an undefined bit.
void Definedness::combine(const View& to, const View& from, uint32_t bytes, uint32_t element_bytes, const Agent& agent,
                          Site site) {
  if (to.written == nullptr || bytes == 0) return;
  settle_mirror(to, bytes, agent, site);
  settle_mirror(from, bytes, agent, site);
  mark(to, bytes);
  element_bytes = std::max(1u, element_bytes);
  for (uint32_t e = 0; e < bytes; e += element_bytes) {
    const uint32_t count = std::min(element_bytes, bytes - e);
    const bool own = !is_zero(to.undefined + e, count);
    const bool other = from.written != nullptr && !is_zero(from.undefined + e, count);
    if (!own && !other) continue;
    OriginId id = 0;
    for (uint32_t i = e; i < e + count && id == 0; ++i) {
      if (own ? to.undefined[i] != std::byte{0} : from.undefined[i] != std::byte{0}) id = origin_at(own ? to : from, i);
    }
    std::memset(to.undefined + e, 0xff, count);
    for (uint32_t i = e; i < e + count; ++i) set_origin(to, i, id);
    remember_writer(skip(to, e), count, agent, site);
  }
}

// --- asynchronous operations

void Definedness::issue(Cluster& cluster, const AsyncIssueEvent& event, const Box& box, uint32_t element_bytes) {
  if (event.kind == AsyncKind::prefetch) return;
  const bool reduces = event.kind == AsyncKind::bulk_reduce || event.kind == AsyncKind::tensor_reduce ||
                       event.kind == AsyncKind::red_async;
  const auto source = [&](const ByteRange& range) {
    return view(cluster, event.source_space, range.address, range.bytes);
  };
  const auto target = [&](const ByteRange& range) {
    return view(cluster, event.destination_space, range.address, range.bytes);
  };
  if (!tracking()) {
    for (const ByteRange& range : event.reads) {
      if (!written(source(range), range.bytes)) meet();
    }
    for (const ByteRange& range : event.writes) {
      const View to = target(range);
      if (reduces && !written(to, range.bytes)) meet();
      mark(to, range.bytes);
    }
    return;
  }
  const Agent& agent = event.agent;
  const Site site = event.site;
  switch (event.kind) {
    case AsyncKind::cp_async:
      for (size_t i = 0; i < event.writes.size(); ++i) {
        const View to = target(event.writes[i]);
        copy(to, source(event.reads[i]), event.reads[i].bytes, agent, site);
        // The rest is filled with zeros.
        const uint32_t rest = event.writes[i].bytes - event.reads[i].bytes;
        if (rest != 0 && to.written != nullptr) define(skip(to, event.reads[i].bytes), rest, agent, site);
      }
      return;
    case AsyncKind::bulk_copy:
    case AsyncKind::bulk_reduce:
      for (const ByteRange& range : event.writes) {
        const View from = source(event.reads[0]);
        if (reduces) {
          combine(target(range), from, range.bytes, element_bytes, agent, site);
        } else {
          copy(target(range), from, range.bytes, agent, site);
        }
      }
      return;
    case AsyncKind::st_async:
    case AsyncKind::red_async: {
      Warp& warp = *cluster.ctas[agent.cta_rank].warps[agent.warp];
      uint32_t lanes = agent.lanes;
      for (const ByteRange& range : event.writes) {
        const auto lane = static_cast<unsigned>(std::countr_zero(lanes));
        lanes &= lanes - 1;
        WarpDefinedness::Remote& remote = warp.definedness->remote[lane];
        const View to = target(range);
        if (reduces) {
          View carried;
          carried.space = Space::registers;
          std::array<std::byte, 32> ids{};
          for (size_t i = 0; i < ids.size(); i += 2) std::memcpy(ids.data() + i, &remote.origin, sizeof(OriginId));
          std::array<uint64_t, 1> all{~0ull};
          carried.written = all.data();
          carried.undefined = remote.undefined.data();
          carried.origin = ids.data();
          combine(to, carried, range.bytes, element_bytes, agent, site);
        } else {
          write(to, range.bytes, remote.undefined.data(), remote.origin, agent, site);
        }
        remote = {};
      }
      return;
    }
    case AsyncKind::tensor_copy:
    case AsyncKind::tensor_reduce: {
      bool clean = !reduces;
      for (const ByteRange& range : event.reads) {
        const View from = source(range);
        clean =
            clean && (from.written == nullptr || (written(from, range.bytes) && is_zero(from.undefined, range.bytes)));
      }
      const bool load = event.destination_space == Space::shared;
      // A load fills what lies outside the tensor; with a swizzle it may leave the ends of short rows alone, which
      // count as written then.
      if (load || clean) {
        for (const ByteRange& range : event.writes) define(target(range), range.bytes, agent, site);
      }
      if (clean || box.map == nullptr) return;
      const auto own = uint64_t{agent.cta_rank} << kCtaRankShift;
      if (load) {
        for (const ByteRange& range : event.writes) {
          const uint64_t base = range.address & ~kOffsetMask;
          for_each_box_run(*box.map, *box.coordinates, BoxDirection::load,
                           static_cast<uint32_t>(range.address & kOffsetMask), false, [&](const BoxRun& run) {
                             copy(target({base + run.shared_address, run.bytes}),
                                  source({run.global_address, run.bytes}), run.bytes, agent, site);
                           });
        }
        return;
      }
      for_each_box_run(*box.map, *box.coordinates, BoxDirection::store, box.shared_offset, false,
                       [&](const BoxRun& run) {
                         const View to = target({run.global_address, run.bytes});
                         const View from = source({own + run.shared_address, run.bytes});
                         if (reduces) {
                           combine(to, from, run.bytes, element_bytes, agent, site);
                         } else {
                           copy(to, from, run.bytes, agent, site);
                         }
                       });
      return;
    }
    case AsyncKind::wgmma:
    case AsyncKind::prefetch:
      return;
  }
}

void Definedness::issue_wgmma(Warp& warp, const AsyncIssueEvent& event, const WgmmaShape& shape, const WgmmaStep& step,
                              std::span<const uint32_t> d, std::span<const uint32_t> a) {
  Cluster& cluster = *warp.cluster;
  const auto source = [&](const ByteRange& range) { return view(cluster, Space::shared, range.address, range.bytes); };
  if (!tracking()) {
    if (warp.cta->definedness->unwritten == 0) return;
    auto& known = warp.cta->definedness->written_operands;
    const std::tuple operands(event.site.instruction, step.a_descriptor, step.b_descriptor);
    if (known.contains(operands)) return;
    bool all = true;
    for (const ByteRange& range : event.reads) all = written(source(range), range.bytes) && all;
    if (all) {
      known.insert(operands);
    } else {
      meet();
    }
    return;
  }
  bool clean = true;
  for (const ByteRange& range : event.reads) {
    const View from = source(range);
    if (from.written == nullptr || (written(from, range.bytes) && is_zero(from.undefined, range.bytes))) continue;
    clean = false;
    settle_mirror(from, range.bytes, event.agent, event.site);
  }
  FrameDefinedness& frame = frame_of(warp);
  // Slots are the registers' own in code for tracking: the way back is a search, once for each function.
  auto& registers = registers_of_[warp.frame->function];
  if (registers.empty()) {
    for (uint32_t r = 0; r < warp.frame->function->registers.size(); ++r)
      registers[warp.frame->function->registers[r].offset] = r;
  }
  std::vector<uint32_t> d_planes, a_planes;
  for (const uint32_t offset : d) d_planes.push_back(registers.at(offset));
  for (const uint32_t offset : a) {
    const auto found = registers.find(offset);
    a_planes.push_back(found != registers.end() ? found->second : ptx::kNone);
  }
  bool registers_clean = true;
  for (const uint32_t plane : d_planes)
    registers_clean = registers_clean && (!step.scale_d || frame.state[plane] == FrameDefinedness::defined);
  for (const uint32_t plane : a_planes) {
    registers_clean = registers_clean && (plane == ptx::kNone || frame.state[plane] == FrameDefinedness::defined);
  }
  if (clean && registers_clean) {
    for (const uint32_t plane : d_planes) frame.define(plane, kFullMask);
    return;
  }
  // PTX ISA "Register Fragments and Shared Memory Matrix Layouts" of wgmma: lane l of warp w holds rows 16 w + l / 4
  // and eight further down; register pairs go through the columns in steps of eight. An undefined element of A spoils
  // its row, one of B its column.
  const unsigned k = shape.k(), first_row = 16 * (warp.index % 4);
  std::array<OriginId, 16> row{};
  std::vector<OriginId> column(shape.n, 0);
  constexpr OriginId kUnnamed = 0xffff;
  const auto of = [](OriginId id) { return id != 0 ? id : kUnnamed; };
  const CtaDefinedness& shared = *warp.cta->definedness;
  const auto element = [&](const MatrixLayout& layout, unsigned mn, unsigned at_k) -> OriginId {
    const uint32_t address = layout.address(mn, at_k), bytes = layout.element_bytes();
    if (address + bytes > warp.cta->shared_bytes || is_zero(shared.undefined.data() + address, bytes)) return 0;
    OriginId id = 0;
    std::memcpy(&id, shared.origin.data() + address / 2 * 2, sizeof id);
    return of(id);
  };
  if (!clean) {
    const MatrixLayout b = b_layout(shape, step.b_descriptor);
    for (unsigned n = 0; n < shape.n; ++n) {
      for (unsigned i = 0; i < k && column[n] == 0; ++i) column[n] = element(b, n, i);
    }
    if (!shape.a_in_registers) {
      const MatrixLayout layout = a_layout(shape, step.a_descriptor);
      for (unsigned m = 0; m < 16; ++m) {
        for (unsigned i = 0; i < k && row[m] == 0; ++i) row[m] = element(layout, first_row + m, i);
      }
    }
  }
  const auto register_origin = [&](uint32_t plane, unsigned lane) {
    OriginId& id = frame.origin[size_t{plane} * kLanes + lane];
    if (id == 0) id = new_origin({event.site, event.agent, true, Space::registers, plane, 0});
    return id;
  };
  for (size_t i = 0; i < a_planes.size(); ++i) {
    if (a_planes[i] == ptx::kNone || frame.state[a_planes[i]] == FrameDefinedness::defined) continue;
    frame.spread(a_planes[i]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      if ((frame.get(a_planes[i], lane) & 0xffffffff) == 0) continue;
      OriginId& id = row[lane / 4 + 8 * (i % 2)];
      if (id == 0) id = register_origin(a_planes[i], lane);
    }
  }
  const bool packed = shape.accumulator == AccumulatorType::f16;
  for (size_t r = 0; r < d_planes.size(); ++r) {
    const uint32_t plane = d_planes[r];
    if (step.scale_d) frame.spread(plane);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      const unsigned m = lane / 4 + 8 * static_cast<unsigned>(packed ? r % 2 : r / 2 % 2);
      const auto group = static_cast<unsigned>(packed ? r / 2 : r / 4);
      const unsigned n = 8 * group + 2 * (lane % 4) + static_cast<unsigned>(packed ? 0 : r % 2);
      uint64_t undefined = step.scale_d ? frame.get(plane, lane) & 0xffffffff : 0;
      OriginId id = undefined != 0 ? register_origin(plane, lane) : OriginId{0};
      for (unsigned half = 0; half < (packed ? 2u : 1u); ++half) {
        const uint64_t bits = packed ? 0xffffull << (16 * half) : 0xffffffffull;
        if ((undefined & bits) != 0) undefined |= bits;
        const OriginId from = row[m] != 0 ? row[m] : column[n + half];
        if (from == 0) continue;
        undefined |= bits;
        if (id == 0) id = from == kUnnamed ? OriginId{0} : from;
      }
      frame.set(plane, lane, undefined, id);
    }
    frame.define(plane, 0);
  }
}

}  // namespace ptxbench::emulator
