#include "emulator/launch_trace.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ptxbench::emulator {
namespace {

uint64_t mix(uint64_t digest, uint64_t value) { return (std::rotl(digest, 23) ^ value) * 0x9e3779b97f4a7c15ull; }

/// Starts an event's digest with what it is, where, and which lanes execute it together.
uint64_t start(uint64_t kind, Site site, uint32_t lanes) {
  return mix(mix(kind, uint64_t{site.program} << 32 | site.instruction), lanes);
}

enum EventKind : uint64_t {
  kAccess = 1,
  kRegisters,
  kFence,
  kBarrier,
  kMbarrier,
  kCompletion,
  kIssue,
  kCommit,
  kGroupWait,
  kExit
};

thread_local unsigned current_worker = 0;

}  // namespace

// --- written bytes

void WrittenBytes::add(uint64_t address, uint64_t bytes) {
  for (const uint64_t end = address + bytes; address < end;) {
    const uint64_t number = address / kPageBytes, stop = std::min(end, (number + 1) * kPageBytes);
    if (number != last_number_) {
      auto& page = pages_[number];
      if (page == nullptr) page = std::make_unique<Page>();
      last_ = page.get();
      last_number_ = number;
    }
    uint64_t first = address % kPageBytes;
    for (uint64_t count = stop - address; count != 0;) {
      const uint64_t bit = first % 64, here = std::min<uint64_t>(count, 64 - bit);
      last_->bits[first / 64] |= (here == 64 ? ~0ull : (1ull << here) - 1) << bit;
      first += here;
      count -= here;
    }
    address = stop;
  }
}

void WrittenBytes::absorb(WrittenBytes&& other) {
  for (auto& [number, page] : other.pages_) {
    auto& mine = pages_[number];
    if (mine == nullptr) {
      mine = std::move(page);
      continue;
    }
    for (size_t i = 0; i < mine->bits.size(); ++i) mine->bits[i] |= page->bits[i];
  }
  other = {};
  last_number_ = ~0ull;
}

std::vector<ByteRange> WrittenBytes::ranges() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(pages_.size());
  for (const auto& [number, page] : pages_) numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  std::vector<ByteRange> result;
  const auto add = [&](uint64_t address, uint32_t bytes) {
    if (!result.empty() && result.back().address + result.back().bytes == address &&
        result.back().bytes <= (1u << 30)) {
      result.back().bytes += bytes;
    } else {
      result.push_back({address, bytes});
    }
  };
  for (const uint64_t number : numbers) {
    const Page& page = *pages_.at(number);
    for (size_t w = 0; w < page.bits.size(); ++w) {
      for (uint64_t rest = page.bits[w]; rest != 0;) {
        const auto first = static_cast<unsigned>(std::countr_zero(rest));
        const auto count = static_cast<unsigned>(std::countr_one(rest >> first));
        add(number * kPageBytes + w * 64 + first, count);
        rest = count == 64 ? 0 : rest & ~(((1ull << count) - 1) << first);
      }
    }
  }
  return result;
}

// --- store

std::shared_ptr<const LaunchTrace> TraceStore::find(uint64_t launch, uint64_t shape) const {
  const std::lock_guard lock(mutex_);
  const auto found = traces_.find(launch);
  return found == traces_.end() || found->second->shape != shape ? nullptr : found->second;
}

void TraceStore::keep(uint64_t launch, LaunchTrace trace) {
  const std::lock_guard lock(mutex_);
  const size_t bytes = trace.memory();
  if (bytes > room_) return;
  if (traces_.emplace(launch, std::make_shared<const LaunchTrace>(std::move(trace))).second) room_ -= bytes;
}

size_t TraceStore::room() const {
  const std::lock_guard lock(mutex_);
  return room_;
}

// --- observer

TraceObserver::TraceObserver(Observer* inner, const LaunchEvent& launch, uint32_t clusters, unsigned workers)
    : inner_(inner),
      clusters_(clusters),
      warps_per_cta_((launch.block[0] * launch.block[1] * launch.block[2] + 31) / 32),
      ctas_(launch.cluster[0] * launch.cluster[1] * launch.cluster[2]),
      threads_(ctas_ * launch.block[0] * launch.block[1] * launch.block[2]),
      workers_(std::max(1u, workers)) {}

void TraceObserver::watch_global(const AddressSpace& memory, UndoLog& undo, std::atomic<bool>& stop, bool few_kinds,
                                 size_t touch_bytes) {
  memory_ = &memory;
  few_kinds_ = few_kinds;
  stop_ = &stop;
  touch_bytes_ = touch_bytes / workers_.size();
  for (Worker& worker : workers_) worker.global = std::make_unique<GlobalTouches>(undo);
}

TraceObserver::Worker& TraceObserver::worker() { return workers_[current_worker]; }

void TraceObserver::on_worker(unsigned worker) {
  current_worker = worker;
  if (inner_ != nullptr) inner_->on_worker(worker);
}

TraceObserver::Running& TraceObserver::running_of(Worker& worker, const Agent& agent) {
  if (worker.last_cluster != agent.cluster) {
    const auto [at, fresh] = worker.running.try_emplace(agent.cluster);
    if (fresh) {
      at->second.warps.resize(size_t{ctas_} * warps_per_cta_);
      at->second.threads_left = threads_;
    }
    worker.last = &at->second;
    worker.last_cluster = agent.cluster;
  }
  return *worker.last;
}

TraceObserver::WarpTrace* TraceObserver::warp_of(Worker& worker, const Agent& agent) {
  Running& running = running_of(worker, agent);
  return running.warps.empty() ? nullptr : &running.warps[size_t{agent.cta_rank} * warps_per_cta_ + agent.warp];
}

void TraceObserver::add(const Agent& agent, const Digests& event) {
  Worker& here = worker();
  WarpTrace* warp = warp_of(here, agent);
  if (warp == nullptr) return;
  if ((warp->turned_away & agent.lanes) != 0) give_up();
  const auto mix_in = [&](std::array<uint64_t, 32>& lanes, uint64_t value) {
    for (unsigned lane = 0; lane < 32; ++lane)
      lanes[lane] = (agent.lanes >> lane & 1) != 0 ? mix(lanes[lane], value) : lanes[lane];
  };
  mix_in(warp->lanes, event.whole);
  if (stop_ == nullptr) return;
  mix_in(warp->kinds, event.kind);
  uint64_t& schedule = here.last->schedule;
  schedule = mix(mix(schedule, agent.time), uint64_t{agent.cta_rank} << 32 | agent.warp);
}

// --- global memory

void TraceObserver::touch_lanes(const AccessEvent& event) {
  const Agent& agent = event.agent;
  const uint32_t first = agent.cluster * threads_ + agent.cta_rank * (threads_ / ctas_) + agent.warp * 32 + 1;
  const TouchKind kind = event.kind == AccessKind::read ? TouchKind::read : TouchKind::write;
  const auto touch = [&](unsigned lane, uint32_t lanes) {
    const uint64_t address = event.addresses[lane];
    // An access that leaves its allocation stops the launch before it has an effect.
    if (kind == TouchKind::write && !memory_->contains(address, uint64_t{event.bytes} * lanes)) return;
    // The non-coherent path must not see what anybody writes, the same thread included.
    const uint32_t thread = event.proxy == Proxy::read_only ? GlobalTouches::kMany : first + lane;
    if (!worker().global->range(address, event.bytes, lanes, thread, kind)) give_up();
  };
  bool row = agent.lanes == 0xffffffffu;
  for (unsigned lane = 1; lane < 32 && row; ++lane)
    row = event.addresses[lane] == event.addresses[0] + uint64_t{lane} * event.bytes;
  if (row) return touch(0, 32);
  for (uint32_t rest = agent.lanes; rest != 0; rest &= rest - 1)
    touch(static_cast<unsigned>(std::countr_zero(rest)), 1);
}

void TraceObserver::touch(uint64_t address, uint64_t bytes, TouchKind kind) {
  if (bytes == 0 || (kind == TouchKind::write && !memory_->contains(address, bytes))) return;
  const auto unit = static_cast<uint32_t>(std::min<uint64_t>(16, (address | bytes) & (0 - (address | bytes))));
  const auto units = static_cast<uint32_t>(bytes / unit);
  if (!worker().global->range(address, unit, units, GlobalTouches::kMany, kind)) give_up();
}

void TraceObserver::count_kind(uint64_t kind) {
  constexpr size_t kFew = 16, kOneIn = 8;
  if (!few_kinds_) return;
  const std::lock_guard lock(kinds_mutex_);
  kinds_.insert(kind);
  ++ended_;
  if (kinds_.size() > kFew + ended_ / kOneIn) stop_->store(true);
}

void TraceObserver::look_for_barriers(const Agent& agent, uint64_t address, uint64_t bytes) {
  const auto& barriers = running_of(worker(), agent).barriers;
  const auto barrier = barriers.lower_bound(address & ~uint64_t{7});
  if (barrier != barriers.end() && *barrier < address + bytes) give_up();
}

// --- events

void TraceObserver::on_access(const AccessEvent& event) {
  // Which write a strong read saw, or where an update stands among others, the digest does not tell.
  if (event.semantics != Semantics::weak || event.kind == AccessKind::atomic || event.clashing != 0) give_up();
  const bool global = event.space == Space::global;
  Digests digest;
  digest.kind = mix(start(kAccess, event.site, event.agent.lanes),
                    static_cast<uint64_t>(event.space) << 40 | static_cast<uint64_t>(event.kind) << 32 |
                        static_cast<uint64_t>(event.proxy) << 24 | event.bytes);
  digest.whole = digest.kind;
  for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1)
    digest.whole = mix(digest.whole, event.addresses[std::countr_zero(rest)]);
  if (!global) digest.kind = digest.whole;
  if (stop_ != nullptr && event.space == Space::shared && event.kind == AccessKind::read) {
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1)
      look_for_barriers(event.agent, event.addresses[std::countr_zero(rest)], event.bytes);
  }
  add(event.agent, digest);
  if (global && event.kind != AccessKind::read) {
    for (uint32_t rest = event.agent.lanes; rest != 0; rest &= rest - 1)
      worker().written.add(event.addresses[std::countr_zero(rest)], event.bytes);
  }
  if (global && stop_ != nullptr) {
    touch_lanes(event);
    bound_memory(worker());
  }
  if (inner_ != nullptr) inner_->on_access(event);
}

void TraceObserver::on_registers(const RegisterEvent& event) {
  add(event.agent, start(kRegisters, event.site, event.agent.lanes));
  if (inner_ != nullptr) inner_->on_registers(event);
}

void TraceObserver::on_fence(const FenceEvent& event) {
  add(event.agent, mix(start(kFence, event.site, event.agent.lanes), event.tensor_map.address));
  if (inner_ != nullptr) inner_->on_fence(event);
}

void TraceObserver::on_barrier(const BarrierEvent& event) {
  // Whether a thread had to wait is chance.
  if (event.action != BarrierAction::wait_begin) {
    uint64_t digest = start(kBarrier, event.site, event.agent.lanes);
    digest = mix(digest, static_cast<uint64_t>(event.action) << 32 | event.id);
    if (event.kind == BarrierKind::cta || event.kind == BarrierKind::cluster) digest = mix(digest, event.generation);
    add(event.agent, digest);
  }
  if (inner_ != nullptr) inner_->on_barrier(event);
}

void TraceObserver::on_mbarrier(const MbarrierEvent& event) {
  const bool waits = event.action == MbarrierAction::wait_failure || event.action == MbarrierAction::wait_success;
  if (WarpTrace* warp = waits ? warp_of(worker(), event.agent) : nullptr) {
    const bool away = event.action == MbarrierAction::wait_failure;
    const bool elsewhere = warp->turned_away != 0 && warp->asked_at != event.site.instruction;
    // Lanes that go on without an answer, or that ask at several places at once, which is too much to follow.
    if (elsewhere && (away || (warp->turned_away & event.agent.lanes) != 0)) give_up();
    warp->turned_away = (warp->turned_away & ~event.agent.lanes) | (away ? event.agent.lanes : 0);
    if (away) warp->asked_at = event.site.instruction;
  }
  if (stop_ != nullptr) running_of(worker(), event.agent).barriers.insert(event.address);
  if (event.action != MbarrierAction::wait_failure) {
    const bool completion = event.completed_by != 0;
    uint64_t digest = start(completion ? kCompletion : kMbarrier, event.site, event.agent.lanes);
    digest = mix(digest, static_cast<uint64_t>(event.action) << 32 | event.count);
    digest = mix(digest, event.address);
    digest = mix(digest, event.phase);
    digest = mix(digest, static_cast<uint64_t>(event.bytes));
    if (completion) {
      Running& running = running_of(worker(), event.agent);
      const auto operation = running.operations.find(event.completed_by);
      const Digests by = operation == running.operations.end() ? Digests{} : operation->second.digests;
      running.completions.whole += mix(digest, by.whole);
      running.completions.kind += mix(digest, by.kind);
      if (operation != running.operations.end() && !operation->second.several) running.operations.erase(operation);
    } else {
      add(event.agent, digest);
    }
  }
  if (inner_ != nullptr) inner_->on_mbarrier(event);
}

uint64_t TraceObserver::place_box(Running& running, const AsyncIssueEvent& event) {
  const auto continues = [](const PlacedBox& box, const PlacedBox& next) {
    return box.tensor_map == next.tensor_map && box.layout.continued_by(next.layout);
  };
  uint64_t result = 0;
  for (const ByteRange& range : event.writes) {
    const PlacedBox box{event.tensor_map, range.address + range.bytes, event.layout[0]};
    const auto before = running.box_that_ends.find(range.address);
    if (before != running.box_that_ends.end()) {
      const PlacedBox& neighbour = running.boxes[before->second];
      result = mix(result, neighbour.end == range.address && continues(neighbour, box) ? 1 : 0);
    }
    const auto after = running.boxes.find(box.end);
    if (after != running.boxes.end()) result = mix(result, continues(box, after->second) ? 3 : 2);
    running.boxes[range.address] = box;
    running.box_that_ends[box.end] = range.address;
  }
  return result;
}

TraceObserver::Digests TraceObserver::digest_issue(const AsyncIssueEvent& event) {
  uint64_t common = start(kIssue, event.site, event.agent.lanes);
  common = mix(common, event.completion_target);
  common = mix(common, event.completion_phase);
  common = mix(common, event.tensor_map << 1 | (event.accumulates ? 1 : 0));
  if (event.kind == AsyncKind::wgmma) {
    // Which bytes the operands are follows from the instruction and its descriptors.
    for (const AsyncIssueEvent::TileLayout& layout : event.layout) {
      common = mix(common, layout.start);
      common = mix(common, uint64_t{layout.leading_offset} << 32 | layout.stride_offset);
      common = mix(common, uint64_t{layout.swizzle_bytes} << 32 | layout.base_offset);
    }
    return {common, common};
  }
  Digests digest{common, common};
  for (const int32_t origin : event.layout[0].origin) digest.whole = mix(digest.whole, static_cast<uint32_t>(origin));
  if (stop_ != nullptr && event.kind == AsyncKind::tensor_copy && event.destination_space == Space::shared)
    digest.kind = mix(digest.kind, place_box(running_of(worker(), event.agent), event));
  const auto add_ranges = [&](std::span<const ByteRange> ranges, Space space) {
    uint64_t bytes = 0;
    for (const ByteRange& range : ranges) {
      digest.whole = mix(mix(digest.whole, range.address), range.bytes);
      if (space != Space::global) digest.kind = mix(mix(digest.kind, range.address), range.bytes);
      bytes += range.bytes;
    }
    digest.kind = mix(digest.kind, bytes);
  };
  add_ranges(event.reads, event.source_space);
  add_ranges(event.writes, event.destination_space);
  return digest;
}

void TraceObserver::on_async_issue(const AsyncIssueEvent& event) {
  const Digests digest = digest_issue(event);
  add(event.agent, digest);
  if (event.completion == Completion::mbarrier) {
    Digests name = digest;
    if (const WarpTrace* warp = warp_of(worker(), event.agent)) {
      const auto lane = static_cast<unsigned>(std::countr_zero(event.agent.lanes | 1u << 31));
      name = {mix(name.whole, warp->lanes[lane]), mix(name.kind, warp->kinds[lane])};
    }
    running_of(worker(), event.agent).operations[event.id] = {name, event.writes.size() > 1};
  }
  if (event.destination_space == Space::global) {
    for (const ByteRange& range : event.writes) worker().written.add(range.address, range.bytes);
  }
  if (stop_ != nullptr) {
    // Not of tensor cores, whose operands are many ranges: a barrier's word among them is found by what examples store.
    if (event.source_space == Space::shared && event.kind != AsyncKind::wgmma) {
      for (const ByteRange& range : event.reads) look_for_barriers(event.agent, range.address, range.bytes);
    }
    bound_memory(worker());
    if (event.tensor_map != 0) touch(event.tensor_map, 128, TouchKind::read);
    if (event.source_space == Space::global) {
      for (const ByteRange& range : event.reads) touch(range.address, range.bytes, TouchKind::read);
    }
    if (event.destination_space == Space::global) {
      for (const ByteRange& range : event.writes) touch(range.address, range.bytes, TouchKind::write);
    }
  }
  if (inner_ != nullptr) inner_->on_async_issue(event);
}

void TraceObserver::on_group_commit(const Agent& agent, Site site, Completion kind, uint64_t group) {
  add(agent, mix(start(kCommit, site, agent.lanes), group));
  if (inner_ != nullptr) inner_->on_group_commit(agent, site, kind, group);
}

void TraceObserver::on_group_wait(const GroupWaitEvent& event) {
  const uint64_t digest = start(kGroupWait, event.site, event.agent.lanes);
  add(event.agent, mix(digest, event.group << 2 | (event.reads_only ? 2 : 0) | (event.none ? 1 : 0)));
  if (inner_ != nullptr) inner_->on_group_wait(event);
}

void TraceObserver::on_exit(const Agent& agent, Site site) {
  add(agent, start(kExit, site, agent.lanes));
  Running& running = running_of(worker(), agent);
  running.threads_left -= static_cast<uint32_t>(std::popcount(agent.lanes));
  if (running.threads_left == 0) {
    for (const WarpTrace& warp : running.warps) {
      for (const uint64_t lane : warp.lanes) running.ended.whole = mix(running.ended.whole, lane);
      for (const uint64_t lane : warp.kinds) running.ended.kind = mix(running.ended.kind, lane);
    }
    running.warps = {};
    running.boxes = {};
    running.box_that_ends = {};
    if (stop_ != nullptr) count_kind(running.ended.kind);
  }
  if (inner_ != nullptr) inner_->on_exit(agent, site);
}

bool TraceObserver::finish(LaunchTrace& trace) {
  trace.clusters.assign(clusters_, 0);
  if (stop_ != nullptr) {
    trace.kinds.assign(clusters_, 0);
    trace.schedules.assign(clusters_, 0);
  }
  WrittenBytes written;
  for (Worker& worker : workers_) {
    if (worker.unsuitable) return false;
    for (const auto& [index, running] : worker.running) {
      if (running.threads_left != 0 || index >= clusters_) return false;
      trace.clusters[index] = mix(running.ended.whole, running.completions.whole) | 1;
      if (stop_ == nullptr) continue;
      trace.kinds[index] = mix(running.ended.kind, running.completions.kind) | 1;
      trace.schedules[index] = running.schedule;
    }
    written.absorb(std::move(worker.written));
  }
  for (size_t w = 1; w < workers_.size() && stop_ != nullptr; ++w) {
    if (!workers_[0].global->absorb(*workers_[w].global)) return false;
  }
  trace.written = written.ranges();
  return true;
}

// --- what is launched, and on what

uint64_t digest_shape(const LaunchEvent& launch, uint32_t function, std::span<const uint32_t> sample) {
  uint64_t digest = mix(mix(launch.program, function), launch.shared_bytes);
  for (const auto* dimensions : {launch.grid, launch.block, launch.cluster}) {
    for (int i = 0; i < 3; ++i) digest = mix(digest, dimensions[i]);
  }
  for (const uint32_t cluster : sample) digest = mix(digest, cluster);
  return digest;
}

uint64_t live_bytes(const AddressSpace& memory) {
  uint64_t bytes = 0;
  for (const Allocation& block : memory.live()) bytes += block.bytes;
  return bytes;
}

MemoryDigest digest_memory(const AddressSpace& memory, const UndoLog* undo) {
  constexpr uint64_t kPage = UndoLog::kPageBytes;
  MemoryDigest digest = 0;
  for (const Allocation& block : memory.live()) {
    digest = mix(mix(digest, block.begin), block.bytes);
    for (uint64_t at = block.begin; at < block.end();) {
      const uint64_t page = at / kPage, stop = std::min(block.end(), (page + 1) * kPage);
      const std::byte* saved = undo == nullptr ? nullptr : undo->find(page);
      const std::byte* bytes = saved != nullptr ? saved + at % kPage : host_pointer(at);
      digest = mix(digest, XXH3_64bits(bytes, stop - at));
      at = stop;
    }
  }
  return digest;
}

}  // namespace ptxbench::emulator
