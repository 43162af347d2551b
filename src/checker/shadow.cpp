#include "checker/shadow.h"

#include <algorithm>
#include <bit>

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
               std::function<Position(Timeline)> position_of, OnReport report)
    : space_(space), operations_(operations), position_of_(std::move(position_of)), report_(std::move(report)) {}

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
  if (step == Step::check) {
    for (unsigned i = 0; i < sector.count; ++i) visit(sector.accesses[i]);
    if (sector.more != nullptr) {
      for (Access& earlier : *sector.more) visit(earlier);
    }
    return;
  }
  unsigned kept = 0;
  for (unsigned i = 0; i < sector.count; ++i) {
    visit(sector.accesses[i]);
    if (sector.accesses[i].bytes == 0) continue;
    if (kept != i) sector.accesses[kept] = sector.accesses[i];
    ++kept;
  }
  sector.count = static_cast<uint8_t>(kept);
  if (sector.more != nullptr) {
    std::vector<Access>& more = *sector.more;
    for (Access& earlier : more) visit(earlier);
    std::erase_if(more, [](const Access& earlier) { return earlier.bytes == 0; });
    while (sector.count < Sector::kInline && !more.empty()) {
      sector.accesses[sector.count++] = more.front();
      more.erase(more.begin());
    }
    if (more.size() >= kMaxAccesses) more.erase(more.begin());
  }
  if (sector.count < Sector::kInline) {
    sector.accesses[sector.count++] = access;
    return;
  }
  if (sector.more == nullptr) {
    sector.more = std::make_unique<std::vector<Access>>();
    overflow_bytes_ += sizeof(std::vector<Access>) + 4 * sizeof(Access);
  }
  sector.more->push_back(access);
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
  if (both_read) return is_ordered && earlier.operation == 0 && later.operation == 0;
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
  return later.writes();
}

}  // namespace ptxbench::checker
