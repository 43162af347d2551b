#include "checker/shadow.h"

#include <algorithm>
#include <bit>
#include <tuple>

namespace ptxbench::checker {

namespace {

bool reaches(Reach reach, const Position& from, const Position& to) {
  switch (reach) {
    case Reach::none:
      return false;
    case Reach::cta:
      return from.cluster == to.cluster && from.cta == to.cta;
    case Reach::cluster:
      return from.cluster == to.cluster;
    case Reach::gpu:
      return true;
  }
  return false;
}

}  // namespace

uint32_t Access::lanes_of(uint32_t mask) const {
  mask &= bytes;
  if (mask == bytes) return lanes;
  if (lane_shift == kEveryLane) return mask != 0 ? lanes : 0;
  return lanes_by_place(mask);
}

uint32_t Access::lanes_by_place(uint32_t mask) const {
  uint32_t result = 0;
  while (mask != 0) {
    const auto byte = static_cast<unsigned>(std::countr_zero(mask));
    const unsigned slice = byte >> lane_shift;
    result |= 1u << static_cast<unsigned>(first_lane + static_cast<int>(slice));
    const uint32_t width = 1u << lane_shift;
    const uint32_t slice_bytes = width >= 32 ? 0xffffffffu : ((1u << width) - 1u) << (slice * width);
    mask &= ~slice_bytes;
  }
  return result;
}

Shadow::Shadow(ShadowSpace space, const std::vector<Operation>& operations,
               std::function<Position(Timeline)> position_of, OnReport report, size_t crowd)
    : space_(space),
      operations_(operations),
      position_of_(std::move(position_of)),
      report_(std::move(report)),
      crowd_(crowd) {}

void Shadow::clear() {
  pages_.clear();
  last_page_ = nullptr;
  last_page_number_ = ~0ull;
  overflow_bytes_ = 0;
}

Shadow::Sector& Shadow::sector_at(uint64_t address) {
  const uint64_t number = address / (kSectorBytes * kPageSectors);
  if (number != last_page_number_) {
    std::unique_ptr<Page>& page = pages_[number];
    if (page == nullptr) page = std::make_unique<Page>();
    last_page_ = page.get();
    last_page_number_ = number;
  }
  return last_page_->sectors[address / kSectorBytes % kPageSectors];
}

void Shadow::touch(const Context& context, Access access, uint64_t address, uint32_t bytes, Step step) {
  const int lane0 = access.first_lane;
  for (uint64_t at = address, end = address + bytes; at < end;) {
    const uint64_t sector_begin = at / kSectorBytes * kSectorBytes;
    const uint64_t stop = std::min(end, sector_begin + kSectorBytes);
    const auto low = static_cast<uint32_t>(at - sector_begin), count = static_cast<uint32_t>(stop - at);
    access.bytes = (count == 32 ? 0xffffffffu : (1u << count) - 1u) << low;
    if (access.lane_shift != Access::kEveryLane) {
      // Lanes are counted from the sector's first byte, which may lie before the range.
      const auto from_start = static_cast<int64_t>(sector_begin) - static_cast<int64_t>(address);
      access.first_lane = static_cast<int8_t>(lane0 + (from_start >> access.lane_shift));
      access.lanes = access.lanes_by_place(access.bytes);
    }
    touch_sector(context, access, sector_at(at), sector_begin, step);
    at = stop;
  }
}

void Shadow::visit(uint64_t address, uint64_t bytes, const Visit& use) const {
  constexpr uint64_t kPageBytes = uint64_t{kSectorBytes} * kPageSectors;
  const uint64_t end = address + bytes;
  const auto visit_page = [&](uint64_t number, const Page& page) {
    const uint64_t begin = std::max(address, number * kPageBytes), stop = std::min(end, (number + 1) * kPageBytes);
    for (uint64_t at = begin; at < stop;) {
      const uint64_t sector_begin = at / kSectorBytes * kSectorBytes;
      const uint64_t next = std::min(stop, sector_begin + kSectorBytes);
      const auto low = static_cast<uint32_t>(at - sector_begin), count = static_cast<uint32_t>(next - at);
      const uint32_t mask = (count == 32 ? 0xffffffffu : (1u << count) - 1u) << low;
      const Sector& sector = page.sectors[sector_begin / kSectorBytes % kPageSectors];
      const auto visit_access = [&](const Access& access) {
        if ((access.bytes & mask) != 0) use(access, access.bytes & mask, sector_begin);
      };
      for (unsigned i = 0; i < sector.count; ++i) visit_access(sector.accesses[i]);
      if (sector.more != nullptr) {
        for (const Crowd& crowd : *sector.more) {
          for (const Access& access : crowd.accesses) visit_access(access);
        }
      }
      at = next;
    }
  };
  const uint64_t first = address / kPageBytes, last = (end - 1) / kPageBytes;
  if (last - first >= pages_.size()) {
    for (const auto& [number, page] : pages_) {
      if (number >= first && number <= last) visit_page(number, *page);
    }
    return;
  }
  for (uint64_t number = first; number <= last; ++number) {
    if (const auto page = pages_.find(number); page != pages_.end()) visit_page(number, *page->second);
  }
}

uint64_t Shadow::crowd_of(const Access& access, const Position& position) {
  constexpr uint64_t kReads = 1, kReductions = 2;
  if (access.kind == AccessKind::reduce) return kReductions;
  if (access.reach == Reach::none) return access.kind == AccessKind::read ? kReads : kMixed;
  if (access.operation != 0 || access.proxy != ProxyKind::generic) return kMixed;
  uint64_t place = 0;
  if (access.reach != Reach::gpu) place = uint64_t{position.cluster} << 16;
  if (access.reach == Reach::cta) place |= position.cta;
  return static_cast<uint64_t>(access.reach) << 56 | uint64_t{access.unit} << 48 | place;
}

void Shadow::thin_out(Crowd& crowd) const {
  // What must be equal for one access to stand for another, and when each is over.
  struct Entry {
    std::tuple<bool, bool, AccessKind, ProxyKind, Timeline, uint32_t, uint8_t, int> key;
    Time over;
    const Access* access;
  };
  std::vector<Entry> entries;
  entries.reserve(crowd.accesses.size());
  std::vector<Access> kept;
  for (const Access& access : crowd.accesses) {
    Timeline on = access.timeline;
    Time over = access.time;
    bool per_lane = false;
    if (access.operation != 0) {
      const Operation& operation = operations_[access.operation];
      on = access.writes() ? operation.writes_on : operation.reads_on;
      over = access.writes() ? operation.writes_at : operation.reads_at;
      per_lane = operation.per_lane;
      if (over == Operation::kPending) {
        kept.push_back(access);
        continue;
      }
    }
    const int first_lane = access.lane_shift == Access::kEveryLane ? 0 : access.first_lane;
    entries.push_back(
        {{access.operation != 0, per_lane, access.kind, access.proxy, on, access.bytes, access.lane_shift, first_lane},
         over,
         &access});
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.key != b.key ? a.key < b.key : a.over > b.over; });
  uint32_t lanes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (i == 0 || entries[i].key != entries[i - 1].key) lanes = 0;
    const Access& access = *entries[i].access;
    // An operation that completes as a whole is over for all lanes at once.
    const bool whole = access.operation != 0 && !operations_[access.operation].per_lane;
    const uint32_t own = whole ? kAllLanes : access.lanes;
    if ((own & ~lanes) != 0) kept.push_back(access);
    lanes |= own;
  }
  crowd.accesses.assign(kept.begin(), kept.end());
  crowd.full = std::max(crowd_, 2 * crowd.accesses.size());
}

void Shadow::remember(Sector& sector, const Access& access, uint64_t kind) {
  if (sector.count < Sector::kInline) {
    sector.accesses[sector.count++] = access;
    return;
  }
  if (sector.more == nullptr) {
    sector.more = std::make_unique<std::vector<Crowd>>();
    overflow_bytes_ += sizeof(std::vector<Crowd>);
  }
  std::vector<Crowd>& more = *sector.more;
  auto crowd = std::find_if(more.begin(), more.end(), [&](const Crowd& one) { return one.kind == kind; });
  if (crowd == more.end())
    crowd = std::find_if(more.begin(), more.end(), [](const Crowd& one) { return one.accesses.empty(); });
  if (crowd == more.end()) {
    overflow_bytes_ += sizeof(Crowd);
    crowd = more.emplace(more.end());
  }
  if (crowd->accesses.empty()) {
    crowd->kind = kind;
    crowd->full = crowd_;
  }
  const size_t before = crowd->accesses.capacity();
  if (kind != kMixed && crowd->accesses.size() >= crowd->full) thin_out(*crowd);
  crowd->accesses.push_back(access);
  overflow_bytes_ += (crowd->accesses.capacity() - before) * sizeof(Access);
}

void Shadow::touch_sector(const Context& context, const Access& access, Sector& sector, uint64_t address, Step step) {
  const auto visit = [&](Access& earlier) {
    const uint32_t common = earlier.bytes & access.bytes;
    if (common == 0) return;
    const bool superseded = check(context, earlier, access, address, step == Step::remember);
    if (!superseded || step == Step::check) return;
    earlier.bytes &= ~common;
    if (earlier.bytes != 0 && earlier.lane_shift != Access::kEveryLane)
      earlier.lanes = earlier.lanes_by_place(earlier.bytes);
  };
  for (unsigned i = 0; i < sector.count; ++i) visit(sector.accesses[i]);
  const uint64_t kind = crowd_of(access, context.position);
  if (sector.more != nullptr) {
    for (Crowd& crowd : *sector.more) {
      if (kind != kMixed && crowd.kind == kind) continue;
      for (Access& earlier : crowd.accesses) visit(earlier);
      if (step != Step::check) std::erase_if(crowd.accesses, [](const Access& earlier) { return earlier.bytes == 0; });
    }
  }
  if (step == Step::check) return;
  unsigned kept = 0;
  for (unsigned i = 0; i < sector.count; ++i) {
    if (sector.accesses[i].bytes == 0) continue;
    if (kept != i) sector.accesses[kept] = sector.accesses[i];
    ++kept;
  }
  sector.count = static_cast<uint8_t>(kept);
  remember(sector, access, kind);
}

bool Shadow::stands_for(const Context& context, const Access& earlier, const Access& later) const {
  if (later.kind == AccessKind::reduce) return false;
  if (later.reach == Reach::none || later.operation != 0) return true;
  if (earlier.operation != 0 || earlier.reach < later.reach || earlier.unit != later.unit) return false;
  const Position from = position_of_(earlier.timeline);
  return from.cluster == context.position.cluster && from.cta == context.position.cta;
}

bool Shadow::ordered(const Context& context, const Access& earlier, const Access& later, uint32_t bytes) const {
  const Knowledge& knowledge = *context.knowledge;
  if (earlier.operation != 0) {
    const Operation& operation = operations_[earlier.operation];
    const bool writes = earlier.writes();
    const Time at = writes ? operation.writes_at : operation.reads_at;
    return at != Operation::kPending &&
           knowledge.seen.covers(writes ? operation.writes_on : operation.reads_on,
                                 operation.per_lane ? earlier.lanes_of(bytes) : kAllLanes, at);
  }
  // Lanes of one warp: what a lane did itself comes before. The same shape at the same place means the same lanes.
  const bool same_warp = earlier.timeline == later.timeline && later.operation == 0;
  if (same_warp && earlier.lane_shift != Access::kEveryLane && earlier.lane_shift == later.lane_shift &&
      earlier.first_lane == later.first_lane) {
    return true;
  }
  if (knowledge.seen.covers(earlier.timeline, earlier.lanes_of(bytes), earlier.time)) return true;
  if (!same_warp) return false;
  for (uint32_t rest = bytes; rest != 0; rest &= rest - 1) {
    const uint32_t byte = rest & (0u - rest);
    const uint32_t before = earlier.lanes_of(byte), after = later.lanes_of(byte);
    // Every lane that comes later must come after every lane that came before.
    if (before == after && std::has_single_bit(before)) continue;
    const uint32_t others = std::has_single_bit(after) ? before & ~after : before;
    if (others != 0 && !knowledge.seen.covers(earlier.timeline, others, earlier.time)) return false;
  }
  return true;
}

bool Shadow::check(const Context& context, const Access& earlier, const Access& later, uint64_t address, bool silent) {
  const uint32_t common = earlier.bytes & later.bytes;
  // The lanes of one instruction: which of them comes last is not defined, and not for us to judge.
  if (earlier.operation == 0 && later.operation == 0 && earlier.timeline == later.timeline &&
      earlier.time == later.time)
    return false;
  const bool both_read = !earlier.writes() && !later.writes();
  const bool is_ordered = ordered(context, earlier, later, common);
  // A read stays remembered beside reads that are not ordered after it.
  if (both_read)
    return is_ordered && earlier.operation == 0 && later.operation == 0 && stands_for(context, earlier, later);
  if (earlier.kind == AccessKind::reduce && later.kind == AccessKind::reduce) return false;

  bool other_space_fenced = false;
  const auto report = [&](Conflict conflict) {
    if (silent) return;
    Report found;
    found.conflict = conflict;
    found.earlier = earlier;
    found.later = later;
    found.earlier.lanes = earlier.lanes_of(common);
    found.later.lanes = later.lanes_of(common);
    const auto first = static_cast<unsigned>(std::countr_zero(common));
    found.address = address + first;
    found.bytes = static_cast<uint32_t>(std::countr_one(common >> first));
    found.other_space_fenced = other_space_fenced;
    report_(found);
  };

  if (later.read_only && earlier.writes() && earlier.timeline != later.timeline) report(Conflict::read_only_path);
  if (!is_ordered) {
    if (earlier.operation != 0) {
      report(later.writes() ? Conflict::in_flight_overwrite : Conflict::in_flight_read);
      return later.writes();
    }
    if (earlier.reach != Reach::none && later.reach != Reach::none && earlier.unit == later.unit) {
      const Position from = position_of_(earlier.timeline);
      if (reaches(earlier.reach, from, context.position) && reaches(later.reach, context.position, from)) {
        return false;  // morally strong: no race, but no order either
      }
      report(Conflict::scope);
      return later.writes();
    }
    const bool would_be = context.knowledge->narrow.covers(earlier.timeline, earlier.lanes_of(common), earlier.time);
    const bool equal = later.unchanged && later.kind == AccessKind::write && earlier.kind == AccessKind::write;
    report(would_be ? Conflict::scope : equal ? Conflict::equal_writes : Conflict::race);
    return later.writes();
  }
  if (later.layout != 0 && earlier.layout != 0 && later.layout != earlier.layout && earlier.writes() &&
      !later.writes()) {
    report(Conflict::layout);
  }
  if (later.proxy != ProxyKind::generic && earlier.proxy == ProxyKind::generic && earlier.writes()) {
    const Knowledge& knowledge = *context.knowledge;
    const bool shared = space_ == ShadowSpace::shared;
    const uint32_t lanes = earlier.lanes_of(common);
    if (later.proxy == ProxyKind::tensor_map) {
      if (!knowledge.fenced_map.covers(earlier.timeline, lanes, earlier.time)) report(Conflict::unfenced);
      return later.writes();
    }
    const Clock& own = shared ? knowledge.fenced_shared_own : knowledge.fenced_global_own;
    const Clock& any = shared ? knowledge.fenced_shared_any : knowledge.fenced_global_any;
    const Clock& other = shared ? knowledge.fenced_global_any : knowledge.fenced_shared_any;
    other_space_fenced = other.covers(earlier.timeline, lanes, earlier.time);
    if (!own.covers(earlier.timeline, lanes, earlier.time)) {
      report(any.covers(earlier.timeline, lanes, earlier.time) ? Conflict::fence_by_other : Conflict::unfenced);
    }
  }
  // Reads never hide a write: later readers must be ordered after it as well.
  return later.writes() && stands_for(context, earlier, later);
}

}  // namespace ptxbench::checker
